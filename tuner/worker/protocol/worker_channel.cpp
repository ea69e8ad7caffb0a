#include "tuner/worker/protocol/worker_channel.h"

#include <fcntl.h>
#include <malloc.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

namespace autotune::tuner {
namespace {

void set_limit(__rlimit_resource resource, rlim_t value) {
    rlimit limit{};
    ::getrlimit(resource, &limit);
    limit.rlim_cur = limit.rlim_max == RLIM_INFINITY ? value : std::min(value, limit.rlim_max);
    ::setrlimit(resource, &limit);
}

}  // namespace

WorkerChannel::WorkerChannel() {
    in_ = FileDescriptor(::fcntl(0, F_DUPFD_CLOEXEC, 3));
    out_ = FileDescriptor(::fcntl(1, F_DUPFD_CLOEXEC, 3));
    const FileDescriptor nothing(::open("/dev/null", O_RDONLY | O_CLOEXEC));  // its descriptor is 3 or more
    if (nothing.open()) ::dup2(nothing.get(), 0);
    ::dup2(2, 1);
}

std::optional<Message> WorkerChannel::receive() {
    std::array<std::byte, 65536> chunk;
    while (true) {
        if (auto message = decoder_.next()) return message;
        if (!decoder_.broken().empty()) return std::nullopt;
        const ssize_t count = ::read(in_.get(), chunk.data(), chunk.size());
        if (count > 0) decoder_.feed(std::span(chunk).first(static_cast<std::size_t>(count)));
        if (count == 0 || (count < 0 && errno != EINTR)) return std::nullopt;
    }
}

std::optional<Message> WorkerChannel::receive_now() {
    std::array<std::byte, 65536> chunk;
    while (true) {
        if (auto message = decoder_.next()) return message;
        pollfd readable{in_.get(), POLLIN, 0};
        const int ready = ::poll(&readable, 1, 0);
        if (ready == 0 || (ready < 0 && errno == EINTR)) return std::nullopt;
        const ssize_t count = ::read(in_.get(), chunk.data(), chunk.size());
        if (count > 0) decoder_.feed(std::span(chunk).first(static_cast<std::size_t>(count)));
        if (count == 0 || (count < 0 && errno != EINTR) || !decoder_.broken().empty()) ::_exit(1);
    }
}

void WorkerChannel::send(const Message& message) {
    const std::vector<std::byte> frame = encode(message);
    std::size_t sent = 0;
    while (sent < frame.size()) {
        const ssize_t count = ::write(out_.get(), frame.data() + sent, frame.size() - sent);
        if (count > 0) sent += static_cast<std::size_t>(count);
        if (count < 0 && errno != EINTR) ::_exit(1);
    }
}

std::string unknown_request(const std::string& kind, const std::string& what) {
    return "the " + kind + " worker does not know the request '" + what + "'";
}

void become_worker(int parent_pid, Descriptors descriptors) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent_pid) ::_exit(1);  // the parent died before the signal was set
    ::signal(SIGPIPE, SIG_IGN);
    if (descriptors == Descriptors::closed) ::syscall(SYS_close_range, 3U, ~0U, 0U);
    const rlimit no_core{0, 0};
    ::setrlimit(RLIMIT_CORE, &no_core);
}

void limit_compiler_process() {
    [[maybe_unused]] const int niceness = ::nice(10);
    set_limit(RLIMIT_FSIZE, 0);
    ::signal(SIGXFSZ, SIG_IGN);  // with the signal ignored, a write to a file fails with EFBIG
#ifndef __SANITIZE_ADDRESS__     // AddressSanitizer's shadow memory takes terabytes of address space
    set_limit(RLIMIT_AS, rlim_t{4} << 30);
#endif
}

void keep_freed_memory() {
#ifdef __GLIBC__
    constexpr int kLargest = 32 << 20;  // larger blocks are given back at once
    constexpr int kMostKept = 256 << 20;
    ::mallopt(M_MMAP_THRESHOLD, kLargest);
    ::mallopt(M_TRIM_THRESHOLD, kMostKept);
    ::mallopt(M_TOP_PAD, kLargest);
#endif
}

void allow_cpu_seconds(int seconds) {
    rusage used{};
    ::getrusage(RUSAGE_SELF, &used);
    set_limit(RLIMIT_CPU, static_cast<rlim_t>(used.ru_utime.tv_sec + used.ru_stime.tv_sec + seconds + 1));
}

}  // namespace autotune::tuner
