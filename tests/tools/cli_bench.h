#pragma once

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "db/store/store.h"
#include "src/core/error.h"
#include "tools/cli/cli.h"

namespace autotune::cli {

inline std::string text_of(const std::string& path) {
    std::ifstream file(path);
    return {std::istreambuf_iterator<char>(file), {}};
}

// A tuner and a machine that answer at once and record the requests.
class FakeServices : public Services {
  public:
    bool has_driver = true;
    std::string driver = "580.1";
    bool is_known = false;  // recall finds a winner
    int gpus = 1;
    std::vector<std::string> archs;  // architectures of the devices; the remaining devices are sm_90a
    std::vector<tuner::LaneGpu> lane_gpus;
    std::vector<tuner::LaneReport> lane_reports;  // empty: no problems
    std::function<void(const Problem&)> on_tune = [](const Problem&) {};
    std::function<void()> on_open = [] {};
    TrialStatus verdict = TrialStatus::ok;
    std::vector<tuner::SweepItem::State> sweep_states;

    std::vector<Problem> tuned, recalled, benched, compiled;
    tuner::TuneOptions tune_options;
    tuner::BenchOptions bench_options;
    tuner::CompileOptions compile_options;
    tuner::SweepOptions sweep_options;
    tuner::SimulateOptions simulate_options;
    std::vector<std::string> simulated = {"random"};  // strategies
    std::string space_name;                           // name of the simulated space; empty: the file's
    tuner::RecordOptions record_options;
    std::string no_nvml;  // why
    tuner::TuneOptions worker_each;
    std::function<void(tuner::IdleSource&)> on_work = [](tuner::IdleSource&) {};
    tuner::RecordedSpace recorded;
    std::vector<std::string> compiled_archs;
    std::vector<tuner::CompiledRow> compiled_rows;  // empty: one that compiled
    TinyCompile tiny_compile;
    int versions_learned = 0;

    bool driver_installed() override { return has_driver; }

    Gpu open_gpu(int ordinal) override {
        on_open();
        if (ordinal >= gpus)
            throw Error(ErrorCode::no_gpu,
                        "there is no device " + std::to_string(ordinal) + "; the devices are 0 to " + std::to_string(gpus - 1));
        Gpu gpu;
        gpu.device =
            *reference_device(ordinal < static_cast<int>(archs.size()) ? archs[static_cast<std::size_t>(ordinal)] : "sm_90a");
        gpu.ordinal = ordinal;
        gpu.count = gpus;
        gpu.uuid = "GPU-00000000-0000-0000-0000-00000000000" + std::to_string(ordinal);
        gpu.pci = "0000:0" + std::to_string(9 - ordinal) + ":00.0";  // in reverse order
        gpu.cuda_version = 13000;
        gpu.provenance.driver = driver;
        return gpu;
    }
    void learn_versions(Gpu& gpu, const std::string&) override {
        ++versions_learned;
        gpu.provenance.nvrtc = "13.0";
    }
    std::map<int, gpu::CardUse> uses;  // by ordinal
    CardFacts card(const Gpu& gpu) override {
        CardFacts facts;
        if (const auto found = uses.find(gpu.ordinal); found != uses.end()) facts.use = found->second;
        return facts;
    }
    NvrtcFacts nvrtc(const std::string& path, int) override {
        if (path == "/missing") throw Error(ErrorCode::no_compiler, "no NVRTC at /missing; unset AUTOTUNE_NVRTC");
        return {.version = "13.0", .path = "/lib/libnvrtc.so.13"};
    }
    TinyCompile compile_tiny(const std::string&, int, const std::string&) override { return tiny_compile; }
    gpu::Nvrtc::Output compile(const std::string&, const gpu::Nvrtc::Source&) override { return {}; }
    std::vector<std::string> library_folders() override { return {}; }

    static db::Winner winner_of(const Problem& problem, const tuner::TuneServices& services) {
        const std::vector<const Family*> families = services.catalogue.families_of(problem.op);
        const Family* family = *std::find_if(families.begin(), families.end(), [&](const Family* candidate) {
            return !candidate->refuses(problem, services.device);
        });
        db::Winner winner;
        winner.op = problem.op;
        winner.class_key = problem.class_key();
        winner.extents = problem.extents;
        winner.device = services.device.identity;
        winner.template_identity = services.catalogue.template_identity(*family);
        winner.candidate = {std::string(family->name()), family->space(problem, services.device).default_config};
        winner.timing = {.median_us = 100, .low_us = 99, .high_us = 101, .min_us = 98, .samples = 30};
        winner.provenance = services.provenance;
        winner.provenance.method = "stream-2 l2=cold data=normal";
        winner.provenance.date = "2026-01-02T03:04:05Z";
        winner.evidence.rounds = 30;
        winner.evidence.decided_by = "only candidate";
        winner.evidence.max_error = 0.5;
        winner.evidence.finalists = {
            {.name = winner.candidate.to_string(), .candidate = winner.candidate, .timing = winner.timing}};
        return winner;
    }

    std::optional<tuner::TuneResult> recall(const Problem& problem, const tuner::TuneServices& services) override {
        recalled.push_back(problem);
        if (!is_known) return std::nullopt;
        tuner::TuneResult result;
        result.winner = winner_of(problem, services);
        return result;
    }
    tuner::TuneResult tune(const Problem& problem, const tuner::TuneOptions& options, tuner::TuneServices& services) override {
        tuned.push_back(problem);
        tune_options = options;
        on_tune(problem);
        tuner::TuneResult result;
        result.winner = winner_of(problem, services);
        result.tuned = true;
        result.not_stored = put(services.store, result.winner);
        return result;
    }
    // Like the tuner: if a store cannot store a winner, the result is still returned.
    static std::string put(db::WinnerStore* store, const db::Winner& winner) {
        try {
            if (store != nullptr) store->put(winner);
        } catch (const db::DatabaseError& error) {
            return error.what();
        }
        return "";
    }
    std::function<void(std::size_t)> on_sweep_item = [](std::size_t) {};  // called before the item with this index
    // A table that is ready at once; `services` records the requests.
    class FakeBenchRun : public tuner::BenchRun {
      public:
        explicit FakeBenchRun(FakeServices& services) : services_(services) {}
        tuner::BenchResult table(const Problem& problem, const tuner::BenchOptions& options) override {
            services_.benched.push_back(problem);
            services_.bench_options = options;
            tuner::BenchResult result;
            result.rounds = options.rounds;
            result.rows = services_.bench_rows;
            result.first = 0;
            return result;
        }

      private:
        FakeServices& services_;
    };
    static tuner::BenchRow timed_row(const std::string& name, double us) {
        tuner::BenchRow row;
        row.name = name;
        row.timing = Timing{.median_us = us, .low_us = us - 1, .high_us = us + 1, .min_us = us - 2, .samples = 30};
        row.interleaved = true;
        return row;
    }
    static tuner::BenchRow failed_row(const std::string& name, TrialStatus status, const std::string& detail) {
        tuner::BenchRow row;
        row.name = name;
        row.status = status;
        row.detail = detail;
        return row;
    }
    std::vector<tuner::BenchRow> bench_rows = {timed_row("winner", 100),
                                               failed_row("cublas", TrialStatus::launch_refused, "the library is not found")};
    int bench_runs = 0;

    std::unique_ptr<tuner::BenchRun> start_bench(tuner::TuneServices&) override {
        ++bench_runs;
        return std::make_unique<FakeBenchRun>(*this);
    }
    std::string not_verified;  // why no candidate could be tried; empty: all could
    void verify(const std::vector<tuner::ToVerify>& items, tuner::TuneServices&,
                const std::function<void(std::size_t, const tuner::Verified&)>& done) override {
        for (std::size_t i = 0; i < items.size(); ++i) {
            tuner::Verified verified;
            verified.trial.candidate = items[i].candidate;
            verified.trial.status = verdict;
            verified.failure = not_verified;
            done(i, verified);
        }
    }
    std::function<void(db::Winner&)> on_race = [](db::Winner&) {};  // changes the row that results from a race
    bool somebody_is_right = true;
    int races = 0;
    tuner::RaceAgainResult race_again(const Problem&, const db::Winner& stored, const tuner::RaceAgainOptions&,
                                      tuner::TuneServices& services) override {
        ++races;
        tuner::RaceAgainResult result;
        if (!somebody_is_right) {
            Trial& out = result.out.emplace_back();
            out.candidate = stored.candidate;
            out.status = TrialStatus::wrong_result;
            out.detail = "row 0 is wrong";
            return result;
        }
        result.winner = stored;
        result.winner->doubt.clear();
        result.winner->provenance = services.provenance;
        result.winner->provenance.method = stored.provenance.method;
        result.winner->provenance.date = "2026-02-03T04:05:06Z";
        on_race(*result.winner);
        return result;
    }
    std::vector<tuner::CompiledRow> compile_ranked(const Problem& problem, const tuner::CompileOptions& options,
                                                   tuner::TuneServices& services) override {
        compiled.push_back(problem);
        compile_options = options;
        compiled_archs.push_back(services.device.arch());
        if (!compiled_rows.empty()) return compiled_rows;
        tuner::CompiledRow row;
        row.candidate = winner_of(problem, services).candidate;
        row.report.registers = 128;
        row.smem_bytes = 49152;
        row.occupancy = 0.25;
        row.predicted_us = 123.4;
        return {row};
    }
    std::vector<tuner::SweepItem> sweep(const std::vector<Problem>& problems, const tuner::SweepOptions& options,
                                        tuner::TuneServices& services, tuner::SweepObserver* observer) override {
        sweep_options = options;
        std::vector<tuner::SweepItem> items;
        for (const Problem& problem : problems) {
            on_sweep_item(items.size());
            tuner::SweepItem item;
            item.problem = problem;
            item.state = items.size() < sweep_states.size() ? sweep_states[items.size()] : tuner::SweepItem::State::tuned;
            if (item.state == tuner::SweepItem::State::tuned) {
                item.result = tuner::TuneResult{};
                item.result->winner = winner_of(problem, services);
                item.result->tuned = true;
                item.result->not_stored = put(services.store, item.result->winner);
            }
            items.push_back(item);
            observer->on_item(items.back(), items.size(), problems.size(), std::nullopt);
        }
        return items;
    }
    // The lanes alternate.
    tuner::LanesSweep sweep_on(const std::vector<tuner::LaneGpu>& lanes, const std::vector<Problem>& problems,
                               const tuner::SweepOptions& options, const db::OpenOptions&, tuner::TuneServices& services,
                               tuner::SweepObserver* observer) override {
        lane_gpus = lanes;
        class Renaming : public tuner::SweepObserver {
          public:
            Renaming(const std::vector<tuner::LaneGpu>& lanes, tuner::SweepObserver* observer)
                : lanes_(lanes), observer_(observer) {}
            void on_item(const tuner::SweepItem& item, std::size_t done, std::size_t total, std::optional<double> eta) override {
                tuner::SweepItem named = item;
                named.gpu = lanes_[(done - 1) % lanes_.size()].uuid;
                observer_->on_item(named, done, total, eta);
            }

          private:
            const std::vector<tuner::LaneGpu>& lanes_;
            tuner::SweepObserver* observer_;
        };
        Renaming renaming(lanes, observer);
        tuner::LanesSweep swept{sweep(problems, options, services, &renaming), lane_reports};
        for (std::size_t i = 0; lane_reports.empty() && i < lanes.size(); ++i)
            swept.lanes.push_back({.uuid = lanes[i].uuid, .name = lanes[i].device.identity.name, .ordinal = lanes[i].ordinal});
        return swept;
    }
    tuner::ReadLoad load_reader(std::string* why) override {
        *why = no_nvml;
        return no_nvml.empty() ? [](const std::string&, unsigned long long&) { return gpu::CardLoad{.percent = 0}; }
                               : tuner::ReadLoad{};
    }
    void work_when_idle(const std::vector<tuner::LaneGpu>&, tuner::IdleSource& source, const tuner::TuneOptions& each,
                        const db::OpenOptions&, tuner::TuneServices&) override {
        worker_each = each;
        on_work(source);
    }
    tuner::RecordedSpace record(const Problem&, const tuner::RecordOptions& options, tuner::TuneServices&) override {
        record_options = options;
        return recorded;
    }
    tuner::Simulation simulate(const std::string& path, const tuner::SimulateOptions& options) override {
        simulate_options = options;
        tuner::Simulation simulation;
        simulation.space = space_name.empty() ? path : space_name;
        for (const std::string& name : simulated) {
            tuner::SimulatedStrategy& strategy = simulation.strategies.emplace_back();
            strategy.name = name;
            for (const double percent : {10.0, 5.0, 1.0})
                strategy.within.push_back({.percent = percent, .median_evaluations = 1});
            for (const std::size_t evaluations : {50u, 100u, 220u}) strategy.after.push_back({.evaluations = evaluations});
        }
        return simulation;
    }
};

struct Said {
    ExitCode code = ExitCode::done;
    std::string out, err;
    nlohmann::json json() const { return nlohmann::json::parse(out); }
};

// The command in a private home folder.
class CliBench {
  public:
    CliBench() {
        std::string pattern = (std::filesystem::temp_directory_path() / "autotune-cli-XXXXXX").string();
        folder = mkdtemp(pattern.data());
        variables["HOME"] = folder;
    }
    ~CliBench() {
        std::error_code ignored;
        std::filesystem::remove_all(folder, ignored);
    }
    CliBench(const CliBench&) = delete;
    CliBench& operator=(const CliBench&) = delete;

    Said operator()(const std::vector<std::string>& words) {
        std::ostringstream out, err;
        Cli cli({.out = out, .err = err, .out_is_terminal = terminal, .err_is_terminal = terminal}, Environment(variables),
                services, {.binary = "/nonexistent/autotune", .version = "9.8.7", .shipped_folders = {}, .stop = &stop});
        const ExitCode code = cli.run(words);
        return {code, out.str(), err.str()};
    }
    // A file in the private home.
    std::string file(const std::string& name, const std::string& text) const {
        const std::string path = folder + "/" + name;
        std::ofstream(path) << text;
        return path;
    }

    FakeServices services;
    std::map<std::string, std::string, std::less<>> variables;
    std::atomic<bool> stop{false};
    bool terminal = false;
    std::string folder;
};

// `autotune families` without an op: it counts every space of every architecture, so the tests of one process share the result.
inline const Said& all_families(const std::vector<std::string>& flags = {}) {
    static std::map<std::vector<std::string>, Said> said;
    const auto [place, is_new] = said.try_emplace(flags);
    if (is_new) {
        std::vector<std::string> words = {"families"};
        words.insert(words.end(), flags.begin(), flags.end());
        CliBench autotune;
        place->second = autotune(words);
    }
    return place->second;
}

}  // namespace autotune::cli
