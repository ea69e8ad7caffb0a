#include "tests/support/fake/fake_run.h"

#include <fcntl.h>
#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <map>
#include <stdexcept>

#include "tests/support/fake/call_log.h"

extern char** environ;

namespace autotune::fake {
namespace {

namespace fs = std::filesystem;

double now_s() {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

std::vector<char*> pointers(const std::vector<std::string>& texts) {
    std::vector<char*> out;
    for (const std::string& text : texts) out.push_back(const_cast<char*>(text.c_str()));
    out.push_back(nullptr);
    return out;
}

void set_columns(int terminal, int columns) {
    winsize size = {};
    size.ws_row = 24;
    size.ws_col = static_cast<unsigned short>(columns);
    ioctl(terminal, TIOCSWINSZ, &size);
}

// A pipe, or a terminal whose other end is read.
struct Pipe {
    int read = -1, write = -1;
    explicit Pipe(int terminal_columns) {
        if (openpty(&read, &write, nullptr, nullptr, nullptr) != 0) throw std::runtime_error("openpty failed");
        fcntl(read, F_SETFD, FD_CLOEXEC);
        fcntl(write, F_SETFD, FD_CLOEXEC);
        set_columns(read, terminal_columns);
    }
    Pipe() {
        std::array<int, 2> ends{};
        if (pipe2(ends.data(), O_CLOEXEC) != 0) throw std::runtime_error("pipe2 failed");
        read = ends[0];
        write = ends[1];
    }
};

// Runs in the child, so it makes only async-signal-safe calls.
[[noreturn]] void become(char* const* command, char* const* environment, int in, int out, int err) {
    setpgid(0, 0);
    dup2(in, 0);
    dup2(out, 1);
    dup2(err, 2);
    execve(command[0], command, environment);
    _exit(127);
}

// Appends the available data. Returns false at the end of the file.
bool drain(int file, std::string& text) {
    std::array<char, 65536> chunk{};
    const ssize_t got = read(file, chunk.data(), chunk.size());
    if (got <= 0) return false;
    text.append(chunk.data(), static_cast<std::size_t>(got));
    return true;
}

std::string found_in_path(const std::string& program) {
    if (program.find('/') != std::string::npos) return program;
    for (const char* folder : {"/usr/local/bin/", "/usr/bin/", "/bin/"}) {
        if (access((folder + program).c_str(), X_OK) == 0) return folder + program;
    }
    return program;
}

void write_text(const fs::path& path, const std::string& text) {
    std::ofstream(path) << text;
}

}  // namespace

std::string interposer_library() {
    return AUTOTUNE_INTERPOSER;
}

std::string refusing_library() {
    return AUTOTUNE_REFUSING;
}

std::string autotune_binary() {
#ifdef AUTOTUNE_BINARY
    return AUTOTUNE_BINARY;
#else
    return "";
#endif
}

Running::Running(Running&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)),
      out_(std::exchange(other.out_, -1)),
      err_(std::exchange(other.err_, -1)),
      timeout_s_(other.timeout_s_),
      started_s_(other.started_s_) {}

Running::~Running() {
    if (pid_ > 0) {
        kill(-pid_, SIGKILL);
        kill(pid_, SIGKILL);
        waitpid(pid_, nullptr, 0);
    }
    for (const int file : {out_, err_}) {
        if (file >= 0) close(file);
    }
}

void Running::signal(int number) const {
    if (pid_ > 0) kill(pid_, number);
}

void Running::resize_terminal(int columns) const {
    set_columns(err_, columns);
}

Outcome Running::wait() {
    Outcome outcome;
    std::array<pollfd, 2> files{pollfd{out_, POLLIN, 0}, pollfd{err_, POLLIN, 0}};
    const double deadline = started_s_ + timeout_s_;
    int status = 0;
    bool is_over = false;
    // A grandchild may keep the pipes open, so reading ends when the process has ended and the pipes are empty.
    while (!is_over && now_s() < deadline) {
        is_over = waitpid(pid_, &status, WNOHANG) == pid_;
        poll(files.data(), files.size(), is_over ? 0 : 20);
        for (std::size_t i = 0; i < files.size(); ++i) {
            std::string& text = i == 0 ? outcome.out : outcome.err;
            while (files[i].fd >= 0 && (files[i].revents & (POLLIN | POLLHUP)) != 0) {
                if (!drain(files[i].fd, text))
                    files[i].fd = -1;
                else if (poll(&files[i], 1, 0) <= 0)
                    break;
            }
        }
    }
    if (!is_over) {
        outcome.timed_out = true;
        kill(-pid_, SIGKILL);
        kill(pid_, SIGKILL);
        waitpid(pid_, &status, 0);
    }
    pid_ = -1;
    outcome.wall_s = now_s() - started_s_;
    outcome.signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    outcome.exit_code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    return outcome;
}

Sandbox::Sandbox(const std::string& text) {
    std::string pattern = (fs::temp_directory_path() / "autotune-test-XXXXXX").string();
    if (mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("no temporary folder");
    folder_ = pattern;
    for (const char* name : {"home", "data", "cache", "state", "fake", "none"}) fs::create_directory(folder_ / name);
    script(text);
    clear_calls();
}

Sandbox::~Sandbox() {
    std::error_code ignored;
    fs::remove_all(folder_, ignored);
}

void Sandbox::script(const std::string& text) {
    std::error_code ignored;
    for (const auto& entry : fs::directory_iterator(folder_)) {
        if (entry.path().filename().string().rfind("script.", 0) == 0) fs::remove(entry.path(), ignored);
    }
    write_text(folder_ / "script", text);
}

// One folder for each combination, with links to the scripted libraries and, for libraries that must not be found, files that are
// no libraries.
std::string Sandbox::library_path(const RunOptions& options) const {
    const std::array<std::pair<const char*, Use>, 3> all{std::pair{"libcuda.so.1", options.driver},
                                                         std::pair{"libnvrtc.so.13", options.nvrtc},
                                                         std::pair{"libnvidia-ml.so.1", options.nvml}};
    std::string name = "lib";
    for (const auto& [library, use] : all) name += std::to_string(static_cast<int>(use));
    if (options.nvrtc_major != 13) name += "-" + std::to_string(options.nvrtc_major);
    const fs::path chosen = folder_ / name;
    if (fs::exists(chosen)) return chosen.string();
    fs::create_directory(chosen);
    for (const auto& [library, use] : all) {
        if (use == Use::fake) fs::create_symlink(fs::path(AUTOTUNE_FAKE_LIB) / library, chosen / library);
        if (use == Use::none) write_text(chosen / library, "not a library\n");
    }
    if (options.nvrtc_major != 13 && options.nvrtc == Use::fake) {
        fs::rename(chosen / "libnvrtc.so.13", chosen / ("libnvrtc.so." + std::to_string(options.nvrtc_major)));
        write_text(chosen / "libnvrtc.so.13", "not a library\n");
    }
    return chosen.string();
}

std::vector<std::string> Sandbox::environment(const RunOptions& options) const {
    std::map<std::string, std::string> all;
    for (char** entry = environ; *entry != nullptr; ++entry) {
        const std::string text = *entry;
        const std::size_t equals = text.find('=');
        if (equals != std::string::npos && text.rfind("AUTOTUNE_", 0) != 0) all[text.substr(0, equals)] = text.substr(equals + 1);
    }
    const std::string before = all.count("LD_LIBRARY_PATH") > 0 ? ":" + all["LD_LIBRARY_PATH"] : "";
    all["LD_LIBRARY_PATH"] = library_path(options) + before;
    all["HOME"] = (folder_ / "home").string();
    all["XDG_DATA_HOME"] = (folder_ / "data").string();
    // This folder is empty, so that shipped winners do not affect the test.
    all["AUTOTUNE_SHIPPED"] = (folder_ / "home").string();
    all["XDG_CACHE_HOME"] = (folder_ / "cache").string();
    all["XDG_STATE_HOME"] = (folder_ / "state").string();
    all["AUTOTUNE_LOCK_DIR"] = (folder_ / "locks").string();  // GPUs of different sandboxes have the same UUIDs
    if (const char* compiler = std::getenv("AUTOTUNE_NVRTC"); compiler != nullptr && options.nvrtc == Use::real)
        all["AUTOTUNE_NVRTC"] = compiler;
    all["AUTOTUNE_FAKE_SCRIPT"] = (folder_ / "script").string();
    all["AUTOTUNE_FAKE_LOG"] = (folder_ / "calls").string();
    for (const auto& [name, value] : options.environment) {
        if (value.empty())
            all.erase(name);
        else
            all[name] = value;
    }
    std::vector<std::string> out;
    for (const auto& [name, value] : all) out.push_back(name + "=" + value);
    return out;
}

Running Sandbox::start(const std::vector<std::string>& command, const RunOptions& options) const {
    std::vector<std::string> words = command;
    words.at(0) = found_in_path(words.at(0));
    const std::vector<std::string> variables = environment(options);
    const std::vector<char*> arguments = pointers(words);
    const std::vector<char*> environment_block = pointers(variables);
    const fs::path input = folder_ / "input";
    write_text(input, options.input);
    const int in = open(input.c_str(), O_RDONLY | O_CLOEXEC);
    const Pipe out;
    const Pipe err = options.terminal_columns > 0 ? Pipe(options.terminal_columns) : Pipe();
    Running running;
    running.timeout_s_ = options.timeout_s;
    running.started_s_ = now_s();
    running.pid_ = fork();
    if (running.pid_ == 0) become(arguments.data(), environment_block.data(), in, out.write, err.write);
    close(in);
    close(out.write);
    close(err.write);
    running.out_ = out.read;
    running.err_ = err.read;
    if (running.pid_ < 0) throw std::runtime_error("fork failed");
    return running;
}

Outcome Sandbox::run(const std::vector<std::string>& command, const RunOptions& options) const {
    return start(command, options).wait();
}

Outcome Sandbox::autotune(std::vector<std::string> arguments, const RunOptions& options) const {
    return start_autotune(std::move(arguments), options).wait();
}

Running Sandbox::start_autotune(std::vector<std::string> arguments, const RunOptions& options) const {
    if (autotune_binary().empty()) throw std::runtime_error("this build has no autotune command");
    arguments.insert(arguments.begin(), autotune_binary());
    return start(arguments, options);
}

std::vector<std::string> Sandbox::calls() const {
    return read_call_log((folder_ / "calls").string());
}

int Sandbox::count_calls(const std::string& text) const {
    const std::vector<std::string> all = calls();
    return static_cast<int>(
        std::count_if(all.begin(), all.end(), [&](const std::string& line) { return line.find(text) != std::string::npos; }));
}

void Sandbox::clear_calls() const {
    create_call_log((folder_ / "calls").string());
}

}  // namespace autotune::fake
