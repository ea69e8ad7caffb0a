#include "tuner/worker/journal.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <exception>
#include <fstream>
#include <sstream>

#include "src/core/system/read_file.h"
#include "tuner/worker/gpu_lock.h"
#include "tuner/worker/protocol/wire.h"

namespace autotune::tuner {

std::string Journal::boot_id() {
    std::ifstream file("/proc/sys/kernel/random/boot_id");
    std::string id;
    file >> id;
    return id;
}

Journal::Journal(const std::string& folder, const std::string& uuid, std::string boot) : boot_(std::move(boot)) {
    if (folder.empty()) return;
    const std::string path = folder + "/journal-" + file_stem(uuid) + ".jsonl";
    read(path);
    // Opens the file non-blocking, because a FIFO in its place would make open() wait.
    fd_ = FileDescriptor(::open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600));
}

void Journal::read(const std::string& path) {
    constexpr std::size_t kMostBytes = 64 << 20;
    std::istringstream file(read_regular_file(path, kMostBytes).text);
    for (std::string line; std::getline(file, line);) {
        try {
            const Json json = Json::parse(line);
            JournalEntry entry{wire::read_problem(json.at("problem")), json.at("template").get<std::string>(),
                               json.at("nvrtc").get<std::string>(), json.value("method", ""), wire::read_trial(json.at("trial"))};
            const auto known = std::find_if(left_over_.begin(), left_over_.end(), [&](const JournalEntry& other) {
                return other.problem.key() == entry.problem.key() && other.trial.candidate == entry.trial.candidate &&
                       other.template_identity == entry.template_identity;
            });
            JournalEntry& place = known == left_over_.end() ? left_over_.emplace_back(entry) : *known;
            const std::string what = json.at("what").get<std::string>();
            if (what == "finished") {
                entry.finished = true;
                place = std::move(entry);
            } else if (what == "survived") {
                place.begun = 0;
            } else if (json.value("boot", "") != boot_) {
                ++place.begun;
            }
        } catch (const std::exception&) {
            // Skipped: this is the last line of a killed run, or somebody edited the file.
        }
    }
}

void Journal::append(const char* what, const JournalEntry& entry) {
    if (fd_.get() < 0) return;
    const Json json{{"what", what},
                    {"boot", boot_},
                    {"problem", wire::write(entry.problem)},
                    {"template", entry.template_identity},
                    {"nvrtc", entry.nvrtc},
                    {"method", entry.method},
                    {"trial", wire::write(entry.trial)}};
    const std::string line = json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
    if (::write(fd_.get(), line.data(), line.size()) < 0) (void)fd_.close();  // If the disk is full, the store will report it.
}

void Journal::started(const JournalEntry& entry) {
    append("started", entry);
}
void Journal::finished(const JournalEntry& entry) {
    append("finished", entry);
}

void Journal::survived(const JournalEntry& entry) {
    append("survived", entry);
}

void Journal::clear() {
    if (fd_.get() >= 0 && ::ftruncate(fd_.get(), 0) != 0) fd_.close();
}

}  // namespace autotune::tuner
