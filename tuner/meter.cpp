#include "tuner/meter.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <numeric>

namespace autotune::tuner {
namespace {

constexpr double kGraphBelow_us = 20;  // below, the host cannot launch as fast as the card runs
constexpr double kLong_us = 20'000;    // a launch that takes this long is not worth repeating to know it
constexpr double kBatch_us = 200;      // events resolve about 0.5 us: 0.25 % of this
constexpr int kLeastGraphLaunches = 20;
constexpr std::size_t kLongestChain = 32;  // samples enqueued before the host waits
constexpr double kChain_us = 50'000;

}  // namespace

std::vector<double> Meter::sample(Workbench& bench, Runnable& runnable, const Wanted& wanted) {
    get_to_know(bench, runnable);
    std::vector<double> samples;
    double covered_us = 0;
    while (static_cast<int>(samples.size()) < wanted.most_samples) {
        const int missing = wanted.samples - static_cast<int>(samples.size());
        if (missing <= 0 && covered_us >= wanted.time_us) break;
        const double per_sample_us = std::max(runnable.single_us, 0.01) * launches_per_sample(runnable);
        const double for_time = std::ceil(std::max(wanted.time_us - covered_us, 0.0) / per_sample_us);
        const double fits = std::max(1.0, kChain_us / per_sample_us);
        const double next = std::min({std::max<double>(missing, for_time), fits, static_cast<double>(kLongestChain)});
        const int left = wanted.most_samples - static_cast<int>(samples.size());
        const std::vector<double> got = chain(bench, runnable, std::clamp(static_cast<int>(next), 1, left));
        covered_us += std::accumulate(got.begin(), got.end(), 0.0) * launches_per_sample(runnable);
        samples.insert(samples.end(), got.begin(), got.end());
    }
    return samples;
}

void Meter::warm(Workbench& bench, Runnable& runnable, double seconds) {
    get_to_know(bench, runnable);
    const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
    while (std::chrono::steady_clock::now() < end) {
        const double per_launch_us = std::max(runnable.single_us, 1.0);
        const double stretch_us = std::min(20'000.0, seconds * 1e6);
        launch(bench, runnable, std::clamp(static_cast<int>(stretch_us / per_launch_us), 1, 2000));
        gpu_.stream.synchronize();
    }
}

// One launch to warm caches and code, a few to learn how long one takes. Of a long one the first says enough.
void Meter::get_to_know(Workbench& bench, Runnable& runnable) {
    if (runnable.single_us > 0) return;
    gpu::Event from(gpu_.driver), to(gpu_.driver);
    from.record(gpu_.stream.handle());
    launch(bench, runnable, 1);
    to.record(gpu_.stream.handle());
    to.synchronize();
    if (const double first_us = gpu::elapsed_us(from, to); first_us > kLong_us) {
        runnable.single_us = first_us;
        return;
    }
    constexpr int kLaunches = 3;
    from.record(gpu_.stream.handle());
    launch(bench, runnable, kLaunches);
    to.record(gpu_.stream.handle());
    to.synchronize();
    runnable.single_us = std::max(gpu::elapsed_us(from, to) / kLaunches, 0.1);
    if (runnable.single_us < kGraphBelow_us) build_graph(bench, runnable);
}

void Meter::build_graph(Workbench& bench, Runnable& runnable) {
    runnable.graph_launches = std::max(bench.rotation_sets(), kLeastGraphLaunches);
    runnable.graph.emplace(gpu::Graph::capture(gpu_.driver, gpu_.stream, [&] {
        for (int i = 0; i < runnable.graph_launches; ++i) runnable.enqueue(bench.rotation(i));
    }));
    runnable.graph->launch(gpu_.stream.handle());
    gpu_.stream.synchronize();
}

void Meter::launch(Workbench& bench, Runnable& runnable, int count) {
    if (runnable.graph) {
        for (int done = 0; done < count; done += runnable.graph_launches) runnable.graph->launch(gpu_.stream.handle());
        return;
    }
    for (int i = 0; i < count; ++i) {
        runnable.enqueue(bench.rotation(runnable.next_set));
        runnable.next_set = (runnable.next_set + 1) % bench.rotation_sets();
    }
}

int Meter::launches_per_sample(const Runnable& runnable) const {
    if (runnable.graph) return runnable.graph_launches;
    return std::max(1, static_cast<int>(std::ceil(kBatch_us / runnable.single_us)));
}

// Samples back to back: event, batch, event, batch, ... so that no launch latency lies between them.
std::vector<double> Meter::chain(Workbench& bench, Runnable& runnable, int samples) {
    const auto count = static_cast<std::size_t>(samples);
    while (events_.size() < count + 1) events_.emplace_back(gpu_.driver);
    const int batch = launches_per_sample(runnable);
    events_[0].record(gpu_.stream.handle());
    for (std::size_t i = 0; i < count; ++i) {
        launch(bench, runnable, batch);
        events_[i + 1].record(gpu_.stream.handle());
    }
    events_[count].synchronize();
    std::vector<double> times;
    for (std::size_t i = 0; i < count; ++i) times.push_back(gpu::elapsed_us(events_[i], events_[i + 1]) / batch);
    return times;
}

}  // namespace autotune::tuner
