#include "tuner/measure/meter.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <numeric>

#include "src/core/statistics/statistics.h"
#include "src/core/system/clock.h"

namespace autotune::tuner {
namespace {

constexpr double kLong_us = 20'000;   // a launch that takes this long need not be repeated
constexpr double kSample_us = 1'000;  // events resolve about 0.5 us
// Longer samples are not measured in graphs, because failed and slow candidates would take seconds.
constexpr double kLongestSample_us = 20'000;
constexpr double kLeast_us = 0.01;  // the least time that is reported, for a launch that overlaps completely with its neighbours
constexpr std::size_t kLongestChain = 32;  // this many samples are enqueued before the host waits
constexpr double kChain_us = 50'000;
constexpr double kStretch_us = 10'000;  // the length of a block between two waits

}  // namespace

std::vector<double> Meter::sample(ProblemFixture& fixture, Runnable& runnable, const Wanted& wanted) {
    Timed timed = prepare(fixture, runnable, wanted.after);
    std::vector<double> samples;
    double covered_us = 0;
    while (static_cast<int>(samples.size()) < wanted.most_samples) {
        const int missing = wanted.samples - static_cast<int>(samples.size());
        if (missing <= 0 && covered_us >= wanted.time_us) break;
        const double for_time = std::ceil(std::max(wanted.time_us - covered_us, 0.0) / timed.gpu_us());
        const double fits = std::max(1.0, kChain_us / timed.gpu_us());
        const double next = std::min({std::max<double>(missing, for_time), fits, static_cast<double>(kLongestChain)});
        const int left = wanted.most_samples - static_cast<int>(samples.size());
        const std::vector<double> got = chain(timed, std::clamp(static_cast<int>(next), 1, left), wanted.while_busy);
        covered_us += std::accumulate(got.begin(), got.end(), 0.0) * timed.launches +
                      timed.filler.of(timed.launches) * static_cast<double>(got.size());
        samples.insert(samples.end(), got.begin(), got.end());
    }
    return samples;
}

void Meter::warm(ProblemFixture& fixture, Runnable& runnable, double seconds) {
    Timed timed = prepare(fixture, runnable, Predecessor::filler);
    const auto begun = std::chrono::steady_clock::now();
    const double stretch_us = std::min(20'000.0, seconds * 1e6);
    const int replays = std::max(1, static_cast<int>(stretch_us / timed.gpu_us()));
    while (seconds_since(begun) < seconds) {
        for (int i = 0; i < replays; ++i) launch(timed);
        gpu_.stream.synchronize();
    }
}

Meter::Block Meter::block(ProblemFixture& fixture, Runnable& runnable, double seconds, const Watch& watch) {
    Timed timed = prepare(fixture, runnable, Predecessor::filler);
    const int replays = std::max(1, static_cast<int>(kStretch_us / timed.gpu_us()));
    gpu::Event from(gpu_.driver), to(gpu_.driver);
    Block block;
    const auto begun = std::chrono::steady_clock::now();
    while (seconds_since(begun) < seconds) {
        from.record(gpu_.stream.handle());
        for (int i = 0; i < replays; ++i) launch(timed);
        to.record(gpu_.stream.handle());
        if (watch) watch(block.launches);
        to.synchronize();
        block.launches += std::int64_t{replays} * timed.launches;
        block.gpu_us += gpu::elapsed_us(from, to);
    }
    const double filler_us = timed.filler.of(timed.launches) / timed.launches;
    block.launch_us = std::max(kLeast_us, block.gpu_us / static_cast<double>(block.launches) - filler_us);
    return block;
}

Meter::Block Meter::filler_block(double seconds, const Watch& watch) {
    change_streams();
    Block block;
    block.launch_us = fillers_.time(Predecessor::filler).per_launch_us;
    const auto begun = std::chrono::steady_clock::now();
    block.launches = fillers_.run_alone([&](std::int64_t launches) {
        if (watch) watch(launches);
        return seconds_since(begun) < seconds;
    });
    block.gpu_us = block.launch_us * static_cast<double>(block.launches);
    return block;
}

Meter::Timed Meter::prepare(ProblemFixture& fixture, Runnable& runnable, Predecessor after) {
    change_streams();
    if (runnable.before_timing) runnable.before_timing(fixture.rotation(0));
    get_to_know(fixture, runnable);
    begin_series(fixture);
    const TimedGraph* graph = graph_of(fixture, runnable, after);
    const FillerTime filler = time_without(fixture, after);
    const int one_by_one = std::max(1, static_cast<int>(kSample_us / (runnable.single_us + filler.per_launch_us)));
    return {fixture, runnable, after, graph, graph != nullptr ? graph->launches : one_by_one, filler};
}

// Alternates streams before every measurement, because a context can become fast again.
void Meter::change_streams() {
    if (streams_ > 1) fillers_.run_on_two_streams();
}

// Launches once to warm caches and code, then a few times to learn how long a launch takes. For a long kernel the first launch is
// enough.
void Meter::get_to_know(ProblemFixture& fixture, Runnable& runnable) {
    if (runnable.single_us > 0) return;
    gpu::Event from(gpu_.driver), to(gpu_.driver);
    const auto time_us = [&](int launches) {
        from.record(gpu_.stream.handle());
        for (int i = 0; i < launches; ++i) enqueue_next(fixture, runnable, Predecessor::itself);
        to.record(gpu_.stream.handle());
        to.synchronize();
        return gpu::elapsed_us(from, to) / launches;
    };
    runnable.single_us = std::max(time_us(1), kLeast_us);
    constexpr int kLaunches = 3;
    if (runnable.single_us <= kLong_us) runnable.single_us = std::max(time_us(kLaunches), kLeast_us);
}

// Built at first use and launched once. The number of launches depends only on the rough time.
const TimedGraph* Meter::graph_of(ProblemFixture& fixture, Runnable& runnable, Predecessor after) {
    if (const auto known = runnable.graphs.find(after); known != runnable.graphs.end()) return &known->second;
    const double pair_us = runnable.single_us + time_without(fixture, after).per_launch_us;
    const double rotation_us = pair_us * fixture.rotation_sets();
    if (rotation_us > kLongestSample_us) return nullptr;
    const int launches = fixture.rotation_sets() * static_cast<int>(std::ceil(kSample_us / rotation_us));
    TimedGraph made = captured(fixture, launches, after, &runnable);
    made.graph.launch(gpu_.stream.handle());
    gpu_.stream.synchronize();
    return &runnable.graphs.emplace(after, std::move(made)).first->second;
}

// If `runnable` is missing, the graph has only the work before launches.
TimedGraph Meter::captured(ProblemFixture& fixture, int launches, Predecessor after, const Runnable* runnable) {
    return {gpu::Graph::capture(gpu_.driver, gpu_.stream,
                                [&] {
                                    for (int i = 0; i < launches; ++i) {
                                        fixture.reset_ahead(i);
                                        fillers_.enqueue(after);
                                        if (runnable != nullptr) runnable->launch_timed(fixture.rotation(i));
                                    }
                                }),
            launches};
}

// A graph starts with the first set, and its number of launches is a multiple of the number of sets, so each graph finds the sets
// as the last one left them. Single launches may end with another set.
void Meter::begin_series(ProblemFixture& fixture) {
    if (!fixture.resets() || fixture.next_launch() == 0) return;
    fixture.reset_all();
    fixture.next_launch() = 0;
}

// The time of the work before launches: fillers, and resets if a launch changes data that later ones read.
FillerTime Meter::time_without(ProblemFixture& fixture, Predecessor after) {
    if (!fixture.resets()) return fillers_.time(after);
    constexpr double kManyBytes = 256e6;
    constexpr int kMostLaunches = 32, kTimesAsMany = 4;
    constexpr std::chrono::milliseconds kFresh{50};
    TimedSurroundings& known = fixture.surroundings()[after];
    if (!known.graphs.empty() && std::chrono::steady_clock::now() - known.measured_at < kFresh)
        return {known.per_graph_us, known.per_launch_us};
    const double affordable = kManyBytes / static_cast<double>(std::max<std::size_t>(fixture.reset_bytes(), 1));
    const int few = static_cast<int>(std::clamp(affordable, 1.0, double{kMostLaunches}));
    if (known.graphs.empty()) {
        for (const int launches : {few, kTimesAsMany * few}) {
            known.graphs.push_back(captured(fixture, launches, after, nullptr));
            known.graphs.back().graph.launch(gpu_.stream.handle());
        }
        gpu_.stream.synchronize();
    }
    const auto median_us = [&](const TimedGraph& timed) {
        constexpr std::size_t kSamples = 3;
        while (events_.size() < kSamples + 1) events_.emplace_back(gpu_.driver);
        events_[0].record(gpu_.stream.handle());
        for (std::size_t i = 0; i < kSamples; ++i) {
            timed.graph.launch(gpu_.stream.handle());
            events_[i + 1].record(gpu_.stream.handle());
        }
        events_[kSamples].synchronize();
        std::vector<double> times;
        for (std::size_t i = 0; i < kSamples; ++i) times.push_back(gpu::elapsed_us(events_[i], events_[i + 1]));
        return stats::median(times);
    };
    const double few_us = median_us(known.graphs[0]), many_us = median_us(known.graphs[1]);
    const int more = known.graphs[1].launches - known.graphs[0].launches;
    known.per_launch_us = std::max(0.0, (many_us - few_us) / more);
    known.per_graph_us = std::max(0.0, few_us - known.per_launch_us * known.graphs[0].launches);
    known.measured_at = std::chrono::steady_clock::now();
    return {known.per_graph_us, known.per_launch_us};
}

void Meter::enqueue_next(ProblemFixture& fixture, Runnable& runnable, Predecessor after) {
    int& next = fixture.resets() ? fixture.next_launch() : runnable.next_set;
    fixture.reset_ahead(next);
    fillers_.enqueue(after);
    runnable.launch_timed(fixture.rotation(next));
    next = (next + 1) % fixture.rotation_sets();
}

void Meter::launch(Timed& timed) {
    if (timed.graph != nullptr) return timed.graph->graph.launch(gpu_.stream.handle());
    for (int i = 0; i < timed.launches; ++i) enqueue_next(timed.fixture, timed.runnable, timed.after);
}

// Enqueues samples back to back (event, graph, event, graph, ...), so that they contain no latency of the host.
std::vector<double> Meter::chain(Timed& timed, int samples, const std::function<void()>& while_busy) {
    const auto count = static_cast<std::size_t>(samples);
    while (events_.size() < count + 1) events_.emplace_back(gpu_.driver);
    events_[0].record(gpu_.stream.handle());
    for (std::size_t i = 0; i < count; ++i) {
        launch(timed);
        events_[i + 1].record(gpu_.stream.handle());
    }
    if (while_busy) while_busy();
    events_[count].synchronize();
    const double filler_us = timed.filler.of(timed.launches);
    std::vector<double> times;
    for (std::size_t i = 0; i < count; ++i) {
        const double all_us = gpu::elapsed_us(events_[i], events_[i + 1]);
        times.push_back(std::max(kLeast_us, (all_us - filler_us) / timed.launches));
    }
    timed.runnable.single_us = stats::median(times);
    return times;
}

}  // namespace autotune::tuner
