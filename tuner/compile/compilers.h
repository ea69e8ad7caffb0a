#pragma once

#include <poll.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "src/core/system/clock.h"
#include "src/jit/compiler.h"

namespace autotune::tuner {

// An instance, or why there is none.
struct CompileOutcome {
    std::shared_ptr<const jit::Compiled> compiled;
    CompileReport report;
    std::string failure;           // one sentence; empty if compiled
    bool by_circumstance = false;  // caused by the machine (Trial::by_circumstance)
    std::string rejected;          // the compiler's report disqualifies it
    std::string log;
};
// The outcome for an instance found in the cubin cache.
CompileOutcome outcome_from_cache(jit::Compiled found);

// Compiles instances in the background, each once: in a pool of this process (CompilePool), or in that of the parent of several
// lanes. Driven by the caller's poll loop; callbacks run inside submit() (if cached) or serve().
class Compilers {
  public:
    using Callback = std::function<void(const CompileOutcome&)>;
    struct Job {
        jit::Rendered rendered;
        int urgency = 1;          // 0 before 1 before 2
        int owner = 0;            // for cancel()
        std::string keep_folder;  // for sources, logs and cubins that people may read; empty: none
        int client = 0;           // jobs of equal urgency alternate between clients
    };

    virtual ~Compilers() = default;

    virtual void submit(Job job, Callback done) = 0;
    // Drops the callbacks of an owner, and every job that has not begun and that nobody else waits for.
    virtual void cancel(int owner) = 0;

    // Descriptors to wait on, and the call to make after waiting.
    virtual void add_to(std::vector<pollfd>& fds) const = 0;
    virtual void serve() = 0;
    virtual std::optional<Clock::time_point> next_deadline() const = 0;

    // Suspends the compilers, so that timing has the machine to itself. New jobs wait.
    virtual void pause() = 0;
    virtual void resume() = 0;
    // How many can compile at once, and how many jobs are not done.
    virtual std::size_t capacity() const = 0;
    virtual std::size_t pending() const = 0;
    virtual int compiled() const = 0;
    virtual double busy_seconds() const = 0;
    // NVRTC's version; nullopt until a compiler has reported it.
    virtual std::optional<std::string> nvrtc_version() = 0;

  protected:
    Compilers() = default;
    Compilers(const Compilers&) = default;
    Compilers& operator=(const Compilers&) = default;
};

}  // namespace autotune::tuner
