#include "db/sqlite/files.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>

#include "db/sqlite/failure.h"
#include "src/core/system/file_descriptor.h"

namespace autotune::db {
namespace {

constexpr mode_t kPrivateFolder = 0700;
constexpr mode_t kPrivateFile = 0600;
constexpr int kBackupNames = 1000;

std::string reason(int code) {
    return std::generic_category().message(code);
}

std::string parent_of(const std::string& path) {
    const auto slash = path.find_last_of('/');
    if (slash == std::string::npos) return ".";
    return slash == 0 ? "/" : path.substr(0, slash);
}

std::optional<struct stat> look_at(const std::string& path) {
    struct stat found {};
    if (::stat(path.c_str(), &found) == 0) return found;
    if (errno == ENOENT) return std::nullopt;
    throw database_error(path, "cannot be reached (" + reason(errno) + ")", "check the path and the permissions of its folders");
}

// Creates missing folders, with access for their owner only.
void make_folders(const std::string& folder, const std::string& path) {
    for (std::size_t end = folder.find('/', 1);; end = folder.find('/', end + 1)) {
        const std::string part = folder.substr(0, end);
        if (::mkdir(part.c_str(), kPrivateFolder) != 0 && errno != EEXIST) {
            const int code = errno;
            struct stat found {};
            // mkdir fails for "/" and in read-only parents even if the folder exists.
            if (::stat(part.c_str(), &found) != 0) {
                throw database_error(path, "needs the folder " + part + ", which cannot be made (" + reason(code) + ")",
                                     "make it, or choose another file with --db or AUTOTUNE_DB", fault_of_errno(code));
            }
        }
        if (end == std::string::npos) return;
    }
}

void make_file(const std::string& path) {
    const FileDescriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, kPrivateFile));
    if (file.open() || errno == EEXIST) return;  // another process has created the file first
    const int code = errno;
    throw database_error(path, "cannot be made (" + reason(code) + ")",
                         "fix the permissions of its folder, or choose another file with --db or AUTOTUNE_DB",
                         fault_of_errno(code));
}

// A path that stat() does not find may still be a link whose target is missing, perhaps on an unmounted disk.
void refuse_dangling_link(const std::string& path) {
    std::error_code failed;
    const std::filesystem::path target = std::filesystem::read_symlink(path, failed);
    if (failed) return;
    throw database_error(path, "is a symbolic link to " + target.string() + ", which does not exist",
                         "make that file or mount its disk, or remove the link", DatabaseFault::missing);
}

// The journal of a symbolic link lies next to the link's target.
std::string resolved(const std::string& path) {
    std::array<char, PATH_MAX> real{};
    return ::realpath(path.c_str(), real.data()) == nullptr ? path : std::string(real.data());
}

// SQLite opens whatever has the name of a journal: on a pipe it would wait forever for a writer, and it accepts only files.
void require_regular_journals(const std::string& path) {
    for (const char* suffix : {"-journal", "-wal", "-shm"}) {
        const std::string journal = resolved(path) + suffix;
        struct stat found {};
        if (::lstat(journal.c_str(), &found) != 0 || S_ISREG(found.st_mode)) continue;
        throw database_error(path, "cannot be used, for " + journal + " is not a regular file",
                             "remove that, the database itself is intact");
    }
}

void require_writable(const std::string& path) {
    if (::faccessat(AT_FDCWD, path.c_str(), R_OK | W_OK, AT_EACCESS) != 0) {
        throw database_error(path, "cannot be written (" + reason(errno) + ")", "fix its permissions, or open it read-only",
                             DatabaseFault::read_only);
    }
    const std::string folder = parent_of(resolved(path));
    if (::faccessat(AT_FDCWD, folder.c_str(), W_OK | X_OK, AT_EACCESS) != 0) {
        throw database_error(path, "is in a folder that cannot be written (" + folder + ": " + reason(errno) + ")",
                             "fix the folder's permissions, since the journal is kept there, or open it read-only",
                             DatabaseFault::read_only);
    }
}

void require_regular(const std::string& path, const struct stat& found) {
    if (S_ISREG(found.st_mode)) return;
    throw database_error(path, S_ISDIR(found.st_mode) ? "is a folder, not a file" : "is not a regular file", kChooseAnother);
}

std::vector<Warning> worries(const std::string& path, const struct stat& found) {
    std::vector<Warning> result;
    if ((found.st_mode & S_IWOTH) != 0) {
        result.push_back({WarningKind::open_to_all, "database " + path + " can be written by every user; run chmod o-w on it"});
    }
    struct statfs system {};
    if (::statfs(path.c_str(), &system) != 0) return result;
    constexpr unsigned long kCifs = 0xFF534D42, kSmb2 = 0xFE534D42, kLustre = 0x0BD00BD0;
    constexpr std::array<unsigned long, 5> kNetwork = {NFS_SUPER_MAGIC, SMB_SUPER_MAGIC, kCifs, kSmb2, kLustre};
    for (const unsigned long magic : kNetwork) {
        if (static_cast<unsigned long>(system.f_type) != magic) continue;
        result.push_back(
            {WarningKind::network_file_system, "database " + path +
                                                   " is on a network file system, where locks may not hold; keep it on a local "
                                                   "disk with --db or AUTOTUNE_DB"});
    }
    return result;
}

}  // namespace

std::vector<Warning> prepare_path(const PathRequest& request) {
    const std::string& path = request.path;
    if (path == kMemory) return {};
    if (path.empty() || path.find('\0') != std::string::npos) {
        throw database_error("path", "is empty or holds a NUL", kChooseAnother);
    }
    auto found = look_at(path);
    if (!found) {
        refuse_dangling_link(path);
        if (request.read_only || !request.create) {
            throw database_error(path, "does not exist", "tune or import something first, or check the path",
                                 DatabaseFault::missing);
        }
        make_folders(parent_of(path), path);
        make_file(path);
        found = look_at(path);
    }
    if (!found) throw database_error(path, "vanished while it was opened", "try again");
    require_regular(path, *found);
    require_regular_journals(path);
    if (!request.read_only) require_writable(path);
    return worries(path, *found);
}

bool is_missing(const std::string& path) {
    struct stat found {};
    return ::lstat(path.c_str(), &found) != 0 && errno == ENOENT;
}

std::int64_t size_of(const std::string& path) {
    if (path == kMemory) return 0;
    const auto found = look_at(path);
    if (!found) throw database_error(path, "vanished while it was used", "try again");
    return found->st_size;
}

std::string new_private_file(const std::string& path) {
    for (int attempt = 1; attempt <= kBackupNames; ++attempt) {
        const std::string name = attempt == 1 ? path : path + std::to_string(attempt);
        const FileDescriptor file(::open(name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, kPrivateFile));
        if (file.open()) return name;
        if (errno != EEXIST)
            throw database_error(name, "cannot be made (" + reason(errno) + ")", "fix the permissions of its folder");
    }
    throw database_error(path, "has too many backups", "remove some of them");
}

void remove_file(const std::string& path) noexcept {
    ::unlink(path.c_str());
}

void replace_file(const std::string& from, const std::string& to) {
    if (std::rename(from.c_str(), to.c_str()) == 0) return;
    const int why = errno;
    remove_file(from);
    throw database_error(to, "cannot be replaced (" + reason(why) + ")", "move it away");
}

}  // namespace autotune::db
