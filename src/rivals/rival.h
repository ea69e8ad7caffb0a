#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "src/core/problem/problem.h"
#include "src/gpu/driver/driver.h"

namespace autotune {

// The GPU resources that a rival may use.
struct RivalGpu {
    std::shared_ptr<const gpu::Driver> driver;
    gpu::StreamHandle stream{};
    std::vector<std::string> library_folders{};  // searched after the loader's own path
};

// Enqueues a problem once, on its tensors in the problem's order (address 0 for an absent one). Can be captured in a graph: it
// allocates nothing and waits for nothing. Keeps what it needs alive. Throws Error{driver} if the library refuses the call.
using RivalLaunch = std::function<void(std::span<const gpu::DeviceAddress> tensors)>;

// A rival, made ready for one problem.
struct PreparedRival {
    // The rival's ways to run the problem, best first by its own ranking. The caller uses the fastest.
    std::vector<RivalLaunch> ways{};
    std::string why_not{};  // one sentence, if there is no way
};

// Another library's kernels for problems of an op, for example a vendor's. They are timed next to ours and never chosen. One
// object per op and process; it may keep a library open. Not thread-safe.
class Rival {
  public:
    virtual ~Rival() = default;
    Rival() = default;
    Rival(const Rival&) = delete;
    Rival& operator=(const Rival&) = delete;

    // Its name for `--against`: "cublas".
    virtual std::string_view name() const = 0;
    // Why it cannot run a problem of its op, in one sentence; empty if it can. Needs neither GPU nor library.
    virtual std::string refuses(const Problem& problem) const = 0;
    // Loads what it needs at first use. Takes alpha and beta from problem.scalars. REQUIRES: refuses() is empty, and the context
    // of `gpu` is current. Throws Error{driver}, DriverError.
    virtual PreparedRival prepare(const Problem& problem, const RivalGpu& gpu) = 0;
    // Whether it runs in the final rounds of every tune, so that the evidence compares the winner with it. False for rivals whose
    // variants take long to race.
    virtual bool joins_tunes() const { return true; }
};

// The rivals of an op, from rivals_<op>() in kernel_templates/<op>/rivals/. Nothing is loaded yet. Empty for ops without rivals.
std::vector<std::unique_ptr<Rival>> rivals_of(std::string_view op);
// Names of all ops' rivals, each once, in alphabetical order.
std::vector<std::string> rival_names();
// Names of the rivals of an op that accept a problem and run in the final rounds of its tune.
std::vector<std::string> rivals_in_tunes(const Problem& problem);

}  // namespace autotune
