#include <algorithm>

#include "src/core/error.h"
#include "tuner/recall.h"
#include "tuner/tune.h"
#include "tuner/tune_run.h"

namespace autotune::tuner {
namespace {

// What stands in a row before it is timed.
struct Entry {
    std::string name;
    std::optional<Candidate> candidate;
    Instance instance;
    std::string failure;  // why it cannot be timed
    TrialStatus status = TrialStatus::ok;
};

void add(std::vector<Entry>& entries, const std::string& name, const Candidate& candidate) {
    const bool there = std::any_of(entries.begin(), entries.end(), [&](const Entry& entry) { return entry.name == name; });
    if (!there) entries.push_back({name, candidate, nullptr, ""});
}

std::string family_of(const Candidates::Part& part) {
    return std::string(part.family->name());
}

// The stored winner, what the choice names, the default, the named ones, the rivals.
std::vector<Entry> entries_of(const Problem& problem, const BenchOptions& options, const TuneServices& services) {
    std::vector<Entry> entries;
    const Candidates chosen(services.catalogue, problem, services.device, options.choice);
    if (!options.choice.named.empty()) {
        for (std::size_t point = 0; point < chosen.size(); ++point) add(entries, options.choice.named, chosen.at(point));
    } else if (!options.choice.pins.empty()) {
        if (chosen.size() == 1) add(entries, "pinned", chosen.at(0));
    }
    if (const auto winner = valid_winner(problem, services)) {
        const Candidates::Part* part = chosen.part(winner->candidate.family);
        if (part != nullptr) add(entries, "winner", {winner->candidate.family, part->space.canonical(winner->candidate.config)});
    }
    const bool many = chosen.parts().size() > 1;
    for (const Candidates::Part& part : chosen.parts()) {
        const std::string suffix = many ? " " + family_of(part) : "";
        add(entries, "default" + suffix, {family_of(part), part.space.canonical(part.space.default_config)});
        if (!options.named) continue;
        for (const NamedConfig& named : part.space.named) {
            const Config config = part.space.canonical(named.config);
            if (part.space.contains(config)) add(entries, named.name, {family_of(part), config});
        }
    }
    for (const std::string& rival : options.against) entries.push_back({rival, std::nullopt, nullptr, ""});
    return entries;
}

class SideBySide {
  public:
    SideBySide(const Problem& problem, const BenchOptions& options, TuneServices& services)
        : problem_(problem),
          options_(options),
          services_(services),
          engine_(services),
          host_(engine_),
          shared_{engine_, host_, {}, {}},
          entries_(entries_of(problem, options, services)) {}
    BenchResult run();

  private:
    void compile_all();
    FinalRace race(BenchSession& session);
    BenchResult table(FinalRace& race);

    const Problem& problem_;
    const BenchOptions& options_;
    TuneServices& services_;
    Engine engine_;
    BenchHost host_;
    RunShared shared_;
    std::vector<Entry> entries_;
    std::vector<std::size_t> raced_;  // entry of each contestant
};

void SideBySide::compile_all() {
    const jit::Target target{services_.device.arch(), engine_.nvrtc_version()};
    std::size_t missing = 0;
    for (Entry& entry : entries_) {
        if (!entry.candidate) continue;
        const Family& family = *services_.catalogue.find_family(entry.candidate->family);
        const SearchSpace space = family.space(problem_, services_.device);
        ++missing;
        engine_.pool().submit(
            {jit::render(services_.catalogue, family, problem_, space, entry.candidate->config, target), 1, 0, ""},
            [&entry, &missing](const CompileOutcome& outcome) {
                --missing;
                entry.instance = outcome.compiled;  // spills or not: here the user asked for it
                entry.failure = outcome.failure;
                if (!outcome.failure.empty()) entry.status = TrialStatus::compile_failed;
            });
    }
    host_.set_harness(compile_now(shared_, jit::render_harness(services_.catalogue, target)));
    engine_.wait_for([&] { return missing == 0; });
}

FinalRace SideBySide::race(BenchSession& session) {
    std::vector<Contestant> contestants;
    for (std::size_t i = 0; i < entries_.size(); ++i) {
        if (entries_[i].status != TrialStatus::ok) continue;
        Contestant contestant;
        contestant.info.name = entries_[i].name;
        contestant.candidate = entries_[i].candidate;
        contestant.instance = entries_[i].instance;
        contestants.push_back(std::move(contestant));
        raced_.push_back(i);
    }
    if (contestants.empty()) throw Error(ErrorCode::no_valid_config, "nothing to time: " + entries_.front().failure);
    FinalRace::Options options;
    options.rounds.least_rounds = options.rounds.most_rounds = std::max(options_.rounds, 1);
    options.rounds.eliminate_after = 0;  // a table shows everybody
    options.rounds.seed = options_.seed;
    options.warm_seconds = options_.warm_seconds;
    options.verify_rivals = true;
    return FinalRace(session, std::move(contestants), options);
}

BenchResult SideBySide::table(FinalRace& race) {
    BenchResult result;
    result.sustained = options_.warm_seconds > 0;
    result.rounds = race.rounds().rounds();
    result.conditions = race.rounds().conditions();
    for (const Entry& entry : entries_) {
        BenchRow row;
        row.name = entry.name;
        row.candidate = entry.candidate;
        row.status = entry.status;
        row.detail = entry.failure;
        result.rows.push_back(std::move(row));
    }
    for (std::size_t i = 0; i < raced_.size(); ++i) {
        BenchRow& row = result.rows[raced_[i]];
        const RunOutcome& outcome = race.outcomes()[i];
        row.status = outcome.status;
        row.detail = outcome.detail;
        row.max_error = outcome.max_error;
        row.sample_values = outcome.sample_values;
    }
    std::size_t first = 0;
    while (first < raced_.size() && !race.outcomes()[first].ok()) ++first;
    if (first == raced_.size() || result.rounds == 0) return result;
    for (const FinalRow& timed : race.rounds().rows_against(first)) {
        BenchRow& row = result.rows[raced_[timed.finalist]];
        row.timing = timed.timing;
        row.ratio_to_first = timed.ratio;
        row.ratio_low = timed.ratio_low;
        row.ratio_high = timed.ratio_high;
    }
    return result;
}

BenchResult SideBySide::run() {
    engine_.bench().start();
    compile_all();
    const jit::Target target{services_.device.arch(), engine_.nvrtc_version()};
    const Op& op = services_.catalogue.op_of(problem_);
    const Instance reference = compile_now(shared_, jit::render_reference(services_.catalogue, op, problem_, target));
    engine_.acquire_gpu();
    engine_.pool().pause();
    BenchSession::Options options;
    options.l2_warm = options_.l2_warm;
    options.seed = options_.seed;
    options.floor_us = floor_us(op, problem_, services_.device);
    options.affordable_reference = affordable_reference(op, problem_, services_.device);
    BenchSession session(host_, problem_, reference, options);
    FinalRace running = race(session);
    running.run();
    return table(running);
}

}  // namespace

BenchResult bench(const Problem& problem, const BenchOptions& options, TuneServices& services) {
    try {
        return SideBySide(problem, options, services).run();
    } catch (const Interrupted&) {
        throw Error(ErrorCode::interrupted, "stopped before the rounds were done");
    }
}

}  // namespace autotune::tuner
