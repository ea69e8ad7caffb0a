#pragma once

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

// Someone in the final rounds: a candidate with its instance, or a rival.
struct Contestant {
    FinalistInfo info;
    std::optional<Candidate> candidate;
    Instance instance;
    bool verified = false;  // by this run already: need not be again
};

// Adds the rivals that run in the final rounds of a problem's tune: timed and shown, never chosen.
void add_rivals(std::vector<Contestant>& contestants, const Problem& problem);

// Finalists on the GPU worker in interleaved rounds: opens, warms, times, and survives those that die on the way.
class FinalRace {
  public:
    struct Options {
        FinalOptions rounds;
        double warm_seconds = 1;                    // load before the first round, so that clocks and power are as they will be
        GpuWorkerSession::Turn turn;                // of each contestant in a round
        std::optional<Clock::time_point> deadline;  // after it, least_usable_rounds are enough
        int least_usable_rounds = 10;
        bool verify_rivals = false;  // compare a rival's answer too, to show its error
    };
    FinalRace(GpuWorkerSession& session, std::vector<Contestant> contestants, const Options& options);

    // REQUIRES: called once. False if nobody that may win could be opened.
    bool run();
    // Of the rounds; where they ran at the power limit, of blocks of those near the leader, which may take about `seconds`.
    // REQUIRES: run() returned true, and nothing was opened in the session since.
    Verdict verdict(double seconds);
    // Makes one lose what it has, after the race: its answer was wrong elsewhere.
    void disqualify(std::size_t contestant) { rounds_->fail(contestant); }

    // Times these of them after the other kinds of predecessors too, in a few rounds: evidence beside the verdict.
    // REQUIRES: run() returned true, and nothing was opened in the session since.
    void time_after_others(const std::vector<std::size_t>& contestants);
    // nullopt if it was not measured.
    std::optional<double> time_after_us(std::size_t contestant, Predecessor which) const;
    // Blocks of kBlock_s for each contestant that ran to the end, in turns. The same REQUIRES.
    void play_blocks(int count);
    const std::optional<Sustained>& sustained(std::size_t contestant) const { return sustained_[contestant]; }
    // Those that may be timed further: the winner and the rivals, or whoever is left.
    std::vector<std::size_t> winner_and_rivals(std::size_t winner) const;
    std::vector<std::size_t> all_left() const;

    const FinalRounds& rounds() const { return *rounds_; }
    const std::vector<Contestant>& contestants() const { return contestants_; }
    // How opening it went, and what verifying found.
    const std::vector<RunOutcome>& outcomes() const { return outcomes_; }
    bool can_win(std::size_t contestant) const { return contestants_[contestant].info.may_win && outcomes_[contestant].ok(); }
    bool somebody_can_win() const;
    // How long opening and warming took, and how long the rounds.
    double seconds_before_rounds() const { return before_s_; }
    double seconds_of_rounds() const { return rounds_s_; }

  private:
    using Blocks = std::vector<GpuWorkerSession::Block>;
    void open(std::size_t contestant);
    void open_all();
    void fail(std::size_t contestant, const RunOutcome& outcome);
    // Whether this is the first time: once, the worker's death may be somebody else's doing.
    bool is_forgiven(std::size_t contestant) { return deaths_[contestant]++ == 0; }
    void warm();
    void play_round();
    // Of each contestant, by turns in this order and back, once the card has settled; empty if one could not be played. After the
    // first turn those that are slower than the fastest by more than `out_ratio` play no more: what they have is all there is.
    // REQUIRES: order is not empty.
    std::map<std::size_t, Blocks> blocks_in_turns(std::vector<std::size_t> order, int turns, double seconds, double out_ratio);
    void drop_unmeasured();
    bool out_of_time() const;

    GpuWorkerSession& session_;
    std::vector<Contestant> contestants_;
    Options options_;
    std::optional<FinalRounds> rounds_;
    std::vector<RunOutcome> outcomes_;
    std::vector<int> deaths_;                              // of the worker, in each one's turn
    std::vector<std::map<Predecessor, double>> after_us_;  // medians
    std::vector<std::optional<Sustained>> sustained_;
    double before_s_ = 0, rounds_s_ = 0;
};

// What a launch takes of an SM, for breaking ties.
Resources resources_of(const LaunchPlan& plan, const CompileReport& report);
// Writes rounds, reason, conditions and finalists of a verdict into a winner's evidence, in place of what stood there.
void note_verdict(db::Evidence& evidence, const FinalRace& race, const Verdict& verdict);

}  // namespace autotune::tuner
