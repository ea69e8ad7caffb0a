#include "tuner/session/tune.h"

#include "src/core/error.h"
#include "tuner/session/tune/recall.h"
#include "tuner/session/tune/tune_run.h"

namespace autotune::tuner {

TuneResult tune(const Problem& problem, const TuneOptions& options, TuneServices& services) {
    if (!options.retune) {
        // Which config a name stands for depends on the problem: that is looked up anew.
        auto known = options.choice.named.empty() ? recall(problem, services, options.choice) : std::nullopt;
        if (known) return std::move(*known);
    }
    Engine engine(services);
    GpuWorkerHost host(engine);
    RunShared shared{engine, host, {}, {}};
    // Listing refuses what cannot be, before any process is started.
    TuneRun run(shared, problem, options, list_candidates(problem, options, services));
    engine.gpu_worker().start();  // its context is made while the first candidates compile
    try {
        run.start(1);
    } catch (const Interrupted&) {
        throw Error(ErrorCode::interrupted, "stopped before anything was tried");
    }
    engine.set_idle_hook([&] { run.refill(); });
    return run.finish();
}

}  // namespace autotune::tuner
