#include "tuner/session/idle/idle_worker.h"

#include <chrono>
#include <thread>

#include "src/core/error.h"

namespace autotune::tuner {
namespace {

// If all cards failed, the worker tries again after this time: the driver may have been updated in between. Faulty cards fail
// again.
constexpr double kTryAgainAfter_s = 60;
constexpr int kMostRounds = 3;

int ended(const IdleCounts& counts) {
    return counts.tuned + counts.fresh + counts.failed;
}

}  // namespace

void work_when_idle(const std::vector<LaneGpu>& gpus, IdleSource& source, const TuneOptions& each, const db::OpenOptions& store,
                    TuneServices& services) {
    TuneServices lanes = services;
    lanes.stop = &source.gives_all_back();
    for (int rounds_without_end = 0; !source.is_exhausted();) {
        const int before = ended(source.counts());
        const std::vector<LaneReport> reports =
            run_lanes(gpus, source, {.each = each, .store = store, .proves_first = false}, lanes);
        if (source.is_exhausted()) return;
        rounds_without_end = ended(source.counts()) > before ? 0 : rounds_without_end + 1;
        if (rounds_without_end == kMostRounds)
            throw Error(ErrorCode::gpu_unhealthy, "no GPU can be used: " + reports.front().out_because);
        const auto since = Clock::now();
        while (!source.is_exhausted() && seconds_since(since) < kTryAgainAfter_s)
            std::this_thread::sleep_for(std::chrono::milliseconds(100));
    }
}

}  // namespace autotune::tuner
