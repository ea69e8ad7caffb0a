#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "src/gpu/driver/driver.h"
#include "tuner/fixture/predecessor.h"
#include "tuner/fixture/problem_fixture.h"

namespace autotune::tuner {

// The time of a graph that has only fillers, each starting after the end of the previous one.
struct FillerTime {
    double per_graph_us = 0;   // the time of the gap between two graphs, which does not depend on the number of fillers
    double per_launch_us = 0;  // of each
    double of(int launches) const { return per_graph_us + per_launch_us * launches; }
};

// The small kernels before timed launches (kernel_templates/common/harness.cuh): one block of 256 threads per SM, one float per
// thread, so that they leave the L2 unchanged. Throws DriverError. REQUIRES: `gpu` outlives it.
class Fillers {
  public:
    Fillers(WorkerGpu& gpu, std::shared_ptr<const gpu::Library> harness);

    // Does nothing for Predecessor::itself.
    void enqueue(Predecessor which);
    // Alternates kernels between two streams, after which launches of this context take longer (docs/measuring.md).
    void run_on_two_streams();
    // Zero for Predecessor::itself. Measured again if the last measurement is older than 50 ms, because clocks change under load.
    FillerTime time(Predecessor which);
    // Runs only fillers until `go_on` returns false; returns how many. `go_on` is called every 10 ms or so while the GPU is busy,
    // with the number that have ended.
    std::int64_t run_alone(const std::function<bool(std::int64_t launches_done)>& go_on);

  private:
    using Clock = std::chrono::steady_clock;
    struct Alone {
        gpu::Graph few, many;
        FillerTime time;
        Clock::time_point measured_at;
    };
    void launch(Predecessor which, bool may_overlap, const gpu::Stream& stream);
    gpu::Graph graph_of(Predecessor which, int launches);
    Alone& alone(Predecessor which);
    void measure(Alone& alone);
    double median_us(const gpu::Graph& graph);

    WorkerGpu& gpu_;
    std::shared_ptr<const gpu::Library> harness_;
    gpu::Function plain_, trigger_;
    gpu::Buffer data_;
    std::map<Predecessor, Alone> alone_;
    std::vector<gpu::Event> events_;
};

}  // namespace autotune::tuner
