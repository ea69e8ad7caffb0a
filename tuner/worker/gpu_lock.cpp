#include "tuner/worker/gpu_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cctype>
#include <cerrno>
#include <fstream>

#include "src/core/system/private_folder.h"

namespace autotune::tuner {
namespace {

std::string path_of(const std::string& folder, const std::string& uuid) {
    return folder + "/gpu-" + file_stem(uuid) + ".lock";
}

}  // namespace

std::string file_stem(const std::string& name) {
    std::string stem;
    for (const char c : name) stem += std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '_' ? c : '_';
    return stem.empty() ? "unnamed" : stem;
}

// Only EWOULDBLOCK says that somebody holds it: NFS and Lustre answer ENOLCK, ENOSYS or EOPNOTSUPP where they have no locks.
GpuLock::Attempt GpuLock::try_take(const std::string& folder, const std::string& uuid) {
    std::string failed_at;
    if (const int code = make_private_folders(folder, &failed_at); code != 0)
        return {std::nullopt, "the folder " + failed_at + " cannot be made: " + errno_text(code)};
    const std::string path = path_of(folder, uuid);
    FileDescriptor fd(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600));
    if (!fd.open()) return {std::nullopt, path + " cannot be opened: " + errno_text(errno)};
    int result = 0;
    do result = ::flock(fd.get(), LOCK_EX | LOCK_NB);
    while (result != 0 && errno == EINTR);
    if (result != 0 && errno == EWOULDBLOCK) return {std::nullopt, ""};
    if (result != 0) return {std::nullopt, path + " cannot be locked: " + errno_text(errno)};
    const std::string pid = std::to_string(::getpid()) + "\n";
    if (::ftruncate(fd.get(), 0) != 0 || ::pwrite(fd.get(), pid.data(), pid.size(), 0) < 0) {
        // Only the message to a second tuner suffers.
    }
    return {GpuLock(std::move(fd)), ""};
}

std::string GpuLock::holder(const std::string& folder, const std::string& uuid) {
    long pid = 0;
    std::ifstream(path_of(folder, uuid)) >> pid;
    return pid > 0 ? "process " + std::to_string(pid) : "unknown";
}

}  // namespace autotune::tuner
