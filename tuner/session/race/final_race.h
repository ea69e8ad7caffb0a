#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "db/winner_store.h"
#include "src/core/family/launch_plan.h"
#include "tuner/measure/racing.h"
#include "tuner/session/engine/gpu_worker_session.h"
#include "tuner/session/tune.h"

namespace autotune::tuner {

// A contestant in the final rounds: a candidate with its instance, or a rival.
struct Contestant {
    FinalistInfo info;
    std::optional<Candidate> candidate;
    Instance instance;
    bool verified = false;  // already verified in this run, so not verified again
};

// Adds the rivals that run in the final rounds of a problem's tune: timed and shown, never chosen.
void add_rivals(std::vector<Contestant>& contestants, const Problem& problem);

// Runs finalists on the GPU worker in interleaved rounds: opens, warms and times them, and continues without those that die.
class FinalRace {
  public:
    struct Options {
        FinalOptions rounds;
        double warm_seconds = 1;      // load before the first round, so that clocks and power reach their steady values
        GpuWorkerSession::Turn turn;  // the measurement of each contestant in a round
        std::optional<Clock::time_point> deadline;  // after this time, least_usable_rounds are enough
        int least_usable_rounds = 10;
        bool verify_rivals = false;  // whether a rival's results are verified too, to show its error
    };
    FinalRace(GpuWorkerSession& session, std::vector<Contestant> contestants, const Options& options);

    // REQUIRES: called once. False if nothing that may win could be opened.
    bool run();
    // The verdict by the rounds, or, if they ran at the power limit, by blocks of the contestants near the leader. Blocks may
    // take about `seconds`. REQUIRES: run() returned true, and nothing was opened in the session since.
    Verdict verdict(double seconds);
    // Removes a contestant after the race, because its result was wrong elsewhere.
    void disqualify(std::size_t contestant) { rounds_->fail(contestant); }

    // Times these contestants with the other kinds of predecessors too, in a few rounds, as additional evidence. REQUIRES: run()
    // returned true, and nothing was opened in the session since.
    void time_after_others(const std::vector<std::size_t>& contestants);
    // nullopt if it was not measured.
    std::optional<double> time_after_us(std::size_t contestant, Predecessor which) const;
    // Alternates blocks of kBlock_s between the contestants that ran to the end. REQUIRES: as for time_after_others().
    void play_blocks(int count);
    const std::optional<Sustained>& sustained(std::size_t contestant) const { return sustained_[contestant]; }
    // The contestants that may be timed further: the winner and the rivals, or whatever is left.
    std::vector<std::size_t> winner_and_rivals(std::size_t winner) const;
    std::vector<std::size_t> all_left() const;

    const FinalRounds& rounds() const { return *rounds_; }
    const std::vector<Contestant>& contestants() const { return contestants_; }
    // Results of opening and verifying.
    const std::vector<RunOutcome>& outcomes() const { return outcomes_; }
    bool can_win(std::size_t contestant) const { return contestants_[contestant].info.may_win && outcomes_[contestant].ok(); }
    bool somebody_can_win() const;
    // Duration of opening and warming, and of the rounds.
    double seconds_before_rounds() const { return before_s_; }
    double seconds_of_rounds() const { return rounds_s_; }

  private:
    using Blocks = std::vector<GpuWorkerSession::Block>;
    void open(std::size_t contestant);
    void open_all();
    void fail(std::size_t contestant, const RunOutcome& outcome);
    // True the first time only: one death of the worker may have another cause.
    bool is_forgiven(std::size_t contestant) { return deaths_[contestant]++ == 0; }
    void warm();
    void play_round();
    // Blocks of each contestant, first in this order and then in the reverse order, once the card has settled; empty if one could
    // not be run. REQUIRES: order is not empty.
    std::map<std::size_t, Blocks> blocks_in_turns(std::vector<std::size_t> order, int turns, double seconds);
    bool settle(std::size_t contestant, double seconds);
    bool play_turn(const std::vector<std::size_t>& order, double seconds, std::map<std::size_t, Blocks>& blocks);
    void drop_unmeasured();
    bool out_of_time() const;

    GpuWorkerSession& session_;
    std::vector<Contestant> contestants_;
    Options options_;
    std::optional<FinalRounds> rounds_;
    std::vector<RunOutcome> outcomes_;
    std::vector<int> deaths_;                              // how often the worker died while each contestant ran
    std::vector<std::map<Predecessor, double>> after_us_;  // medians
    std::vector<std::optional<Sustained>> sustained_;
    double before_s_ = 0, rounds_s_ = 0;
};

// How short a block that decides may be.
constexpr double kLeastJudgingBlock_s = 0.2;

// How many blocks judge so many contestants at most: one to settle the card, one of each, and two of the second turn.
constexpr int blocks_to_judge(int contestants) {
    return kSettlingToJudge + contestants + 2 * (kJudgingTurns - 1);
}

// A contestant that is faster in blocks than the winner of the rounds, and the mean times of both.
struct Outlasting {
    std::size_t winner = 0;
    double winner_us = 0, leader_us = 0;
};
// Compares the contestants `near` in blocks; the first of them won the rounds. `play` runs a block and returns the time of a
// launch, or nullopt if it could not be run. In the first turn the winner of the rounds runs first, so that a card that is still
// cool favours it. The fastest contestant that leads it by `first_lead` (or the previous winner, if that is within the tie gap of
// the fastest) plays a second turn, now before it, and must lead by the tie gap again. Without such a lead there is no second
// turn. nullopt: no contestant is faster.
std::optional<Outlasting> outlasting(const std::vector<std::size_t>& near, std::optional<std::size_t> previous, double first_lead,
                                     double tie_gap, const std::function<std::optional<double>(std::size_t)>& play);

// SM resources of a launch, for breaking ties.
Resources resources_of(const LaunchPlan& plan, const CompileReport& report);
// Writes rounds, reason, conditions and finalists of a verdict into a winner's evidence, replacing what was there.
void note_verdict(db::Evidence& evidence, const FinalRace& race, const Verdict& verdict);

}  // namespace autotune::tuner
