#include "src/core/system/write_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <climits>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <random>

namespace autotune {
namespace {

constexpr int kNames = 100;  // tried before giving up
constexpr mode_t kNewFile = 0666;

// A suffix that no other process uses. The process id is not enough, because it can be the same in two containers that share a
// folder.
std::string unlikely_suffix() {
    std::random_device random;
    const std::uint64_t value = (std::uint64_t{random()} << 32) | random();
    constexpr std::string_view kDigits = "0123456789abcdef";
    std::string text = ".part-";
    for (int shift = 60; shift >= 0; shift -= 4) text += kDigits[(value >> shift) & 15];
    return text;
}

std::string target_of(const std::string& path) {
    std::array<char, PATH_MAX> real{};
    return ::realpath(path.c_str(), real.data()) == nullptr ? path : std::string(real.data());
}

std::optional<struct stat> look_at(const std::string& path) {
    struct stat found {};
    return ::stat(path.c_str(), &found) == 0 ? std::optional(found) : std::nullopt;
}

// A pipe that nobody reads is an error, and is not waited for. Once the pipe is open, writing may wait for a slow reader.
FileDescriptor open_directly(const std::string& path) {
    FileDescriptor file(::open(path.c_str(), O_WRONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
    if (file.open()) {
        const int flags = ::fcntl(file.get(), F_GETFL);
        if (flags >= 0) ::fcntl(file.get(), F_SETFL, flags & ~O_NONBLOCK);
    }
    return file;
}

// Copies owner and mode as far as this user is permitted to.
void keep_owner_and_mode(int file, const struct stat& before) {
    struct stat now {};
    const bool is_others = ::fstat(file, &now) != 0 || now.st_uid != before.st_uid || now.st_gid != before.st_gid;
    if (is_others && ::fchown(file, before.st_uid, before.st_gid) != 0) return;
    (void)::fchmod(file, before.st_mode & 07777);
}

}  // namespace

FileWriter::FileWriter(const std::string& path, Durable durable) : target_(target_of(path)), durable_(durable) {
    const auto found = look_at(target_);
    if (found && S_ISDIR(found->st_mode)) {
        fail(EISDIR);
    } else if (!found || S_ISREG(found->st_mode)) {
        open_beside(target_);
    } else {
        file_ = open_directly(target_);
        if (!file_.open()) fail(errno);
    }
}

void FileWriter::open_beside(const std::string& target) {
    const auto found = look_at(target);
    // rename() could replace a file that this user may not write, which its owner does not expect.
    if (found && ::faccessat(AT_FDCWD, target.c_str(), W_OK, AT_EACCESS) != 0) return fail(errno);
    for (int attempt = 0; attempt < kNames; ++attempt) {
        const std::string name = target + unlikely_suffix();
        file_ = FileDescriptor(::open(name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, kNewFile));
        if (file_.open()) {
            unfinished_ = name;
            if (found) keep_owner_and_mode(file_.get(), *found);
            return;
        }
        if (errno != EEXIST) return fail(errno);
    }
    fail(EEXIST);
}

FileWriter::~FileWriter() {
    if (unfinished_.empty()) return;
    (void)file_.close();
    ::unlink(unfinished_.c_str());
}

std::error_code FileWriter::write(std::string_view text) {
    while (!failure_ && !text.empty()) {
        const ssize_t written = ::write(file_.get(), text.data(), text.size());
        if (written >= 0)
            text.remove_prefix(static_cast<std::size_t>(written));
        else if (errno != EINTR)
            fail(errno);
    }
    return failure_;
}

std::error_code FileWriter::commit() {
    if (failure_) return failure_;
    const bool syncs = durable_ == Durable::yes && !unfinished_.empty();
    if (syncs && ::fsync(file_.get()) != 0 && errno != EINVAL && errno != ENOSYS) fail(errno);
    if (!file_.close() && !failure_) fail(errno);
    if (failure_ || unfinished_.empty()) return failure_;
    if (::rename(unfinished_.c_str(), target_.c_str()) != 0)
        fail(errno);
    else
        unfinished_.clear();
    return failure_;
}

std::error_code replace_file(const std::string& path, std::string_view text, FileWriter::Durable durable) {
    FileWriter file(path, durable);
    file.write(text);
    return file.commit();
}

bool holds_something(const std::string& path) {
    const auto found = look_at(path);
    return found && S_ISREG(found->st_mode) && found->st_size > 0;
}

std::error_code why_not_writable(const std::string& path) {
    return FileWriter(path).failure();
}

}  // namespace autotune
