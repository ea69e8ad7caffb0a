#include "tuner/worker/worker_process.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <string_view>
#include <thread>

#include "src/core/error.h"

extern char** environ;

namespace autotune::tuner {
namespace {

// In the child, before exec, this names the file that the command runs from, even if the file was replaced or deleted.
constexpr std::string_view kOwnFile = "/proc/self/exe";

struct Pipe {
    FileDescriptor read, write;
};

// The system's reason, and what the user can do.
Error cannot_start(int code) {
    const std::string why = std::string("cannot start a worker process: ") + std::strerror(code);
    switch (code) {
        case EAGAIN:
            return {ErrorCode::system, why + "; raise the limit on processes (`ulimit -u`, pids.max of the container)"};
        case ENOMEM:
            return {ErrorCode::system, why + "; free memory, or raise the memory limit"};
        case EMFILE:
        case ENFILE:
            return {ErrorCode::system, why + "; raise the limit on open files (`ulimit -n`)"};
        default:
            return {ErrorCode::system, why};
    }
}

// Both ends are above the standard descriptors, so that dup2 onto 0..2 in the child never gets equal descriptors.
FileDescriptor above_standard(int raw) {
    FileDescriptor low(raw);
    FileDescriptor high(::fcntl(raw, F_DUPFD_CLOEXEC, 3));
    if (high.get() < 0) throw cannot_start(errno);
    return high;
}

Pipe make_pipe() {
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) throw cannot_start(errno);
    Pipe made;
    made.read = above_standard(ends[0]);
    made.write = above_standard(ends[1]);
    return made;
}

// Enlarges the pipe so that it holds a cubin of some hundred KB in one piece. With the default of 64 KB reader and writer would
// have to alternate. If the system refuses, nothing is lost.
void widen(int fd) {
    ::fcntl(fd, F_SETPIPE_SZ, 1 << 20);
}

void make_nonblocking(int fd) {
    ::fcntl(fd, F_SETFL, ::fcntl(fd, F_GETFL) | O_NONBLOCK);
}

// The variables of our environment that a worker may see: those for finding libraries and selecting GPUs. LD_PRELOAD and the like
// are removed.
bool is_passed_on(std::string_view variable) {
    for (const std::string_view prefix : {"LD_LIBRARY_PATH=", "PATH=", "HOME=", "USER=", "LANG=", "LC_", "TMPDIR=", "CUDA_",
                                          "NVIDIA_", "AUTOTUNE_", "XDG_", "ASAN_OPTIONS=", "UBSAN_OPTIONS=", "LSAN_OPTIONS="}) {
        if (variable.starts_with(prefix)) return true;
    }
    return false;
}

// Whether one of `variables` has the name of `entry`.
bool is_replaced(std::string_view entry, const std::vector<std::string>& variables) {
    const std::string_view name = entry.substr(0, entry.find('=') + 1);
    return std::any_of(variables.begin(), variables.end(), [&](const std::string& one) { return one.starts_with(name); });
}

std::vector<char*> variables_of(WorkerProcess::Environment environment, std::vector<std::string>& added) {
    std::vector<char*> kept;
    for (char** entry = environ; *entry != nullptr; ++entry) {
        const bool is_ours = environment == WorkerProcess::Environment::whole || is_passed_on(*entry);
        if (is_ours && !is_replaced(*entry, added)) kept.push_back(*entry);
    }
    for (std::string& variable : added) kept.push_back(variable.data());
    kept.push_back(nullptr);
    return kept;
}

class SpawnSetup {
  public:
    SpawnSetup(int child_in, int child_out) {
        ::posix_spawn_file_actions_init(&actions_);
        ::posix_spawn_file_actions_adddup2(&actions_, child_in, 0);
        ::posix_spawn_file_actions_adddup2(&actions_, child_out, 1);
        ::posix_spawn_file_actions_addopen(&actions_, 2, "/dev/null", O_WRONLY, 0);
        ::posix_spawnattr_init(&attributes_);
        sigset_t none, defaults;
        ::sigemptyset(&none);
        ::sigfillset(&defaults);
        ::posix_spawnattr_setsigmask(&attributes_, &none);
        ::posix_spawnattr_setsigdefault(&attributes_, &defaults);
        ::posix_spawnattr_setpgroup(&attributes_, 0);
        ::posix_spawnattr_setflags(&attributes_, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    }
    ~SpawnSetup() {
        ::posix_spawn_file_actions_destroy(&actions_);
        ::posix_spawnattr_destroy(&attributes_);
    }
    SpawnSetup(const SpawnSetup&) = delete;
    SpawnSetup& operator=(const SpawnSetup&) = delete;

    int spawn(pid_t& pid, const std::string& binary, char* const* argv, char* const* variables) {
        return ::posix_spawn(&pid, binary.c_str(), &actions_, &attributes_, argv, variables);
    }

  private:
    posix_spawn_file_actions_t actions_;
    posix_spawnattr_t attributes_;
};

// A write to a worker that is gone must return an error, not raise a signal that ends the tool.
void ignore_sigpipe() {
    struct sigaction current {};
    ::sigaction(SIGPIPE, nullptr, &current);
    if (current.sa_handler == SIG_DFL) ::signal(SIGPIPE, SIG_IGN);
}

}  // namespace

WorkerProcess::WorkerProcess(const std::string& binary, const std::vector<std::string>& arguments, Environment environment,
                             std::vector<std::string> variables) {
    ignore_sigpipe();
    Pipe down = make_pipe();
    Pipe up = make_pipe();
    std::vector<std::string> words{binary == kOwnFile ? "autotune" : binary};  // process lists show this name
    words.insert(words.end(), arguments.begin(), arguments.end());
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    SpawnSetup setup(down.read.get(), up.write.get());
    const int failed = setup.spawn(pid_, binary, argv.data(), variables_of(environment, variables).data());
    if (failed != 0) {
        pid_ = -1;
        if (failed == EAGAIN || failed == ENOMEM) throw cannot_start(failed);
        const std::string remedy = binary == kOwnFile ? "; was the command replaced? Run it again" : "";
        throw Error(ErrorCode::system, "cannot start the worker process " + binary + ": " + std::strerror(failed) + remedy);
    }
    to_ = std::move(down.write);
    from_ = std::move(up.read);
    make_nonblocking(to_.get());
    make_nonblocking(from_.get());
    widen(to_.get());
    widen(from_.get());
}

WorkerProcess::~WorkerProcess() {
    if (pid_ < 0) return;
    kill();
    reap(std::chrono::seconds(5));
}

void WorkerProcess::send(const Message& message) {
    const std::vector<std::byte> frame = encode(message);
    outgoing_.insert(outgoing_.end(), frame.begin(), frame.end());
    flush();
}

void WorkerProcess::flush() {
    while (wants_write()) {
        const ssize_t written = ::write(to_.get(), outgoing_.data() + sent_, outgoing_.size() - sent_);
        if (written >= 0) {
            sent_ += static_cast<std::size_t>(written);
        } else if (errno == EAGAIN) {
            return;
        } else if (errno != EINTR) {
            break;  // The worker no longer reads, but its earlier output must still be read.
        }
    }
    outgoing_.clear();
    sent_ = 0;
}

std::vector<Message> WorkerProcess::receive() {
    std::array<std::byte, 65536> chunk;
    while (!closed_) {
        const ssize_t count = ::read(from_.get(), chunk.data(), chunk.size());
        if (count > 0) {
            decoder_.feed(std::span(chunk).first(static_cast<std::size_t>(count)));
        } else if (count == 0) {
            closed_ = true;
        } else if (errno == EAGAIN) {
            break;
        } else if (errno != EINTR) {
            closed_ = true;
        }
    }
    std::vector<Message> messages;
    while (auto message = decoder_.next()) messages.push_back(std::move(*message));
    if (!decoder_.broken().empty()) closed_ = true;
    return messages;
}

std::string WorkerProcess::how_it_ended() {
    if (!decoder_.broken().empty()) return "sent " + decoder_.broken();
    if (!wait_status_) reap(std::chrono::milliseconds(200));
    if (!wait_status_) return "closed its pipe";
    const std::string cut = decoder_.mid_message() ? " in the middle of a message" : "";
    if (WIFSIGNALED(*wait_status_)) {
        const int signal = WTERMSIG(*wait_status_);
        return "was ended by signal " + std::to_string(signal) + " (" + ::strsignal(signal) + ")" + cut;
    }
    return "exited with " + std::to_string(WEXITSTATUS(*wait_status_)) + cut;
}

bool WorkerProcess::was_ended_by_others() const {
    if (!wait_status_ || !WIFSIGNALED(*wait_status_)) return false;
    switch (WTERMSIG(*wait_status_)) {
        case SIGSEGV:
        case SIGABRT:
        case SIGILL:
        case SIGFPE:
        case SIGTRAP:
        case SIGSYS:
            return false;
        default:
            return true;
    }
}

double WorkerProcess::cpu_seconds() const {
    if (wait_status_ || pid_ < 0) return cpu_s_at_end_;
    clockid_t clock = 0;
    timespec used{};
    if (::clock_getcpuclockid(pid_, &clock) != 0 || ::clock_gettime(clock, &used) != 0) return 0;
    return static_cast<double>(used.tv_sec) + static_cast<double>(used.tv_nsec) / 1e9;
}

std::optional<double> WorkerProcess::waited_for_processor_s() const {
    if (pid_ < 0) return std::nullopt;
    std::ifstream file("/proc/" + std::to_string(pid_) + "/schedstat");
    double ran_ns = 0, waited_ns = 0;
    file >> ran_ns >> waited_ns;
    return file ? std::optional(waited_ns / 1e9) : std::nullopt;
}

void WorkerProcess::pause() {
    if (pid_ > 0 && !paused_) ::kill(pid_, SIGSTOP);
    paused_ = true;
}

void WorkerProcess::resume() {
    if (pid_ > 0 && paused_) ::kill(pid_, SIGCONT);
    paused_ = false;
}

void WorkerProcess::kill() {
    if (pid_ > 0 && !wait_status_) ::kill(-pid_, SIGKILL);  // its whole group
}

bool WorkerProcess::try_reap() {
    if (wait_status_ || pid_ < 0) return true;
    int status = 0;
    rusage used{};
    const pid_t got = ::wait4(pid_, &status, WNOHANG, &used);
    if (got == pid_) {
        wait_status_ = status;
        const auto seconds = [](const timeval& time) {
            return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
        };
        cpu_s_at_end_ = seconds(used.ru_utime) + seconds(used.ru_stime);
    }
    if (got < 0 && errno == ECHILD) wait_status_ = 0;  // another part of the program has already waited for the process
    return wait_status_.has_value();
}

bool WorkerProcess::reap(std::chrono::milliseconds limit) {
    const auto deadline = Clock::now() + limit;
    while (!try_reap()) {
        if (Clock::now() >= deadline) return false;
        std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    return true;
}

}  // namespace autotune::tuner
