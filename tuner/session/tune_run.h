#pragma once

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "tuner/search/strategy_thread.h"
#include "tuner/session/bench_session.h"
#include "tuner/session/candidates.h"
#include "tuner/session/final_race.h"
#include "tuner/worker/journal.h"

namespace autotune::tuner {

// What all problems of a run share: the loop, the bench worker, what the journal remembers.
struct RunShared {
    Engine& engine;
    BenchHost& host;
    std::optional<Journal> journal;             // opened once the GPU's lock is held
    std::map<std::string, Instance> instances;  // harness and references, by identity
};

// Adds the time of its own life to a sum.
class PhaseTimer {
  public:
    explicit PhaseTimer(double& sum_s) : sum_s_(sum_s), from_(Clock::now()) {}
    ~PhaseTimer() { sum_s_ += seconds_since(from_); }
    PhaseTimer(const PhaseTimer&) = delete;
    PhaseTimer& operator=(const PhaseTimer&) = delete;

  private:
    double& sum_s_;
    Clock::time_point from_;
};

// One problem being tuned. start() begins to compile; finish() measures, decides and stores. A sweep starts the next problem
// while this one is on the GPU.
class TuneRun {
  public:
    // `candidates`: of list_candidates().
    TuneRun(RunShared& shared, const Problem& problem, const TuneOptions& options, std::unique_ptr<const Candidates> candidates);
    ~TuneRun();
    TuneRun(const TuneRun&) = delete;
    TuneRun& operator=(const TuneRun&) = delete;

    // Urgency of what it compiles: 1 for the problem in hand, 2 for the next one.
    void start(int urgency);
    // Asks the strategy for more when too little is being compiled.
    void refill();
    // REQUIRES: started. Throws Error as tune() does.
    TuneResult finish();

  private:
    struct Ready {
        std::size_t point;
        CompileOutcome outcome;
    };

    // ---- search (tune_search.cpp) ----
    void plan_search();
    void compile_fixed();
    std::size_t queue_length() const;  // of what is compiling or compiled and not tried
    void submit(std::size_t point);
    bool take_from_store(std::size_t point);
    void search();
    bool search_is_over();
    bool keep_loaded();
    bool can_load() const;
    bool draws_power() const;
    void try_one(Ready ready);
    RunOutcome run_on_gpu(const Ready& ready, const Candidate& candidate);
    void record(std::size_t point, Trial trial);
    void charge(std::size_t point, const RunOutcome& outcome);
    void flush_store(bool now);
    void recover_journal();
    JournalEntry entry_of(Trial trial) const;
    void progress(Phase phase);

    // ---- decision (tune_decide.cpp) ----
    void prepare_gpu();
    TuneResult with_phases(TuneResult result);
    TuneResult decide();
    void allow_finals();
    void second_rung();
    std::vector<std::size_t> finalist_points();
    std::vector<Contestant> contestants();
    Contestant contestant_of(std::size_t point);
    RunOutcome last_proof(const Candidate& candidate);
    db::Winner winner_from(const FinalRace& race, const Verdict& verdict) const;
    db::Winner blank_winner(std::size_t point) const;
    void fill_evidence(db::Winner& winner, const FinalRace& race, const Verdict& verdict) const;
    TuneResult interrupted_result();
    // Why it could not be stored; empty: nothing went wrong.
    std::string store(const db::Winner& winner);
    [[noreturn]] void throw_all_failed() const;

    double elapsed_s() const;
    TuneServices& services() const { return shared_.engine.services(); }

    RunShared& shared_;
    Problem problem_;
    TuneOptions options_;
    const Op& op_;
    std::unique_ptr<const Candidates> listed_;
    const Candidates& candidates_ = *listed_;
    std::vector<std::size_t> seeds_;
    std::set<std::size_t> early_;  // seeds that were begun before the strategy gave them
    std::optional<StrategyThread> strategy_;
    Rungs rungs_;
    int owner_;
    int urgency_ = 1;
    Clock::time_point begun_;
    std::string target_nvrtc_;

    std::optional<db::Winner> previous_;            // valid in template, maybe stale
    std::map<std::size_t, db::StoredTrial> known_;  // of earlier runs
    std::set<std::size_t> retimed_;                 // known and fast: measured again
    std::deque<Ready> ready_;
    std::size_t compiling_ = 0;
    bool searching_ = true;  // nothing new is asked for afterwards
    std::map<std::size_t, Trial> trials_;
    std::map<std::size_t, Instance> instances_;
    std::set<Candidate> suspects_;  // running when an earlier run was ended
    Instance harness_, reference_;
    std::optional<BenchSession> session_;
    Clock::time_point finals_from_, finals_until_;
    int tried_ = 0, failed_ = 0;
    int since_better_ = 0;
    std::optional<std::size_t> open_;  // on the bench worker since it was tried
    std::optional<double> best_us_;
    std::size_t best_point_ = 0;
    std::string stopped_by_ = "space exhausted";
    TunePhases phases_;
    Clock::time_point started_at_;
    double compile_busy_before_s_ = 0;
    Clock::time_point flushed_at_, told_at_;
    Reference judged_by_ = Reference::full;
};

constexpr int kSearchSlot = 0;       // on the bench worker, of what is tried and of the second rung
constexpr double kMostFinals_s = 8;  // what the second rung and the final rounds need at most

// What a tune of the problem may try. Any thread may list: a large space takes half a second. Throws as Candidates does.
std::unique_ptr<const Candidates> list_candidates(const Problem& problem, const TuneOptions& options,
                                                  const TuneServices& services);
// What measuring is called in the database: raised when it changes.
std::string measuring_method(bool l2_warm);
// Options of a session with what follows from the problem and the device: its limits, and which reference is worth its time.
BenchSession::Options session_options(const Problem& problem, const TuneServices& services);
// Renders with what the services hold, compiles with urgency 0 and waits.
Instance compile_now(RunShared& shared, const jit::Rendered& rendered);
// What judges candidates: compiles the harness, which the bench worker gets, and the problem's reference, which is returned.
Instance compile_judges(RunShared& shared, const Problem& problem);

}  // namespace autotune::tuner
