#include "src/core/error.h"
#include "tuner/session/neighbours.h"
#include "tuner/session/run_shared.h"
#include "tuner/session/tune.h"

namespace autotune::tuner {
namespace {

Trial verify_here(const Problem& problem, const Candidate& candidate, TuneServices& services) {
    const Family* family = services.catalogue.find_family(candidate.family);
    if (family == nullptr) throw Error(ErrorCode::usage, "there is no family '" + candidate.family + "'");
    if (const auto reason = family->refuses(problem, services.device))
        throw Error(ErrorCode::no_valid_config, candidate.family + ": " + *reason);
    const SearchSpace space = family->space(problem, services.device);
    const Candidate tried{candidate.family, space.canonical(candidate.config)};
    if (const auto reason = space.why_not(tried.config))
        throw Error(ErrorCode::usage, "not a config of " + candidate.family + ": " + *reason);

    Engine engine(services);
    GpuWorkerHost host(engine);
    RunShared shared{engine, host, {}, {}};
    engine.gpu_worker().start();
    const Instance reference = compile_judges(shared, problem);
    const jit::Target target{services.device.arch(), engine.nvrtc_version()};
    Trial trial;
    trial.candidate = tried;
    Instance instance;
    try {
        instance = compile_now(shared, jit::render(services.catalogue, *family, problem, space, tried.config, target));
    } catch (const Error& error) {
        if (error.code() != ErrorCode::compile_failed) throw;
        trial.status = TrialStatus::compile_failed;
        trial.detail = error.what();
        return trial;
    }
    trial.compile = instance->report;
    GpuWorkerSession::Options options = session_options(problem, services);
    options.timing = false;
    GpuWorkerSession session(host, problem, reference, options);
    RunOutcome outcome = session.open(0, tried, instance, true);
    trial.max_error = outcome.max_error;
    trial.accumulation_error = outcome.accumulation_error;
    if (outcome.ok()) outcome = verify_on_neighbours(shared, problem, tried);
    trial.status = outcome.status;
    trial.detail = outcome.detail;
    return trial;
}

}  // namespace

Trial verify(const Problem& problem, const Candidate& candidate, TuneServices& services) {
    try {
        return verify_here(problem, candidate, services);
    } catch (const Interrupted&) {
        throw Error(ErrorCode::interrupted, "stopped before the verification was done");
    }
}

}  // namespace autotune::tuner
