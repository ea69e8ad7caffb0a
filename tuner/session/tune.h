#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "db/winner_store.h"
#include "src/catalogue/catalogue.h"
#include "src/core/problem/device.h"
#include "src/core/problem/problem.h"
#include "src/core/space/config.h"
#include "src/core/statistics/trial.h"
#include "src/records/measuring_method.h"
#include "tuner/fixture/predecessor.h"
#include "tuner/measure/racing.h"
#include "tuner/replay/recorded_space.h"
#include "tuner/worker/worker_settings.h"

namespace autotune::tuner {

// When to stop looking. The first limit that is reached counts. The final rounds come after, are part of `seconds`, and take no
// longer than the search did.
struct Budget {
    double seconds = 40;
    int trials = 0;              // 0: no limit
    int patience = 100;          // trials without a better one
    double target_gain = 0.005;  // share of the time: enough is known when going on is expected to gain less; 0: never
    double target_us = 0;        // fast enough; 0: nothing is
};

struct Choice {
    std::vector<std::string> families;  // full names; empty: every family of the op that accepts the problem
    Config pins;                        // parameters held at one value
    std::string named;                  // a named config, but for what the pins say; empty: search
};

struct TuneOptions {
    Budget budget;
    Choice choice;
    std::uint64_t seed = 1;
    std::string strategy = "auto";
    std::size_t finalists = RungOptions{}.finalists;  // candidates of the search that go on to the final rounds, at most
    double tie_gap = FinalOptions{}.tie_gap;          // share of the time below which a lead in the final rounds is a tie
    bool retune = false;                              // look for a winner even if the database has a valid one
    bool learning = true;  // order candidates by what earlier problems say of the cost models' errors, and add to it
    MeasuringMethod method{};
    std::string keep_folder;  // rendered sources, logs and cubins of what was tried; empty: none
};

enum class Phase { compile, trial, final_rounds, done };
struct Progress {
    Phase phase = Phase::compile;
    int compiled = 0, tried = 0, failed = 0, waiting = 0;
    int total = 0;  // compiles that were asked for; 0: a search, which has no end in sight
    double elapsed_s = 0;
    std::optional<double> eta_s;
    std::optional<double> best_us;
    std::string best;                    // Candidate::to_string()
    std::optional<double> default_us{};  // of the best one's family
    std::optional<double> gain{};        // that going on is expected to bring, as a share of the time
};

// Hears of a tune; decides how it looks. Called on the tuning thread.
class TuneObserver {
  public:
    virtual ~TuneObserver() = default;
    virtual void on_progress(const Progress&) {}
    virtual void on_trial(const Trial&) {}
    virtual void on_warning(const std::string&) {}
};

class Compilers;

// What a tune is given; nothing else is reached for.
struct TuneServices {
    const Catalogue& catalogue;
    db::WinnerStore* store = nullptr;  // nullptr: nothing is remembered
    Device device;
    std::string device_uuid;
    db::Provenance provenance;  // driver, NVRTC, device name, power limit; the tune adds method and date
    WorkerSettings workers;
    TuneObserver* observer = nullptr;
    const std::atomic<bool>* stop = nullptr;  // set by Ctrl-C: keep what is measured and return
    Compilers* compilers = nullptr;           // that several lanes share; nullptr: the run has a pool of its own
    std::string note{};                       // what else to say of how winners were decided; empty: nothing
};

// Where the wall time of a tune went, in seconds, in the order of what happened.
struct TunePhases {
    double start_s = 0;           // GPU lock, a context, the harness and the reference compiled
    double setup_s = 0;           // operands filled and the right answers computed
    double first_verified_s = 0;  // from the beginning until a candidate was verified and timed: an answer to serve if need be
    double search_s = 0;          // of this ...
    double starved_s = 0;         // ... nothing was compiled yet that the GPU could try
    double loaded_s = 0;          // ... and of that the card was kept under load
    double busy_s = 0;            // ... the GPU worker was at work, on the GPU or about to be
    double verify_s = 0;          // ... loading, first launch, verifying
    double measure_s = 0;         // ... timing
    double second_rung_s = 0;
    double warm_s = 0;  // opening finalists and load before the rounds
    double rounds_s = 0;
    double neighbours_s = 0;  // the winner on edge-case problems
    double total_s = 0;
};

struct TuneResult {
    db::Winner winner;
    TunePhases phases;  // all 0 if it came from the database
    Origin origin = Origin::exact;
    bool tuned = false;  // false: answered from the database
    bool stale = false;  // soft key differs from today's
    std::string stale_because;
    bool interrupted = false;
    std::string not_stored;  // why the store could not take the winner; empty: it has it, or was not to take it
};

// The valid winner the store has for this problem on this device: hard key equal and template identity that of the catalogue.
// With a choice: one that it allows, or that won a search narrowed to the same. Compiles nothing, starts no process, creates no
// context.
std::optional<TuneResult> recall(const Problem& problem, const TuneServices& services, const Choice& choice = {});

// Finds, verifies and stores the winner. A store that cannot take it costs no answer: TuneResult::not_stored says why. Throws
// Error: no_valid_config if no family accepts or every candidate failed (with counts by reason), gpu_unhealthy, database,
// interrupted if stopped before anything was verified.
TuneResult tune(const Problem& problem, const TuneOptions& options, TuneServices& services);

// ---- side by side ----

// One kernel for a second and more without a pause, in turns with the others.
struct Sustained {
    Timing timing;                            // of a launch, over blocks
    std::optional<double> joules_per_launch;  // what a launch adds to what a stream of fillers alone consumes
    Conditions conditions;                    // median over its blocks
};

struct BenchRow {
    std::string name;  // "winner", a named config, "default", a rival's name
    std::optional<Candidate> candidate;
    TrialStatus status = TrialStatus::ok;
    std::string detail;  // why it has no timing
    std::optional<Timing> timing;
    bool interleaved = false;   // timed in the rounds; else alone, in the survey before them: too rough to compare closely
    double ratio_to_first = 1;  // median of paired rounds: this row's time over BenchResult::first's. Only if interleaved
    double ratio_low = 1, ratio_high = 1;
    std::map<Predecessor, double> after_us;  // medians of a launch's time after each kind of predecessor; only if interleaved
    Conditions conditions;                   // during its own turns
    std::optional<Sustained> sustained;      // if blocks were asked for
    std::optional<double> max_error, accumulation_error;
    std::vector<double> sample_values;  // two output values, the first and the last
};

struct BenchOptions {
    Choice choice;
    bool named = false;                // every named config of the chosen families
    bool best_of_family = false;       // of those only each family's best
    std::optional<Candidate> untuned;  // a row of this name, in place of the defaults: what a library would take without a winner
    bool winner_only = false;          // no defaults beside a winner
    std::vector<Candidate> candidates;  // rows of their own; parameters that one does not name are those of its family's default
    std::vector<std::string> against;   // names of rivals (src/rivals/rival.h)
    int rounds = 30;
    std::size_t racers = 8;     // candidates that go on from the survey to the rounds, at most
    double survey_seconds = 0;  // nothing more is surveyed after this, slow ones are left out first; 0: no limit
    double warm_seconds = 1.0;  // load before the rounds: sustained figures. 0: burst
    MeasuringMethod method{};
    Predecessor after = Predecessor::filler;  // of the launches that the table is made of
    bool may_overlap = true;                  // false: candidates are launched without programmatic dependent launch
    int blocks = 0;                           // of kBlock_s each, for every contestant, after the rounds
    std::uint64_t seed = 1;
};
constexpr double kBlock_s = 1;
// How often each contestant plays where blocks judge, and how short a block may be.
constexpr int kJudgingTurns = 2;
constexpr double kLeastBlock_s = 0.3;
// Not counted, before the first block: a card that was not at its limit, or is cool, exceeds it for a second or two. Of three
// blocks of one second after a light load the first ran at 757 W, the others at 728 and 720, on a card limited to 700.
constexpr int kSettlingBlocks = 2;

struct BenchResult {
    std::vector<BenchRow> rows;
    std::optional<std::size_t> first;  // the row that ratios are to: the winner or what the choice names, else any that raced
    Conditions conditions;             // median over the rounds
    bool sustained = true;
    Predecessor after = Predecessor::filler;  // which the times of the rows are after
    bool may_overlap = true;                  // of the candidates
    int streams = 1;                          // as in the options
    int rounds = 0;
    std::size_t surveyed = 0;  // candidates that were timed alone before the rounds
    double seconds = 0;
};

// Tables of one run. Problems share the worker processes and the compiled instances.
class BenchRun {
  public:
    virtual ~BenchRun() = default;
    // Verifies and times rows: naive to best (families by Family::complexity_order, configs in their order), then the winner,
    // then rivals; without `named` the winner or the choice's config is row 0. Named configs and the defaults of several families
    // are first surveyed, each alone with a few launches; those near the fastest, the winner and the rivals are then timed in
    // interleaved rounds of random order.
    //
    // With best_of_family, the first problem of a class surveys every named config and later ones each family's best three of
    // it: that bounds a table of many shapes.
    virtual BenchResult table(const Problem& problem, const BenchOptions& options) = 0;
};
// REQUIRES: services outlive it.
std::unique_ptr<BenchRun> start_bench(TuneServices& services);

struct ToVerify {
    Problem problem;
    Candidate candidate;
};
struct Verified {
    Trial trial;          // status and errors
    std::string failure;  // why the candidate could not be tried at all; empty: it was
};
// Checks each candidate on its problem and on edge-case problems, one after the other on one GPU worker, while the next ones
// compile. `done` hears of each as it is done, with its index. Throws Error for what concerns them all: a card that is ill, no
// compiler, an interrupt.
void verify(const std::vector<ToVerify>& items, TuneServices& services,
            const std::function<void(std::size_t, const Verified&)>& done);

struct RaceAgainOptions {
    int rounds = 30;
    double warm_seconds = 1;
    double sustained_seconds = 5;  // that blocks of those near the winner may take, where the rounds ran at the power limit
    std::uint64_t seed = 1;
};
struct RaceAgainResult {
    std::optional<db::Winner> winner;  // with today's provenance and the new race's evidence; nullopt: nobody's answer is right
    std::vector<Trial> out;            // who could not race or gave a wrong answer, and why
};
// Verifies a stored winner and those it beat, and races them again, as after a driver or toolkit change: the same rounds and the
// same tie rule as in a tune, so a tie stays with the stored winner. Stores nothing.
// REQUIRES: the winner's family is in the catalogue and accepts the problem.
RaceAgainResult race_again(const Problem& problem, const db::Winner& stored, const RaceAgainOptions& options,
                           TuneServices& services);

// ---- a space in full ----

struct RecordOptions {
    Choice choice;                    // must leave one family
    std::size_t most_points = 2'000;  // a space with more is refused: parameters are to be pinned
    double time_us = 10'000;          // measured of each point, however slow it is
    std::size_t refined = 24;         // the fastest, measured again in turns until each has five times as much
    MeasuringMethod method{};
    std::uint64_t seed = 1;
};

// Compiles, verifies and times every point of a space, for replaying strategies on it (simulate.h). Nothing is stored.
// Throws Error as tune() does, and Error{usage} if the choice leaves several families or too many points.
RecordedSpace record(const Problem& problem, const RecordOptions& options, TuneServices& services);

// ---- without a GPU ----

struct CompiledRow {
    Candidate candidate;
    TrialStatus status = TrialStatus::ok;
    CompileReport report;
    std::string detail;
    int smem_bytes = 0;
    double occupancy = 0;  // resident threads over the SM's maximum
    std::optional<double> predicted_us;
};
struct CompileOptions {
    Choice choice;
    int count = 24;  // best predicted first
    std::uint64_t seed = 1;
    std::string keep_folder;
};
// Ranks and compiles candidates for services.device's architecture in the pool of compile workers, filling the cubin cache.
std::vector<CompiledRow> compile_ranked(const Problem& problem, const CompileOptions& options, TuneServices& services);

// ---- many problems ----

struct SweepOptions {
    TuneOptions each;          // each.budget is per problem
    double total_seconds = 0;  // 0: no limit
    // On several GPUs: whether final rounds take turns, with compilers that stand still. By the number of processors, where
    // nothing is said.
    std::optional<bool> finals_in_turns{};
};
struct SweepItem {
    Problem problem;
    // in_work: another process of this host tunes it. No result of a sweep is.
    enum class State { fresh, tuned, failed, skipped_for_budget, interrupted, in_work } state = State::fresh;
    std::optional<TuneResult> result;
    std::string detail;
    double seconds = 0;
    std::string gpu;   // UUID of the GPU that did it, in a sweep on several
    std::string card;  // and the kind of card that it is for
};
class SweepObserver {
  public:
    virtual ~SweepObserver() = default;
    virtual void on_item(const SweepItem&, std::size_t done, std::size_t total, std::optional<double> eta_s) = 0;
};
// Tunes each problem that has no fresh winner. A failed item does not end the sweep; workers and instances are shared.
std::vector<SweepItem> sweep(const std::vector<Problem>& problems, const SweepOptions& options, TuneServices& services,
                             SweepObserver* observer);

// ---- the other end: entry point of `autotune __worker ...` ----
struct WorkerEnd {
    int exit_code = 0;
    std::string message;  // why it is not 0, where there is something to say
};
WorkerEnd worker_main(const std::vector<std::string>& arguments);

}  // namespace autotune::tuner
