#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <string>

namespace autotune::tuner {

// Problems whose tune failed, one per line of a file, so that a restarted worker waits a day before it tries them again. If the
// file cannot be written, a restarted worker does not know the failures.
class FailedProblems {
  public:
    using Time = std::chrono::system_clock::time_point;
    using Now = std::function<Time()>;
    // If `path` is empty, only this process remembers failures.
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
