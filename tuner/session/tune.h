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

// When to stop searching. The first limit that is reached counts. The final rounds come after the search, are part of `seconds`,
// and take no longer than the search.
struct Budget {
    double seconds = 7;
    int trials = 0;              // 0: no limit
    int patience = 100;          // trials without an improvement
    double target_gain = 0.005;  // share of the time: the search ends when the expected gain falls below this; 0: never
    double target_us = 0;        // a fast enough time; 0: none
    // Whether the search of a problem is cut short if earlier problems of its class on this card order the candidates; a sweep
    // sets it.
    bool trusts_learning = false;
};

struct Choice {
    std::vector<std::string> families;  // full names; empty: every family of the op that accepts the problem
    Config pins;                        // parameters that are fixed at one value
    std::string named;                  // a named config, whose pinned parameters may differ; empty means search
};

struct TuneOptions {
    Budget budget;
    Choice choice;
    std::uint64_t seed = 1;
    std::string strategy = "auto";
    std::size_t finalists = RungOptions{}.finalists;  // at most this many candidates go from the search to the final rounds
    double tie_gap = FinalOptions{}.tie_gap;          // share of the time below which a lead in the final rounds is a tie
    bool retune = false;                              // search for a winner even if the database has a valid one
    // Order candidates by the errors of the cost models that earlier problems have shown, and learn from this one
    bool learning = true;
    MeasuringMethod method{};
    std::string keep_folder;  // rendered sources, logs and cubins of what was tried; empty: none
};

enum class Phase { compile, trial, final_rounds, done };
struct Progress {
    Phase phase = Phase::compile;
    int compiled = 0, tried = 0, failed = 0, waiting = 0;
    int total = 0;  // compiles requested; 0: a search, whose end is unknown
    double elapsed_s = 0;
    std::optional<double> eta_s;
    std::optional<double> best_us;
    std::string best;                    // Candidate::to_string()
    std::optional<double> default_us{};  // the time of the default config of the best candidate's family
    std::optional<double> gain{};        // the gain expected from continuing, as a share of the time
};

// Receives the events of a tune and decides how they are shown. Called on the tuning thread.
class TuneObserver {
  public:
    virtual ~TuneObserver() = default;
    virtual void on_progress(const Progress&) {}
    virtual void on_trial(const Trial&) {}
    virtual void on_warning(const std::string&) {}
};

class Compilers;

// Everything that a tune uses.
struct TuneServices {
    const Catalogue& catalogue;
    db::WinnerStore* store = nullptr;  // nullptr: nothing is stored
    Device device;
    std::string device_uuid;
    db::Provenance provenance;  // driver, NVRTC, device name, power limit; the tune adds method and date
    WorkerSettings workers;
    TuneObserver* observer = nullptr;
    const std::atomic<bool>* stop = nullptr;  // set by Ctrl-C: the tune keeps its measurements and returns
    Compilers* compilers = nullptr;           // shared by several lanes; nullptr: the run has a pool of its own
    std::string note{};                       // added to how winners were decided; empty: nothing
};

// Where the wall time of a tune went, in seconds, in chronological order.
struct TunePhases {
    double start_s = 0;           // GPU lock, a context, compiling the harness and the reference
    double setup_s = 0;           // the time to fill operands and compute the right values
    double first_verified_s = 0;  // from the beginning until a candidate was verified and timed, and could be served
    double search_s = 0;          // the time in which candidates were tried
    double starved_s = 0;         // part of search_s: nothing was compiled yet that the GPU could try
    double loaded_s = 0;          // part of starved_s: the card was kept under load
    double busy_s = 0;            // part of search_s: the GPU worker was busy, on the GPU or about to be
    double verify_s = 0;          // part of search_s: loading, first launches, verifying
    double measure_s = 0;         // part of search_s: timing
    double second_rung_s = 0;
    double warm_s = 0;  // opening finalists, and load before the rounds
    double rounds_s = 0;
    double neighbours_s = 0;  // the time for the winner on edge-case problems
    double total_s = 0;
};

struct TuneResult {
    db::Winner winner;
    TunePhases phases;  // all 0 if the result came from the database
    Origin origin = Origin::exact;
    bool tuned = false;  // false if the answer came from the database
    bool stale = false;  // soft key differs from today's
    std::string stale_because;
    bool interrupted = false;
    std::string not_stored;  // why the store could not store the winner; empty if it did, or was not asked to
};

// The valid winner that the store has for this problem on this device: equal hard key, and the catalogue's template identity.
// With a choice: one that it allows, or that won a search with the same restriction. Compiles nothing, starts no process, creates
// no context.
std::optional<TuneResult> recall(const Problem& problem, const TuneServices& services, const Choice& choice = {});

// Finds, verifies and stores the winner. If the store fails, the result is still returned: TuneResult::not_stored has the reason.
// Throws Error: no_valid_config if no family accepts the problem or every candidate failed (with counts by reason),
// gpu_unhealthy, database, interrupted if stopped before anything was verified.
TuneResult tune(const Problem& problem, const TuneOptions& options, TuneServices& services);

// ---- side by side ----

// One kernel for a second or more without a pause, alternating with the others.
struct Sustained {
    Timing timing;                            // the time of one launch, over all blocks
    std::optional<double> joules_per_launch;  // the energy that a launch adds to a stream of fillers only
    Conditions conditions;                    // median over its blocks
};

struct BenchRow {
    std::string name;  // "winner", a named config, "default", a rival's name
    std::optional<Candidate> candidate;
    TrialStatus status = TrialStatus::ok;
    std::string detail;  // why there is no timing
    std::optional<Timing> timing;
    // Timed in the rounds; false: timed alone in the survey before them, too roughly for close comparison
    bool interleaved = false;
    double ratio_to_first = 1;  // median of paired rounds: this row's time / that of BenchResult::first. Only if interleaved
    double ratio_low = 1, ratio_high = 1;
    std::map<Predecessor, double> after_us;  // median launch times after each kind of predecessor; only if interleaved
    Conditions conditions;                   // during its own measurements
    std::optional<Sustained> sustained;      // if blocks were requested
    std::optional<double> max_error, accumulation_error;
    std::vector<double> sample_values;  // two output values, the first and the last
};

struct BenchOptions {
    Choice choice;
    bool named = false;           // whether to time every named config of the chosen families
    bool best_of_family = false;  // with `named`, only the best configs of each family
    // a row with this name instead of the defaults: the kernel that a library would use without a winner
    std::optional<Candidate> untuned;
    bool winner_only = false;           // no defaults beside a winner
    std::vector<Candidate> candidates;  // additional rows; parameters that one does not name are those of its family's default
    std::vector<std::string> against;   // names of rivals (src/rivals/rival.h)
    int rounds = 30;
    std::size_t racers = 8;     // at most this many candidates go from the survey to the rounds
    double survey_seconds = 0;  // the survey ends after this time, and slow candidates are left out first; 0 means no limit
    double warm_seconds = 1.0;  // load before the rounds, for sustained figures. 0: burst
    MeasuringMethod method{};
    Predecessor after = Predecessor::filler;  // the predecessor of the launches in the table
    bool may_overlap = true;                  // false: candidates are launched without programmatic dependent launch
    int blocks = 0;                           // number of blocks of kBlock_s each, for every contestant, after the rounds
    std::uint64_t seed = 1;
};
constexpr double kBlock_s = 1;
// Blocks per contestant when blocks decide.
constexpr int kJudgingTurns = 2;
// Blocks before the first one that counts: a card that was below its limit, or is cool, exceeds it for a second or two. Of three
// blocks of one second after a light load the first ran at 757 W, the others at 728 and 720, on a card limited to 700. One is
// enough after rounds that ran at the limit, before blocks that decide.
constexpr int kSettlingBlocks = 2, kSettlingToJudge = 1;

struct BenchResult {
    std::vector<BenchRow> rows;
    // The row that ratios refer to: the winner or the candidate of the choice, else any that raced
    std::optional<std::size_t> first;
    Conditions conditions;  // median over the rounds
    bool sustained = true;
    Predecessor after = Predecessor::filler;  // the predecessor of the launches behind the times in the rows
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
    // Verifies and times rows: from the simplest to the best (families by Family::complexity_order, configs in their order), then
    // the winner, then rivals; without `named` the winner or the choice's config is row 0. Named configs and the defaults of
    // several families are first surveyed, each alone with a few launches. Those near the fastest, the winner and the rivals are
    // then timed in interleaved rounds of random order.
    //
    // With best_of_family, the first problem of a class surveys every named config, and later ones only each family's best three
    // of it. That limits the time of a table with many shapes.
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
    std::string failure;  // why the candidate could not be tried at all; empty: it was tried
};
// Checks each candidate on its problem and on edge-case problems, one after the other on one GPU worker, while the next ones
// compile. `done` is called for each with its index. Throws Error for whatever concerns all: an unhealthy card, no compiler, an
// interrupt.
void verify(const std::vector<ToVerify>& items, TuneServices& services,
            const std::function<void(std::size_t, const Verified&)>& done);

struct RaceAgainOptions {
    int rounds = 30;
    double warm_seconds = 1;
    double sustained_seconds = 5;  // time for blocks of the candidates near the winner, if the rounds ran at the power limit
    std::uint64_t seed = 1;
};
struct RaceAgainResult {
    // The winner, with the present provenance and the new race's evidence; nullopt if every candidate failed.
    std::optional<db::Winner> winner;
    std::vector<Trial> out;  // candidates that could not race or gave a wrong result, and why
};
// Verifies a stored winner and the finalists it beat, and races them again, as after a driver or toolkit change: the same rounds
// and the same tie rule as in a tune, so in a tie the stored winner stays. Stores nothing. REQUIRES: the winner's family is in
// the catalogue and accepts the problem.
RaceAgainResult race_again(const Problem& problem, const db::Winner& stored, const RaceAgainOptions& options,
                           TuneServices& services);

// ---- a space in full ----

struct RecordOptions {
    Choice choice;                    // must leave one family
    std::size_t most_points = 2'000;  // a larger space is refused: pin some parameters
    double time_us = 10'000;          // measuring time per point, however slow it is
    // This many of the fastest points are measured again, alternately, until each has five times the time
    std::size_t refined = 24;
    MeasuringMethod method{};
    std::uint64_t seed = 1;
};

// Compiles, verifies and times every point of a space, for replaying strategies on it (simulate.h). Stores nothing. Throws Error
// like tune(), and Error{usage} if the choice leaves several families or too many points.
RecordedSpace record(const Problem& problem, const RecordOptions& options, TuneServices& services);

// ---- without a GPU ----

struct CompiledRow {
    Candidate candidate;
    TrialStatus status = TrialStatus::ok;
    CompileReport report;
    std::string detail;
    int smem_bytes = 0;
    double occupancy = 0;  // resident threads / the SM's maximum
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
    // On several GPUs: whether final rounds alternate, with stopped compilers. nullopt: depends on the number of processors.
    std::optional<bool> finals_in_turns{};
};
struct SweepItem {
    Problem problem;
    // in_work: another process of this host tunes it. Never in the result of a sweep.
    enum class State { fresh, tuned, failed, skipped_for_budget, interrupted, in_work } state = State::fresh;
    std::optional<TuneResult> result;
    std::string detail;
    double seconds = 0;
    std::string gpu;   // UUID of the GPU that tuned it, in a sweep on several
    std::string card;  // the kind of card that the winner is for
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
    std::string message;  // why the exit code is not 0, if there is something to report
};
WorkerEnd worker_main(const std::vector<std::string>& arguments);

}  // namespace autotune::tuner
