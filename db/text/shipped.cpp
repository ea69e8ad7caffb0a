#include "db/text/shipped.h"

#include <dirent.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <memory>
#include <new>
#include <optional>
#include <system_error>
#include <utility>

#include "db/store/former_rows.h"
#include "db/store/matching.h"
#include "src/core/error.h"
#include "src/core/problem/device_key.h"
#include "src/core/system/read_file.h"
#include "src/records/json_line.h"

namespace autotune::db {
namespace {

constexpr std::size_t kMaxFileBytes = std::size_t{256} << 20;

// Folders are listed by system calls, because std::filesystem's iterator ends the program if memory is exhausted.

void throw_if_out_of_memory() {
    if (errno == ENOMEM) throw std::bad_alloc();
}

bool is_folder(const std::string& path) {
    struct stat about {};
    return ::stat(path.c_str(), &about) == 0 && S_ISDIR(about.st_mode);
}

// The winner files in a folder, sorted.
std::vector<std::string> files_of(const std::string& folder, std::error_code& failed) {
    struct Closer {
        void operator()(DIR* open) const { ::closedir(open); }
    };
    constexpr std::string_view kEnding = ".jsonl";
    const std::unique_ptr<DIR, Closer> open(::opendir(folder.c_str()));
    std::vector<std::string> paths;
    if (open == nullptr) {
        throw_if_out_of_memory();
        failed.assign(errno, std::generic_category());
        return paths;
    }
    const std::string prefix = folder.ends_with('/') ? folder : folder + "/";
    errno = 0;
    while (const dirent* entry = ::readdir(open.get())) {
        const std::string_view name = entry->d_name;
        if (name.size() > kEnding.size() && name.ends_with(kEnding)) paths.push_back(prefix + std::string(name));
        errno = 0;
    }
    throw_if_out_of_memory();
    failed.assign(errno, std::generic_category());
    std::sort(paths.begin(), paths.end());
    return paths;
}

// The text of string member `name` at its first occurrence in `line`, or nullopt. This finds lines quickly but may be wrong; only
// parsing gives the real value.
std::optional<std::string_view> peek(std::string_view line, std::string_view quoted_name) {
    const auto skip_spaces = [&line] { line.remove_prefix(std::min(line.find_first_not_of(" \t"), line.size())); };
    const auto at = line.find(quoted_name);
    if (at == std::string_view::npos) return std::nullopt;
    line.remove_prefix(at + quoted_name.size());
    skip_spaces();
    if (!line.starts_with(':')) return std::nullopt;
    line.remove_prefix(1);
    skip_spaces();
    if (!line.starts_with('"')) return std::nullopt;
    line.remove_prefix(1);
    const auto end = line.find('"');
    if (end == std::string_view::npos) return std::nullopt;
    return line.substr(0, end);
}

// The integers of the extents' object in the line; empty if there is none.
std::vector<Extent> peek_extents(std::string_view line) {
    std::vector<Extent> found;
    const auto name = line.find("\"extents\"");
    const auto open = name == std::string_view::npos ? name : line.find('{', name);
    const auto close = open == std::string_view::npos ? open : line.find('}', open);
    if (close == std::string_view::npos) return found;
    std::string_view rest = line.substr(open, close - open);
    while (true) {
        const auto begin = rest.find('"'), end = begin == std::string_view::npos ? begin : rest.find('"', begin + 1);
        const auto colon = end == std::string_view::npos ? end : rest.find(':', end);
        if (colon == std::string_view::npos) return found;
        const auto digits = std::min(rest.find_first_not_of(" \t", colon + 1), rest.size());
        Extent extent{std::string(rest.substr(begin + 1, end - begin - 1)), 0};
        std::from_chars(rest.data() + digits, rest.data() + rest.size(), extent.value);
        found.push_back(std::move(extent));
        rest.remove_prefix(digits);
    }
}

// The device in the line, without its name; missing members stay 0.
DeviceIdentity peek_device(std::string_view line) {
    DeviceIdentity device;
    const auto name = line.find("\"device\"");
    const auto open = name == std::string_view::npos ? name : line.find('{', name);
    const auto close = open == std::string_view::npos ? open : line.find('}', open);
    if (close == std::string_view::npos) return device;
    const std::string_view object = line.substr(open, close - open);
    const std::array<std::pair<std::string_view, int*>, 6> members = {{{"\"cc_major\"", &device.cc_major},
                                                                       {"\"cc_minor\"", &device.cc_minor},
                                                                       {"\"sm_count\"", &device.sm_count},
                                                                       {"\"l2_mib\"", &device.l2_mib},
                                                                       {"\"memory_gib\"", &device.memory_gib},
                                                                       {"\"bus_bits\"", &device.bus_bits}}};
    for (const auto& [quoted, value] : members) {
        const auto at = object.find(quoted);
        if (at == std::string_view::npos) continue;
        const auto digits = object.find_first_not_of(" \t:", at + quoted.size());
        if (digits != std::string_view::npos) std::from_chars(object.data() + digits, object.data() + object.size(), *value);
    }
    return device;
}

bool is_of(Cards cards, const DeviceIdentity& device, const DeviceIdentity& wanted) {
    return cards == Cards::this_card ? are_one_device(device, wanted) : have_same_chip(device, wanted);
}

bool is_blank(std::string_view line) {
    return line.find_first_not_of(" \t\r") == std::string_view::npos;
}

}  // namespace

// Loads everything or nothing: if memory runs out, the next query tries again.
void Shipped::load() {
    if (loaded_) return;
    try {
        for (const std::string& path : paths_) load_path(path);
    } catch (...) {
        lines_.clear();
        files_.clear();
        throw;
    }
    loaded_ = true;
}

void Shipped::load_path(const std::string& path) {
    if (!is_folder(path)) {
        load_file(path);
        return;
    }
    std::error_code failed;
    const std::vector<std::string> names = files_of(path, failed);
    if (failed) {
        log_.add({WarningKind::invalid_shipped,
                  "shipped winners in " + path + " cannot be listed (" + failed.message() + "); they are not used"});
        return;
    }
    for (const std::string& name : names) load_file(name);
}

void Shipped::load_file(const std::string& path) {
    FileContent content = read_regular_file(path, kMaxFileBytes);
    if (!content.is_read) {
        log_.add({WarningKind::invalid_shipped,
                  "shipped winners in " + path + " cannot be read (" + content.why + "); they are not used"});
        return;
    }
    files_.push_back(std::make_unique<std::string>(std::move(content.text)));
    index(path, *files_.back());
}

void Shipped::index(const std::string& path, std::string_view content) {
    for (int number = 1; !content.empty(); ++number) {
        const auto end = content.find('\n');
        const std::string_view text = content.substr(0, end);
        content.remove_prefix(end == std::string_view::npos ? content.size() : end + 1);
        // This line is the head of a label (src/dispatch/stored/label_file.h).
        if (is_blank(text) || text.starts_with(R"({"autotune_label")")) continue;
        const auto op = peek(text, "\"op\"");
        const auto arch = peek(text, "\"arch\"");
        const auto class_key = peek(text, "\"class\"");
        if (!op || !arch || !class_key) {
            log_.add({WarningKind::invalid_shipped,
                      "shipped winner " + path + ":" + std::to_string(number) + " has no op, arch or class; it is not used"});
            continue;
        }
        lines_.push_back({.text = text,
                          .where = path,
                          .number = number,
                          .op = *op,
                          .arch = *arch,
                          .class_key = *class_key,
                          .extents = peek_extents(text),
                          .device = peek_device(text),
                          .winner = {}});
    }
}

const Winner* Shipped::parsed(Line& line) {
    if (line.state == Line::State::unread) {
        try {
            line.winner = records::from_json_line(line.text);
            line.winner.shipped = true;
            bring_up_to_date(line.winner, former_);
            line.state = Line::State::good;
        } catch (const Error& error) {
            log_.add({WarningKind::invalid_shipped,
                      "shipped winner " + line.where + ":" + std::to_string(line.number) + " is not used: " + error.what()});
            line.state = Line::State::bad;
        }
    }
    return line.state == Line::State::good ? &line.winner : nullptr;
}

std::vector<Shipped::Line*> Shipped::lines_about(const ProblemKey& problem_key, Cards cards) {
    std::vector<Line*> found;
    if (paths_.empty() || records::why_invalid(problem_key.device)) return found;
    load();
    const std::string arch = arch_of(problem_key.device.cc_major, problem_key.device.cc_minor);
    for (Line& line : lines_) {
        const bool is_of_class = line.class_key == problem_key.class_key && line.arch == arch && line.op == problem_key.op;
        // Such a line is kept, because parsing it will report what is wrong
        const bool says_no_device = line.device.cc_major == 0;
        if (is_of_class && (says_no_device || is_of(cards, line.device, problem_key.device))) found.push_back(&line);
    }
    return found;
}

const Winner* Shipped::winner_for(const ProblemKey& problem_key, Line& line, Cards cards) {
    const Winner* winner = parsed(line);
    if (winner == nullptr || winner->class_key != problem_key.class_key || !is_of(cards, winner->device, problem_key.device))
        return nullptr;
    return same_names(winner->extents, problem_key.extents) ? winner : nullptr;
}

std::vector<Winner> Shipped::find(const ProblemKey& problem_key) {
    std::vector<Winner> found;
    for (Line* line : lines_about(problem_key, Cards::this_card)) {
        if (line->extents != problem_key.extents) continue;
        const Winner* winner = winner_for(problem_key, *line, Cards::this_card);
        if (winner != nullptr && winner->extents == problem_key.extents) found.push_back(*winner);
    }
    return found;
}

std::vector<const Winner*> Shipped::nearest(const ProblemKey& problem_key, std::size_t count, Cards cards) {
    std::vector<std::pair<double, Line*>> ranked;
    for (Line* line : lines_about(problem_key, cards))
        ranked.emplace_back(log_distance(line->extents, problem_key.extents), line);
    std::stable_sort(ranked.begin(), ranked.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    std::vector<const Winner*> found;
    for (const auto& [distance, line] : ranked) {
        if (found.size() == count) break;
        const bool is_own = cards == Cards::this_card && line->extents == problem_key.extents;
        const Winner* winner = is_own ? nullptr : winner_for(problem_key, *line, cards);
        if (winner != nullptr && (cards != Cards::this_card || winner->extents != problem_key.extents)) found.push_back(winner);
    }
    return found;
}

// Decides from the line's first members; the device is known only after parsing.
bool Shipped::may_match(const Line& line, const Filter& filter) {
    if (!filter.op.empty() && line.op != filter.op) return false;
    if (!filter.class_key.empty() && line.class_key != filter.class_key) return false;
    return filter.extents.empty() || line.extents == filter.extents;
}

std::vector<Winner> Shipped::list(const Filter& filter) {
    std::vector<Winner> found;
    if (filter.limit > 0) load();
    for (Line& line : lines_) {
        if (found.size() >= filter.limit) break;
        const Winner* winner = may_match(line, filter) ? parsed(line) : nullptr;
        if (winner != nullptr && matches(*winner, filter)) found.push_back(*winner);
    }
    return found;
}

std::int64_t Shipped::count(const Filter& filter) {
    load();
    std::int64_t counted = 0;
    for (Line& line : lines_) {
        if (!may_match(line, filter) || line.state == Line::State::bad) continue;
        if (filter.device_key.empty()) {
            ++counted;
            continue;
        }
        const Winner* winner = parsed(line);
        if (winner != nullptr && matches(*winner, filter)) ++counted;
    }
    return counted;
}

}  // namespace autotune::db
