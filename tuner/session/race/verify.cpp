#include <cstddef>
#include <functional>
#include <utility>

#include "src/core/error.h"
#include "src/dispatch/rules/refusals.h"
#include "tuner/session/engine/run_shared.h"
#include "tuner/session/race/neighbours.h"
#include "tuner/session/tune.h"

namespace autotune::tuner {
namespace {

// This many instances are kept at a time. Others are read from the cubin cache again when they are needed.
constexpr std::size_t kKept = 256;

class VerifyRun {
  public:
    VerifyRun(const std::vector<ToVerify>& items, TuneServices& services)
        : items_(items), services_(services), engine_(services), host_(engine_), shared_{engine_, host_, {}, {}} {}

    void run(const std::function<void(std::size_t, const Verified&)>& done);

  private:
    // A candidate in its family's space; throws Error if the space does not have its config.
    struct Tried {
        const Family& family;
        SearchSpace space;
        Candidate candidate;
    };
    Tried tried_of(const ToVerify& item) const;
    jit::Rendered render(const ToVerify& item, const Tried& tried);
    void compile_next();
    Trial verify(const ToVerify& item);

    const std::vector<ToVerify>& items_;
    TuneServices& services_;
    Engine engine_;
    GpuWorkerHost host_;
    RunShared shared_;
    std::size_t ahead_ = 0;  // items before this index are compiled or are being compiled
};

VerifyRun::Tried VerifyRun::tried_of(const ToVerify& item) const {
    const Family* family = services_.catalogue.find_family(item.candidate.family);
    if (family == nullptr) throw Error(ErrorCode::usage, "there is no family '" + item.candidate.family + "'");
    if (const auto reason = why_unable(*family, item.problem, services_.device))
        throw Error(ErrorCode::no_valid_config, item.candidate.family + ": " + *reason);
    SearchSpace space = family->space(item.problem, services_.device);
    Candidate tried{item.candidate.family, space.canonical(item.candidate.config)};
    if (const auto reason = space.why_not(tried.config))
        throw Error(ErrorCode::usage, "not a config of " + item.candidate.family + ": " + *reason);
    return {*family, std::move(space), std::move(tried)};
}

jit::Rendered VerifyRun::render(const ToVerify& item, const Tried& tried) {
    return jit::render(services_.catalogue, tried.family, item.problem, tried.space, tried.candidate.config, engine_.target());
}

// Keeps the compilers busy with the next items, whatever the GPU does. An item that cannot be rendered is reported when it is its
// turn.
void VerifyRun::compile_next() {
    while (ahead_ < items_.size() && engine_.pool().pending() < engine_.pool().capacity()) {
        const ToVerify& item = items_[ahead_++];
        try {
            const Tried tried = tried_of(item);
            compile_ahead(shared_, render(item, tried));
            compile_ahead(shared_, jit::render_reference(services_.catalogue, services_.catalogue.op_of(item.problem),
                                                         item.problem, engine_.target()));
            for (jit::Rendered& rendered : needed_by_neighbours(shared_, item.problem, tried.candidate))
                compile_ahead(shared_, std::move(rendered));
        } catch (const Error&) {
        }
    }
}

Trial VerifyRun::verify(const ToVerify& item) {
    const Tried tried = tried_of(item);
    const Instance reference = compile_judges(shared_, item.problem);
    Trial trial;
    trial.candidate = tried.candidate;
    Instance instance;
    try {
        instance = compile_now(shared_, render(item, tried));
    } catch (const Error& error) {
        if (error.code() != ErrorCode::compile_failed) throw;
        trial.status = TrialStatus::compile_failed;
        trial.detail = error.what();
        return trial;
    }
    trial.compile = instance->report;
    RunOutcome outcome;
    {
        GpuWorkerSession::Options options = session_options(item.problem, services_);
        options.timing = false;
        GpuWorkerSession session(host_, item.problem, reference, options);
        outcome = session.open(0, trial.candidate, instance, true);
        trial.max_error = outcome.max_error;
        trial.accumulation_error = outcome.accumulation_error;
        if (outcome.ok()) outcome = verify_on_neighbours(shared_, item.problem, trial.candidate);
    }
    trial.status = outcome.status;
    trial.detail = outcome.detail;
    return trial;
}

void VerifyRun::run(const std::function<void(std::size_t, const Verified&)>& done) {
    engine_.gpu_worker().start();
    // The version is queried here, because the first query must not be made within the loop that would answer it.
    engine_.nvrtc_version();
    engine_.set_idle_hook([this] { compile_next(); });
    for (std::size_t i = 0; i < items_.size(); ++i) {
        Verified verified;
        verified.trial.candidate = items_[i].candidate;
        try {
            verified.trial = verify(items_[i]);
        } catch (const Error& error) {
            if (ends_all(error.code()) || error.code() == ErrorCode::interrupted) throw;
            verified.failure = error.what();
        }
        done(i, verified);
        if (shared_.instances.size() > kKept) shared_.instances.clear();
    }
}

}  // namespace

void verify(const std::vector<ToVerify>& items, TuneServices& services,
            const std::function<void(std::size_t, const Verified&)>& done) {
    if (items.empty()) return;
    try {
        VerifyRun(items, services).run(done);
    } catch (const Interrupted&) {
        throw Error(ErrorCode::interrupted, "stopped before the verification was done");
    }
}

}  // namespace autotune::tuner
