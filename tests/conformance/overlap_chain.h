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

// Launches on one stream, each of which reads what the previous one wrote, and overwrites what the previous one read. With two
// buffers, a kernel that starts before its turn reads old values or corrupts its predecessor's. docs/measuring.md calls this test
// "overlap".
//
// - step i: buffer[1 - i % 2] = op(buffer[i % 2]), by the links alternately
// - if the chain has an adding link: buffer[1 - i % 2] += buffer[i % 2], in place
//
// If the problem accumulates, all steps read and write one buffer.
class OverlapChain {
  public:
    static constexpr int kSteps = 24;

    // A loaded kernel of the chain.
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

    // Replays the chain `runs` times from a graph. Returns how many replays end with other bits than a run without any overlap:
    // one kernel at a time, without programmatic dependent launch.
    int wrong(int runs);
    // Whether the right result can show faults: not all NaN, and different bits after one more step.
    bool is_telling();

  private:
    struct Link {
        Problem problem;
        std::unique_ptr<jit::BoundLaunch> overlapping, apart;
        gpu::Buffer workspace;
        std::vector<std::uint64_t> scalars;
        std::vector<gpu::Buffer> tensors;  // tensors that are not passed from launch to launch; for those that are, one byte
        HandOver hand;
        bool in_place = false;
    };
    Link make_link(const Kernel& kernel);
    const gpu::Buffer& buffer(int step) const;  // the buffer that step `step` reads
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
