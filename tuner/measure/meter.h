#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "tuner/fixture/predecessor.h"
#include "tuner/fixture/problem_fixture.h"
#include "tuner/measure/filler.h"

namespace autotune::tuner {

// Times runnables on a fixture's rotating buffers as they are used: among other kernels. A sample is one replay of a graph of
// [filler, launch] pairs. The pairs take about a millisecond, and their number is a multiple of the rotation. The time of a graph
// with only the same number of fillers is subtracted. Launches so long that a rotation takes more than 20 ms are enqueued one by
// one. Throws DriverError.
class Meter {
  public:
    // `harness`: the library of kernel_templates/common/harness.cuh. REQUIRES: `gpu` outlives the meter.
    Meter(WorkerGpu& gpu, std::shared_ptr<const gpu::Library> harness) : gpu_(gpu), fillers_(gpu, std::move(harness)) {}

    struct Wanted {
        int samples = 5;
        double time_us = 0;
        int most_samples = 2000;
        Predecessor after = Predecessor::filler;
        std::function<void()> while_busy = {};  // called once per wait, while the GPU runs the samples
    };
    // The stream time that a single launch adds, in microseconds, at least 0.01: at least `samples` samples, which together cover
    // `time_us` of GPU time.
    std::vector<double> sample(ProblemFixture& fixture, Runnable& runnable, const Wanted& wanted);
    // Runs the kernel back to back for `seconds`.
    void warm(ProblemFixture& fixture, Runnable& runnable, double seconds);

    // A run without pauses, after fillers.
    struct Block {
        std::int64_t launches = 0;
        double gpu_us = 0;     // total time, fillers included
        double launch_us = 0;  // the time that one launch added, as in sample()
    };
    // Called every 10 ms or so while a block runs, with the number of launches known to have ended.
    using Watch = std::function<void(std::int64_t launches_done)>;
    Block block(ProblemFixture& fixture, Runnable& runnable, double seconds, const Watch& watch);
    // Times a block with only fillers. Its launch_us is a filler's time.
    Block filler_block(double seconds, const Watch& watch);
    // With 2, kernels run on two streams before each measurement, as in a program with several streams, in which launches take
    // longer.
    void set_streams(int streams) { streams_ = streams; }

  private:
    // A runnable with one predecessor.
    struct Timed {
        ProblemFixture& fixture;
        Runnable& runnable;
        Predecessor after;
        const TimedGraph* graph;  // nullptr if launches are enqueued one by one
        int launches;             // of a sample
        FillerTime filler;
        double gpu_us() const { return filler.of(launches) + runnable.single_us * launches; }
    };
    void change_streams();
    Timed prepare(ProblemFixture& fixture, Runnable& runnable, Predecessor after);
    void get_to_know(ProblemFixture& fixture, Runnable& runnable);
    void begin_series(ProblemFixture& fixture);
    FillerTime time_without(ProblemFixture& fixture, Predecessor after);
    TimedGraph captured(ProblemFixture& fixture, int launches, Predecessor after, const Runnable* runnable);
    const TimedGraph* graph_of(ProblemFixture& fixture, Runnable& runnable, Predecessor after);
    void enqueue_next(ProblemFixture& fixture, Runnable& runnable, Predecessor after);
    void launch(Timed& timed);
    std::vector<double> chain(Timed& timed, int samples, const std::function<void()>& while_busy);

    WorkerGpu& gpu_;
    Fillers fillers_;
    int streams_ = 1;
    std::vector<gpu::Event> events_;
};

}  // namespace autotune::tuner
