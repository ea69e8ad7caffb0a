#pragma once

#include <vector>

#include "tuner/workbench.h"

namespace autotune::tuner {

// Times runnables on a workbench's rotating buffers. Kernels of less than about 20 us are timed as a captured graph that goes
// once through the whole rotation, others as batches of back-to-back launches between events. Throws DriverError.
class Meter {
  public:
    explicit Meter(BenchGpu& gpu) : gpu_(gpu) {}

    struct Wanted {
        int samples = 5;
        double time_us = 0;
        int most_samples = 2000;
    };
    // Times of single launches in microseconds: at least `samples` that cover `time_us` together.
    std::vector<double> sample(Workbench& bench, Runnable& runnable, const Wanted& wanted);
    // Keeps the GPU busy with it for so long.
    void warm(Workbench& bench, Runnable& runnable, double seconds);

  private:
    void get_to_know(Workbench& bench, Runnable& runnable);
    void build_graph(Workbench& bench, Runnable& runnable);
    void launch(Workbench& bench, Runnable& runnable, int count);
    std::vector<double> chain(Workbench& bench, Runnable& runnable, int samples);
    int launches_per_sample(const Runnable& runnable) const;

    BenchGpu& gpu_;
    std::vector<gpu::Event> events_;
};

}  // namespace autotune::tuner
