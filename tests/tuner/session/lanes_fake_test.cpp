// Sweeps on several GPUs of the scripted driver: lanes, their shared pool, and processes that die.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <map>
#include <random>
#include <set>

#include "db/store/store.h"
#include "src/core/error.h"
#include "tests/tuner/session/fake_tune.h"

namespace autotune::lanes_fake_test {
namespace {

using fake::Outcome;
using fake::Running;
using fake::Sandbox;
using test::Json;
using test::Words;

std::string devices(int count, const std::string& rest = "") {
    std::string script;
    for (int i = 0; i < count; ++i) script += "device\n";
    return script + rest;
}

// UUID of the scripted device with this number.
std::string uuid(int gpu) {
    return "GPU-fa4e0000-0000-0000-0000-00000000000" + std::to_string(gpu);
}

// Problems of one class that differ in M; two candidates each.
Words sweep_of(const std::string& shapes, const Words& more = {}) {
    return test::with_pins({"sweep", "--op", "hgemm", "--shapes", shapes, "--family", "gemm/simt", "--param", "block_m=64",
                            "--param", "thread_m=4", "--devices", "all", "--json"},
                           more);
}

std::map<std::string, Json> by_shape(const Json& result) {
    std::map<std::string, Json> items;
    for (const Json& item : result.at("items")) items[item.at("problem").at("shape").get<std::string>()] = item;
    return items;
}

// Symbols that were compiled more than once.
std::vector<std::string> compiled_twice(const Sandbox& sandbox) {
    std::map<std::string, int> counts;
    for (const std::string& call : sandbox.calls()) {
        const std::size_t at = call.find("nvrtcCompileProgram ");
        if (at != std::string::npos) ++counts[call.substr(at)];
    }
    std::vector<std::string> twice;
    for (const auto& [symbol, count] : counts) {
        if (count > 1) twice.push_back(symbol);
    }
    return twice;
}

int winners_in(const Sandbox& sandbox) {
    const auto path = sandbox.folder() / "data/autotune/autotune.db";
    if (!std::filesystem::exists(path)) return 0;
    try {
        return static_cast<int>(db::Store::open({.path = path, .read_only = true}).count({}));
    } catch (const Error&) {
        return 0;  // it is being made
    }
}

TEST(Lanes, TwoGpusShareAListAndItsInstances) {
    const Sandbox machine(devices(2));
    Running running = machine.start_autotune(sweep_of("256:1536:256x256x256"));
    const pid_t parent = running.pid();
    const Json result = test::result_of(running.wait());
    ASSERT_EQ(result.at("items").size(), 6u);
    std::map<std::string, int> items;
    for (const auto& [shape, item] : by_shape(result)) {
        EXPECT_EQ(item.at("state"), "tuned") << shape;
        ++items[item.at("gpu").get<std::string>()];
    }
    EXPECT_EQ(items.size(), 2u);
    ASSERT_EQ(result.at("gpus").size(), 2u);
    for (int i = 0; i < 2; ++i) {
        const Json& gpu = result["gpus"][static_cast<std::size_t>(i)];
        EXPECT_EQ(gpu.at("uuid"), uuid(i));
        EXPECT_EQ(gpu.at("items"), items[uuid(i)]);
        EXPECT_EQ(gpu.at("restarts"), 0);
        EXPECT_TRUE(gpu.at("out_because").is_null());
    }
    EXPECT_EQ(winners_in(machine), 6);
    EXPECT_EQ(compiled_twice(machine), std::vector<std::string>{});
    for (const std::string& call : machine.calls())
        EXPECT_FALSE(call.find(std::to_string(parent) + " cuDevicePrimaryCtxRetain") == 0) << call;
    EXPECT_TRUE(test::no_orphans_soon(machine));
    // Fresh problems need no GPU and no process.
    machine.clear_calls();
    const Json again = test::result_of(machine.autotune(sweep_of("256:1536:256x256x256")));
    EXPECT_EQ(again.at("summary").at("fresh"), 6);
    EXPECT_EQ(machine.count_calls("cuDevicePrimaryCtxRetain"), 0);
}

// ---- speed ----

int number_of(const char* variable, int otherwise) {
    const char* text = std::getenv(variable);
    return text == nullptr ? otherwise : std::atoi(text);
}

long resident_kib(pid_t pid) {
    std::ifstream status("/proc/" + std::to_string(pid) + "/status");
    for (std::string line; std::getline(status, line);) {
        if (line.rfind("VmRSS:", 0) == 0) return std::atol(line.c_str() + 6);
    }
    return 0;
}

// Problems that occupy a GPU for more than two seconds and a processor for 0.2 s: eight lanes share two processors in CI.
const std::string kBusyGpu =
    "rule symbol=^gemm_simt_ do=hang seconds=0.005\nrule on=load symbol=_reference do=hang seconds=0.15\n";

Words quick_sweep(int problems, int gpus) {
    return test::with_pins({"sweep", "--op", "hgemm", "--shapes",
                            "256:" + std::to_string(256 + 8 * (problems - 1)) + ":8x256x256", "--family", "gemm/simt", "--param",
                            "block_m=64", "--param", "thread_m=4", "--param", "thread_n=8", "--trials", "1", "--retune", "--json",
                            gpus > 1 ? "--devices" : "--device", gpus > 1 ? "all" : "0"});
}

// A few problems in CI, where other tests run at the same time on two processors; 400 in the soak, which runs alone and requires
// a factor of 7.2. Every cubin is cached. One lane tunes a few of the list.
TEST(Lanes, EightWorkSideBySide) {
    const int problems = number_of("AUTOTUNE_LANE_PROBLEMS", 24);
    const double least_gain = problems >= 80 ? 7.2 : 3;
    constexpr int kAlone = 5;
    Sandbox machine(devices(8));
    ASSERT_EQ(machine.autotune(quick_sweep(2, 8)).exit_code, 0);  // compiles
    machine.script(devices(8, kBusyGpu));
    machine.clear_calls();
    const Outcome one = machine.autotune(quick_sweep(kAlone, 1));
    ASSERT_EQ(one.exit_code, 0) << one.err;
    Running running = machine.start_autotune(quick_sweep(problems, 8), {.timeout_s = 300});
    std::vector<long> resident;
    std::atomic<bool> done{false};
    std::thread watch([&] {
        while (!done) {
            if (const long kib = resident_kib(running.pid()); kib > 0) resident.push_back(kib);
            std::this_thread::sleep_for(std::chrono::milliseconds(50));
        }
    });
    const Outcome eight = running.wait();
    done = true;
    watch.join();
    const Json result = test::result_of(eight);
    EXPECT_EQ(result.at("summary").at("tuned"), problems);
    const double each_s = Json::parse(one.out).at("seconds").get<double>() / kAlone;
    EXPECT_GE(each_s, 0.3);
    EXPECT_GE(each_s * problems / eight.wall_s, least_gain)
        << eight.wall_s << " s for " << problems << " problems of " << each_s << " s";
    EXPECT_EQ(machine.count_calls("nvrtcCompileProgram"), 0);
    ASSERT_GT(resident.size(), 20u);
    const std::size_t half = resident.size() / 2;
    EXPECT_LT(*std::max_element(resident.begin() + half, resident.end()),
              *std::max_element(resident.begin(), resident.begin() + half) + 2048)
        << "KiB of the parent";
}

// ---- what dies ----

std::vector<pid_t> workers(const Sandbox& sandbox, const std::string& kind) {
    std::vector<pid_t> found;
    for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
        std::ifstream command(entry.path() / "cmdline", std::ios::binary);
        const std::string words((std::istreambuf_iterator<char>(command)), {});
        if (words.find(std::string("__worker") + '\0' + kind) == std::string::npos) continue;
        std::ifstream environment(entry.path() / "environ", std::ios::binary);
        const std::string text((std::istreambuf_iterator<char>(environment)), {});
        if (text.find(sandbox.folder().string()) != std::string::npos) found.push_back(std::stoi(entry.path().filename()));
    }
    return found;
}

bool locks_are_free(const Sandbox& sandbox) {
    bool free = true;
    for (const auto& folder : {sandbox.folder() / "state/autotune", sandbox.folder() / "locks"}) {
        if (!std::filesystem::exists(folder)) continue;
        for (const auto& entry : std::filesystem::directory_iterator(folder)) {
            if (entry.path().filename().string().rfind("gpu-", 0) != 0) continue;
            const int file = ::open(entry.path().c_str(), O_RDONLY | O_CLOEXEC);
            free = free && ::flock(file, LOCK_EX | LOCK_NB) == 0;
            ::close(file);
        }
    }
    return free;
}

std::map<std::string, Json> configs_of(const Json& result) {
    std::map<std::string, Json> configs;
    for (const auto& [shape, item] : by_shape(result)) configs[shape] = item.at("winner").at("config");
    return configs;
}

// Six kills in CI, 50 in the soak: of a lane, a GPU worker or a compile worker, at a random moment.
TEST(Lanes, AnyProcessMayBeKilled) {
    const std::string script = devices(3, "rule symbol=^gemm_simt_ thread_n=8 do=slow factor=0.5\nnvrtc delay_ms=20\n");
    const Words sweep = sweep_of("256:1536:256x256x256");
    double whole_s = 0;
    std::map<std::string, Json> undisturbed;
    {
        const Sandbox machine(script);
        const Outcome outcome = machine.autotune(sweep);
        undisturbed = configs_of(test::result_of(outcome));
        whole_s = outcome.wall_s;
    }
    ASSERT_EQ(undisturbed.size(), 6u);
    std::mt19937 random(20261128);
    const char* const kinds[] = {"lane", "gpu", "compile"};
    for (int killed = 0; killed < number_of("AUTOTUNE_LANE_KILLS", 6); ++killed) {
        const auto moment_ms = static_cast<long>(random() % static_cast<unsigned>(900 * whole_s));
        const std::string kind = kinds[killed % 3];
        SCOPED_TRACE("kill " + std::to_string(killed) + " of a " + kind + " after " + std::to_string(moment_ms) + " ms");
        const Sandbox machine(script);
        Running running = machine.start_autotune(sweep);
        std::this_thread::sleep_for(std::chrono::milliseconds(moment_ms));
        if (const std::vector<pid_t> victims = workers(machine, kind); !victims.empty())
            ::kill(victims[random() % victims.size()], SIGKILL);
        EXPECT_EQ(configs_of(test::result_of(running.wait())), undisturbed);
        EXPECT_EQ(winners_in(machine), 6);
        EXPECT_TRUE(test::no_orphans_soon(machine));
        EXPECT_TRUE(locks_are_free(machine));
    }
}

TEST(Lanes, EndWithTheirParent) {
    const Sandbox machine(devices(2));
    {
        Running running = machine.start_autotune(sweep_of("256:4096:256x256x256"));
        while (winners_in(machine) < 1) std::this_thread::sleep_for(std::chrono::milliseconds(20));
        running.signal(SIGKILL);
        running.wait();
    }
    EXPECT_TRUE(test::no_orphans_soon(machine));
    EXPECT_TRUE(locks_are_free(machine));
}

TEST(Lanes, AreToldOfCtrlC) {
    const Sandbox machine(devices(2));
    Running running = machine.start_autotune(sweep_of("256:8192:256x256x256"));
    while (winners_in(machine) < 2) std::this_thread::sleep_for(std::chrono::milliseconds(20));
    running.signal(SIGINT);
    const Outcome outcome = running.wait();
    EXPECT_EQ(outcome.exit_code, 130) << outcome.err;
    EXPECT_NE(outcome.err.find("winners are kept, run the same command again for the other"), std::string::npos) << outcome.err;
    const Json result = Json::parse(outcome.out);
    EXPECT_EQ(result.at("items").size(), 32u);
    EXPECT_EQ(result.at("summary").at("tuned"), winners_in(machine));
    EXPECT_TRUE(test::no_orphans_soon(machine));
}

// ---- GPUs that cannot be used ----

TEST(Lanes, AGpuThatDisappearsCostsItsShareOnly) {
    // After some launches the driver of GPU 1 stops answering.
    const Sandbox machine(devices(2, "rule symbol=^gemm_simt_ gpu=1 from=40 do=vanish code=999 persist=1\n"));
    const Outcome outcome = machine.autotune(sweep_of("256:2048:256x256x256"));
    EXPECT_EQ(outcome.exit_code, 7) << outcome.err;
    const Json result = Json::parse(outcome.out);
    EXPECT_EQ(result.at("summary").at("tuned"), 8) << outcome.err;
    EXPECT_EQ(result["gpus"][1].at("restarts"), 1);
    EXPECT_FALSE(result["gpus"][1].at("out_because").is_null());
    EXPECT_TRUE(result["gpus"][0].at("out_because").is_null());
    EXPECT_NE(outcome.err.find("warning: GPU 1 (" + uuid(1) + ") takes no more problems: "), std::string::npos) << outcome.err;
}

TEST(Lanes, AGpuThatIsGoneAtTheStartGetsNoProblem) {
    const Sandbox machine(devices(2, "rule on=cuInit gpu=1 do=return code=100\n"));
    const Outcome outcome = machine.autotune(sweep_of("256:1024:256x256x256"));
    EXPECT_EQ(outcome.exit_code, 7) << outcome.err;
    const Json result = Json::parse(outcome.out);
    EXPECT_EQ(result["gpus"][0].at("items"), 4);
    EXPECT_EQ(result["gpus"][1].at("items"), 0);
    EXPECT_EQ(result.at("summary").at("tuned"), 4);
}

TEST(Lanes, WithoutAnyGpuTheSweepEnds) {
    const Sandbox machine(devices(2, "rule on=cuInit gpu=0 do=return code=100\nrule on=cuInit gpu=1 do=return code=100\n"));
    const Outcome outcome = machine.autotune(sweep_of("256:512:256x256x256"));
    EXPECT_EQ(outcome.exit_code, 8) << outcome.err;
    EXPECT_NE(outcome.err.find("autotune: no GPU of this sweep can go on; the last one: "), std::string::npos) << outcome.err;
    EXPECT_TRUE(test::no_orphans_soon(machine));
}

TEST(Lanes, AFullCardIsPassedOver) {
    const Sandbox machine("device\ndevice others_mib=141735\n");
    const Outcome outcome = machine.autotune(sweep_of("256:512:256x256x256"));
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    EXPECT_EQ(outcome.err, "warning: passed over: GPU 1 (" + uuid(1) +
                               ") is in use: 138.4 GiB of its memory are used; end what runs there, or leave this GPU out of "
                               "--devices\n");
    EXPECT_EQ(Json::parse(outcome.out).at("summary").at("tuned"), 2);
}

TEST(Lanes, AGpuThatAnotherUserHasLockedIsWaitedForWithoutAProblem) {
    const Sandbox machine(devices(2));
    std::filesystem::create_directory(machine.folder() / "locks");
    const auto path = machine.folder() / ("locks/gpu-" + uuid(1));
    std::ofstream(path) << "4711 12345\n";
    const int theirs = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    ASSERT_EQ(::flock(theirs, LOCK_EX | LOCK_NB), 0);
    const Outcome outcome = machine.autotune(sweep_of("256:1024:256x256x256"));
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    EXPECT_EQ(outcome.err, "warning: GPU 1 (" + uuid(1) +
                               "): another tuner is timing on this GPU (process 4711 of user 12345); waiting for it to finish\n");
    const Json result = Json::parse(outcome.out);
    EXPECT_EQ(result["gpus"][0].at("items"), 4);
    EXPECT_EQ(result["gpus"][1].at("items"), 0);
    ::close(theirs);
}

TEST(Lanes, EachKindOfCardGetsEachProblem) {
    const Sandbox machine("device\ndevice sms=114 name=\"NVIDIA H100 PCIe\"\n");
    const Outcome refused = machine.autotune(sweep_of("256:512:256x256x256"));
    EXPECT_EQ(refused.exit_code, 2);
    EXPECT_NE(
        refused.err.find("these GPUs are of 2 kinds: 0 (" + uuid(0) + ", NVIDIA H200), 1 (" + uuid(1) + ", NVIDIA H100 PCIe)"),
        std::string::npos)
        << refused.err;
    const Json result = test::result_of(machine.autotune(sweep_of("256:512:256x256x256", {"--each-class"})));
    std::map<std::string, std::set<std::string>> gpus;  // by card
    for (const Json& item : result.at("items")) gpus[item.at("card")].insert(item.at("gpu").get<std::string>());
    EXPECT_EQ(result.at("summary").at("tuned"), 4);
    EXPECT_EQ(gpus["NVIDIA H200"], std::set<std::string>{uuid(0)});
    EXPECT_EQ(gpus["NVIDIA H100 PCIe"], std::set<std::string>{uuid(1)});
}

// ---- two sweeps of one database ----

TEST(Lanes, TwoSweepsOfOneListShareIt) {
    const Sandbox machine(devices(2));
    const auto sweep = [](const char* device) {
        return test::with_pins({"sweep", "--op", "hgemm", "--shapes", "256:2048:256x256x256", "--family", "gemm/simt", "--param",
                                "block_m=64", "--param", "thread_m=4", "--json", "--device", device});
    };
    Running first = machine.start_autotune(sweep("0"));
    Running second = machine.start_autotune(sweep("1"));
    int tuned = 0;
    for (Running* running : {&first, &second}) {
        const Json result = test::result_of(running->wait());
        tuned += result.at("summary").at("tuned").get<int>();
        EXPECT_EQ(result.at("summary").at("tuned").get<int>() + result.at("summary").at("fresh").get<int>(), 8);
    }
    EXPECT_EQ(tuned, 8);
    for (const auto& entry : std::filesystem::directory_iterator(machine.folder() / "state/autotune"))
        EXPECT_NE(entry.path().filename().string().rfind("claim-", 0), 0u) << entry.path();
}

}  // namespace
}  // namespace autotune::lanes_fake_test
