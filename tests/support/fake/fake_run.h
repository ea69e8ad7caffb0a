#pragma once

#include <sys/types.h>

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace autotune::fake {

enum class Use { fake, real, none };

struct RunOptions {
    Use driver = Use::fake;  // real: the one that the loader finds; none: a libcuda.so.1 that cannot be opened hides any real one
    Use nvrtc = Use::fake;
    Use nvml = Use::fake;
    int nvrtc_major = 13;  // in the name of the scripted compiler's file; the script sets the version that it reports
    double timeout_s = 60;
    std::vector<std::pair<std::string, std::string>>
        environment{};         // added last, so it overrides other values; an empty value removes the variable
    std::string input{};       // standard input
    int terminal_columns = 0;  // > 0: standard error is a terminal this wide
};

// How a command ended.
struct Outcome {
    int exit_code = -1;  // or 128 + signal if a signal ended it
    int signal = 0;
    bool timed_out = false;  // whether it was killed, with its process group, because its time was over
    double wall_s = 0;
    std::string out;
    std::string err;
};

// A running command in a process group of its own, which is killed if it is still alive at destruction.
class Running {
  public:
    ~Running();
    Running(Running&& other) noexcept;
    Running& operator=(Running&&) = delete;
    pid_t pid() const { return pid_; }
    void signal(int number) const;  // only to the process
    void resize_terminal(int columns) const;
    Outcome wait();  // at most the run's timeout

  private:
    friend class Sandbox;
    Running() = default;
    pid_t pid_ = -1;
    int out_ = -1, err_ = -1;
    double timeout_s_ = 0;
    double started_s_ = 0;
};

// A machine with scripted driver, compiler and NVML, and private home, database and cache folders, which persist between runs.
// Everything is removed with the object.
class Sandbox {
  public:
    explicit Sandbox(const std::string& script = "");
    ~Sandbox();
    Sandbox(const Sandbox&) = delete;
    Sandbox& operator=(const Sandbox&) = delete;

    // Replaces the script (documented in README.md in this folder) and forgets which `once` rules have fired.
    void script(const std::string& text);
    const std::filesystem::path& folder() const { return folder_; }

    Outcome run(const std::vector<std::string>& command, const RunOptions& options = {}) const;
    Running start(const std::vector<std::string>& command, const RunOptions& options = {}) const;
    // The autotune command that was built with the tests.
    Outcome autotune(std::vector<std::string> arguments, const RunOptions& options = {}) const;
    Running start_autotune(std::vector<std::string> arguments, const RunOptions& options = {}) const;

    // Calls of the scripted libraries since the sandbox was made or clear_calls(): "PID cuMemAlloc 4096", "PID
    // nvrtcCompileProgram SYMBOL ARCH", "PID execute SYMBOL".
    std::vector<std::string> calls() const;
    // How many of them contain `text`.
    int count_calls(const std::string& text) const;
    void clear_calls() const;

  private:
    std::vector<std::string> environment(const RunOptions& options) const;
    std::string library_path(const RunOptions& options) const;
    std::filesystem::path folder_;
};

// The library for LD_PRELOAD that counts (tests/support/interposer/interposer.h).
std::string interposer_library();
// The library for LD_PRELOAD that makes calls of the C library fail (tests/support/refusing.cpp).
std::string refusing_library();
// Path of the autotune command; empty if this build has none.
std::string autotune_binary();

}  // namespace autotune::fake
