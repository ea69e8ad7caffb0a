#include <algorithm>

#include "src/core/error.h"
#include "src/dispatch/rules/stored_winner.h"
#include "src/records/measuring_method.h"
#include "tuner/session/engine/run_shared.h"
#include "tuner/session/race/dates.h"
#include "tuner/session/race/final_race.h"
#include "tuner/session/race/neighbours.h"
#include "tuner/session/tune.h"
#include "tuner/session/tune/recall.h"

namespace autotune::tuner {
namespace {

// The stored winner first, then the finalists it beat; each config that is still legal once.
std::vector<Candidate> field_of(const db::Winner& stored, const Problem& problem, const TuneServices& services) {
    std::vector<Candidate> field = {stored.candidate};
    for (const db::Finalist& finalist : stored.evidence.finalists) {
        if (!finalist.candidate || std::find(field.begin(), field.end(), *finalist.candidate) != field.end()) continue;
        db::Winner row;
        row.candidate = *finalist.candidate;
        const Family* family = services.catalogue.find_family(row.candidate.family);
        if (family == nullptr) continue;
        row.template_identity = services.catalogue.template_identity(*family);
        if (!why_illegal(services.catalogue, row, problem, services.device)) field.push_back(row.candidate);
    }
    return field;
}

class RaceAgain {
  public:
    RaceAgain(const Problem& problem, const db::Winner& stored, const RaceAgainOptions& options, TuneServices& services)
        : problem_(problem),
          stored_(stored),
          options_(options),
          services_(services),
          engine_(services),
          host_(engine_),
          shared_{engine_, host_, {}, {}} {}
    RaceAgainResult run();

  private:
    std::vector<Contestant> contestants();
    std::optional<Contestant> contestant_of(const Candidate& candidate);
    // The method with which the stored winner was measured.
    MeasuringMethod method() const { return MeasuringMethod::of(stored_.provenance.method); }
    bool is_settled(GpuWorkerSession& session, std::vector<Contestant>& field);
    db::Winner winner_from(const FinalRace& race, const Verdict& verdict) const;
    void drop(const Candidate& candidate, TrialStatus status, const std::string& detail, bool by_circumstance = false);

    const Problem& problem_;
    const db::Winner& stored_;
    const RaceAgainOptions& options_;
    TuneServices& services_;
    Engine engine_;
    GpuWorkerHost host_;
    RunShared shared_;
    RaceAgainResult result_;
};

// If the stored winner could not run because the machine was busy, it was not beaten, so no other candidate may replace it.
void RaceAgain::drop(const Candidate& candidate, TrialStatus status, const std::string& detail, bool by_circumstance) {
    if (candidate == stored_.candidate && (by_circumstance || !is_about_candidate(status, detail)))
        throw Error(ErrorCode::driver, "the stored winner could not be run, which says nothing about it: " + detail +
                                           "; it stays, verify it again when the machine is less busy");
    Trial& out = result_.out.emplace_back();
    out.candidate = candidate;
    out.status = status;
    out.detail = detail;
}

std::optional<Contestant> RaceAgain::contestant_of(const Candidate& candidate) {
    const Family& family = *services_.catalogue.find_family(candidate.family);
    const SearchSpace space = family.space(problem_, services_.device);
    const Config config = space.canonical(candidate.config);
    const jit::Target target = engine_.target();
    Contestant contestant;
    try {
        contestant.instance = compile_now(shared_, jit::render(services_.catalogue, family, problem_, space, config, target));
    } catch (const Error& error) {
        if (error.code() != ErrorCode::compile_failed) throw;
        drop(candidate, TrialStatus::compile_failed, error.what());
        return std::nullopt;
    }
    contestant.candidate = Candidate{candidate.family, config};
    contestant.info.name = contestant.candidate->to_string();
    contestant.info.resources = resources_of(family.plan(problem_, config, services_.device), contestant.instance->report);
    contestant.info.is_previous_winner = candidate == stored_.candidate;
    return contestant;
}

std::vector<Contestant> RaceAgain::contestants() {
    std::vector<Contestant> field;
    for (const Candidate& candidate : field_of(stored_, problem_, services_)) {
        if (auto contestant = contestant_of(candidate)) field.push_back(std::move(*contestant));
    }
    return field;
}

db::Winner RaceAgain::winner_from(const FinalRace& race, const Verdict& verdict) const {
    const Contestant& who = race.contestants()[verdict.winner];
    db::Winner winner = stored_;
    winner.shipped = false;
    winner.doubt.clear();
    winner.device = services_.device.identity;
    winner.candidate = *who.candidate;
    winner.template_identity = services_.catalogue.template_identity(*services_.catalogue.find_family(who.candidate->family));
    winner.timing = verdict.rows.front().timing;
    winner.compile = who.instance->report;
    winner.provenance = services_.provenance;
    winner.provenance.nvrtc = shared_.engine.nvrtc_version();
    winner.provenance.method = method().text();
    winner.provenance.date = now_utc_iso8601();
    winner.evidence.max_error = race.outcomes()[verdict.winner].max_error;
    winner.evidence.accumulation_error = race.outcomes()[verdict.winner].accumulation_error;
    note_verdict(winner.evidence, race, verdict);
    winner.evidence.decided_by += "; raced again";
    return winner;
}

// Runs one race. False if its winner is wrong on a neighbour and the others must race without it.
bool RaceAgain::is_settled(GpuWorkerSession& session, std::vector<Contestant>& field) {
    std::vector<Contestant> all = field;
    add_rivals(all, problem_);
    FinalRace::Options options;
    options.rounds.least_rounds = options_.rounds;
    options.rounds.most_rounds = std::max(options.rounds.most_rounds, options_.rounds);
    options.rounds.seed = options_.seed;
    options.warm_seconds = options_.warm_seconds;
    FinalRace race(session, std::move(all), options);
    const bool decided = race.run();
    for (std::size_t i = 0; i < field.size(); ++i) {
        const RunOutcome& outcome = race.outcomes()[i];
        if (!outcome.ok()) drop(*race.contestants()[i].candidate, outcome.status, outcome.detail, outcome.by_circumstance);
    }
    if (!decided) return true;
    const Verdict verdict = race.verdict(options_.sustained_seconds);
    race.time_after_others(race.winner_and_rivals(verdict.winner));
    const Candidate& winner = *race.contestants()[verdict.winner].candidate;
    const RunOutcome outcome = verify_on_neighbours(shared_, problem_, winner);
    if (outcome.ok()) {
        result_.winner = winner_from(race, verdict);
        return true;
    }
    drop(winner, outcome.status, outcome.detail, outcome.by_circumstance);
    std::erase_if(field, [&](const Contestant& one) {
        return std::any_of(result_.out.begin(), result_.out.end(),
                           [&](const Trial& trial) { return trial.candidate == *one.candidate; });
    });
    return field.empty();
}

RaceAgainResult RaceAgain::run() {
    engine_.gpu_worker().start();
    const Instance reference = compile_judges(shared_, problem_);
    std::vector<Contestant> field = contestants();
    if (field.empty()) return std::move(result_);
    engine_.acquire_gpu();
    GpuWorkerSession::Options options = session_options(problem_, services_);
    options.method = method();
    options.seed = options_.seed;
    GpuWorkerSession session(host_, problem_, reference, options);
    while (!is_settled(session, field)) {
    }
    return std::move(result_);
}

}  // namespace

RaceAgainResult race_again(const Problem& problem, const db::Winner& stored, const RaceAgainOptions& options,
                           TuneServices& services) {
    try {
        return RaceAgain(problem, stored, options, services).run();
    } catch (const Interrupted&) {
        throw Error(ErrorCode::interrupted, "stopped before the race was over");
    }
}

}  // namespace autotune::tuner
