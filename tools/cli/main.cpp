#include <pthread.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <climits>
#include <iostream>
#include <string>
#include <vector>

#include "tools/cli/cli.h"
#include "tools/cli/output/terminal/messages.h"
#include "tools/cli/output/terminal/output_stream.h"
#include "tuner/session/tune.h"
#include "tuner/worker/build_id.h"

namespace {

std::atomic<bool> stop_requested{false};
std::atomic<bool> saves_on_interrupt{false};
static_assert(std::atomic<bool>::is_always_lock_free, "a signal handler may only touch what needs no lock");

// The first signal tells a command that has something to save: it keeps what it has and returns. The second signal ends the
// process, as the first one does for every other command.
void on_stop_signal(int signal) {
    struct sigaction fallback = {};
    fallback.sa_handler = SIG_DFL;
    sigaction(signal, &fallback, nullptr);
    if (saves_on_interrupt.load()) {
        stop_requested.store(true);
    } else {
        raise(signal);  // the signal is blocked until this handler returns
    }
}

// Resets what a program inherits from its parent. A parent's threads often block signals (JVM, .NET, Python), so that only
// SIGKILL could end this process, and a parent that ignores SIGCHLD would hide how workers ended. Signals that shells ignore on
// purpose for a background job stay ignored: SIGINT, SIGQUIT, SIGHUP and the signals that stop a job.
void reset_inherited_signals() {
    sigset_t none;
    sigemptyset(&none);
    pthread_sigmask(SIG_SETMASK, &none, nullptr);
    for (int signal = 1; signal < NSIG; ++signal) {
        switch (signal) {
            case SIGINT:
            case SIGQUIT:
            case SIGHUP:
            case SIGTSTP:
            case SIGTTIN:
            case SIGTTOU:
                break;
            default:
                ::signal(signal, SIG_DFL);  // the system refuses this for SIGKILL and SIGSTOP
        }
    }
}

void listen_for_stop() {
    struct sigaction action = {};
    action.sa_handler = on_stop_signal;
    sigemptyset(&action.sa_mask);
    for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
        // A shell that starts this process in the background ignores SIGINT for it, and nohup ignores SIGHUP. Both stay ignored.
        struct sigaction before = {};
        if (sigaction(signal, nullptr, &before) == 0 && before.sa_handler != SIG_IGN) sigaction(signal, &action, nullptr);
    }
}

// Returns 0 if standard error is not a terminal. The width is queried each time, because windows are resized.
std::size_t columns_of_terminal() {
    winsize size = {};
    return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

std::string own_path() {
    char path[PATH_MAX];
    const ssize_t length = readlink("/proc/self/exe", path, sizeof path);
    return length > 0 ? std::string(path, static_cast<std::size_t>(length)) : "/proc/self/exe";
}

std::vector<std::string> shipped_folders(const std::string& binary) {
    const std::string prefix = binary.substr(0, binary.rfind('/'));
    std::vector<std::string> folders = {prefix + "/../share/autotune/winners"};
    const std::string build_tree = AUTOTUNE_BUILD_TREE_WINNERS;  // empty in a portable build
    if (!build_tree.empty()) folders.push_back(build_tree);
    return folders;
}

// The folder of the compiler in a build without a toolkit: installed with the command, or fetched into the build tree.
std::vector<std::string> compiler_folders(const std::string& binary) {
    std::vector<std::string> folders = {binary.substr(0, binary.rfind('/')) + "/../" AUTOTUNE_COMPILER_FOLDER};
    const std::string build_tree = AUTOTUNE_BUILD_TREE_COMPILER;  // empty if a toolkit was found
    if (!build_tree.empty()) folders.push_back(build_tree);
    return folders;
}

int run_program(const std::vector<std::string>& words) {
    // Workers come first, because they share nothing with the command but the binary.
    if (!words.empty() && words.front() == "__worker") {
        const autotune::tuner::WorkerEnd end = autotune::tuner::worker_main({words.begin() + 1, words.end()});
        if (!end.message.empty()) autotune::cli::say(std::cerr, autotune::cli::Message::error, end.message);
        return end.exit_code;
    }

    std::ios::sync_with_stdio(false);
    listen_for_stop();
    // If a reader goes away, the stream reports an error, instead of a signal that ends a tune.
    signal(SIGPIPE, SIG_IGN);
    // A write beyond the file size limit reports an error too.
    signal(SIGXFSZ, SIG_IGN);
    autotune::cli::OutputBuffer out_buffer(STDOUT_FILENO);
    std::ostream out(&out_buffer);
    const auto environment = autotune::cli::Environment::of_process();
    const std::string binary = own_path();
    const auto services = autotune::cli::real_services(environment, compiler_folders(binary));
    autotune::cli::Cli cli({.out = out,
                            .err = std::cerr,
                            .out_is_terminal = isatty(STDOUT_FILENO) == 1,
                            .err_is_terminal = isatty(STDERR_FILENO) == 1,
                            .out_failure = [&out_buffer] { return out_buffer.failure(); },
                            .err_columns = columns_of_terminal},
                           environment, *services,
                           {.binary = "/proc/self/exe",  // so that workers run this build even if the file is replaced
                            .build = autotune::tuner::build_id(),
                            .version = AUTOTUNE_VERSION,
                            .shipped_folders = shipped_folders(binary),
                            .stop = &stop_requested,
                            .saves_on_interrupt = &saves_on_interrupt});
    return static_cast<int>(cli.run(words));
}

// Under `ulimit -s 80` the stack of the first thread is too small for this program, and so are the default stacks of other
// threads, including those of compilers. A thread that we start ourselves may have any stack size.
constexpr std::size_t kStackBytes = std::size_t{8} << 20;

bool has_little_stack() {
    rlimit limit = {};
    return getrlimit(RLIMIT_STACK, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY && limit.rlim_cur < kStackBytes / 4;
}

struct Call {
    std::vector<std::string> words;
    int exit_code = 1;
};

void* run_call(void* data) {
    auto& call = *static_cast<Call*>(data);
    call.exit_code = run_program(call.words);
    return nullptr;
}

}  // namespace

int main(int argc, char** argv) {
    reset_inherited_signals();
    Call call{{argv + std::min(argc, 1), argv + argc}};
    if (!has_little_stack()) return run_program(call.words);
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, kStackBytes);
    pthread_setattr_default_np(&attributes);
    pthread_t thread = {};
    if (pthread_create(&thread, &attributes, run_call, &call) != 0) return run_program(call.words);
    pthread_join(thread, nullptr);
    return call.exit_code;
}
