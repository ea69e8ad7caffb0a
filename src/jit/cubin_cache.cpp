#include "src/jit/cubin_cache.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <memory>
#include <string_view>

#include "src/core/system/file_descriptor.h"
#include "src/core/system/private_folder.h"
#include "src/jit/cubin_file.h"

namespace autotune::jit {
namespace {

// A cubin has tens of kilobytes. A larger file than this cannot be ours, and reading it could exhaust our memory.
constexpr off_t kMaxFileBytes = 256 << 20;

bool is_identity(const std::string& text) {
    return text.size() >= 16 && text.size() <= 128 &&
           std::all_of(text.begin(), text.end(), [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

bool is_ours(const struct stat& info) {
    return info.st_uid == ::geteuid() && (info.st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

// Whether only this user and root can replace a folder in `parent`: in a world-writable folder the sticky bit keeps others from
// renaming what they do not own.
bool is_safe_parent(const struct stat& parent) {
    const bool is_trusted = parent.st_uid == ::geteuid() || parent.st_uid == 0;
    const bool others_write = (parent.st_mode & (S_IWGRP | S_IWOTH)) != 0;
    return is_trusted && (!others_write || (parent.st_mode & S_ISVTX) != 0);
}

std::string failed(const std::string& folder, const char* what, int code) {
    return "the cubin cache " + folder + " cannot be " + what + ": " + errno_text(code);
}

// Creates the folder and its parents if they are missing. Returns why the folder cannot be trusted, or "" if it can.
std::string prepare_folder(const std::string& folder) {
    if (const int code = make_private_folders(folder); code != 0) return failed(folder, "made", code);
    const FileDescriptor opened(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!opened.open()) return failed(folder, "opened", errno);
    struct stat info = {};
    struct stat parent = {};
    if (::fstat(opened.get(), &info) != 0 || ::fstatat(opened.get(), "..", &parent, 0) != 0)
        return failed(folder, "opened", errno);
    if (!is_ours(info)) return "the cubin cache " + folder + " belongs to another user or can be written by others; chmod 700 it";
    if (!is_safe_parent(parent))
        return "the folder that holds the cubin cache " + folder +
               " belongs to another user or can be written by others; chmod go-w it, or name another cache folder";
    return "";
}

std::string file_path(const std::string& folder, const std::string& identity) {
    return folder + "/" + identity + ".atcubin";
}

std::optional<std::vector<std::byte>> read_private_file(const std::string& path) {
    // O_NONBLOCK, because opening a FIFO that somebody placed there must not hang.
    const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
    struct stat info = {};
    if (!file.open() || ::fstat(file.get(), &info) != 0) return std::nullopt;
    if (!S_ISREG(info.st_mode) || !is_ours(info) || info.st_size <= 0 || info.st_size > kMaxFileBytes) return std::nullopt;
    std::vector<std::byte> bytes(static_cast<std::size_t>(info.st_size));
    std::size_t filled = 0;
    while (filled < bytes.size()) {
        const ssize_t got = ::read(file.get(), bytes.data() + filled, bytes.size() - filled);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) return std::nullopt;
        filled += static_cast<std::size_t>(got);
    }
    return bytes;
}

bool write_all(int file, std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
        const ssize_t put = ::write(file, bytes.data(), bytes.size());
        if (put < 0 && errno == EINTR) continue;
        if (put <= 0) return false;
        bytes = bytes.subspan(static_cast<std::size_t>(put));
    }
    return true;
}

constexpr std::string_view kTemporarySuffix = ".tmp";
// A writer needs only milliseconds, so the writer of a temporary file this old was killed.
constexpr auto kStaleAfter = std::chrono::hours(1);

// Removes temporary files of killed writers. They block nobody, because each writer has a name of its own, but they fill the
// disk.
void remove_stale_files(const std::string& folder) {
    const std::unique_ptr<DIR, int (*)(DIR*)> open(::opendir(folder.c_str()), ::closedir);
    if (open == nullptr) return;
    const std::time_t oldest = std::time(nullptr) - std::chrono::duration_cast<std::chrono::seconds>(kStaleAfter).count();
    while (const dirent* entry = ::readdir(open.get())) {
        if (!std::string_view(entry->d_name).ends_with(kTemporarySuffix)) continue;
        struct stat info = {};
        const int at = ::dirfd(open.get());
        if (::fstatat(at, entry->d_name, &info, AT_SYMLINK_NOFOLLOW) != 0) continue;
        if (S_ISREG(info.st_mode) && is_ours(info) && info.st_mtime < oldest) ::unlinkat(at, entry->d_name, 0);
    }
}

}  // namespace

CubinCache::CubinCache(std::string folder) : folder_(std::move(folder)) {
    if (folder_.empty()) {
        disabled_because_ = "no folder for the cubin cache was given";
        return;
    }
    disabled_because_ = prepare_folder(folder_);
    readable_ = disabled_because_.empty();
    if (readable_ && ::access(folder_.c_str(), W_OK | X_OK) != 0) disabled_because_ = failed(folder_, "written", errno);
}

std::optional<Compiled> CubinCache::find(const std::string& identity) const {
    if (!readable_ || !is_identity(identity)) return std::nullopt;
    const auto bytes = read_private_file(file_path(folder_, identity));
    if (!bytes) return std::nullopt;
    return decode_cubin_file(*bytes, identity);
}

std::string CubinCache::why_not_usable() const {
    if (!disabled_because_.empty()) return disabled_because_;
    constexpr std::size_t kUsualBytes = 32 << 10;  // size of a usual cubin
    const std::string why = why_folder_not_writable(folder_, kUsualBytes);
    return why.empty() ? "" : "the cubin cache does not keep anything: " + why;
}

void CubinCache::clean() const {
    if (disabled_because_.empty()) remove_stale_files(folder_);
}

// The file is not synced. After a power cut a short file fails its checksum and is compiled again. An fsync would take longer
// than compiling a small kernel.
bool CubinCache::put(const Compiled& compiled) const {
    if (!disabled_because_.empty() || !is_identity(compiled.identity)) return false;
    TemporaryFile temporary = make_temporary_file(folder_, compiled.identity, std::string(kTemporarySuffix));
    if (!temporary.file.open()) return false;
    const bool written = write_all(temporary.file.get(), encode_cubin_file(compiled));
    const bool closed = temporary.file.close();
    const std::string path = file_path(folder_, compiled.identity);
    if (written && closed && std::rename(temporary.path.c_str(), path.c_str()) == 0) return true;
    ::unlink(temporary.path.c_str());
    return false;
}

}  // namespace autotune::jit
