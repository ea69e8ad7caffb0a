#include "src/dispatch/stored/file_state.h"

#include <sys/stat.h>
#include <time.h>

#include <filesystem>
#include <functional>
#include <system_error>

namespace autotune::dispatch {
namespace {

// The kernel's file times have steps of up to 10 ms. A file that is younger than this may change without a new time.
constexpr double kFresh_s = 0.1;

double seconds(const timespec& time) {
    return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

std::uint64_t mixed(std::uint64_t hash, std::uint64_t word) {
    hash ^= word;
    hash *= 0xff51afd7ed558ccdU;
    return hash ^ (hash >> 32);
}

}  // namespace

// The result does not depend on the order in which files are added.
void FileState::add(const std::string& path) {
    struct stat info = {};
    std::uint64_t hash = std::hash<std::string>{}(path);
    if (::stat(path.c_str(), &info) == 0) {
        for (const auto word : {static_cast<std::uint64_t>(info.st_dev), static_cast<std::uint64_t>(info.st_ino),
                                static_cast<std::uint64_t>(info.st_size), static_cast<std::uint64_t>(info.st_mtim.tv_sec),
                                static_cast<std::uint64_t>(info.st_mtim.tv_nsec), static_cast<std::uint64_t>(info.st_ctim.tv_sec),
                                static_cast<std::uint64_t>(info.st_ctim.tv_nsec)})
            hash = mixed(hash, word);
        timespec now{};
        ::clock_gettime(CLOCK_REALTIME, &now);
        if (seconds(now) - seconds(info.st_ctim) < kFresh_s) is_fresh_ = true;
    }
    digest_ += hash;
}

FileState FileState::of_database(const std::string& path) {
    FileState state;
    if (path.empty()) return state;
    struct stat info = {};
    if (::stat(path.c_str(), &info) == 0) {
        state.device_ = info.st_dev;
        state.inode_ = info.st_ino;
    }
    for (const char* beside : {"", "-wal", "-journal"}) state.add(path + beside);
    return state;
}

FileState FileState::of_folder(const std::string& path) {
    FileState state;
    if (path.empty()) return state;
    state.add(path);
    std::error_code unreadable;
    for (std::filesystem::recursive_directory_iterator at(path, unreadable), end; !unreadable && at != end;
         at.increment(unreadable))
        state.add(at->path().string());
    return state;
}

}  // namespace autotune::dispatch
