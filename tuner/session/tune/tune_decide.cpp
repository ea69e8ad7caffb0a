#include <algorithm>
#include <iomanip>
#include <map>
#include <set>
#include <sstream>

#include "src/core/error.h"
#include "src/core/statistics/statistics.h"
#include "src/core/system/processors.h"
#include "tuner/session/race/dates.h"
#include "tuner/session/race/neighbours.h"
#include "tuner/session/tune/learned_errors.h"
#include "tuner/session/tune/search_limits.h"
#include "tuner/session/tune/tune_run.h"

namespace autotune::tuner {
namespace {

constexpr double kSecondRungShare = 0.4, kWarmShare = 0.1;  // shares of the time for the decision
// Load before the rounds, so that clocks and power reach their steady values: the second rung is load too.
constexpr double kMostWarm_s = 1;
constexpr double kLeastWarm_s = 0.1;
constexpr int kLeastRounds = 10;   // a race that is decided with 99 % confidence needs no more
constexpr double kSettle_s = 0.1;  // load before the second rung, so that the first candidate has no advantage

double seconds_between(Clock::time_point from, Clock::time_point to) {
    return std::chrono::duration<double>(to - from).count();
}
// The gain that more time would probably bring, for the log.
std::string expected_text(const std::optional<double>& gain) {
    if (!gain) return "";
    std::ostringstream text;
    text << std::fixed << std::setprecision(2) << "; more time would probably gain " << 100 * *gain << " %";
    return text.str();
}
Clock::time_point after(Clock::time_point from, double seconds) {
    return from + std::chrono::microseconds(static_cast<std::int64_t>(seconds * 1e6));
}

}  // namespace

TuneResult TuneRun::finish() {
    if (urgency_ > 1) started_at_ = Clock::now();  // the next problem's phases begin when the current problem is done
    urgency_ = 1;
    feed_->raise_priority();
    try {
        take_gpu();
        if (std::optional<TuneResult> known = stored_meanwhile()) return with_phases(std::move(*known));
        prepare_gpu();
        search();
        TuneResult result = decide();
        progress(Phase::done);
        return with_phases(std::move(result));
    } catch (const Interrupted&) {
        return with_phases(interrupted_result());
    }
}

TuneResult TuneRun::with_phases(TuneResult result) {
    phases_.total_s = seconds_since(started_at_);
    result.phases = phases_;
    return result;
}

void TuneRun::take_gpu() {
    const PhaseTimer timer(phases_.start_s);
    shared_.engine.acquire_gpu();
    begun_ = Clock::now();  // time for compiling ahead or waiting for another tuner does not count
}

// Another tuner may have stored the winner since this run looked for one: while it had the GPU, or just before.
std::optional<TuneResult> TuneRun::stored_meanwhile() {
    if (options_.retune || !options_.choice.named.empty()) return std::nullopt;
    std::optional<TuneResult> known = recall(problem_, services(), options_.choice);
    if (!known || known->stale) return std::nullopt;
    return known;
}

void TuneRun::prepare_gpu() {
    {
        const PhaseTimer timer(phases_.start_s);
        if (!shared_.journal) shared_.journal.emplace(shared_.engine.state_folder(), services().device_uuid);
        for (db::StoredTrial& stored : recorder_->recover(*shared_.journal)) {
            if (const auto point = candidates_.find(stored.trial.candidate)) earlier_.add(*point, std::move(stored));
        }
        shared_.engine.gpu_worker().start();
        shared_.engine.wait_for([&] { return feed_->has_judges(); });
        shared_.host.set_harness(feed_->harness());
        shared_.host.ensure_healthy();
    }
    const PhaseTimer timer(phases_.setup_s);
    GpuWorkerSession::Options options = session_options(problem_, services(), options_.budget.seconds);
    options.method = options_.method;
    options.seed = options_.seed;
    session_.emplace(shared_.host, problem_, feed_->reference(), options);
    session_->ensure();
    judged_by_ = session_->known();
    if (judged_by_ == Reference::none && services().observer != nullptr) {
        services().observer->on_warning("the reference answer of " + problem_.shape() +
                                        " is too costly on this device: candidates are verified on smaller problems alone");
    }
}

TuneResult TuneRun::decide() {
    recorder_->flush(true);
    if (!book_.best_us()) throw_all_failed();
    progress(Phase::final_rounds);
    quieten();
    allow_finals();
    second_rung();
    std::set<Candidate> out;  // candidates that failed the last proof
    while (true) {
        quieten();
        std::vector<Contestant> all = contestants(out);
        if (std::none_of(all.begin(), all.end(), [](const Contestant& one) { return one.info.may_win; })) throw_all_failed();
        FinalRace race(*session_, std::move(all), race_options());
        const bool decided = race.run();
        phases_.warm_s += race.seconds_before_rounds();
        phases_.rounds_s += race.seconds_of_rounds();
        if (!decided) {
            shared_.engine.pool().resume();
            throw_all_failed();
        }
        const Verdict verdict = race.verdict(sustained_seconds(options_.budget));
        shared_.engine.pool().resume();
        race.time_after_others(race.winner_and_rivals(verdict.winner));
        const Candidate winner = *race.contestants()[verdict.winner].candidate;
        const RunOutcome proof = with_second_look([&] { return last_proof(winner); });
        if (proof.ok()) return settled(race, verdict);
        out.insert(winner);
        charge(*candidates_.find(winner), proof);
    }
}

TuneResult TuneRun::settled(const FinalRace& race, const Verdict& verdict) {
    TuneResult result;
    result.winner = winner_from(race, verdict);
    result.tuned = true;
    result.not_stored = store(result.winner);
    learn_from_trials();
    log_to(services().workers.log, LogLevel::info, "tune", [&] {
        return "winner " + result.winner.candidate.to_string() + ", " + std::to_string(result.winner.timing.median_us) + " us, " +
               result.winner.evidence.decided_by + "; search ended by: " + stopped_by_ + expected_text(expected_gain());
    });
    return result;
}

FinalRace::Options TuneRun::race_options() const {
    FinalRace::Options options;
    options.rounds.seed = options_.seed;
    options.rounds.tie_gap = options_.tie_gap;
    options.rounds.least_rounds = kLeastRounds;
    options.warm_seconds =
        std::clamp(kWarmShare * seconds_between(finals_from_, finals_until_) - phases_.second_rung_s, kLeastWarm_s, kMostWarm_s);
    options.deadline = finals_until_;
    return options;
}

// Pauses the compilers if they would take the processor from the process that times kernels. With processors to spare, compilers
// for three other GPUs did not change the times (docs/results/2026-11-28-neighbours.md), and a sweep's next problem needs the
// compilers. If lanes share a pool, LaneCompilers::pause decides.
void TuneRun::quieten() {
    const auto compilers = static_cast<int>(shared_.engine.pool().capacity());
    if (services().compilers != nullptr || compilers >= usable_processors()) shared_.engine.pool().pause();
}

void TuneRun::allow_finals() {
    finals_from_ = Clock::now();
    const double blocks_s = draws_power() ? sustained_seconds(options_.budget) : 0;
    finals_until_ = after(finals_from_, finals_seconds(options_.budget, phases_.search_s, elapsed_s() + blocks_s));
}

// Measures the best quarter once more, longer: the search's quick measurements are too noisy to choose eight from.
void TuneRun::second_rung() {
    const PhaseTimer timer(phases_.second_rung_s);
    const auto until = after(finals_from_, kSecondRungShare * seconds_between(finals_from_, finals_until_));
    if (can_load()) session_->warm(kSearchSlot, kSettle_s);
    for (const std::size_t point : book_.rungs().rung2()) {
        if (Clock::now() > until || !instances_.contains(point)) break;
        const RunOutcome timed = with_second_look([&] {
            return session_->open(kSearchSlot, candidates_.at(point), instances_.at(point), false,
                                  {{.measurement = book_.rungs().rung2_measurement()}});
        });
        if (timed.ok()) {
            book_.rungs().report(point, timed.steps_us.front());
        } else {
            book_.rungs().fail(point);
        }
    }
}

std::vector<std::size_t> TuneRun::finalist_points() const {
    std::vector<std::size_t> points = book_.rungs().finalists();
    const auto add = [&](const Candidate& candidate) {
        const auto point = candidates_.find(candidate);
        if (!point || !instances_.contains(*point) || !book_.is_right(*point)) return;
        if (std::find(points.begin(), points.end(), *point) == points.end()) points.push_back(*point);
    };
    if (earlier_.previous()) add(earlier_.previous()->candidate);
    const std::size_t best_point = book_.best_point();
    const Candidates::Part& best = candidates_.part_of(best_point);
    add({std::string(best.family->name()), best.space.default_config});
    std::erase_if(points, [&](std::size_t point) { return !instances_.contains(point); });
    if (points.empty() && instances_.contains(best_point)) points.push_back(best_point);
    return points;
}

Contestant TuneRun::contestant_of(std::size_t point) const {
    const Candidate candidate = candidates_.at(point);
    Contestant contestant;
    contestant.info.name = candidate.to_string();
    contestant.info.resources = resources_of(candidates_.plan(point), instances_.at(point)->report);
    contestant.info.is_previous_winner = earlier_.previous() && candidates_.find(earlier_.previous()->candidate) == point;
    contestant.info.is_default = candidates_.part_of(point).space.default_config == candidate.config;
    contestant.candidate = candidate;
    contestant.instance = instances_.at(point);
    contestant.verified = true;
    return contestant;
}

std::vector<Contestant> TuneRun::contestants(const std::set<Candidate>& out) const {
    std::vector<Contestant> all;
    for (const std::size_t point : finalist_points()) {
        if (!out.contains(candidates_.at(point))) all.push_back(contestant_of(point));
    }
    add_rivals(all, problem_);
    return all;
}

// Checks that only a winner must pass, because they take long: the same bits in hundreds of runs, and edge-case problems.
RunOutcome TuneRun::last_proof(const Candidate& candidate) {
    const PhaseTimer timer(phases_.neighbours_s);
    constexpr int kSlot = 0;
    RunOutcome outcome = session_->open(kSlot, candidate, instances_.at(*candidates_.find(candidate)), false);
    if (outcome.ok()) outcome = session_->check_repeatability(kSlot);
    if (outcome.ok()) outcome = verify_on_neighbours(shared_, problem_, candidate);
    return outcome;
}

db::Winner TuneRun::blank_winner(std::size_t point) const {
    const Trial& trial = book_.at(point);
    db::Winner winner;
    winner.op = problem_.op;
    winner.class_key = problem_.class_key();
    winner.extents = problem_.extents;
    winner.device = services().device.identity;
    winner.template_identity = candidates_.part_of(point).template_identity;
    winner.candidate = trial.candidate;
    if (trial.timing) winner.timing = *trial.timing;
    winner.compile = trial.compile;
    winner.provenance = services().provenance;
    winner.provenance.nvrtc = feed_->nvrtc();
    winner.provenance.method = options_.method.text();
    winner.provenance.date = now_utc_iso8601();
    winner.evidence.max_error = trial.max_error;
    winner.evidence.accumulation_error = trial.accumulation_error;
    winner.evidence.tried = book_.tried();
    winner.evidence.failed = book_.failed();
    winner.evidence.space_legal = candidates_.size();
    winner.evidence.seconds = elapsed_s();
    winner.evidence.compile_seconds = feed_->busy_seconds();
    winner.evidence.verify_seconds = phases_.verify_s;
    winner.evidence.measure_seconds = phases_.measure_s;
    winner.evidence.stopped_by = stopped_by_;
    winner.evidence.expected_gain = expected_gain();
    winner.evidence.seed = options_.seed;
    winner.evidence.failures = book_.failures();
    winner.restricted_to = restriction();
    return winner;
}

db::Winner TuneRun::winner_from(const FinalRace& race, const Verdict& verdict) const {
    const std::size_t point = *candidates_.find(*race.contestants()[verdict.winner].candidate);
    db::Winner winner = blank_winner(point);
    winner.timing = verdict.rows.front().timing;  // from the final rounds only: the search's minimum is biased
    note_verdict(winner.evidence, race, verdict);
    std::string& decided_by = winner.evidence.decided_by;
    if (judged_by_ == Reference::none) decided_by += "; verified on smaller problems alone";
    if (judged_by_ == Reference::sampled) decided_by += "; verified on sampled rows and columns and as a product";
    if (!services().note.empty()) decided_by += "; " + services().note;
    return winner;
}

// The restriction of the winner's search. Empty if the problem's previous winner took part too: then the result is the problem's
// winner.
std::string TuneRun::restriction() const {
    const std::optional<db::Winner>& previous = earlier_.previous();
    const auto point = previous && previous->restricted_to.empty() ? candidates_.find(previous->candidate) : std::nullopt;
    if (point && book_.trials().contains(*point)) return "";
    return restriction_of(options_.choice, services().catalogue, problem_, services().device);
}

std::string TuneRun::store(const db::Winner& winner) {
    if (services().store == nullptr) return "";
    try {
        services().store->put(winner);
        recorder_->flush(true);
    } catch (const db::DatabaseError& error) {
        return error.what();
    }
    return "";
}

// A failure to store the corrections is ignored: the next problem's candidates are only ordered a little worse.
void TuneRun::learn_from_trials() {
    if (!options_.learning || services().store == nullptr || services().store->is_read_only()) return;
    try {
        const std::vector<CostCorrection> known = corrections_for(problem_, services(), feed_->nvrtc());
        std::vector<CostCorrection> learned;
        for (const Candidates::Part& part : candidates_.parts()) {
            std::vector<Prediction> predictions;
            for (const auto& [point, trial] : book_.trials()) {
                if (&candidates_.part_of(point) != &part || trial.status != TrialStatus::ok || !trial.timing) continue;
                const auto predicted_us = part.predictor(trial.candidate.config);  // by the cost model only
                if (predicted_us) predictions.push_back({trial.candidate.config, *predicted_us, trial.timing->median_us});
            }
            if (predictions.empty()) continue;
            CostCorrection correction{.device_key = services().device.identity.key(),
                                      .family = std::string(part.family->name()),
                                      .template_identity = part.template_identity,
                                      .nvrtc = feed_->nvrtc(),
                                      .class_key = problem_.class_key()};
            for (const CostCorrection& one : known)
                if (one.family == correction.family && one.template_identity == correction.template_identity) correction = one;
            learn(correction, part.space, predictions);
            correction.date = now_utc_iso8601();
            learned.push_back(std::move(correction));
        }
        services().store->put_corrections(learned);
    } catch (const db::DatabaseError& error) {
        log_to(services().workers.log, LogLevel::warn, "tune",
               [&] { return std::string("what the trials say of the cost models is not stored: ") + error.what(); });
    }
}

// The results so far, for the user to see. No winner is stored: the next run continues from the trials.
TuneResult TuneRun::interrupted_result() {
    feed_->stop();
    recorder_->flush(true);
    if (!book_.best_us()) throw Error(ErrorCode::interrupted, "stopped before anything was verified; what was tried is kept");
    stopped_by_ = "interrupted";
    TuneResult result;
    result.winner = blank_winner(book_.best_point());
    result.winner.evidence.decided_by = "interrupted before the final rounds";
    result.tuned = true;
    result.interrupted = true;
    return result;
}

void TuneRun::throw_all_failed() const {
    std::map<std::string, int> counts;
    std::string example;
    for (const auto& [point, trial] : book_.trials()) {
        if (trial.status == TrialStatus::ok) continue;
        ++counts[std::string(to_string(trial.status))];
        if (example.empty()) example = trial.candidate.to_string() + ": " + trial.detail;
    }
    for (const auto& [point, stored] : earlier_.trials()) {
        if (stored.trial.status == TrialStatus::ok || book_.trials().contains(point)) continue;
        ++counts[std::string(to_string(stored.trial.status)) + " (earlier run)"];
        if (example.empty()) example = stored.trial.candidate.to_string() + ": " + stored.trial.detail;
    }
    std::string text;
    for (const auto& [status, count] : counts) text += (text.empty() ? "" : ", ") + std::to_string(count) + " " + status;
    throw Error(ErrorCode::no_valid_config, "no config of " + problem_.key() +
                                                " works: " + (text.empty() ? "none was tried" : text) +
                                                (example.empty() ? "" : "; for example " + example));
}

}  // namespace autotune::tuner
