#include "tuner/worker/gpu_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cctype>
#include <cerrno>
#include <fstream>
#include <utility>

#include "src/core/system/private_folder.h"

namespace autotune::tuner {
namespace {

std::string state_path(const std::string& folder, const std::string& uuid) {
    return folder + "/gpu-" + file_stem(uuid) + ".lock";
}
std::string host_path(const std::string& folder, const std::string& uuid) {
    return folder + "/gpu-" + file_stem(uuid);
}

struct Taken {
    FileDescriptor file;
    bool is_held = false;  // by another process
    std::string failure;
};

// Only EWOULDBLOCK means that another process holds it: NFS and Lustre return ENOLCK, ENOSYS or EOPNOTSUPP if they have no locks.
Taken lock_file(FileDescriptor file, const std::string& path) {
    if (!file.open()) return {{}, false, path + " cannot be opened: " + errno_text(errno)};
    struct stat facts {};
    if (::fstat(file.get(), &facts) != 0 || !S_ISREG(facts.st_mode)) return {{}, false, path + " is no file"};
    int result = 0;
    do result = ::flock(file.get(), LOCK_EX | LOCK_NB);
    while (result != 0 && errno == EINTR);
    if (result != 0 && errno == EWOULDBLOCK) return {{}, true, ""};
    if (result != 0) return {{}, false, path + " cannot be locked: " + errno_text(errno)};
    const std::string holder = std::to_string(::getpid()) + " " + std::to_string(::geteuid()) + "\n";
    if (::ftruncate(file.get(), 0) != 0 || ::pwrite(file.get(), holder.data(), holder.size(), 0) < 0) {
        // If this fails, only the message to a second tuner is affected. A file of another user may not be writable.
    }
    return {std::move(file), false, ""};
}

Taken take_in_state(const std::string& folder, const std::string& uuid) {
    std::string failed_at;
    if (const int code = make_private_folders(folder, &failed_at); code != 0)
        return {{}, false, "the folder " + failed_at + " cannot be made: " + errno_text(code)};
    const std::string path = state_path(folder, uuid);
    return lock_file(FileDescriptor(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600)), path);
}

// Sets the mode after creating the file or folder, because the umask would reduce it.
std::string why_no_shared_folder(const std::string& folder) {
    constexpr mode_t kShared = 01777;
    if (::mkdir(folder.c_str(), 0700) == 0) {
        if (::chmod(folder.c_str(), kShared) != 0) return folder + " cannot be opened to all users: " + errno_text(errno);
    } else if (errno != EEXIST) {
        return folder + " cannot be made: " + errno_text(errno);
    }
    struct stat facts {};
    if (::lstat(folder.c_str(), &facts) != 0) return folder + " cannot be looked at: " + errno_text(errno);
    return S_ISDIR(facts.st_mode) ? "" : folder + " is no folder";
}

// Tries without O_CREAT first, because in a world-writable folder Linux refuses O_CREAT for a file of another user
// (fs.protected_regular). A file that we may only read can be locked too.
FileDescriptor open_shared(const std::string& path) {
    constexpr int kFlags = O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;
    for (int attempt = 0; attempt < 3; ++attempt) {
        FileDescriptor file(::open(path.c_str(), O_RDWR | kFlags));
        if (!file.open() && errno == EACCES) file = FileDescriptor(::open(path.c_str(), O_RDONLY | kFlags));
        if (file.open() || errno != ENOENT) return file;
        file = FileDescriptor(::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | kFlags, 0600));
        if (file.open()) {
            [[maybe_unused]] const int ignored = ::fchmod(file.get(), 0666);
            return file;
        }
        if (errno != EEXIST) return file;
    }
    return {};
}

Taken take_on_host(const std::string& folder, const std::string& uuid) {
    if (std::string why = why_no_shared_folder(folder); !why.empty()) return {{}, false, std::move(why)};
    const std::string path = host_path(folder, uuid);
    return lock_file(open_shared(path), path);
}

}  // namespace

std::string file_stem(const std::string& name) {
    std::string stem;
    for (const char c : name) stem += std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '_' ? c : '_';
    return stem.empty() ? "unnamed" : stem;
}

GpuLock::Attempt GpuLock::try_take(const LockFolders& folders, const std::string& uuid) {
    GpuLock lock;
    Attempt attempt;
    if (!folders.host.empty()) {
        Taken host = take_on_host(folders.host, uuid);
        if (host.is_held) return attempt;
        lock.host_ = std::move(host.file);
        attempt.only_this_user = std::move(host.failure);
    }
    if (!folders.state.empty()) {
        Taken state = take_in_state(folders.state, uuid);
        if (state.is_held) return {};
        lock.state_ = std::move(state.file);
        if (!lock.state_.open() && !lock.host_.open()) return {std::nullopt, std::move(state.failure), ""};
    }
    attempt.lock = std::move(lock);
    return attempt;
}

std::string GpuLock::holder(const LockFolders& folders, const std::string& uuid) {
    for (const std::string& path : {host_path(folders.host, uuid), state_path(folders.state, uuid)}) {
        long pid = 0, user = -1;
        std::ifstream file(path);
        file >> pid >> user;
        if (pid <= 0) continue;
        const bool is_ours = user < 0 || user == static_cast<long>(::geteuid());
        return "process " + std::to_string(pid) + (is_ours ? "" : " of user " + std::to_string(user));
    }
    return "unknown";
}

}  // namespace autotune::tuner
