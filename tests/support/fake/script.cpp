#include "tests/support/fake/script.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <set>
#include <sstream>
#include <thread>

namespace autotune::fake {
namespace {

constexpr int kBadScript = 97;
constexpr double kLongestSleep_s = 120;

[[noreturn]] void refuse(int line, const std::string& what) {
    std::fprintf(stderr, "fake script, line %d: %s\n", line, what.c_str());
    std::_Exit(kBadScript);
}

// Splits `key=value` tokens at spaces; a value in double quotes keeps its spaces. A token without '=' has an empty value.
std::vector<std::pair<std::string, std::string>> tokens(const std::string& line) {
    std::vector<std::pair<std::string, std::string>> out;
    std::string token;
    bool quoted = false;
    const auto flush = [&] {
        if (token.empty()) return;
        const std::size_t equals = token.find('=');
        out.emplace_back(token.substr(0, equals), equals == std::string::npos ? "" : token.substr(equals + 1));
        token.clear();
    };
    for (const char c : line) {
        if (c == '"') {
            quoted = !quoted;
        } else if (!quoted && (c == ' ' || c == '\t' || c == '\r')) {
            flush();
        } else if (!quoted && c == '#' && token.empty()) {
            break;
        } else {
            token += c;
        }
    }
    flush();
    return out;
}

// A POSIX extended pattern. (std::regex does not compile without warnings under gcc 12's sanitizers.)
std::shared_ptr<regex_t> pattern(const std::string& text, int line) {
    auto compiled = std::make_unique<regex_t>();
    if (regcomp(compiled.get(), text.c_str(), REG_EXTENDED | REG_NOSUB) != 0) refuse(line, "bad pattern " + text);
    return {compiled.release(), [](regex_t* owned) {
                regfree(owned);
                delete owned;
            }};
}

bool same_constants(const Rule& rule, const Occasion& occasion) {
    for (const auto& [name, value] : rule.constants) {
        if (name == "family") {
            if (occasion.symbol.find("_" + value + "_") == std::string::npos) return false;
            continue;
        }
        if (occasion.constants == nullptr) return false;
        const auto found = occasion.constants->find(name);
        if (found == occasion.constants->end() || found->second != value) return false;
    }
    return true;
}

// Whether the rule applies, without looking at its counters.
bool is_meant(const Rule& rule, const Occasion& occasion) {
    if (rule.on != occasion.on) return false;
    if (rule.symbol && regexec(rule.symbol.get(), occasion.symbol.c_str(), 0, nullptr, 0) != 0) return false;
    return same_constants(rule, occasion);
}

}  // namespace

double Rule::number(const std::string& name, double otherwise) const {
    const auto found = arguments.find(name);
    return found == arguments.end() ? otherwise : std::atof(found->second.c_str());
}

std::string Rule::word(const std::string& name, const std::string& otherwise) const {
    const auto found = arguments.find(name);
    return found == arguments.end() ? otherwise : found->second;
}

Script& Script::get() {
    static auto& script = *new Script;  // It is never destroyed, because calls are made until the process ends.
    return script;
}

Script::Script() {
    const char* path = std::getenv("AUTOTUNE_FAKE_SCRIPT");
    if (path != nullptr && *path != '\0') {
        path_ = path;
        std::ifstream file(path_);
        if (!file) refuse(0, "cannot read " + path_);
        std::string line;
        for (int number = 1; std::getline(file, line); ++number) parse_line(line, number);
    }
    show_visible();
}

// Entries are ordinals or prefixes of UUIDs, as in CUDA. The first that does not exist ends the list.
void Script::show_visible() {
    if (all_devices_.empty()) all_devices_.emplace_back();
    std::vector<std::string> uuids;
    for (std::size_t i = 0; i < all_devices_.size(); ++i) {
        Words& device = all_devices_[i];
        const int byte = std::atoi(device["uuid"].c_str()) + static_cast<int>(i);
        device["uuid_byte"] = std::to_string(byte);
        device.try_emplace("pci_bus", std::to_string(16 + i));
        std::string uuid = device["name"].find(" MIG ") == std::string::npos ? "GPU-" : "MIG-";
        uuid += "fa4e0000-0000-0000-0000-0000000000";
        for (const int digit : {byte / 16 % 16, byte % 16}) uuid += "0123456789abcdef"[digit];
        uuids.push_back(std::move(uuid));
        for (const char* name : {"uuid", "name"}) {
            if (device[name].empty()) device.erase(name);
        }
    }
    const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
    std::set<std::size_t> shown;
    if (visible == nullptr) {
        devices_ = all_devices_;
        for (std::size_t i = 0; i < uuids.size(); ++i) shown.insert(i);
    } else {
        std::istringstream items(visible);
        for (std::string item; std::getline(items, item, ',');) {
            std::size_t i = 0;
            while (i < uuids.size() && item != std::to_string(i) && (item.size() < 5 || uuids[i].rfind(item, 0) != 0)) ++i;
            if (i == uuids.size()) break;
            shown.insert(i);
            devices_.push_back(all_devices_[i]);
        }
    }
    if (shown.size() == 1) only_device_ = std::to_string(*shown.begin());
    std::erase_if(rules_, [&](const Rule& rule) { return !rule.gpu.empty() && rule.gpu != only_device_; });
}

void Script::parse_line(const std::string& line, int number) {
    const auto parsed = tokens(line);
    if (parsed.empty()) return;
    const std::string& head = parsed.front().first;
    Words words;
    for (auto it = parsed.begin() + 1; it != parsed.end(); ++it) words[it->first] = it->second;
    static const auto& kSections = *new std::set<std::string>{"driver", "nvrtc", "model", "nvml"};
    if (head == "rule") {
        parse_rule(words, number);
    } else if (head == "device") {
        all_devices_.push_back(words);
    } else if (kSections.count(head) > 0) {
        for (const auto& [key, value] : words) sections_[head][key] = value;
    } else {
        refuse(number, "unknown word '" + head + "'");
    }
}

void Script::parse_rule(const Words& words, int number) {
    static const std::set<std::string> kArguments{"code",    "seconds",   "how",   "factor",  "bytes", "us",      "index",
                                                  "persist", "registers", "spill", "message", "value", "after_us"};
    static const std::set<std::string> kActions{"return", "hang",   "crash", "wrong", "out_of_bounds",
                                                "slow",   "vanish", "fail",  "log",   "report"};
    Rule rule;
    rule.line = number;
    for (const auto& [key, value] : words) {
        if (key == "on")
            rule.on = value;
        else if (key == "symbol")
            rule.symbol = pattern(value, number);
        else if (key == "nth")
            rule.nth = std::atol(value.c_str());
        else if (key == "from")
            rule.from = std::atol(value.c_str());
        else if (key == "times")
            rule.times = std::atol(value.c_str());
        else if (key == "every")
            rule.every = std::max(1L, std::atol(value.c_str()));
        else if (key == "once")
            rule.once = true;
        else if (key == "gpu")
            rule.gpu = value;
        else if (key == "do")
            rule.action = value;
        else if (kArguments.count(key) > 0)
            rule.arguments[key] = value;
        else
            rule.constants[key] = value;
    }
    if (kActions.count(rule.action) == 0) refuse(number, "unknown action do=" + rule.action);
    rules_.push_back(std::move(rule));
}

const Words& Script::section(const std::string& name) const {
    static const auto& kNone = *new Words;
    const auto found = sections_.find(name);
    return found == sections_.end() ? kNone : found->second;
}

double Script::number(const std::string& section_name, const std::string& name, double otherwise) const {
    const Words& words = section(section_name);
    const auto found = words.find(name);
    return found == words.end() ? otherwise : std::atof(found->second.c_str());
}

std::string Script::word(const std::string& section_name, const std::string& name, const std::string& otherwise) const {
    const Words& words = section(section_name);
    const auto found = words.find(name);
    return found == words.end() ? otherwise : found->second;
}

std::string Script::reading(const Words& device, const std::string& name, const std::string& otherwise) const {
    const auto found = device.find(name);
    return found == device.end() ? word("nvml", name, otherwise) : found->second;
}

bool Script::concerns(const Occasion& occasion) const {
    return std::any_of(rules_.begin(), rules_.end(), [&](const Rule& rule) { return is_meant(rule, occasion); });
}

const Rule* Script::standing_slow(const Occasion& occasion) const {
    const auto first = std::find_if(rules_.begin(), rules_.end(), [&](const Rule& rule) { return is_meant(rule, occasion); });
    if (first == rules_.end() || first->action != "slow") return nullptr;
    const bool is_always = first->nth == 0 && first->from == 1 && first->times == 0 && first->every == 1 && !first->once;
    return is_always ? &*first : nullptr;
}

const Rule* Script::fire(const Occasion& occasion) {
    const std::lock_guard lock(mutex_);
    for (Rule& rule : rules_) {
        if (!is_meant(rule, occasion)) continue;
        ++rule.seen;
        if (rule.nth > 0 && rule.seen != rule.nth) continue;
        if (rule.seen < rule.from || (rule.times > 0 && rule.fired >= rule.times)) continue;
        if (rule.seen % rule.every != 0 || !claim(rule)) continue;
        ++rule.fired;
        return &rule;
    }
    return nullptr;
}

bool Script::claim(Rule& rule) const {
    if (!rule.once) return true;
    const std::string path = marker("fired." + std::to_string(rule.line));
    const int file = open(path.c_str(), O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600);
    if (file < 0) return false;
    close(file);
    return true;
}

namespace {

// Writes the beginning of a frame into every outgoing pipe, as a worker does that dies while it replies.
void begin_a_message() {
    const std::string beginning = std::string("ATF1\1\0\0\0\x40\0\0\0", 12) + std::string(20, '\0');
    for (int file = 3; file < 64; ++file) {
        struct stat kind {};
        const bool goes_out = (fcntl(file, F_GETFL) & O_ACCMODE) == O_WRONLY;
        if (fstat(file, &kind) != 0 || !S_ISFIFO(kind.st_mode) || !goes_out) continue;
        [[maybe_unused]] const ssize_t written = write(file, beginning.data(), beginning.size());
    }
}

}  // namespace

void crash(const std::string& how) {
    if (how == "half_message") begin_a_message();
    if (how == "abort") std::abort();
    if (how == "exit" || how == "half_message") std::_Exit(3);
    raise(how == "kill" ? SIGKILL : SIGSEGV);
    std::_Exit(3);
}

void sleep_s(double seconds) {
    std::this_thread::sleep_for(std::chrono::duration<double>(std::min(seconds, kLongestSleep_s)));
}

}  // namespace autotune::fake
