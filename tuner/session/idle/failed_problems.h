#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <string>

namespace autotune::tuner {

// Problems whose tune failed, in a file of a line each, so that a worker that is started again does not try them at once: it
// waits for a day. A file that cannot be written costs that, and nothing else.
class FailedProblems {
  public:
    using Time = std::chrono::system_clock::time_point;
    using Now = std::function<Time()>;
    // `path` empty: remembered by this process alone.
    explicit FailedProblems(
        std::string path, Now now = [] { return std::chrono::system_clock::now(); });

    // Why it failed within the last day; empty if it did not. `device`: a device key.
    std::string why(const std::string& problem, const std::string& device) const;
    void add(const std::string& problem, const std::string& device, const std::string& why);

  private:
    struct Failure {
        Time at;
        std::string why;
    };
    static std::string key_of(const std::string& problem, const std::string& device) { return problem + " on " + device; }
    bool is_old(Time at) const;
    void read();
    void rewrite() const;

    std::string path_;
    Now now_;
    std::map<std::string, Failure> failures_;
};

}  // namespace autotune::tuner
