#include "tuner/worker/gpu_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cctype>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "src/core/error.h"

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

void make_private_folder(const std::string& folder) {
    const std::filesystem::path path(folder);
    std::error_code failed;
    if (path.has_parent_path()) std::filesystem::create_directories(path.parent_path(), failed);
    if (::mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) {
        throw Error(ErrorCode::internal, "cannot make the folder " + folder + ": " + std::strerror(errno));
    }
}

std::optional<GpuLock> GpuLock::try_take(const std::string& folder, const std::string& uuid) {
    make_private_folder(folder);
    const std::string path = path_of(folder, uuid);
    FileDescriptor fd(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (fd.get() < 0) throw Error(ErrorCode::internal, "cannot open the GPU lock " + path + ": " + std::strerror(errno));
    if (::flock(fd.get(), LOCK_EX | LOCK_NB) != 0) return std::nullopt;
    const std::string pid = std::to_string(::getpid()) + "\n";
    if (::ftruncate(fd.get(), 0) != 0 || ::pwrite(fd.get(), pid.data(), pid.size(), 0) < 0) {
        // Only the message to a second tuner suffers.
    }
    return GpuLock(std::move(fd));
}

std::string GpuLock::holder(const std::string& folder, const std::string& uuid) {
    long pid = 0;
    std::ifstream(path_of(folder, uuid)) >> pid;
    return pid > 0 ? "process " + std::to_string(pid) : "unknown";
}

}  // namespace autotune::tuner
