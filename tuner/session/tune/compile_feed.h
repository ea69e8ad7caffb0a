#pragma once

#include <cstddef>
#include <deque>
#include <optional>
#include <string>

#include "tuner/session/engine/run_shared.h"
#include "tuner/session/tune/candidates.h"

namespace autotune::tuner {

// Feeds the candidates of one problem to the compile pool, after the harness and the reference, which everything waits for. Its
// destruction cancels what it has begun.
class CompileFeed {
  public:
    struct Ready {
        std::size_t point;
        CompileOutcome outcome;
    };
    struct Options {
        const Problem& problem;
        const Candidates& candidates;
        std::string keep_folder;  // for sources, logs and cubins that people may read; empty: none
        int urgency = 1;          // 1 for the current problem, 2 for the next one
    };
    // Begins with the harness and the reference. REQUIRES: what the options refer to outlives it.
    CompileFeed(RunShared& shared, Options options);
    ~CompileFeed() { stop(); }
    CompileFeed(const CompileFeed&) = delete;
    CompileFeed& operator=(const CompileFeed&) = delete;

    const std::string& nvrtc() const { return nvrtc_; }
    // Urgency of later submissions.
    void raise_priority() { options_.urgency = 1; }
    void submit(std::size_t point);
    // The next compiled candidate, in the order of completion; nullopt while there is none.
    std::optional<Ready> next();
    // Drops what is not compiled yet. Compiled candidates stay.
    void stop();

    std::size_t compiling() const { return compiling_; }
    std::size_t under_way() const { return compiling_ + ready_.size(); }
    // How many more would keep all compilers busy while the GPU works.
    std::size_t room() const;
    // Throws Error{compile_failed} if one of them does not compile: here, not in the loop, which may be serving another problem.
    bool has_judges() const;
    const Instance& harness() const { return harness_; }
    const Instance& reference() const { return reference_; }
    // Busy seconds of all compilers since this object was made.
    double busy_seconds() const { return shared_.engine.pool().busy_seconds() - busy_before_s_; }

  private:
    void request(const jit::Rendered& rendered, Instance& place);
    jit::Target target() const { return {shared_.engine.services().device.arch(), nvrtc_}; }

    RunShared& shared_;
    Options options_;
    int owner_;
    std::string nvrtc_;
    double busy_before_s_;
    Instance harness_, reference_;
    std::string judges_failure_;
    std::deque<Ready> ready_;
    std::size_t compiling_ = 0;
};

}  // namespace autotune::tuner
