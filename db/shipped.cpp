#include "db/shipped.h"

#include <dirent.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <memory>
#include <new>
#include <optional>
#include <system_error>

#include "db/matching.h"
#include "src/core/error.h"

namespace autotune::db {
namespace {

constexpr std::size_t kMaxFileBytes = std::size_t{256} << 20;

// The winners' files in a folder. Not std::filesystem's iterator: without memory that one ends the program instead of throwing.
std::vector<std::string> files_of(const std::string& folder, std::error_code& failed) {
    struct Closer {
        void operator()(DIR* open) const { ::closedir(open); }
    };
    const std::unique_ptr<DIR, Closer> open(::opendir(folder.c_str()));
    std::vector<std::string> names;
    if (open == nullptr) {
        if (errno == ENOMEM) throw std::bad_alloc();
        failed.assign(errno, std::generic_category());
        return names;
    }
    errno = 0;
    while (const dirent* entry = ::readdir(open.get())) {
        const std::filesystem::path name = entry->d_name;
        if (name.extension() == ".jsonl") names.push_back((std::filesystem::path(folder) / name).string());
        errno = 0;
    }
    failed.assign(errno, std::generic_category());
    return names;
}

// The text of string member `name` where it first stands in `line`; nullopt if it does not. A guess for finding lines quickly:
// what a line really says is decided when it is parsed.
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

// The object of the extents as it stands in the line, braces included; empty if there is none.
std::string_view peek_extents(std::string_view line) {
    const auto name = line.find("\"extents\"");
    const auto open = name == std::string_view::npos ? name : line.find('{', name);
    const auto close = open == std::string_view::npos ? open : line.find('}', open);
    return close == std::string_view::npos ? std::string_view() : line.substr(open, close - open + 1);
}

// Whether the text of an object says these extents, spaces apart.
bool says(std::string_view text, const std::vector<Extent>& extents) {
    std::string found(text);
    std::erase_if(found, [](char letter) { return letter == ' ' || letter == '\t'; });
    std::string wanted;
    for (const Extent& extent : extents) {
        wanted.append(wanted.empty() ? "{\"" : ",\"").append(extent.name).append("\":").append(std::to_string(extent.value));
    }
    return found == wanted + "}";
}

bool is_blank(std::string_view line) {
    return line.find_first_not_of(" \t\r") == std::string_view::npos;
}

std::optional<std::string> content_of(const std::string& path) {
    std::error_code failed;
    const auto size = std::filesystem::file_size(path, failed);
    if (failed || size > kMaxFileBytes || !std::filesystem::is_regular_file(path, failed)) return std::nullopt;
    std::ifstream file(path, std::ios::binary);
    std::string content(size, '\0');
    if (!file || !file.read(content.data(), static_cast<std::streamsize>(size))) return std::nullopt;
    return content;
}

}  // namespace

void Shipped::load() {
    if (loaded_) return;
    loaded_ = true;
    for (const std::string& path : paths_) load_path(path);
}

void Shipped::load_path(const std::string& path) {
    std::error_code failed;
    if (!std::filesystem::is_directory(path, failed)) {
        load_file(path);
        return;
    }
    std::vector<std::string> names = files_of(path, failed);
    if (failed)
        log_.add({WarningKind::invalid_shipped,
                  "shipped winners in " + path + " cannot be listed (" + failed.message() + "); they are not used"});
    std::sort(names.begin(), names.end());
    for (const std::string& name : names) load_file(name);
}

void Shipped::load_file(const std::string& path) {
    auto content = content_of(path);
    if (!content) {
        log_.add({WarningKind::invalid_shipped, "shipped winners in " + path + " cannot be read; they are not used"});
        return;
    }
    files_.push_back(std::make_unique<std::string>(std::move(*content)));
    index(path, *files_.back());
}

void Shipped::index(const std::string& path, std::string_view content) {
    for (int number = 1; !content.empty(); ++number) {
        const auto end = content.find('\n');
        const std::string_view text = content.substr(0, end);
        content.remove_prefix(end == std::string_view::npos ? content.size() : end + 1);
        if (is_blank(text)) continue;
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
                          .winner = {}});
    }
}

const Winner* Shipped::parsed(Line& line) {
    if (line.state == Line::State::unread) {
        try {
            line.winner = from_json_line(line.text);
            line.winner.shipped = true;
            line.state = Line::State::good;
        } catch (const Error& error) {
            line.state = Line::State::bad;
            log_.add({WarningKind::invalid_shipped,
                      "shipped winner " + line.where + ":" + std::to_string(line.number) + " is not used: " + error.what()});
        }
    }
    return line.state == Line::State::good ? &line.winner : nullptr;
}

std::vector<const Winner*> Shipped::of_class(const Subject& subject) {
    return select(subject, [](const Line&) { return true; });
}

std::vector<Winner> Shipped::find(const Subject& subject) {
    std::vector<Winner> found;
    for (const Winner* winner : select(subject, [&](const Line& line) { return says(line.extents, subject.extents); }))
        if (winner->extents == subject.extents) found.push_back(*winner);
    return found;
}

std::vector<const Winner*> Shipped::select(const Subject& subject, const std::function<bool(const Line&)>& worth_parsing) {
    std::vector<const Winner*> found;
    if (paths_.empty() || why_invalid(subject.device)) return found;
    load();
    const std::string arch = arch_of(subject.device.cc_major, subject.device.cc_minor);
    const std::string device_key = subject.device.key();
    for (Line& line : lines_) {
        if (line.class_key != subject.class_key || line.arch != arch || line.op != subject.op || !worth_parsing(line)) continue;
        const Winner* winner = parsed(line);
        if (winner == nullptr || winner->class_key != subject.class_key || winner->device.key() != device_key) continue;
        if (same_names(winner->extents, subject.extents)) found.push_back(winner);
    }
    return found;
}

// What the line's first members say; the device is known only when it is parsed.
bool Shipped::may_match(const Line& line, const Filter& filter) {
    if (!filter.op.empty() && line.op != filter.op) return false;
    if (!filter.class_key.empty() && line.class_key != filter.class_key) return false;
    return filter.extents.empty() || says(line.extents, filter.extents);
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
