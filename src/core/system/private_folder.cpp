#include "src/core/system/private_folder.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <system_error>

namespace autotune {
namespace {

// Why a private folder in this path cannot be used, or "" if it can. REQUIRES: the folder exists.
std::string why_not_private(const std::string& folder) {
    struct stat facts = {};
    if (::lstat(folder.c_str(), &facts) != 0) return folder + " cannot be looked at: " + errno_text(errno);
    if (!S_ISDIR(facts.st_mode) || facts.st_uid != ::geteuid() || (facts.st_mode & 077) != 0)
        return folder + " is not a private folder of this user";
    return "";
}

// Returns 0, or the errno of the first write that fails. A full disk may report the error only when the file is closed.
int write_zeros(int file, std::size_t bytes) {
    const std::array<char, 4096> zeros{};
    std::size_t written = 0;
    while (written < bytes) {
        const ssize_t count = ::write(file, zeros.data(), std::min(zeros.size(), bytes - written));
        if (count < 0 && errno == EINTR) continue;
        if (count < 0) return errno;
        if (count == 0) return ENOSPC;
        written += static_cast<std::size_t>(count);
    }
    return 0;
}

}  // namespace

std::string errno_text(int code) {
    return std::generic_category().message(code);
}

int make_private_folders(const std::string& folder, std::string* failed_at) {
    for (std::size_t end = folder.find('/', 1);; end = folder.find('/', end + 1)) {
        const std::string part = folder.substr(0, end);
        const int code = ::mkdir(part.c_str(), S_IRWXU) == 0 ? 0 : errno;
        struct stat facts = {};
        // "/" and read-only folders refuse mkdir even if the folder exists.
        if (code != 0 && (::stat(part.c_str(), &facts) != 0 || !S_ISDIR(facts.st_mode))) {
            if (failed_at != nullptr) *failed_at = part;
            return code == EEXIST ? ENOTDIR : code;
        }
        if (end == std::string::npos) return 0;
    }
}

TemporaryFile make_temporary_file(const std::string& folder, const std::string& prefix, const std::string& suffix) {
    std::string path = folder + "/" + prefix + ".XXXXXX" + suffix;
    FileDescriptor file(::mkostemps(path.data(), static_cast<int>(suffix.size()), O_CLOEXEC));
    return {std::move(file), std::move(path)};
}

std::string why_folder_not_makeable(const std::string& folder) {
    std::string there = folder;
    struct stat facts = {};
    while (::stat(there.c_str(), &facts) != 0) {
        const int code = errno;
        if (code != ENOENT) return "the folder " + there + " cannot be reached: " + errno_text(code);
        const std::size_t slash = there.rfind('/');
        there = slash == 0 ? "/" : slash == std::string::npos ? "." : there.substr(0, slash);
    }
    const std::string what =
        there == folder ? "the folder " + there + " cannot be written: " : "nothing can be made in the folder " + there + ": ";
    if (!S_ISDIR(facts.st_mode)) return what + errno_text(ENOTDIR);
    return ::faccessat(AT_FDCWD, there.c_str(), W_OK | X_OK, AT_EACCESS) == 0 ? "" : what + errno_text(errno);
}

std::string why_folder_not_writable(const std::string& folder, std::size_t bytes) {
    std::string failed_at;
    if (const int code = make_private_folders(folder, &failed_at); code != 0)
        return "the folder " + failed_at + " cannot be made: " + errno_text(code);
    TemporaryFile probe = make_temporary_file(folder, ".probe", ".tmp");
    if (!probe.file.open()) return "the folder " + folder + " cannot be written: " + errno_text(errno);
    int code = write_zeros(probe.file.get(), bytes);
    if (!probe.file.close() && code == 0) code = errno;
    ::unlink(probe.path.c_str());
    return code == 0 ? "" : "the folder " + folder + " cannot be written: " + errno_text(code);
}

Home usable_home(const std::string& value) {
    if (value.empty()) return {"", "HOME is not set"};
    const std::string named = "HOME (" + value + ")";
    if (value.front() != '/') return {"", named + " is not an absolute path"};
    struct stat facts = {};
    if (::stat(value.c_str(), &facts) != 0) return {"", named + " cannot be used (" + errno_text(errno) + ")"};
    if (!S_ISDIR(facts.st_mode)) return {"", named + " cannot be used (" + errno_text(ENOTDIR) + ")"};
    // Root's own folders are accepted: containers open them to their users, so that our files lock nobody out.
    const bool is_another_users = facts.st_uid != ::geteuid() && (facts.st_uid != 0 || ::geteuid() == 0);
    if (is_another_users) return {"", named + " belongs to another user, whom our files would lock out"};
    return {value == "/" ? "" : value, ""};
}

std::string fallback_home() {
    return "/tmp/autotune-" + std::to_string(::geteuid());
}

std::string why_fallback_home_is_unsafe() {
    struct stat facts = {};
    if (::lstat(fallback_home().c_str(), &facts) != 0 && errno == ENOENT) return "";
    return why_not_private(fallback_home());
}

std::string make_fallback_home() {
    const std::string home = fallback_home();
    if (::mkdir(home.c_str(), S_IRWXU) != 0 && errno != EEXIST) {
        const int code = errno;
        struct stat facts = {};
        if (::lstat(home.c_str(), &facts) != 0) return "the folder " + home + " cannot be made: " + errno_text(code);
    }
    return why_not_private(home);
}

}  // namespace autotune
