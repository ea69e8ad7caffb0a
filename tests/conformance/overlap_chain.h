#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "src/core/family/launch_plan.h"
#include "src/core/problem/problem.h"
#include "src/gpu/driver/driver.h"
#include "src/jit/kernel.h"
#include "tests/conformance/hand_over.h"
#include "tuner/fixture/harness.h"

namespace autotune::test {

// Launches on one stream, each of which reads what the one before wrote and overwrites what that one read: two buffers, so that a
// kernel that starts before its turn reads old values or spoils its predecessor's. docs/measuring.md names this test "overlap".
//
//   step i:  buffer[1 - i % 2] = op(buffer[i % 2])          by the links in turn
//            buffer[1 - i % 2] += buffer[i % 2]             if the chain has an adding link; in place
//
// Where the problem accumulates all steps read and write one buffer.
class OverlapChain {
  public:
    static constexpr int kSteps = 24;

    // A kernel that takes part, loaded.
    struct Kernel {
        Problem problem;
        LaunchPlan plan;
        std::shared_ptr<const gpu::Library> library;
        std::string symbol;
    };

    // All links have the same problem. REQUIRES: hand_over(links[0].problem); the stream and the harness outlive the chain.
    // Throws DriverError.
    OverlapChain(std::shared_ptr<const gpu::Driver> driver, const gpu::Stream& stream, tuner::Harness& harness,
                 const std::vector<Kernel>& links);
    // c = a + b on as many elements as the buffers have.
    void add_in_place(const Kernel& adding);

    // Of `runs` replays of the chain captured in a graph, how many end with other bits than the chain launched one kernel at a
    // time, with a wait after each and without programmatic dependent launch.
    int wrong(int runs);
    // Whether the right answer tells anything: not all NaN, and other bits after one step more.
    bool is_telling();

  private:
    struct Link {
        Problem problem;
        std::unique_ptr<jit::BoundLaunch> overlapping, apart;
        gpu::Buffer workspace;
        std::vector<std::uint64_t> scalars;
        std::vector<gpu::Buffer> tensors;  // those that are not handed on; of one byte where they are
        HandOver hand;
        bool in_place = false;
    };
    Link make_link(const Kernel& kernel);
    const gpu::Buffer& buffer(int step) const;  // that step `step` reads
    void launch(const Link& link, bool overlapping, int step);
    void launch_step(int step, bool overlapping);
    void begin();
    std::uint64_t end(int steps) const;
    std::uint64_t one_at_a_time(int steps);

    std::shared_ptr<const gpu::Driver> driver_;
    const gpu::Stream& stream_;
    tuner::Harness& harness_;
    Tensor handed_;
    std::vector<gpu::Buffer> buffers_;
    std::vector<Link> links_;
    std::vector<Link> adding_;  // none or one
};

}  // namespace autotune::test
