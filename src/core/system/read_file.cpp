#include "src/core/system/read_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <new>
#include <string_view>
#include <system_error>

#include "src/core/system/file_descriptor.h"

namespace autotune {
namespace {

constexpr std::size_t kFirstBytes = 1 << 16;  // The first buffer for a file that does not state its size, such as those in /proc.
constexpr std::string_view kUtf8Mark = "\xEF\xBB\xBF";

FileContent failed(int code) {
    if (code == ENOMEM) throw std::bad_alloc();
    FileContent content;
    content.why = std::generic_category().message(code);
    content.code = code;
    return content;
}

FileContent refused(std::string why) {
    FileContent content;
    content.why = std::move(why);
    return content;
}

std::string kind_of(mode_t mode) {
    if (S_ISDIR(mode)) return "it is a folder, not a file";
    if (S_ISFIFO(mode)) return "it is a pipe, not a regular file";
    if (S_ISSOCK(mode)) return "it is a socket, not a regular file";
    return "it is a device, not a regular file";
}

// Returns the number of bytes read, which is smaller than requested only at the end, or -errno.
ssize_t read_some(int file, char* to, std::size_t bytes) {
    while (true) {
        const ssize_t got = ::read(file, to, bytes);
        if (got >= 0) return got;
        if (errno != EINTR) return -errno;
    }
}

}  // namespace

FileContent read_regular_file(const std::string& path, std::size_t most_bytes) {
    // The file is opened non-blocking, because open() would wait for a pipe that nobody writes to. A terminal must not become our
    // controlling terminal.
    const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
    if (!file.open()) return failed(errno);
    struct stat about {};
    if (::fstat(file.get(), &about) != 0) return failed(errno);
    if (!S_ISREG(about.st_mode)) return refused(kind_of(about.st_mode));
    const std::string too_large = "it is larger than " + bytes_text(most_bytes);
    const auto stated_bytes = static_cast<std::size_t>(std::max<off_t>(about.st_size, 0));
    if (stated_bytes > most_bytes) return refused(too_large);
    FileContent content;
    std::string& text = content.text;
    text.resize(std::min(std::max(stated_bytes, kFirstBytes), most_bytes) + 1);  // one byte more finds larger files
    std::size_t done = 0;
    while (true) {
        if (done == text.size()) {
            if (done > most_bytes) return refused(too_large);  // it grew
            text.resize(std::min(2 * done, most_bytes + 1));
        }
        const ssize_t got = read_some(file.get(), text.data() + done, text.size() - done);
        if (got < 0) return failed(static_cast<int>(-got));
        if (got == 0) break;
        done += static_cast<std::size_t>(got);
    }
    text.resize(done);
    if (done > most_bytes) return refused(too_large);
    text.erase(0, text.size() - without_mark(text).size());
    content.is_read = true;
    return content;
}

std::string_view without_mark(std::string_view text) {
    return text.starts_with(kUtf8Mark) ? text.substr(kUtf8Mark.size()) : text;
}

std::string bytes_text(std::size_t bytes) {
    constexpr std::size_t kKib = 1 << 10, kMib = 1 << 20;
    if (bytes >= kMib && bytes % kMib == 0) return std::to_string(bytes / kMib) + " MiB";
    if (bytes >= kKib && bytes % kKib == 0) return std::to_string(bytes / kKib) + " KiB";
    return std::to_string(bytes) + " bytes";
}

}  // namespace autotune
