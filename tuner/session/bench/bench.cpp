#include <algorithm>
#include <map>
#include <set>

#include "src/core/error.h"
#include "src/core/statistics/statistics.h"
#include "src/core/system/clock.h"
#include "tuner/session/bench/bench_entries.h"
#include "tuner/session/engine/run_shared.h"
#include "tuner/session/race/final_race.h"
#include "tuner/session/tune.h"

namespace autotune::tuner {
namespace {

using std::chrono::milliseconds;

// Slower candidates than this times the lower bound are dropped. A naive kernel takes some 300 times as long as tensor cores
// would.
constexpr double kPatience = 1000;
constexpr double kSurvey_us = 20'000;
constexpr double kSlow_us = 50'000;      // if a kernel takes this long, one launch is enough for a survey
constexpr std::size_t kShortlisted = 3;  // for best_of_family, this many configs of each family go on
constexpr const char* kLeftOut = "not measured: the survey's time was used up";

// One problem's table, made with the run's shared processes.
class Table {
  public:
    Table(RunShared& shared, const Problem& problem, const BenchOptions& options, std::vector<BenchEntry> entries)
        : shared_(shared),
          problem_(problem),
          options_(options),
          entries_(std::move(entries)),
          owner_(shared.engine.new_owner()) {}
    ~Table() {
        shared_.engine.pool().cancel(owner_);  // The event loop still runs while the session closes, so no callback may be left.
        session_.reset();
        shared_.engine.pool().resume();
    }
    Table(const Table&) = delete;
    Table& operator=(const Table&) = delete;

    BenchResult make();
    // Each family's best configs in the survey.
    const std::set<Candidate>& shortlist() const { return shortlist_; }

  private:
    void submit(std::size_t entry);
    void compile_all();
    void open_session();
    void survey();
    void survey_one(BenchEntry& entry);
    void keep_best_of_families();
    FinalRace race();
    BenchRow row_of(const BenchEntry& entry) const;
    BenchResult result_of(FinalRace& race);
    void progress(std::size_t left);
    TuneServices& services() const { return shared_.engine.services(); }

    RunShared& shared_;
    const Problem& problem_;
    const BenchOptions& options_;
    std::vector<BenchEntry> entries_;
    std::map<std::string, SearchSpace> spaces_;  // by family
    int owner_;
    Clock::time_point begun_ = Clock::now();
    std::size_t compiling_ = 0, surveyed_ = 0;
    std::optional<GpuWorkerSession> session_;
    std::vector<std::size_t> raced_;  // entry of each contestant
    std::set<Candidate> shortlist_;
};

void Table::submit(std::size_t index) {
    const Candidate& candidate = *entries_[index].candidate;
    const Family& family = *services().catalogue.find_family(candidate.family);
    const auto [known, is_new] = spaces_.try_emplace(candidate.family);
    if (is_new) known->second = family.space(problem_, services().device);
    const SearchSpace& space = known->second;
    const jit::Target target = shared_.engine.target();
    ++compiling_;
    shared_.engine.pool().submit(
        {jit::render(services().catalogue, family, problem_, space, candidate.config, target), 1, owner_, ""},
        [this, index](const CompileOutcome& outcome) {
            --compiling_;
            BenchEntry& entry = entries_[index];
            entry.instance = outcome.compiled;  // The user asked for this config, so it is timed even if it spills.
            if (outcome.failure.empty()) return;
            entry.outcome.status = TrialStatus::compile_failed;
            entry.outcome.detail = outcome.failure;
        });
}

void Table::compile_all() {
    for (const std::size_t index : survey_order(entries_)) submit(index);
    for (std::size_t index = 0; index < entries_.size(); ++index) {
        if (entries_[index].candidate && entries_[index].must_race) submit(index);
    }
}

void Table::open_session() {
    const Instance reference = compile_judges(shared_, problem_);
    shared_.engine.acquire_gpu();
    GpuWorkerSession::Options options = session_options(problem_, services());
    options.method = options_.method;
    options.seed = options_.seed;
    options.patience = kPatience;
    options.may_overlap = options_.may_overlap;
    session_.emplace(shared_.host, problem_, reference, options);
}

// Times each config alone, as it comes from the compiler, while others still compile.
void Table::survey() {
    const auto from = Clock::now();
    std::vector<std::size_t> waiting = survey_order(entries_);
    while (!waiting.empty()) {
        progress(waiting.size());
        const auto ready = std::find_if(waiting.begin(), waiting.end(), [&](std::size_t i) {
            return entries_[i].instance != nullptr || !entries_[i].outcome.ok();
        });
        if (ready == waiting.end()) {
            shared_.engine.pump(milliseconds(100));
            continue;
        }
        BenchEntry& entry = entries_[*ready];
        waiting.erase(ready);
        const bool out_of_time = options_.survey_seconds > 0 && seconds_since(from) > options_.survey_seconds;
        if (out_of_time) entry.outcome.detail = kLeftOut;
        if (!out_of_time && entry.outcome.ok()) survey_one(entry);
    }
}

void Table::survey_one(BenchEntry& entry) {
    constexpr int kSlot = 0;
    ++surveyed_;
    entry.outcome = session_->open(kSlot, *entry.candidate, entry.instance, true);
    if (!entry.outcome.ok()) return;
    RunOutcome timed = session_->sample(kSlot, {.rung = 0, .samples = 1, .time_us = 0, .most_samples = 1});
    if (timed.ok() && timed.samples_us.front() < kSlow_us)
        timed = session_->sample(kSlot, {.rung = 0, .samples = 3, .time_us = kSurvey_us, .most_samples = 100});
    if (!timed.ok()) {
        entry.outcome.status = timed.status;
        entry.outcome.detail = timed.detail;
        return;
    }
    entry.surveyed = stats::summarize(timed.samples_us);
}

// If nothing of a family works, one failure is kept to show the reason.
void Table::keep_best_of_families() {
    const std::vector<std::size_t> best = best_of_families(entries_, 1);
    std::set<std::string> shown;
    for (const std::size_t index : best) shown.insert(entries_[index].candidate->family);
    std::vector<BenchEntry> kept;
    for (std::size_t i = 0; i < entries_.size(); ++i) {
        const bool is_best = std::find(best.begin(), best.end(), i) != best.end();
        if (is_best || entries_[i].must_race || shown.insert(entries_[i].candidate->family).second)
            kept.push_back(std::move(entries_[i]));
    }
    entries_ = std::move(kept);
}

FinalRace Table::race() {
    raced_ = racers_of(entries_, options_.racers);
    std::vector<Contestant> contestants;
    for (const std::size_t i : raced_) {
        Contestant contestant;
        contestant.info.name = entries_[i].name;
        contestant.candidate = entries_[i].candidate;
        contestant.instance = entries_[i].instance;
        contestant.verified = entries_[i].surveyed.has_value();
        contestants.push_back(std::move(contestant));
    }
    if (contestants.empty()) throw Error(ErrorCode::no_valid_config, "nothing to time: " + entries_.front().outcome.detail);
    FinalRace::Options options;
    options.rounds.least_rounds = options.rounds.most_rounds = std::max(options_.rounds, 1);
    options.rounds.eliminate_after = 0;  // a table shows everybody
    options.rounds.seed = options_.seed;
    options.warm_seconds = options_.warm_seconds;
    options.turn.after = options_.after;
    options.verify_rivals = true;
    return FinalRace(*session_, std::move(contestants), options);
}

BenchRow Table::row_of(const BenchEntry& entry) const {
    BenchRow row;
    row.name = entry.name;
    row.candidate = entry.candidate;
    row.status = entry.outcome.status;
    row.detail = entry.outcome.detail;
    row.max_error = entry.outcome.max_error;
    row.accumulation_error = entry.outcome.accumulation_error;
    row.sample_values = entry.outcome.sample_values;
    row.timing = entry.surveyed;
    return row;
}

BenchResult Table::result_of(FinalRace& race) {
    BenchResult result;
    result.sustained = options_.warm_seconds > 0;
    result.after = options_.after;
    result.may_overlap = options_.may_overlap;
    result.streams = options_.method.streams;
    result.rounds = race.rounds().rounds();
    result.conditions = race.rounds().conditions();
    result.surveyed = surveyed_;
    result.seconds = seconds_since(begun_);
    std::vector<std::size_t> timed;
    for (std::size_t i = 0; i < raced_.size(); ++i) {
        const RunOutcome& outcome = race.outcomes()[i];
        BenchEntry& entry = entries_[raced_[i]];
        if (outcome.ok()) timed.push_back(raced_[i]);
        if (outcome.ok() && entry.surveyed) continue;  // Surveyed entries are not verified again.
        entry.outcome = outcome;
        entry.surveyed.reset();
    }
    for (const BenchEntry& entry : entries_) result.rows.push_back(row_of(entry));
    result.first = baseline_of(entries_, timed);
    if (!result.first || result.rounds == 0) return result;
    const auto first = std::find(raced_.begin(), raced_.end(), *result.first) - raced_.begin();
    for (const FinalRow& times : race.rounds().rows_against(static_cast<std::size_t>(first))) {
        BenchRow& row = result.rows[raced_[times.finalist]];
        row.timing = times.timing;
        row.interleaved = true;
        row.ratio_to_first = times.ratio;
        row.ratio_low = times.ratio_low;
        row.ratio_high = times.ratio_high;
        row.conditions = times.conditions;
        row.sustained = race.sustained(times.finalist);
        for (const Predecessor which : {Predecessor::filler, Predecessor::itself, Predecessor::trigger}) {
            if (const auto time_us = race.time_after_us(times.finalist, which)) row.after_us[which] = *time_us;
        }
    }
    return result;
}

BenchResult Table::make() {
    compile_all();
    open_session();
    survey();
    shared_.engine.wait_for([&] { return compiling_ == 0; });
    for (const std::size_t index : best_of_families(entries_, kShortlisted)) shortlist_.insert(*entries_[index].candidate);
    if (options_.best_of_family) keep_best_of_families();
    shared_.engine.pool().pause();
    FinalRace running = race();
    if (running.run()) {
        running.time_after_others(running.all_left());
        if (options_.blocks > 0) running.play_blocks(options_.blocks);
    }
    return result_of(running);
}

void Table::progress(std::size_t left) {
    if (services().observer == nullptr) return;
    Progress now;
    now.phase = Phase::trial;
    now.compiled = shared_.engine.pool().compiled();
    now.tried = static_cast<int>(surveyed_);
    now.waiting = static_cast<int>(left);
    now.elapsed_s = seconds_since(begun_);
    services().observer->on_progress(now);
}

class SharedBenchRun : public BenchRun {
  public:
    explicit SharedBenchRun(TuneServices& services) : engine_(services), host_(engine_), shared_{engine_, host_, {}, {}} {}
    BenchResult table(const Problem& problem, const BenchOptions& options) override;

  private:
    NamedFilter filter(const Problem& problem, const BenchOptions& options) const;

    Engine engine_;
    GpuWorkerHost host_;
    RunShared shared_;
    std::map<std::string, std::set<Candidate>> shortlists_;  // by class of problems
};

NamedFilter SharedBenchRun::filter(const Problem& problem, const BenchOptions& options) const {
    const auto shortlist = shortlists_.find(problem.class_key());
    if (!options.best_of_family || shortlist == shortlists_.end()) return [](const Candidate&) { return true; };
    return [&listed = shortlist->second](const Candidate& candidate) { return listed.contains(candidate); };
}

BenchResult SharedBenchRun::table(const Problem& problem, const BenchOptions& options) {
    try {
        // Invalid options are refused before any process is started.
        std::vector<BenchEntry> entries = bench_entries(problem, options, engine_.services(), filter(problem, options));
        engine_.gpu_worker().start();
        Table table(shared_, problem, options, std::move(entries));
        BenchResult result = table.make();
        if (options.best_of_family) shortlists_.emplace(problem.class_key(), table.shortlist());  // the first one's stays
        return result;
    } catch (const Interrupted&) {
        throw Error(ErrorCode::interrupted, "stopped before the rounds were done");
    }
}

}  // namespace

std::unique_ptr<BenchRun> start_bench(TuneServices& services) {
    return std::make_unique<SharedBenchRun>(services);
}

}  // namespace autotune::tuner
