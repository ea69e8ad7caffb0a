#include "tuner/session/race/final_race.h"

#include <algorithm>

#include "src/records/evidence_check.h"
#include "src/rivals/rival.h"

namespace autotune::tuner {
namespace {

std::int64_t threads_of(const LaunchPlan& plan) {
    if (plan.steps.empty()) return 0;
    const Dim3& block = plan.steps.front().block;
    return std::int64_t{1} * block.x * block.y * block.z;
}

}  // namespace

Resources resources_of(const LaunchPlan& plan, const CompileReport& report) {
    Resources resources;
    if (!plan.steps.empty()) resources.dynamic_smem_bytes = static_cast<std::int64_t>(plan.steps.front().dynamic_smem_bytes);
    resources.registers = std::max(report.registers, 0) * threads_of(plan);
    resources.tile = threads_of(plan);
    return resources;
}

void note_verdict(db::Evidence& evidence, const FinalRace& race, const Verdict& verdict) {
    evidence.rounds = verdict.rounds;
    evidence.decided_by = verdict.decided_by;
    if (verdict.throttled) evidence.decided_by += "; the card was throttled";
    evidence.conditions = verdict.conditions;
    evidence.finalists.clear();
    for (const FinalRow& row : verdict.rows) {
        if (row.rounds == 0) continue;
        const Contestant& who = race.contestants()[row.finalist];
        evidence.finalists.push_back({.name = who.info.name,
                                      .candidate = who.candidate,
                                      .timing = row.timing,
                                      .ratio = row.ratio,
                                      .ratio_low = row.ratio_low,
                                      .ratio_high = row.ratio_high,
                                      .tie = row.tie,
                                      .after_itself_us = race.time_after_us(row.finalist, Predecessor::itself),
                                      .after_trigger_us = race.time_after_us(row.finalist, Predecessor::trigger),
                                      .conditions = {.sm_clock_mhz = row.conditions.sm_clock_mhz,
                                                     .power_w = row.conditions.power_w,
                                                     .temperature_c = {},
                                                     .throttle_reasons = {}}});
    }
}

void add_rivals(std::vector<Contestant>& contestants, const Problem& problem) {
    for (std::string& name : rivals_in_tunes(problem)) {
        Contestant rival;
        rival.info.name = std::move(name);
        rival.info.may_win = false;
        contestants.push_back(std::move(rival));
    }
}

FinalRace::FinalRace(GpuWorkerSession& session, std::vector<Contestant> contestants, const Options& options)
    : session_(session),
      contestants_(std::move(contestants)),
      options_(options),
      outcomes_(contestants_.size()),
      deaths_(contestants_.size()),
      after_us_(contestants_.size()),
      sustained_(contestants_.size()) {
    std::vector<FinalistInfo> infos;
    for (const Contestant& contestant : contestants_) infos.push_back(contestant.info);
    rounds_.emplace(std::move(infos), options_.rounds);
}

bool FinalRace::somebody_can_win() const {
    for (std::size_t i = 0; i < contestants_.size(); ++i) {
        if (can_win(i)) return true;
    }
    return false;
}

void FinalRace::open(std::size_t contestant) {
    Contestant& who = contestants_[contestant];
    const int slot = static_cast<int>(contestant);
    const RunOutcome opened = who.candidate ? session_.open(slot, *who.candidate, who.instance, !who.verified)
                                            : session_.open_rival(slot, who.info.name, options_.verify_rivals);
    if (session_.lost() && opened.died() && is_forgiven(contestant)) return;
    if (!opened.ok()) return fail(contestant, opened);
    if (!who.verified) outcomes_[contestant] = opened;
    who.verified = true;
}

void FinalRace::fail(std::size_t contestant, const RunOutcome& outcome) {
    outcomes_[contestant] = outcome;
    if (outcome.ok()) outcomes_[contestant].status = TrialStatus::crashed;
    rounds_->fail(contestant);
}

// Opening a contestant may kill the worker, and the contestants opened before it are lost. Then all that are left are opened
// again, until none kills the worker.
void FinalRace::open_all() {
    bool again = true;
    while (again && somebody_can_win()) {
        again = false;
        for (std::size_t i = 0; i < contestants_.size(); ++i) {
            if (!outcomes_[i].ok()) continue;
            open(i);
            again = again || session_.lost();
            if (session_.lost()) break;
        }
    }
}

void FinalRace::warm() {
    const auto order = rounds_->next_round();
    const auto first = std::find_if(order.begin(), order.end(), [&](std::size_t i) { return can_win(i); });
    if (options_.warm_seconds > 0 && first != order.end()) session_.warm(static_cast<int>(*first), options_.warm_seconds);
}

void FinalRace::play_round() {
    if (session_.lost()) open_all();  // it died while warming
    if (!somebody_can_win()) return;
    std::vector<int> slots;
    for (const std::size_t contestant : rounds_->next_round()) slots.push_back(static_cast<int>(contestant));
    const GpuWorkerSession::Round round = session_.round(slots, options_.turn);
    if (round.ok) {
        rounds_->report_round(round.times_us, round.conditions);
        return;
    }
    const auto culprit = static_cast<std::size_t>(round.failed_slot >= 0 ? round.failed_slot : slots.front());
    if (!is_forgiven(culprit)) {
        RunOutcome outcome;
        outcome.status = TrialStatus::crashed;
        outcome.detail = round.detail + " in the final rounds";
        fail(culprit, outcome);
    }
    open_all();
}

// A time at the meter's lower bound would win, and would be refused when the winner is imported.
void FinalRace::drop_unmeasured() {
    if (rounds_->rounds() == 0) return;
    for (std::size_t i = 0; i < contestants_.size(); ++i) {
        if (!can_win(i)) continue;
        const FinalRow row = rounds_->row_of(i);
        const auto why = row.rounds > 0 ? why_unmeasured(row.timing.median_us) : std::nullopt;
        if (!why) continue;
        RunOutcome outcome;
        outcome.status = TrialStatus::rejected;
        outcome.detail = *why;
        fail(i, outcome);
    }
}

bool FinalRace::out_of_time() const {
    return options_.deadline && Clock::now() > *options_.deadline && rounds_->rounds() >= options_.least_usable_rounds;
}

bool FinalRace::run() {
    const auto begun = Clock::now();
    open_all();
    if (!somebody_can_win()) return false;
    warm();
    before_s_ = seconds_since(begun);
    const auto warmed = Clock::now();
    while (!rounds_->done() && somebody_can_win()) {
        play_round();
        if (out_of_time()) rounds_->stop();
    }
    drop_unmeasured();
    rounds_s_ = seconds_since(warmed);
    return somebody_can_win() && rounds_->rounds() > 0;
}

}  // namespace autotune::tuner
