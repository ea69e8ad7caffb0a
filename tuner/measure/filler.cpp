#include "tuner/measure/filler.h"

#include <algorithm>
#include <array>

#include "kernel_templates/harness/harness.h"
#include "src/core/error.h"
#include "src/core/statistics/statistics.h"

namespace autotune::tuner {
namespace {

// Two lengths separate the cost of a launch from that of a graph. Even the shorter graph runs longer than the host takes to
// launch it.
constexpr int kFew = 32, kMany = 160;
constexpr std::size_t kSamples = 3;
constexpr std::chrono::milliseconds kFresh{50};

std::uint32_t blocks_of(const Device& device) {
    return static_cast<std::uint32_t>(std::max(device.identity.sm_count, 1));
}

}  // namespace

Fillers::Fillers(WorkerGpu& gpu, std::shared_ptr<const gpu::Library> harness)
    : gpu_(gpu),
      harness_(std::move(harness)),
      plain_(harness_->function("autotune_filler")),
      trigger_(harness_->function("autotune_trigger_filler")),
      data_(gpu.driver, std::size_t{blocks_of(gpu.device)} * kHarnessThreads * sizeof(float)) {
    data_.fill_bytes(0, gpu_.stream.handle());
    for (std::size_t i = 0; i <= kSamples; ++i) events_.emplace_back(gpu.driver);
}

void Fillers::launch(Predecessor which, bool may_overlap, const gpu::Stream& stream) {
    if (which == Predecessor::itself) return;
    const bool is_trigger = which == Predecessor::trigger;
    LaunchStep step;
    step.grid.x = blocks_of(gpu_.device);
    step.block.x = kHarnessThreads;
    step.programmatic_dependent = is_trigger && may_overlap && gpu_.device.identity.cc_major >= 9;
    gpu::DeviceAddress data = data_.address();
    std::array<void*, 1> parameters{&data};
    const gpu::Function& function = is_trigger ? trigger_ : plain_;
    gpu::throw_if_failed(*gpu_.driver, function.launch(step, parameters.data(), stream.handle()), "launch of a filler");
}

void Fillers::enqueue(Predecessor which) {
    launch(which, true, gpu_.stream);
}

gpu::Graph Fillers::graph_of(Predecessor which, int launches) {
    return gpu::Graph::capture(gpu_.driver, gpu_.stream, [&] {
        for (int i = 0; i < launches; ++i) launch(which, false, gpu_.stream);
    });
}

Fillers::Alone& Fillers::alone(Predecessor which) {
    if (const auto known = alone_.find(which); known != alone_.end()) return known->second;
    Alone made{graph_of(which, kFew), graph_of(which, kMany), {}, {}};
    for (const gpu::Graph* graph : {&made.few, &made.many}) graph->launch(gpu_.stream.handle());
    gpu_.stream.synchronize();
    return alone_.emplace(which, std::move(made)).first->second;
}

double Fillers::median_us(const gpu::Graph& graph) {
    events_.front().record(gpu_.stream.handle());
    for (std::size_t i = 0; i < kSamples; ++i) {
        graph.launch(gpu_.stream.handle());
        events_[i + 1].record(gpu_.stream.handle());
    }
    events_.back().synchronize();
    std::array<double, kSamples> times{};
    for (std::size_t i = 0; i < kSamples; ++i) times[i] = gpu::elapsed_us(events_[i], events_[i + 1]);
    return stats::median(times);
}

void Fillers::measure(Alone& alone) {
    const double few_us = median_us(alone.few);
    const double many_us = median_us(alone.many);
    alone.time.per_launch_us = std::max(0.0, (many_us - few_us) / (kMany - kFew));
    alone.time.per_graph_us = std::max(0.0, few_us - kFew * alone.time.per_launch_us);
    alone.measured_at = Clock::now();
}

FillerTime Fillers::time(Predecessor which) {
    if (which == Predecessor::itself) return {};
    Alone& known = alone(which);
    if (known.time.per_launch_us == 0 || Clock::now() - known.measured_at > kFresh) measure(known);
    return known.time;
}

void Fillers::run_on_two_streams() {
    constexpr int kTurns = 32;  // more than needed: in measurements eight changes of stream were enough
    const gpu::Stream second(gpu_.driver);
    for (int i = 0; i < kTurns; ++i) {
        const gpu::Stream& stream = i % 2 == 0 ? second : gpu_.stream;
        launch(Predecessor::filler, false, stream);
        stream.synchronize();
    }
}

std::int64_t Fillers::run_alone(const std::function<bool(std::int64_t)>& go_on) {
    const Alone& known = alone(Predecessor::filler);
    constexpr int kGraphsPerWait = 64;
    std::int64_t launches = 0;
    for (bool more = true; more; launches += std::int64_t{kGraphsPerWait} * kMany) {
        for (int i = 0; i < kGraphsPerWait; ++i) known.many.launch(gpu_.stream.handle());
        more = go_on(launches);
        gpu_.stream.synchronize();
    }
    return launches;
}

}  // namespace autotune::tuner
