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

// What a graph of fillers alone takes, each after the end of the one before.
struct FillerTime {
    double per_graph_us = 0;   // however many stand in it: the gap between two graphs
    double per_launch_us = 0;  // of each
    double of(int launches) const { return per_graph_us + per_launch_us * launches; }
};

// The small kernels that stand before timed launches (kernel_templates/common/harness.cuh): one block of 256 threads an SM, one
// float a thread, so that they leave the L2 as they found it. Throws DriverError. REQUIRES: `gpu` outlives it.
class Fillers {
  public:
    Fillers(WorkerGpu& gpu, std::shared_ptr<const gpu::Library> harness);

    // Nothing for Predecessor::itself.
    void enqueue(Predecessor which);
    // Runs kernels on two streams in turns, after which launches of this context take longer (docs/measuring.md).
    void run_on_two_streams();
    // Zero for Predecessor::itself. Measured again when the last measurement is older than 50 ms: clocks change under load.
    FillerTime time(Predecessor which);
    // Runs fillers alone until `go_on` says no; returns how many. It is asked every 10 ms or so while the GPU works on, and told
    // how many have ended.
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
