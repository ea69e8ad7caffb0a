#include "tools/cli/input/input_file.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "src/core/error.h"

namespace autotune::cli {
namespace {

constexpr int kAskEvery_ms = 100;  // a signal is noticed after at most this delay
constexpr int kTellAfter_ms = 2000;

[[noreturn]] void refuse(const std::string& path, int why) {
    throw Error(ErrorCode::usage,
                "cannot read '" + path + "': " + std::strerror(why) + "; give a file that `autotune export` wrote");
}

}  // namespace

// O_NONBLOCK opens a pipe without a writer at once. The wait for data then notices a stop.
InputFile::InputFile(const std::string& path, std::function<bool()> stopped, std::function<void(const std::string&)> waits)
    : path_(path),
      stopped_(std::move(stopped)),
      waits_(std::move(waits)),
      file_(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {
    if (!file_.open()) refuse(path_, errno);
    struct stat facts = {};
    if (::fstat(file_.get(), &facts) == 0 && S_ISDIR(facts.st_mode)) refuse(path_, EISDIR);
}

bool InputFile::is_regular() const {
    struct stat facts = {};
    return ::fstat(file_.get(), &facts) == 0 && S_ISREG(facts.st_mode);
}

bool InputFile::wait_for_more() {
    pollfd file{.fd = file_.get(), .events = POLLIN, .revents = 0};
    for (int waited_ms = 0; !stopped_(); waited_ms += kAskEvery_ms) {
        if (::poll(&file, 1, kAskEvery_ms) > 0) return true;
        if (waited_ms < kTellAfter_ms || !waits_) continue;
        std::exchange(waits_, {})("'" + path_ +
                                  "' is a pipe or a terminal, and nothing has come from it for 2 s; waiting for more, " +
                                  "Ctrl-C ends it");
    }
    return false;
}

InputFile::int_type InputFile::underflow() {
    while (wait_for_more()) {
        const ssize_t got = ::read(file_.get(), letters_.data(), letters_.size());
        if (got < 0 && (errno == EINTR || errno == EAGAIN)) continue;
        if (got < 0) refuse(path_, errno);
        setg(letters_.data(), letters_.data(), letters_.data() + got);
        return got == 0 ? traits_type::eof() : traits_type::to_int_type(letters_.front());
    }
    return traits_type::eof();
}

}  // namespace autotune::cli
