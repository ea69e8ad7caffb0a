#include "tuner/session/idle/failed_problems.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <nlohmann/json.hpp>
#include <sstream>
#include <utility>

#include "src/core/system/file_descriptor.h"
#include "src/core/system/private_folder.h"
#include "src/core/system/read_file.h"

namespace autotune::tuner {
namespace {

constexpr std::chrono::hours kRetryAfter{24};
constexpr std::size_t kMostBytes = 16 << 20;
constexpr std::int64_t kMostSeconds =
    9'000'000'000;  // the latest accepted time since 1970, which still fits a Time in nanoseconds

std::int64_t seconds_of(FailedProblems::Time time) {
    return std::chrono::duration_cast<std::chrono::seconds>(time.time_since_epoch()).count();
}

std::string line_of(const std::string& key, std::int64_t at_s, const std::string& why) {
    const nlohmann::json line{{"problem", key}, {"at_s", at_s}, {"why", why}};
    return line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

// Writes the line at once, so that lines of two workers do not mix.
void append(const std::string& path, const std::string& line) {
    const FileDescriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600));
    if (file.open() && ::write(file.get(), line.data(), line.size()) < 0) {
        // If the write fails, only this process remembers the failure.
    }
}

}  // namespace

FailedProblems::FailedProblems(std::string path, Now now) : path_(std::move(path)), now_(std::move(now)) {
    if (!path_.empty()) read();
}

bool FailedProblems::is_old(Time at) const {
    return now_() - at >= kRetryAfter || at > now_() + kRetryAfter;  // the clock was wrong
}

// Invalid lines are skipped, because a worker may have been killed while writing one.
void FailedProblems::read() {
    std::istringstream file(read_regular_file(path_, kMostBytes).text);
    bool has_old = false;
    for (std::string text; std::getline(file, text);) {
        const nlohmann::json line = nlohmann::json::parse(text, nullptr, false);
        if (!line.is_object() || !line.contains("problem") || !line["problem"].is_string() || !line.contains("at_s") ||
            !line["at_s"].is_number_integer() || line["at_s"] < 0 || line["at_s"] > kMostSeconds || !line.contains("why") ||
            !line["why"].is_string()) {
            has_old = true;
            continue;
        }
        const Time at{std::chrono::seconds(line["at_s"].get<std::int64_t>())};
        if (is_old(at))
            has_old = true;
        else
            failures_[line["problem"].get<std::string>()] = {at, line["why"].get<std::string>()};
    }
    if (has_old) rewrite();
}

void FailedProblems::rewrite() const {
    const std::size_t slash = path_.rfind('/');
    TemporaryFile made =
        make_temporary_file(slash == std::string::npos ? "." : path_.substr(0, slash), "failed_problems", ".new");
    if (!made.file.open()) return;
    std::string text;
    for (const auto& [key, failure] : failures_) text += line_of(key, seconds_of(failure.at), failure.why);
    const bool is_whole = ::write(made.file.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size());
    if (!is_whole || std::rename(made.path.c_str(), path_.c_str()) != 0) std::remove(made.path.c_str());
}

std::string FailedProblems::why(const std::string& problem, const std::string& device) const {
    const auto found = failures_.find(key_of(problem, device));
    return found == failures_.end() || is_old(found->second.at) ? "" : found->second.why;
}

void FailedProblems::add(const std::string& problem, const std::string& device, const std::string& why) {
    const std::string key = key_of(problem, device);
    failures_[key] = {now_(), why.empty() ? "unknown" : why};
    if (!path_.empty()) append(path_, line_of(key, seconds_of(now_()), failures_[key].why));
}

}  // namespace autotune::tuner
