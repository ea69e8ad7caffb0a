#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "tuner/search/strategy_thread.h"
#include "tuner/session/engine/run_shared.h"
#include "tuner/session/race/final_race.h"
#include "tuner/session/tune/candidates.h"
#include "tuner/session/tune/compile_feed.h"
#include "tuner/session/tune/earlier_runs.h"
#include "tuner/session/tune/trial_book.h"
#include "tuner/session/tune/trial_recorder.h"

namespace autotune::tuner {

// One problem being tuned. start() begins to compile; finish() measures, decides and stores. A sweep starts the next problem
// while this one is on the GPU. Its parts: knowledge from earlier runs (EarlierRuns), compiling (CompileFeed), trials
// (TrialBook), storage (TrialRecorder), when to stop (search_limits.h).
class TuneRun {
  public:
    // `candidates`: from list_candidates().
    TuneRun(RunShared& shared, const Problem& problem, const TuneOptions& options, std::unique_ptr<const Candidates> candidates);
    ~TuneRun();
    TuneRun(const TuneRun&) = delete;
    TuneRun& operator=(const TuneRun&) = delete;

    // Urgency of what it compiles: 1 for the current problem, 2 for the next one.
    void start(int urgency);
    // Asks the strategy for more points when too few are being compiled.
    void refill();
    // REQUIRES: started. Throws Error like tune().
    TuneResult finish();

  private:
    using Ready = CompileFeed::Ready;

    // ---- search (tune_search.cpp) ----
    bool take_from_store(std::size_t point);
    void search();
    bool search_is_over();
    void ask_for_compiled();
    bool keep_loaded();
    bool can_load() const;
    bool draws_power() const;
    void try_one(const Ready& ready);
    RunOutcome run_on_gpu(const Ready& ready, const Candidate& candidate);
    void require_measured(RunOutcome& outcome);
    void note(std::size_t point, Trial trial);
    void charge(std::size_t point, const RunOutcome& outcome);
    void tell(const Trial& trial, std::optional<double> time_us, std::size_t point);
    void report(std::size_t point, std::optional<double> time_us);
    std::optional<double> expected_gain() const;
    std::optional<double> default_us() const;
    int learned_problems() const;
    void progress(Phase phase);

    // ---- decision (tune_decide.cpp) ----
    void take_gpu();
    std::optional<TuneResult> stored_meanwhile();
    void prepare_gpu();
    TuneResult with_phases(TuneResult result);
    TuneResult decide();
    TuneResult settled(const FinalRace& race, const Verdict& verdict);
    void allow_finals();
    void quieten();
    FinalRace::Options race_options() const;
    void second_rung();
    std::vector<std::size_t> finalist_points() const;
    std::vector<Contestant> contestants(const std::set<Candidate>& out) const;
    Contestant contestant_of(std::size_t point) const;
    RunOutcome last_proof(const Candidate& candidate);
    db::Winner winner_from(const FinalRace& race, const Verdict& verdict) const;
    db::Winner blank_winner(std::size_t point) const;
    TuneResult interrupted_result();
    std::string restriction() const;
    // Returns why the winner could not be stored, or "".
    std::string store(const db::Winner& winner);
    void learn_from_trials();
    [[noreturn]] void throw_all_failed() const;

    double elapsed_s() const { return seconds_since(begun_); }
    TuneServices& services() const { return shared_.engine.services(); }

    // ---- what is tuned ----
    RunShared& shared_;
    Problem problem_;
    TuneOptions options_;
    const Op& op_;
    std::unique_ptr<const Candidates> listed_;
    const Candidates& candidates_ = *listed_;

    // ---- its parts ----
    EarlierRuns earlier_;
    std::vector<std::size_t> seeds_;
    std::set<std::size_t> early_;         // seeds that were begun before the strategy returned them
    std::set<std::size_t> untold_seeds_;  // that were not reported to the strategy yet
    std::set<std::size_t> extra_;         // points tried only because the GPU had nothing else to do
    bool asked_compiled_ = false;         // whether the last question to the strategy was for such points
    std::optional<StrategyThread> strategy_;
    TrialBook book_;
    std::optional<TrialRecorder> recorder_;    // from start() on
    std::optional<CompileFeed> feed_;          // from start() on
    std::optional<GpuWorkerSession> session_;  // from prepare_gpu() on
    std::map<std::size_t, Instance> instances_;
    std::optional<std::size_t> open_;               // the candidate still open on the GPU worker since it was tried
    std::map<std::size_t, int> deaths_under_load_;  // number of deaths of the worker while a point ran as load

    // ---- where it stands ----
    bool searching_ = true;  // false: no new points are requested
    int urgency_ = 1;
    std::string stopped_by_ = "space exhausted";
    Reference judged_by_ = Reference::full;
    TunePhases phases_;
    Clock::time_point begun_, started_at_, told_at_;
    Clock::time_point finals_from_, finals_until_;
    std::optional<Clock::time_point> searched_from_;
};

constexpr int kSearchSlot = 0;  // the slot of the GPU worker for trials and the second rung

// Data from the store that is needed before a problem's space is listed. REQUIRES: on the thread of the store.
struct Beforehand {
    std::vector<Candidate> known;             // winners of this problem, of near problems and of other devices
    std::vector<CostCorrection> corrections;  // corrections for the problem's class on this card, with today's NVRTC
};
Beforehand known_beforehand(const Problem& problem, const TuneOptions& options, const TuneServices& services);
// The candidates of a tune, with those that it tries first, before the space is listed. Any thread. Throws like Candidates.
std::unique_ptr<Candidates> first_candidates(const Problem& problem, const TuneOptions& options, const TuneServices& services,
                                             const Beforehand& beforehand);
// The same candidates after the space was listed and predicted, which takes a second for a large space.
std::unique_ptr<const Candidates> list_candidates(const Problem& problem, const TuneOptions& options,
                                                  const TuneServices& services, const Beforehand& beforehand);

}  // namespace autotune::tuner
