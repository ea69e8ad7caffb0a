#include "tuner/session/race/neighbours.h"

#include <memory>
#include <utility>
#include <vector>

#include "src/core/error.h"

namespace autotune::tuner {
namespace {

constexpr int kNeighbourBench = 1;

// A neighbour and what must be compiled for it: its own instance (alignment may differ) and its reference.
struct Neighbour {
    Problem problem;
    jit::Rendered instance, reference;
};

std::vector<Neighbour> neighbours_of(RunShared& shared, const Problem& problem, const Candidate& candidate) {
    TuneServices& services = shared.engine.services();
    const Op& op = services.catalogue.op_of(problem);
    const Family& family = *services.catalogue.find_family(candidate.family);
    const jit::Target target = shared.engine.target();
    std::vector<Neighbour> all;
    for (Problem& near : op.edge_case_problems(problem, candidate.config)) {
        if (family.refuses(near, services.device)) continue;
        const SearchSpace space = family.space(near, services.device);
        const Config config = space.canonical(candidate.config);
        if (!space.contains(config)) continue;
        jit::Rendered instance = jit::render(services.catalogue, family, near, space, config, target);
        jit::Rendered reference = jit::render_reference(services.catalogue, op, near, target);
        all.push_back({std::move(near), std::move(instance), std::move(reference)});
    }
    return all;
}

struct Prepared {
    Problem problem;
    std::shared_ptr<CompileOutcome> instance = std::make_shared<CompileOutcome>();
    std::shared_ptr<CompileOutcome> reference = std::make_shared<CompileOutcome>();
    std::shared_ptr<int> missing = std::make_shared<int>(2);
};

void compile(RunShared& shared, const jit::Rendered& rendered, std::shared_ptr<CompileOutcome> place,
             std::shared_ptr<int> missing) {
    if (const auto known = shared.instances.find(rendered.identity); known != shared.instances.end()) {
        place->compiled = known->second;
        --*missing;
        return;
    }
    shared.engine.pool().submit({rendered, 0, shared.engine.new_owner(), ""}, [place, missing](const CompileOutcome& outcome) {
        *place = outcome;
        --*missing;
    });
}

// All are compiled at once: most share one instance, the rest spread over the pool.
std::vector<Prepared> prepare(RunShared& shared, const Problem& problem, const Candidate& candidate) {
    std::vector<Prepared> all;
    for (Neighbour& near : neighbours_of(shared, problem, candidate)) {
        Prepared one{std::move(near.problem)};
        compile(shared, near.instance, one.instance, one.missing);
        compile(shared, near.reference, one.reference, one.missing);
        all.push_back(std::move(one));
    }
    return all;
}

RunOutcome verify_one(GpuWorkerHost& host, const Prepared& near, const Candidate& candidate) {
    RunOutcome outcome;
    if (near.reference->compiled == nullptr) throw Error(ErrorCode::compile_failed, near.reference->failure);
    if (near.instance->compiled == nullptr) {
        outcome.status = TrialStatus::compile_failed;
        outcome.detail = near.instance->failure;
    } else {
        GpuWorkerSession session(host, near.problem, near.reference->compiled, {.fixture = kNeighbourBench, .timing = false});
        outcome = session.open(0, candidate, near.instance->compiled, true);
    }
    if (!outcome.ok()) outcome.detail = "on the neighbouring problem " + near.problem.key() + ": " + outcome.detail;
    return outcome;
}

}  // namespace

std::vector<jit::Rendered> needed_by_neighbours(RunShared& shared, const Problem& problem, const Candidate& candidate) {
    std::vector<jit::Rendered> all;
    for (Neighbour& near : neighbours_of(shared, problem, candidate)) {
        all.push_back(std::move(near.instance));
        all.push_back(std::move(near.reference));
    }
    return all;
}

RunOutcome verify_on_neighbours(RunShared& shared, const Problem& problem, const Candidate& candidate) {
    const std::vector<Prepared> all = prepare(shared, problem, candidate);
    RunOutcome outcome;
    for (const Prepared& near : all) {
        shared.engine.wait_for([&] { return *near.missing == 0; });
        outcome = verify_one(shared.host, near, candidate);
        if (!outcome.ok()) break;
    }
    return outcome;
}

}  // namespace autotune::tuner
