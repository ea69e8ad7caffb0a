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

// What a rival runs on.
struct RivalGpu {
    std::shared_ptr<const gpu::Driver> driver;
    gpu::StreamHandle stream{};
    std::vector<std::string> library_folders{};  // searched after the loader's own path
};

// Enqueues a problem once, on the tensors of a problem in its own order (address 0 of an absent one). Can be captured in a graph:
// it allocates nothing and waits for nothing. Keeps alive what it needs. Throws Error{driver} where the library refuses the call.
using RivalLaunch = std::function<void(std::span<const gpu::DeviceAddress> tensors)>;

// A rival, made ready for one problem.
struct PreparedRival {
    // The ways that it knows to run the problem, best first by its own ranking. Of several the caller takes the fastest.
    std::vector<RivalLaunch> ways{};
    std::string why_not{};  // in one sentence, where there is none
};

// Somebody else's kernels for problems of an op, timed beside ours and never chosen: a vendor's library. One object for an op and
// a process; it may keep a library open. Not thread-safe.
class Rival {
  public:
    virtual ~Rival() = default;
    Rival() = default;
    Rival(const Rival&) = delete;
    Rival& operator=(const Rival&) = delete;

    // A word of `--against`: "cublas".
    virtual std::string_view name() const = 0;
    // Why it has no entry for a problem of its op, in one sentence; empty: it has one. Needs neither GPU nor library.
    virtual std::string refuses(const Problem& problem) const = 0;
    // Loads what it needs at first use. Sets alpha and beta as in problem.scalars. REQUIRES: refuses() is empty, and the context
    // of `gpu` is current. Throws Error{driver}, DriverError.
    virtual PreparedRival prepare(const Problem& problem, const RivalGpu& gpu) = 0;
    // Whether it runs in the final rounds of every tune, so that evidence tells how far the winner is from it. No: where its
    // choices take long to race.
    virtual bool joins_tunes() const { return true; }
};

// The rivals of an op: what rivals_<op>() in kernel_templates/<op>/rivals/ returns. Nothing is loaded yet. Empty for other ops.
std::vector<std::unique_ptr<Rival>> rivals_of(std::string_view op);
// Names of all ops' rivals, each once, in alphabetical order.
std::vector<std::string> rival_names();
// Names of the rivals of an op that take a problem and run in the final rounds of its tune.
std::vector<std::string> rivals_in_tunes(const Problem& problem);

}  // namespace autotune
