#include <algorithm>
#include <cmath>
#include <sstream>
#include <string_view>

#include "src/core/error.h"
#include "tuner/session/recall.h"
#include "tuner/session/tune_run.h"

namespace autotune::tuner {
namespace {

using std::chrono::milliseconds;

constexpr auto kFlushEvery = milliseconds(250);
constexpr auto kTellEvery = milliseconds(100);
constexpr std::size_t kRetimed = 16;   // fastest known trials that are measured again
constexpr double kFinalsShare = 0.25;  // of the budget, kept for the final rounds ...
constexpr double kOverrun = 2;         // of the budget, while nothing has been verified, or next to nothing tried:
constexpr int kFewTried = 8;           // two seconds from a cold start are over when the first candidates are compiled
constexpr double kReferenceLimit_s = 5;

constexpr std::string_view kSource = "tune";  // of entries of the log

std::string line_of(const Trial& trial) {
    std::ostringstream text;
    text << trial.candidate.to_string() << ": " << to_string(trial.status);
    if (trial.timing) text << ", " << trial.timing->median_us << " us";
    if (!trial.detail.empty()) text << ", " << trial.detail;
    return text.str();
}

bool is_known_failure(const db::StoredTrial& stored) {
    return stored.trial.status != TrialStatus::ok;
}

std::vector<db::Winner> winners_of_any_device(const db::WinnerStore& store, const Problem& problem) {
    constexpr std::size_t kMost = 4;
    db::Filter filter;
    filter.op = problem.op;
    filter.class_key = problem.class_key();
    filter.extents = problem.extents;
    filter.limit = kMost;
    return store.list(filter);
}

Trial trial_of(const Candidate& candidate, const CompileOutcome& outcome) {
    Trial trial;
    trial.candidate = candidate;
    trial.compile = outcome.report;
    if (!outcome.failure.empty()) {
        trial.status = TrialStatus::compile_failed;
        trial.detail = outcome.failure;
    } else if (!outcome.rejected.empty()) {
        trial.status = TrialStatus::rejected;
        trial.detail = outcome.rejected;
    }
    return trial;
}

// What the tensor cores' peak rate takes; 0 if it is not known.
double multiply_us(const Op& op, const Problem& problem, const Device& device) {
    const double flop_per_us = device.tensor_flop_per_clock_sm() * device.identity.sm_count * device.clock_mhz;
    return flop_per_us > 0 ? op.flops(problem) / flop_per_us : 0;
}

// The time that no kernel can beat, by the device's peak rates.
double floor_us(const Op& op, const Problem& problem, const Device& device) {
    const double bytes_per_us = device.memory_gb_per_s * 1e3;
    const double memory_us = bytes_per_us > 0 ? op.bytes(problem) / bytes_per_us : 0;
    return std::max(multiply_us(op, problem, device), memory_us);
}

// Whether the naive reference is worth its time at this size. Both tests of the naive fp64 kernel ran at 8.5 TFLOP/s or more on
// an H200 (16384x16384x8192 in 1.03 s with fills, 2026-11-21): 32 a clock and SM. Cards whose fp64 is an afterthought have a
// sixteenth of that.
bool affordable_reference(const Op& op, const Problem& problem, const Device& device) {
    const bool is_datacenter = device.identity.cc_minor == 0;
    const double per_second =
        (is_datacenter ? 32.0 : 2.0) * std::max(device.identity.sm_count, 1) * std::max(device.clock_mhz, 1000.0) * 1e6;
    return 2 * op.flops(problem) / per_second <= kReferenceLimit_s;
}

}  // namespace

BenchSession::Options session_options(const Problem& problem, const TuneServices& services) {
    const Op& op = services.catalogue.op_of(problem);
    BenchSession::Options options;
    options.floor_us = floor_us(op, problem, services.device);
    options.affordable_reference = affordable_reference(op, problem, services.device);
    return options;
}

Instance compile_now(RunShared& shared, const jit::Rendered& rendered) {
    if (const auto known = shared.instances.find(rendered.identity); known != shared.instances.end()) return known->second;
    const auto outcome = std::make_shared<std::optional<CompileOutcome>>();  // outlives us if the wait is interrupted
    shared.engine.pool().submit({rendered, 0, shared.engine.new_owner(), ""},
                                [outcome](const CompileOutcome& got) { *outcome = got; });
    shared.engine.wait_for([&] { return outcome->has_value(); });
    if ((*outcome)->compiled == nullptr) throw Error(ErrorCode::compile_failed, (*outcome)->failure);
    return shared.instances[rendered.identity] = (*outcome)->compiled;
}

Instance compile_judges(RunShared& shared, const Problem& problem) {
    const TuneServices& services = shared.engine.services();
    const jit::Target target{services.device.arch(), shared.engine.nvrtc_version()};
    shared.host.set_harness(compile_now(shared, jit::render_harness(services.catalogue, target)));
    return compile_now(shared, jit::render_reference(services.catalogue, services.catalogue.op_of(problem), problem, target));
}

std::unique_ptr<const Candidates> list_candidates(const Problem& problem, const TuneOptions& options,
                                                  const TuneServices& services) {
    auto listed = std::make_unique<Candidates>(services.catalogue, problem, services.device, options.choice);
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
      rungs_({.finalists = options.finalists}),
      owner_(shared.engine.new_owner()) {
    plan_search();
}

// Closing the session still serves the loop, whose idle hook calls refill(): first there must be nothing left to refill.
TuneRun::~TuneRun() {
    searching_ = false;
    session_.reset();
    shared_.engine.unwatch(strategy_->ready_fd());
    shared_.engine.pool().cancel(owner_);
    shared_.engine.pool().resume();
}

double TuneRun::elapsed_s() const {
    return seconds_since(begun_);
}

// What earlier runs know comes first: the previous winner, the fastest trials, winners of near problems and of other devices.
void TuneRun::plan_search() {
    require_strategy(options_.strategy);
    std::vector<std::size_t> seeds;
    // What another text of its family's template was tuned to may lack parameters that are new.
    const auto add_seed = [&](const Candidate& candidate) {
        const Candidates::Part* part = candidates_.part(candidate.family);
        const std::optional<Config> adopted = part == nullptr ? std::nullopt : part->space.adopt(candidate.config);
        if (!adopted) return;
        if (const auto point = candidates_.find({candidate.family, *adopted})) seeds.push_back(*point);
    };
    if (services().store != nullptr) {
        const DeviceIdentity& device = services().device.identity;
        previous_ = valid_winner(problem_, services());
        if (previous_) add_seed(previous_->candidate);
        for (const db::Winner& winner : services().store->find(problem_, device)) add_seed(winner.candidate);
        std::vector<std::pair<double, std::size_t>> timed;
        for (db::StoredTrial& stored : services().store->trials(problem_, device)) {
            const auto point = candidates_.find(stored.trial.candidate);
            if (!point || stored.template_identity != candidates_.part_of(*point).template_identity) continue;
            if (stored.trial.timing) timed.emplace_back(stored.trial.timing->median_us, *point);
            known_[*point] = std::move(stored);
        }
        std::sort(timed.begin(), timed.end());
        for (std::size_t i = 0; i < std::min(kRetimed, timed.size()); ++i) {
            seeds.push_back(timed[i].second);
            retimed_.insert(timed[i].second);
        }
        for (const db::Winner& near : services().store->near(problem_, device, 3)) add_seed(near.candidate);
        for (const db::Winner& elsewhere : winners_of_any_device(*services().store, problem_)) add_seed(elsewhere.candidate);
    }
    seeds_ = candidates_.all_seeds(std::move(seeds));
    strategy_.emplace([this] { return make_strategy(options_.strategy, candidates_.domain(seeds_), options_.seed); });
    shared_.engine.watch(strategy_->ready_fd());
}

void TuneRun::start(int urgency) {
    started_at_ = begun_ = flushed_at_ = Clock::now();
    urgency_ = urgency;
    compile_busy_before_s_ = shared_.engine.pool().busy_seconds();
    target_nvrtc_ = shared_.engine.nvrtc_version();
    log_to(services().workers.log, LogLevel::info, kSource, [&] {
        return problem_.key() + " " + problem_.shape() + " on " + services().device.identity.name + ": " +
               std::to_string(candidates_.size()) + " candidates";
    });
    compile_fixed();
    // A strategy begins with the seeds too, but first it has to list 300,000 points.
    for (std::size_t i = 0; i < std::min(seeds_.size(), queue_length()); ++i) {
        early_.insert(seeds_[i]);
        if (!take_from_store(seeds_[i])) submit(seeds_[i]);
    }
    refill();
}

std::size_t TuneRun::queue_length() const {
    return shared_.engine.pool().capacity() + 4;
}

// The harness and the reference: everything waits for them, so they go first.
void TuneRun::compile_fixed() {
    const jit::Target target{services().device.arch(), target_nvrtc_};
    const auto request = [&](const jit::Rendered& rendered, Instance& place) {
        if (const auto known = shared_.instances.find(rendered.identity); known != shared_.instances.end()) {
            place = known->second;
            return;
        }
        shared_.engine.pool().submit({rendered, urgency_ - 1, owner_, options_.keep_folder}, [&](const CompileOutcome& outcome) {
            if (outcome.compiled == nullptr) throw Error(ErrorCode::compile_failed, outcome.failure);
            place = shared_.instances[outcome.compiled->identity] = outcome.compiled;
        });
    };
    request(jit::render_harness(services().catalogue, target), harness_);
    request(jit::render_reference(services().catalogue, op_, problem_, target), reference_);
}

void TuneRun::refill() {
    const std::vector<std::size_t> points = strategy_->take();
    if (!searching_ || search_is_over()) return;
    for (const std::size_t point : points) {
        if (early_.erase(point) == 0 && !take_from_store(point)) submit(point);
    }
    const std::size_t waiting = compiling_ + ready_.size();
    if (waiting < queue_length() && strategy_->may_ask()) strategy_->ask(queue_length() - waiting);
}

// Known failures are not tried again; known times count unless they are among the best, which are measured anew, or were
// measured by another method.
bool TuneRun::take_from_store(std::size_t point) {
    const auto known = known_.find(point);
    if (known == known_.end() || retimed_.contains(point)) return false;
    const db::StoredTrial& stored = known->second;
    const bool compiler_changed = stored.nvrtc != target_nvrtc_;
    const bool is_to_be_timed = options_.retune || stored.method != measuring_method(options_.l2_warm);
    if (compiler_changed || (!is_known_failure(stored) && is_to_be_timed)) return false;
    strategy_->report(point, stored.trial.timing ? std::optional(stored.trial.timing->median_us) : std::nullopt);
    return true;
}

void TuneRun::submit(std::size_t point) {
    const Candidates::Part& part = candidates_.part_of(point);
    const Candidate candidate = candidates_.at(point);
    jit::Rendered rendered = jit::render(services().catalogue, *part.family, problem_, part.space, candidate.config,
                                         {services().device.arch(), target_nvrtc_});
    ++compiling_;
    shared_.engine.pool().submit({std::move(rendered), urgency_, owner_, options_.keep_folder},
                                 [this, point](const CompileOutcome& outcome) {
                                     --compiling_;
                                     ready_.push_back({point, outcome});
                                 });
}

bool TuneRun::search_is_over() {
    const bool few_yet = !best_us_ || tried_ < kFewTried;
    const bool one_was_tried = tried_ > 0;  // no machine is so slow that a tune ends without a verdict on anything
    const Budget& budget = options_.budget;
    if (budget.trials > 0 && tried_ >= budget.trials) {
        stopped_by_ = "budget";
        return true;
    }
    const double search_s = budget.seconds - std::min(kFinalsShare * budget.seconds, kMostFinals_s);
    if (one_was_tried && elapsed_s() > (few_yet ? kOverrun * budget.seconds : search_s)) {
        stopped_by_ = "budget";
        return true;
    }
    if (since_better_ >= budget.patience) {
        stopped_by_ = "no better one in " + std::to_string(budget.patience) + " trials";
        return true;
    }
    if (best_us_ && *best_us_ <= budget.target_us) {
        stopped_by_ = "target reached";
        return true;
    }
    return false;
}

void TuneRun::search() {
    const PhaseTimer timer(phases_.search_s);
    const double busy_before_s = shared_.engine.bench().busy_seconds();
    while (!search_is_over()) {
        refill();
        progress(Phase::trial);
        if (!ready_.empty()) {
            Ready next = std::move(ready_.front());
            ready_.pop_front();
            try_one(std::move(next));
        } else if (compiling_ > 0 || strategy_->asking()) {
            const PhaseTimer starved(phases_.starved_s);
            if (!keep_loaded()) shared_.engine.pump(milliseconds(100));
        } else {
            break;  // it has nothing more, and nothing is under way that it could wait for
        }
    }
    phases_.busy_s = shared_.engine.bench().busy_seconds() - busy_before_s - phases_.loaded_s;
    searching_ = false;
    shared_.engine.pool().cancel(owner_);
    compiling_ = 0;
}

// While nothing is ready, the last one tried runs on: a card at rest recovers clocks that it cannot hold, and who is measured
// next would look better than who came under load. Of kernels that draw little power none does.
bool TuneRun::keep_loaded() {
    constexpr double kStretch_s = 0.01;  // how long something that became ready may wait
    if (!can_load()) return false;
    const std::size_t point = *open_;
    const double before_s = shared_.engine.bench().busy_seconds();
    const RunOutcome outcome = with_second_look([&] {
        if (!session_->lost()) return session_->warm(kSearchSlot, kStretch_s);
        const RunOutcome again = session_->open(kSearchSlot, candidates_.at(point), instances_.at(point), false);
        return again.ok() ? session_->warm(kSearchSlot, kStretch_s) : again;
    });
    phases_.loaded_s += shared_.engine.bench().busy_seconds() - before_s;
    if (!outcome.ok()) charge(point, outcome);
    return true;
}

// Whether something is open whose running loads the card.
bool TuneRun::can_load() const {
    return open_ && !session_->lost() && draws_power();
}

bool TuneRun::draws_power() const {
    constexpr double kShareOfPeak = 0.25, kLeast_us = 20;
    return best_us_ && *best_us_ >= kLeast_us && multiply_us(op_, problem_, services().device) >= kShareOfPeak * *best_us_;
}

void TuneRun::try_one(Ready ready) {
    Trial trial = trial_of(candidates_.at(ready.point), ready.outcome);
    if (trial.status == TrialStatus::ok) {
        RunOutcome outcome = run_on_gpu(ready, trial.candidate);
        if (outcome.died() && shared_.journal) shared_.journal->survived(entry_of(trial));
        if (outcome.died()) {
            // Once more, in a fresh worker, and at once: in the queue the verdict would be lost if the budget ended first.
            outcome = run_on_gpu(ready, trial.candidate);
            if (outcome.died() && shared_.journal) shared_.journal->survived(entry_of(trial));
        }
        trial.status = outcome.status;
        trial.detail = outcome.detail;
        trial.max_error = outcome.max_error;
        trial.accumulation_error = outcome.accumulation_error;
        if (outcome.ok()) {
            trial.timing = rungs_.timing(ready.point);
            instances_[ready.point] = ready.outcome.compiled;
        } else {
            rungs_.fail(ready.point);
        }
    }
    record(ready.point, std::move(trial));
}

RunOutcome TuneRun::run_on_gpu(const Ready& ready, const Candidate& candidate) {
    if (shared_.journal) {
        const int times = suspects_.contains(candidate) ? 2 : 1;
        Trial starting;
        starting.candidate = candidate;
        for (int i = 0; i < times; ++i) shared_.journal->started(entry_of(starting));
    }
    const auto begun = Clock::now();
    const RunOutcome outcome = session_->open(kSearchSlot, candidate, ready.outcome.compiled, true, rungs_.climb());
    open_ = outcome.ok() ? std::optional(ready.point) : std::nullopt;
    phases_.verify_s += outcome.opening_s;
    phases_.measure_s += seconds_since(begun) - outcome.opening_s;
    for (const std::vector<double>& samples_us : outcome.steps_us) {
        if (rungs_.next(ready.point)) rungs_.report(ready.point, samples_us);
    }
    return outcome;  // the next one's opening closes it
}

void TuneRun::record(std::size_t point, Trial trial) {
    constexpr double kBetter = 0.995;  // less is noise
    ++tried_;
    ++since_better_;
    std::optional<double> time_us;
    if (trial.status == TrialStatus::ok) {
        time_us = rungs_.estimate_us(point);
        if (phases_.first_verified_s == 0) phases_.first_verified_s = seconds_since(started_at_);
        if (time_us && (!best_us_ || *time_us < *best_us_)) {
            if (!best_us_ || *time_us < kBetter * *best_us_) since_better_ = 0;
            best_us_ = time_us;
            best_point_ = point;
        }
    } else {
        ++failed_;
    }
    strategy_->report(point, time_us);
    const JournalEntry entry = entry_of(trial);
    if (shared_.journal) shared_.journal->finished(entry);
    if (services().store != nullptr) {
        services().store->record(problem_, services().device.identity,
                                 {trial, entry.template_identity, entry.nvrtc, entry.method});
    }
    if (services().observer != nullptr) services().observer->on_trial(trial);
    log_to(services().workers.log, LogLevel::debug, kSource, [&] { return line_of(trial); });
    trials_[point] = std::move(trial);
    flush_store(false);
}

// What was right and timed turned out to be wrong, or to kill: as if it had never been fine.
void TuneRun::charge(std::size_t point, const RunOutcome& outcome) {
    Trial trial = trials_.at(point);
    trial.status = outcome.status;
    trial.timing.reset();
    trial.detail = outcome.detail;
    rungs_.fail(point);
    if (open_ == point) open_.reset();
    record(point, std::move(trial));
    if (best_point_ != point) return;
    const std::vector<std::size_t> left = rungs_.finalists();
    best_us_ = left.empty() ? std::nullopt : rungs_.estimate_us(left.front());
    best_point_ = left.empty() ? best_point_ : left.front();
}

// The journal covers what the store has buffered, so it may be emptied whenever the store has written.
void TuneRun::flush_store(bool now) {
    if (services().store == nullptr || (!now && Clock::now() - flushed_at_ < kFlushEvery)) return;
    const bool is_written = services().store->flush();
    if (is_written && shared_.journal) shared_.journal->clear();
    flushed_at_ = Clock::now();
}

JournalEntry TuneRun::entry_of(Trial trial) const {
    const Candidates::Part* part = candidates_.part(trial.candidate.family);
    return {.problem = problem_,
            .template_identity = part == nullptr ? "" : part->template_identity,
            .nvrtc = target_nvrtc_,
            .method = measuring_method(options_.l2_warm),
            .trial = std::move(trial)};
}

// What a killed run had measured but not stored, and who was running when it ended.
void TuneRun::recover_journal() {
    for (const JournalEntry& left : shared_.journal->left_over()) {
        db::StoredTrial stored{left.trial, left.template_identity, left.nvrtc, left.method};
        if (!left.finished && left.begun < 2) {
            if (left.problem.key() == problem_.key() && left.begun > 0) suspects_.insert(left.trial.candidate);
            continue;
        }
        if (!left.finished) {
            stored.trial.status = TrialStatus::crashed;
            stored.trial.detail = "the tuner ended twice while it was running";
        }
        if (services().store != nullptr) services().store->record(left.problem, services().device.identity, stored);
        const auto point = candidates_.find(left.trial.candidate);
        if (point && left.problem.key() == problem_.key()) known_[*point] = stored;
    }
    flush_store(true);
}

void TuneRun::progress(Phase phase) {
    if (services().observer == nullptr || (phase == Phase::trial && Clock::now() - told_at_ < kTellEvery)) return;
    told_at_ = Clock::now();
    Progress now;
    now.phase = phase == Phase::trial && trials_.empty() ? Phase::compile : phase;
    now.compiled = shared_.engine.pool().compiled();
    now.tried = tried_;
    now.failed = failed_;
    now.waiting = static_cast<int>(compiling_ + ready_.size());
    now.elapsed_s = elapsed_s();
    now.best_us = best_us_;
    if (best_us_) now.best = candidates_.at(best_point_).to_string();
    if (phase != Phase::done) now.eta_s = std::max(0.0, options_.budget.seconds - now.elapsed_s);
    services().observer->on_progress(now);
}

}  // namespace autotune::tuner
