// A whole tune on a GPU with a template of which thirteen configs are faulty (tests/data/faulty_templates): each is named, stored
// and not tried again, the run continues, and what follows is right. Takes about half a minute, mostly waiting for hangs.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>

#include "db/store/store.h"
#include "src/core/error.h"
#include "tests/support/gpu_gate.h"
#include "tests/support/nvrtc_for_tests.h"
#include "tuner/session/tune.h"

namespace autotune {
namespace {

struct Fault {
    std::string name;
    int block_k, smem_pad, vec;  // parameters of the faulty config, as fault_of() of gemm_simt.cuh reads them
    TrialStatus status;
    std::string words;  // in the trial's detail
};

void PrintTo(const Fault& fault, std::ostream* out) {
    *out << fault.name;
}

const std::vector<Fault> kFaults = {
    {"LaunchOutOfResources", 16, 0, 1, TrialStatus::launch_refused, "CUDA_ERROR"},
    {"Spill", 16, 0, 2, TrialStatus::rejected, "spills"},
    {"IllegalAddress", 16, 0, 4, TrialStatus::crashed, "ILLEGAL_ADDRESS"},
    {"MisalignedAddress", 16, 0, 8, TrialStatus::crashed, "MISALIGNED_ADDRESS"},
    {"Trap", 16, 8, 1, TrialStatus::crashed, "CUDA_ERROR"},
    {"Spin", 16, 8, 2, TrialStatus::timed_out, "launch"},
    {"BarrierNeverMet", 16, 8, 4, TrialStatus::timed_out, "launch"},
    {"RedZone", 16, 8, 8, TrialStatus::wrong_result, "writes outside tensor c"},
    {"OneElement", 32, 0, 1, TrialStatus::wrong_result, "1 of 65536 elements"},
    {"OneRunInAHundred", 32, 0, 2, TrialStatus::wrong_result, ""},
    {"Nondeterministic", 32, 0, 4, TrialStatus::wrong_result, ""},
    {"Stale", 32, 0, 8, TrialStatus::wrong_result, "never written"},
    {"UnsetShared", 32, 8, 1, TrialStatus::wrong_result, "NaN"},
};
bool is_of(const Fault& fault, const Config& config) {
    return config["block_k"] == fault.block_k && config["smem_pad"] == fault.smem_pad && config["vec"] == fault.vec &&
           config["stages"] == 1;
}

bool is_faulty(const Config& config) {
    return std::any_of(kFaults.begin(), kFaults.end(), [&](const Fault& fault) { return is_of(fault, config); });
}

std::string data_folder() {
    const char* moved = std::getenv("AUTOTUNE_TEST_DATA");  // A binary may run on another machine than the one that built it.
    return moved == nullptr ? AUTOTUNE_TEST_DATA : moved;
}

std::string read_file(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
}

// Writes a folder of templates in which the faulty text follows the original first block of gemm/simt.
void write_templates(const std::string& folder) {
    const Catalogue embedded = Catalogue::embedded();
    const std::string& sound = embedded.text(*embedded.find_family("gemm/simt"));
    const std::string mark = "// ---- end of parameters ----\n";
    std::filesystem::create_directories(folder + "/gemm/simt");
    std::ofstream(folder + "/gemm/simt/kernel.cuh")
        << sound.substr(0, sound.find(mark)) << mark << read_file(data_folder() + "/faulty_templates/gemm_simt.cuh");
}

// Fixes all parameters except those that select a fault. They have their smallest values, because the faulty template ignores
// them.
Config pins(const Family& family, const Problem& problem, const Device& device) {
    Config pinned;
    const SearchSpace space = family.space(problem, device);
    const std::set<std::string> open = {"block_k", "smem_pad", "vec", "stages"};
    for (const Parameter& parameter : space.parameters) {
        const bool has_zero = std::find(parameter.values.begin(), parameter.values.end(), 0) != parameter.values.end();
        if (!open.contains(parameter.name)) pinned.set(parameter.name, has_zero ? 0 : parameter.values.front());
    }
    const Config tile = {{"smem", 1}, {"block_m", 64}, {"block_n", 64}, {"thread_m", 4}, {"thread_n", 4}};
    for (const auto& [name, value] : tile.values()) pinned.set(name, value);
    return pinned;
}

class Trials : public tuner::TuneObserver {
  public:
    void on_trial(const Trial& trial) override { seen.push_back(trial); }
    std::vector<Trial> seen;
};

// The tune and a second one on the same database. Both run once for all tests.
class FaultyRun {
  public:
    FaultyRun() {
        write_templates(folder_ + "/templates");
        catalogue_ = Catalogue::from_directory(folder_ + "/templates");
        const auto driver = gpu::Driver::load();
        services_.device = driver->device(0);
        services_.device_uuid = driver->uuid(0);
        services_.workers.driver_major = driver->version() / 1000;
        services_.workers.binary = "/proc/self/exe";
        services_.workers.templates_folder = folder_ + "/templates";
        services_.workers.cache_folder = folder_ + "/cache";
        services_.workers.lock_folder = folder_ + "/state";
        const gpu::Nvrtc::Search compiler = autotune::test::nvrtc_search();
        services_.workers.nvrtc_path = compiler.explicit_path;
        services_.workers.library_folders = compiler.folders;
        services_.observer = &first;
        tuner::TuneOptions options;
        options.budget.seconds = 120;  // The space is exhausted before this time, even on a busy machine.
        options.strategy = "exhaustive";
        options.choice.families = {"gemm/simt"};
        options.choice.pins = pins(*catalogue_.find_family("gemm/simt"), problem, services_.device);
        winner = tuner::tune(problem, options, services_).winner;
        stored = store_.trials(problem, services_.device.identity);
        services_.observer = &second;
        options.retune = true;
        options.budget.seconds = 6;
        second_winner = tuner::tune(problem, options, services_).winner;
    }
    ~FaultyRun() { std::filesystem::remove_all(folder_); }
    FaultyRun(const FaultyRun&) = delete;
    FaultyRun& operator=(const FaultyRun&) = delete;

    const db::StoredTrial* stored_of(const Fault& fault) const {
        const auto found = std::find_if(stored.begin(), stored.end(),
                                        [&](const db::StoredTrial& entry) { return is_of(fault, entry.trial.candidate.config); });
        return found == stored.end() ? nullptr : &*found;
    }

  private:
    std::string folder_ = ::testing::TempDir() + "faulty_templates_" + std::to_string(::getpid());
    Catalogue catalogue_ = Catalogue::embedded();
    db::Store store_ = db::Store::open({.path = folder_ + "/autotune.db"});
    tuner::TuneServices services_{catalogue_, &store_, {}, "", {}, {}, nullptr, nullptr};

  public:
    Trials first, second;
    db::Winner winner, second_winner;
    std::vector<db::StoredTrial> stored;
    const Problem problem = catalogue_.problem({"hgemm", "256x256x256", {}});
};

class FaultyTemplates : public test::GpuTest {
  protected:
    static const FaultyRun& run() {
        static const FaultyRun run;
        return run;
    }
};

class FaultOnGpu : public FaultyTemplates, public ::testing::WithParamInterface<Fault> {};

TEST_P(FaultOnGpu, IsNamedAndStored) {
    const db::StoredTrial* stored = run().stored_of(GetParam());
    ASSERT_NE(stored, nullptr);
    EXPECT_EQ(to_string(stored->trial.status), to_string(GetParam().status)) << stored->trial.detail;
    EXPECT_NE(stored->trial.detail.find(GetParam().words), std::string::npos) << stored->trial.detail;
    std::printf("%-22s %-14s %s\n", GetParam().name.c_str(), std::string(to_string(stored->trial.status)).c_str(),
                stored->trial.detail.c_str());
}

INSTANTIATE_TEST_SUITE_P(Each, FaultOnGpu, ::testing::ValuesIn(kFaults), [](const auto& entry) { return entry.param.name; });

TEST_F(FaultyTemplates, DoNotEndTheRun) {
    std::map<Config, TrialStatus> last;  // a winner may be found wrong after its race
    for (const Trial& trial : run().first.seen) last[trial.candidate.config] = trial.status;
    EXPECT_GE(last.size(), 2 * kFaults.size());
    for (const auto& [config, status] : last) EXPECT_EQ(status == TrialStatus::ok, !is_faulty(config)) << config.to_string();
}

TEST_F(FaultyTemplates, DoNotWin) {
    EXPECT_FALSE(is_faulty(run().winner.candidate.config)) << run().winner.candidate.to_string();
    EXPECT_FALSE(is_faulty(run().second_winner.candidate.config)) << run().second_winner.candidate.to_string();
}

TEST_F(FaultyTemplates, AreNotTriedAgain) {
    EXPECT_FALSE(run().second.seen.empty());
    for (const Trial& trial : run().second.seen) EXPECT_FALSE(is_faulty(trial.candidate.config)) << trial.candidate.to_string();
}

}  // namespace
}  // namespace autotune

// The tuner starts this executable again as its workers.
int main(int argc, char** argv) {
    if (argc > 1 && std::string(argv[1]) == "__worker") return autotune::tuner::worker_main({argv + 2, argv + argc}).exit_code;
    ::testing::InitGoogleTest(&argc, argv);
    return RUN_ALL_TESTS();
}
