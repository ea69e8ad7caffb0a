// Tests of the choice of GPUs for a sweep, and of the messages about them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/tools/cli_bench.h"

namespace autotune::cli::devices_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

const std::string kFirst = "GPU-00000000-0000-0000-0000-000000000000";
const std::string kSecond = "GPU-00000000-0000-0000-0000-000000000001";

std::vector<std::string> sweep(const std::vector<std::string>& more) {
    std::vector<std::string> words{"sweep", "--op", "hgemm", "--shapes", "8,16,24,32x8x8"};
    words.insert(words.end(), more.begin(), more.end());
    return words;
}

std::vector<int> ordinals(const CliBench& autotune) {
    std::vector<int> found;
    for (const tuner::LaneGpu& gpu : autotune.services.lane_gpus) found.push_back(gpu.ordinal);
    return found;
}

std::string name_of(const CliBench&) {
    return reference_device("sm_90a")->identity.name;
}

TEST(Devices, AreTakenInTheOrderOfTheListAndAllByPciAddress) {
    CliBench autotune;
    autotune.services.gpus = 3;
    EXPECT_EQ(autotune(sweep({"--devices", "0,2"})).code, ExitCode::done);
    EXPECT_THAT(ordinals(autotune), ElementsAre(0, 2));
    autotune(sweep({"--devices", kSecond + ",0"}));
    EXPECT_THAT(ordinals(autotune), ElementsAre(1, 0));
    autotune(sweep({"--devices", "all"}));
    EXPECT_THAT(ordinals(autotune), ElementsAre(2, 1, 0)) << "this driver counts the other way round";
}

TEST(Devices, SayWhichGpuDidWhat) {
    CliBench autotune;
    autotune.services.gpus = 2;
    const auto json = autotune(sweep({"--devices", "0,1", "--json"})).json();
    EXPECT_EQ(json["items"][0]["gpu"], kFirst);
    EXPECT_EQ(json["items"][1]["gpu"], kSecond);
    ASSERT_EQ(json["gpus"].size(), 2u);
    EXPECT_EQ(json["gpus"][1]["uuid"], kSecond);
    EXPECT_EQ(json["gpus"][1]["ordinal"], 1);
    autotune.services.lane_reports = {
        {.uuid = kFirst, .name = "NVIDIA H200", .ordinal = 0, .items = 4, .seconds = 12, .restarts = 0, .out_because = ""},
        {.uuid = kSecond,
         .name = "NVIDIA H200",
         .ordinal = 1,
         .items = 0,
         .seconds = 0,
         .restarts = 1,
         .out_because = "the GPU is gone"}};
    const Said said = autotune(sweep({"--devices", "0,1"}));
    EXPECT_EQ(said.code, ExitCode::some_failed);
    EXPECT_THAT(said.out, HasSubstr("GPU 0 (" + kFirst + ", NVIDIA H200): 4 problems, 12.0 s\n" + "GPU 1 (" + kSecond +
                                    ", NVIDIA H200): 0 problems, 0.0 s, its process was started again once, then out: the GPU is "
                                    "gone\n"));
    for (tuner::LaneReport& lane : autotune.services.lane_reports) lane.out_because = "the GPU is gone";
    EXPECT_EQ(autotune(sweep({"--devices", "0,1"})).code, ExitCode::gpu_unhealthy);
}

TEST(Devices, WithoutTheFlagNothingIsSaidOfGpus) {
    CliBench autotune;
    autotune.services.gpus = 2;
    const auto json = autotune(sweep({"--json"})).json();
    EXPECT_FALSE(json.contains("gpus"));
    EXPECT_FALSE(json["items"][0].contains("gpu"));
    EXPECT_TRUE(autotune.services.lane_gpus.empty());
}

TEST(Devices, OneThatIsNotThereIsNamed) {
    CliBench autotune;
    autotune.services.gpus = 2;
    const std::string name = name_of(autotune);
    const Said said = autotune(sweep({"--devices", "GPU-abc"}));
    EXPECT_EQ(said.code, ExitCode::usage);
    EXPECT_EQ(said.err, "autotune: --devices: there is no GPU GPU-abc here; there are 0 (" + kFirst + ", " + name + "), 1 (" +
                            kSecond + ", " + name + ")\n");
    EXPECT_THAT(autotune(sweep({"--devices", "0,7"})).err, HasSubstr("there is no GPU 7 here; there are 0 ("));
    EXPECT_EQ(autotune(sweep({"--devices", "0,,1"})).code, ExitCode::usage);
}

TEST(Devices, OneThatIsNamedTwiceIsRefused) {
    CliBench autotune;
    autotune.services.gpus = 2;
    const Said said = autotune(sweep({"--devices", "1," + kSecond}));
    EXPECT_EQ(said.code, ExitCode::usage);
    EXPECT_EQ(said.err, "autotune: --devices names GPU 1 (" + kSecond + ") twice; name it once\n");
}

TEST(Devices, OfAHostWithOneGpuAreThatOne) {
    CliBench autotune;
    const Said said = autotune(sweep({"--devices", "all"}));
    EXPECT_EQ(said.code, ExitCode::done);
    EXPECT_EQ(said.err, "note: --devices: this host has one GPU, which does the whole list\n");
    EXPECT_TRUE(autotune.services.lane_gpus.empty());
}

TEST(Devices, ExcludeDevice) {
    CliBench autotune;
    EXPECT_EQ(autotune(sweep({"--devices", "all", "--device", "0"})).err,
              "autotune: --device and --devices exclude each other; give one of them\n");
}

TEST(Devices, OfSeveralKindsAreListedUnlessEachIsToBeTunedFor) {
    CliBench autotune;
    autotune.services.gpus = 2;
    autotune.services.archs = {"sm_90a", "sm_80"};
    const Said said = autotune(sweep({"--devices", "0,1"}));
    EXPECT_EQ(said.code, ExitCode::usage);
    EXPECT_EQ(said.err,
              "autotune: these GPUs are of 2 kinds: 0 (" + kFirst + ", " + name_of(autotune) + "), 1 (" + kSecond + ", " +
                  reference_device("sm_80")->identity.name +
                  "); name those of one kind with --devices, or add --each-class to tune every problem for each kind\n");
    EXPECT_EQ(autotune(sweep({"--devices", "0,1", "--each-class"})).code, ExitCode::done);
    EXPECT_THAT(ordinals(autotune), ElementsAre(0, 1));
}

// ---- cards in use by others ----

Said with_use(const gpu::CardUse& use, const std::string& devices, const std::vector<std::string>& more = {}) {
    CliBench autotune;
    autotune.services.gpus = 2;
    autotune.services.uses[1] = use;
    std::vector<std::string> words = sweep({"--devices", devices});
    words.insert(words.end(), more.begin(), more.end());
    return autotune(words);
}

TEST(Devices, InComputeModeProhibitedAreNoGpus) {
    gpu::CardUse use;
    use.is_prohibited = true;
    const std::string why = "GPU 1 (" + kSecond +
                            ") is in compute mode Prohibited, in which no program can use it; an administrator changes that with "
                            "`nvidia-smi -i 1 -c DEFAULT`\n";
    const Said named = with_use(use, "0,1");
    EXPECT_EQ(named.code, ExitCode::no_gpu);
    EXPECT_EQ(named.err, "autotune: " + why);
    const Said all = with_use(use, "all");
    EXPECT_EQ(all.code, ExitCode::done) << "the other GPU does the list";
    EXPECT_EQ(all.err, "warning: passed over: " + why);
}

TEST(Devices, SharedThroughMpsAreLeftAloneUnlessTheyAreAllowed) {
    gpu::CardUse use;
    use.serves_mps = true;
    const Said said = with_use(use, "1,0");
    EXPECT_EQ(said.code, ExitCode::gpu_in_use);
    EXPECT_EQ(said.err, "autotune: GPU 1 (" + kSecond +
                            ") is shared through MPS, where a kernel that fails ends every program on it; end the MPS server, or "
                            "add --allow-mps\n");
    EXPECT_EQ(with_use(use, "1,0", {"--allow-mps"}).code, ExitCode::done);
}

TEST(Devices, ThatOthersUseAreLeftAlone) {
    gpu::CardUse full;
    full.load.used_gib = 137.7;
    full.load.processes.emplace().push_back({.pid = 4711});
    const Said memory = with_use(full, "1");
    EXPECT_EQ(memory.code, ExitCode::gpu_in_use);
    EXPECT_EQ(memory.err, "autotune: GPU 1 (" + kSecond +
                              ") is in use by process 4711: 137.7 GiB of its memory are used; end what runs there, or leave this "
                              "GPU out of --devices\n");
    gpu::CardUse busy;
    busy.load.used_gib = 0.6;
    busy.load.percent = 97;
    EXPECT_THAT(with_use(busy, "1").err, HasSubstr("is in use: it is busy for 97 % of the time; end what runs there"));
    gpu::CardUse idle;
    idle.load.used_gib = 0.6;
    idle.load.processes.emplace().push_back({.pid = 4711});
    EXPECT_EQ(with_use(idle, "1").code, ExitCode::done) << "a notebook that only holds a context";
}

// ---- shards ----

TEST(Shards, TakeEveryNthProblem) {
    CliBench autotune;
    const auto shapes = [&](const std::string& shard) {
        std::vector<std::string> found;
        const auto json = autotune(sweep({"--shard", shard, "--dry-run", "--json"})).json();
        for (const auto& problem : json["problems"]) found.push_back(problem["shape"]);
        return found;
    };
    EXPECT_THAT(shapes("1/2"), ElementsAre("8x8x8", "24x8x8"));
    EXPECT_THAT(shapes("2/2"), ElementsAre("16x8x8", "32x8x8"));
    EXPECT_THAT(shapes("3/3"), ElementsAre("24x8x8"));
}

TEST(Shards, ThatAreNoneAreRefused) {
    CliBench autotune;
    const auto error = [&](const std::vector<std::string>& words) {
        const Said said = autotune(words);
        EXPECT_EQ(said.code, ExitCode::usage);
        return said.err;
    };
    EXPECT_EQ(error(sweep({"--shard", "3/2"})), "autotune: --shard 3/2: I is 1 to N, and there is no shard 3 of 2\n");
    EXPECT_EQ(error(sweep({"--shard", "0/2"})), "autotune: --shard 0/2: I is 1 to N, and there is no shard 0 of 2\n");
    EXPECT_EQ(error(sweep({"--shard", "2"})), "autotune: --shard is I/N, such as 2/8 for the second of eight; it is '2'\n");
    EXPECT_EQ(error({"sweep", "--misses", "--shard", "1/2"}),
              "autotune: --shard divides a list, and --misses has a list that changes while it is worked off; leave out --shard: "
              "sweeps of one database share its misses\n");
}

TEST(Shards, MayBeEmpty) {
    CliBench autotune;
    const Said said = autotune(sweep({"--shard", "5/8"}));
    EXPECT_EQ(said.code, ExitCode::done);
    EXPECT_EQ(said.out, "this shard has no problem: the list is shorter than N of --shard\n");
}

}  // namespace
}  // namespace autotune::cli::devices_test
