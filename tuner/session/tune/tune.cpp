#include "tuner/session/tune.h"

#include <future>
#include <system_error>

#include "src/core/error.h"
#include "tuner/session/tune/recall.h"
#include "tuner/session/tune/tune_run.h"

namespace autotune::tuner {
namespace {

// First starts to compile the verifying kernels, then the candidates that the search tries first. Candidates get numbers only
// when the space has been listed. By then these kernels are in the cubin cache or are being compiled.
void compile_first(RunShared& shared, const Problem& problem, const TuneOptions& options, const Candidates& candidates) {
    const Catalogue& catalogue = shared.engine.services().catalogue;
    const jit::Target target = shared.engine.target();
    const auto submit = [&](jit::Rendered rendered, int urgency, const std::string& keep_folder) {
        const auto keep = [&shared](const CompileOutcome& got) {
            if (got.compiled != nullptr) shared.instances[got.compiled->identity] = got.compiled;
        };
        shared.engine.pool().submit({std::move(rendered), urgency, shared.engine.new_owner(), keep_folder}, keep);
    };
    submit(jit::render_harness(catalogue, target), 0, "");
    submit(jit::render_reference(catalogue, catalogue.op_of(problem), problem, target), 0, "");
    for (const Candidate& one : candidates.first()) {
        const Candidates::Part& part = *candidates.part(one.family);
        submit(jit::render(catalogue, *part.family, problem, part.space, one.config, target), 1, options.keep_folder);
    }
}

// Lists on another thread, while this one serves the compilers.
void list_meanwhile(Engine& engine, Candidates& candidates) {
    const auto list = [&candidates] {
        candidates.list();
        candidates.predict_all();
    };
    std::future<void> listing;
    try {
        listing = std::async(std::launch::async, list);
    } catch (const std::system_error&) {  // no thread available
        return list();
    }
    constexpr std::chrono::milliseconds kLook{5};
    while (listing.wait_for(std::chrono::seconds(0)) != std::future_status::ready) engine.pump(kLook);
    listing.get();
}

}  // namespace

TuneResult tune(const Problem& problem, const TuneOptions& options, TuneServices& services) {
    if (!options.retune) {
        // The config behind a name depends on the problem, so it is looked up again.
        auto known = options.choice.named.empty() ? recall(problem, services, options.choice) : std::nullopt;
        if (known) return std::move(*known);
    }
    // Refuses invalid choices before any process is started.
    auto candidates = first_candidates(problem, options, services, known_beforehand(problem, options, services));
    Engine engine(services);
    GpuWorkerHost host(engine);
    RunShared shared{engine, host, {}, {}};
    std::optional<TuneRun> run;
    try {
        // The GPU worker makes its context while the first candidates compile. It starts before the compilers, because they may
        // use up the allowed processes.
        engine.gpu_worker().start();
        compile_first(shared, problem, options, *candidates);
        list_meanwhile(engine, *candidates);
        run.emplace(shared, problem, options, std::move(candidates));
        run->start(1);
    } catch (const Interrupted&) {
        throw Error(ErrorCode::interrupted, "stopped before anything was tried");
    }
    engine.set_idle_hook([&] { run->refill(); });
    return run->finish();
}

}  // namespace autotune::tuner
