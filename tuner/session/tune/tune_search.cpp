#include <algorithm>
#include <sstream>
#include <string_view>
#include <utility>

#include "src/core/statistics/statistics.h"
#include "src/records/evidence_check.h"
#include "tuner/session/tune/search_limits.h"
#include "tuner/session/tune/tune_run.h"

namespace autotune::tuner {
namespace {

using std::chrono::milliseconds;

constexpr auto kTellEvery = milliseconds(100);
constexpr std::string_view kSource = "tune";  // of log entries

std::string line_of(const Trial& trial) {
    std::ostringstream text;
    text << trial.candidate.to_string() << ": " << to_string(trial.status);
    if (trial.timing) text << ", " << trial.timing->median_us << " us";
    if (!trial.detail.empty()) text << ", " << trial.detail;
    return text.str();
}

// A user who asks for more finalists than usual does not trust short measurements.
double chance_ratio(const TuneOptions& options) {
    constexpr double kChance = 1.05;
    return options.finalists > RungOptions{}.finalists ? RungOptions{}.chance_ratio : kChance;
}

Trial trial_of(const Candidate& candidate, const CompileOutcome& outcome) {
    Trial trial;
    trial.candidate = candidate;
    trial.compile = outcome.report;
    if (!outcome.failure.empty()) {
        trial.status = TrialStatus::compile_failed;
        trial.detail = outcome.failure;
        trial.by_circumstance = outcome.by_circumstance;
    } else if (!outcome.rejected.empty()) {
        trial.status = TrialStatus::rejected;
        trial.detail = outcome.rejected;
    }
    return trial;
}

}  // namespace

Beforehand known_beforehand(const Problem& problem, const TuneOptions& options, const TuneServices& services) {
    return {.known = EarlierRuns::winners(problem, services, options.choice),
            .corrections = options.learning ? nearest_corrections(problem, services, services.provenance.nvrtc)
                                            : std::vector<CostCorrection>()};
}

std::unique_ptr<Candidates> first_candidates(const Problem& problem, const TuneOptions& options, const TuneServices& services,
                                             const Beforehand& beforehand) {
    auto candidates = Candidates::unlisted(services.catalogue, problem, services.device, options.choice);
    candidates->correct(beforehand.corrections);
    candidates->choose_first(beforehand.known);
    return candidates;
}

std::unique_ptr<const Candidates> list_candidates(const Problem& problem, const TuneOptions& options,
                                                  const TuneServices& services, const Beforehand& beforehand) {
    auto listed = first_candidates(problem, options, services, beforehand);
    listed->list();
    listed->predict_all();
    return listed;
}

TuneRun::TuneRun(RunShared& shared, const Problem& problem, const TuneOptions& options,
                 std::unique_ptr<const Candidates> candidates)
    : shared_(shared),
      problem_(problem),
      options_(options),
      op_(shared.engine.services().catalogue.op_of(problem)),
      listed_(std::move(candidates)),
      book_({.chance_ratio = chance_ratio(options), .finalists = options.finalists}) {
    require_strategy(options_.strategy);
    earlier_ = EarlierRuns(problem_, candidates_, services(), options_.choice);
    seeds_ = candidates_.all_seeds(earlier_.seeds());
    untold_seeds_.insert(seeds_.begin(), seeds_.end());
    strategy_.emplace([this] { return make_strategy(options_.strategy, candidates_.domain(seeds_), options_.seed); });
    shared_.engine.watch(strategy_->ready_fd());
}

// Closing the session still runs the loop, whose idle hook calls refill(), so first there must be nothing left to refill.
TuneRun::~TuneRun() {
    searching_ = false;
    session_.reset();
    shared_.engine.unwatch(strategy_->ready_fd());
    feed_.reset();
    shared_.engine.pool().resume();
}

void TuneRun::start(int urgency) {
    started_at_ = begun_ = Clock::now();
    urgency_ = urgency;
    log_to(services().workers.log, LogLevel::info, kSource, [&] {
        return problem_.key() + " on " + services().device.identity.name + ": " + std::to_string(candidates_.size()) +
               " candidates";
    });
    feed_.emplace(shared_, CompileFeed::Options{problem_, candidates_, options_.keep_folder, urgency});
    const auto identity_of = [this](const std::string& family) {
        const Candidates::Part* part = candidates_.part(family);
        return part == nullptr ? std::string() : part->template_identity;
    };
    recorder_.emplace(services(), TrialRecorder::Context{problem_, feed_->nvrtc(), options_.method.text(), identity_of});
    // The strategy also begins with the seeds, but it must first list 300,000 points.
    const std::size_t first = std::min(seeds_.size(), feed_->room());
    for (std::size_t i = 0; i < first; ++i) {
        early_.insert(seeds_[i]);
        if (!take_from_store(seeds_[i])) feed_->submit(seeds_[i]);
    }
    refill();
}

void TuneRun::refill() {
    const std::vector<std::size_t> points = strategy_->take();
    if (asked_compiled_) extra_.insert(points.begin(), points.end());
    if (!searching_ || search_is_over()) return;
    for (const std::size_t point : points) {
        if (early_.erase(point) == 0 && !take_from_store(point)) feed_->submit(point);
    }
    if (const std::size_t room = feed_->room(); room > 0 && strategy_->may_ask()) {
        asked_compiled_ = false;
        strategy_->ask(room);
    }
}

bool TuneRun::take_from_store(std::size_t point) {
    const auto known = earlier_.known(point, {feed_->nvrtc(), options_.method.text(), options_.retune});
    if (known) report(point, known->time_us);
    return known.has_value();
}

bool TuneRun::search_is_over() {
    const SearchState state{.tried = book_.tried(),
                            .since_better = book_.since_better(),
                            .best_us = book_.best_us(),
                            .elapsed_s = elapsed_s(),
                            .search_s = searched_from_ ? seconds_since(*searched_from_) : 0,
                            .expected_gain = expected_gain(),
                            .draws_power = draws_power(),
                            .learned_problems = learned_problems()};
    const auto why = why_search_ends(options_.budget, state);
    if (why) stopped_by_ = *why;
    return why.has_value();
}

void TuneRun::search() {
    const PhaseTimer timer(phases_.search_s);
    searched_from_ = Clock::now();
    const double busy_before_s = shared_.engine.gpu_worker().busy_seconds();
    while (!search_is_over()) {
        refill();
        progress(Phase::trial);
        if (const auto ready = feed_->next()) {
            try_one(*ready);
        } else if (feed_->compiling() > 0 || strategy_->asking()) {
            ask_for_compiled();
            const PhaseTimer starved(phases_.starved_s);
            if (!keep_loaded()) shared_.engine.pump(milliseconds(100));
        } else {
            break;  // the strategy has no more points, and nothing is in progress that it could wait for
        }
    }
    phases_.busy_s = shared_.engine.gpu_worker().busy_seconds() - busy_before_s - phases_.loaded_s;
    searching_ = false;
    feed_->stop();
}

// The GPU waits for compilers during half of a search. Meanwhile it measures other launch parameters of instances that it has:
// orders of tiles and depths of rings tell some candidates apart by 5 %. They would take their share of a number of trials.
void TuneRun::ask_for_compiled() {
    if (options_.budget.trials > 0 || feed_->room() > 0 || !strategy_->may_ask_compiled()) return;
    asked_compiled_ = true;
    strategy_->ask_compiled(1);
}

// While nothing is ready, the last tried candidate keeps running: an idle card recovers clocks that it cannot hold, and the next
// candidate would look better than ones measured under load. Kernels that draw little power are not used for this.
bool TuneRun::keep_loaded() {
    constexpr double kStretch_s = 0.01;  // how long a candidate that became ready may wait
    if (!can_load()) return false;
    const std::size_t point = *open_;
    const double before_s = shared_.engine.gpu_worker().busy_seconds();
    RunOutcome outcome = session_->warm(kSearchSlot, kStretch_s);
    // One death may have another cause. A stretch is short, so a candidate that dies after many launches survives most of them;
    // deaths are counted over all stretches.
    if (outcome.died() && deaths_under_load_[point]++ == 0)
        outcome = session_->open(kSearchSlot, candidates_.at(point), instances_.at(point), false);
    phases_.loaded_s += shared_.engine.gpu_worker().busy_seconds() - before_s;
    if (!outcome.ok()) charge(point, outcome);
    return true;
}

// Whether an open candidate would load the card if it ran.
bool TuneRun::can_load() const {
    return open_ && !session_->lost() && draws_power();
}

bool TuneRun::draws_power() const {
    constexpr double kShareOfPeak = 0.25, kLeast_us = 20;
    const std::optional<double> best_us = book_.best_us();
    return best_us && *best_us >= kLeast_us && multiply_us(op_, problem_, services().device) >= kShareOfPeak * *best_us;
}

void TuneRun::try_one(const Ready& ready) {
    Trial trial = trial_of(candidates_.at(ready.point), ready.outcome);
    if (trial.status == TrialStatus::ok) {
        RunOutcome outcome = run_on_gpu(ready, trial.candidate);
        if (outcome.died()) {
            recorder_->survived(trial.candidate);
            // Tries the candidate once more, in a fresh worker and at once: if it were queued, the verdict would be lost if the
            // budget ended first.
            outcome = run_on_gpu(ready, trial.candidate);
            if (outcome.died()) recorder_->survived(trial.candidate);
        }
        trial.status = outcome.status;
        trial.detail = outcome.detail;
        trial.by_circumstance = outcome.by_circumstance;
        trial.max_error = outcome.max_error;
        trial.accumulation_error = outcome.accumulation_error;
        if (outcome.ok()) {
            trial.timing = book_.rungs().timing(ready.point);
            instances_[ready.point] = ready.outcome.compiled;
        }
    }
    note(ready.point, std::move(trial));
}

// A launch that seems to take no time is measured again with many more launches. If it still does, it counts as not measured;
// otherwise it would win.
void TuneRun::require_measured(RunOutcome& outcome) {
    if (!outcome.ok() || outcome.steps_us.empty() || outcome.steps_us.back().empty()) return;
    if (!why_unmeasured(stats::median(outcome.steps_us.back()))) return;
    const RunOutcome again = session_->sample(kSearchSlot, {.rung = 0, .samples = 30, .time_us = 50'000, .most_samples = 200});
    const auto why = again.ok() && !again.samples_us.empty() ? why_unmeasured(stats::median(again.samples_us)) : std::nullopt;
    if (again.ok() && !why) {
        outcome.steps_us.back() = again.samples_us;
        return;
    }
    outcome.status = again.ok() ? TrialStatus::rejected : again.status;
    outcome.detail = again.ok() ? *why : again.detail;
    outcome.steps_us.clear();
}

RunOutcome TuneRun::run_on_gpu(const Ready& ready, const Candidate& candidate) {
    recorder_->started(candidate);
    const auto begun = Clock::now();
    RunOutcome outcome = session_->open(kSearchSlot, candidate, ready.outcome.compiled, true, book_.rungs().climb());
    require_measured(outcome);
    open_ = outcome.ok() ? std::optional(ready.point) : std::nullopt;
    phases_.verify_s += outcome.opening_s;
    phases_.measure_s += seconds_since(begun) - outcome.opening_s;
    for (const std::vector<double>& samples_us : outcome.steps_us) {
        if (book_.rungs().next(ready.point)) book_.rungs().report(ready.point, samples_us);
    }
    return outcome;  // opening the next candidate closes this one
}

void TuneRun::note(std::size_t point, Trial trial) {
    const std::optional<double> time_us = book_.add(point, std::move(trial), !extra_.contains(point));
    tell(book_.at(point), time_us, point);
}

void TuneRun::charge(std::size_t point, const RunOutcome& outcome) {
    if (open_ == point) open_.reset();
    tell(book_.charge(point, outcome.status, outcome.detail, outcome.by_circumstance), std::nullopt, point);
}

// Reports a trial to everything that uses it.
void TuneRun::tell(const Trial& trial, std::optional<double> time_us, std::size_t point) {
    if (trial.status == TrialStatus::ok && phases_.first_verified_s == 0) phases_.first_verified_s = seconds_since(started_at_);
    report(point, time_us);
    recorder_->finished(trial);
    if (services().observer != nullptr) services().observer->on_trial(trial);
    log_to(services().workers.log, LogLevel::debug, kSource, [&] { return line_of(trial); });
}

void TuneRun::report(std::size_t point, std::optional<double> time_us) {
    strategy_->report(point, time_us);
    untold_seeds_.erase(point);
}

// A model without the results of the seeds knows little about the space. But a seed may compile for long: once twice as many
// candidates were tried, it is not waited for.
std::optional<double> TuneRun::expected_gain() const {
    const std::optional<Outlook>& outlook = strategy_->outlook();
    const bool knows_enough = untold_seeds_.empty() || static_cast<std::size_t>(book_.tried()) >= 2 * seeds_.size();
    return outlook && knows_enough ? std::optional(outlook->gain) : std::nullopt;
}

// The number of problems that corrected the predictions of the best candidate's family.
int TuneRun::learned_problems() const {
    return book_.best_us() ? candidates_.part_of(book_.best_point()).learned_problems : 0;
}

// The time of the default config of the best candidate's family.
std::optional<double> TuneRun::default_us() const {
    if (!book_.best_us()) return std::nullopt;
    const Candidates::Part& best = candidates_.part_of(book_.best_point());
    const auto point = candidates_.find({std::string(best.family->name()), best.space.default_config});
    return point ? book_.rungs().estimate_us(*point) : std::nullopt;
}

void TuneRun::progress(Phase phase) {
    if (services().observer == nullptr || (phase == Phase::trial && Clock::now() - told_at_ < kTellEvery)) return;
    told_at_ = Clock::now();
    Progress now;
    now.phase = phase == Phase::trial && book_.trials().empty() ? Phase::compile : phase;
    now.compiled = shared_.engine.pool().compiled();
    now.tried = book_.tried();
    now.failed = book_.failed();
    now.waiting = static_cast<int>(feed_->under_way());
    now.elapsed_s = elapsed_s();
    now.best_us = book_.best_us();
    if (now.best_us) now.best = candidates_.at(book_.best_point()).to_string();
    now.default_us = default_us();
    now.gain = expected_gain();
    if (phase != Phase::done) now.eta_s = std::max(0.0, options_.budget.seconds - now.elapsed_s);
    services().observer->on_progress(now);
}

}  // namespace autotune::tuner
