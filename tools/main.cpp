#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <climits>
#include <iostream>
#include <string>
#include <vector>

#include "tools/cli/cli.h"
#include "tuner/tune.h"

namespace {

std::atomic<bool> stop_requested{false};
static_assert(std::atomic<bool>::is_always_lock_free, "a signal handler may only touch what needs no lock");

// The first signal asks; the tuner keeps what it has and returns. The second one ends the process.
void on_stop_signal(int signal) {
    stop_requested.store(true);
    struct sigaction fallback = {};
    fallback.sa_handler = SIG_DFL;
    sigaction(signal, &fallback, nullptr);
}

void listen_for_stop() {
    struct sigaction action = {};
    action.sa_handler = on_stop_signal;
    sigemptyset(&action.sa_mask);
    for (const int signal : {SIGINT, SIGTERM}) {
        // A shell that starts us in the background ignores SIGINT for us: leave that as it is.
        struct sigaction before = {};
        if (sigaction(signal, nullptr, &before) == 0 && before.sa_handler != SIG_IGN) sigaction(signal, &action, nullptr);
    }
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

}  // namespace

int main(int argc, char** argv) {
    const std::vector<std::string> words(argv + std::min(argc, 1), argv + argc);
    // Workers first: they share nothing with the command but the binary.
    if (!words.empty() && words.front() == "__worker") return autotune::tuner::worker_main({words.begin() + 1, words.end()});

    std::ios::sync_with_stdio(false);
    listen_for_stop();
    // A reader that goes away is an error of the stream, told in words, and not a silent death in the middle of a tune.
    signal(SIGPIPE, SIG_IGN);
    // So is a file that may not grow.
    signal(SIGXFSZ, SIG_IGN);
    const auto services = autotune::cli::real_services();
    const std::string binary = own_path();
    autotune::cli::Cli cli(
        {.out = std::cout, .err = std::cerr, .out_is_terminal = isatty(1) == 1, .err_is_terminal = isatty(2) == 1},
        autotune::cli::Environment::of_process(), *services,
        {.binary = binary, .version = AUTOTUNE_VERSION, .shipped_folders = shipped_folders(binary), .stop = &stop_requested});
    return static_cast<int>(cli.run(words));
}
