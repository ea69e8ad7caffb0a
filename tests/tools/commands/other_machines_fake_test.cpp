// The program on unusual machines: homes that cannot be used, file systems without locks, limits, older drivers, cards that
// others hold, parents that block signals, an upgrade in the middle of a run.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>

#include "tests/support/fake/fake_run.h"
#include "tests/support/interposer/interposer.h"

namespace autotune::other_machines_fake_test {
namespace {

namespace fs = std::filesystem;
using fake::Outcome;
using fake::RunOptions;
using fake::Sandbox;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

using Words = std::vector<std::string>;
using Variables = std::vector<std::pair<std::string, std::string>>;

constexpr double kPatience_s = 110;  // the machine may be busy with other tests

const Words kTune = {"--op", "hgemm", "--shape", "64x64x32", "--family", "gemm/simt", "--budget", "5s,4t"};
const Words kCompile = {"compile", "--op", "hgemm", "--shape", "64x64x32", "--family", "gemm/simt", "--count", "3"};

Words plus(Words words, const Words& more) {
    words.insert(words.end(), more.begin(), more.end());
    return words;
}

Outcome run(const Sandbox& machine, const Words& words, const Variables& variables = {}) {
    return machine.autotune(words, {.timeout_s = kPatience_s, .environment = variables});
}

const Variables kNoXdg = {{"XDG_DATA_HOME", ""}, {"XDG_CACHE_HOME", ""}, {"XDG_STATE_HOME", ""}};

Variables with_home(const std::string& home) {
    Variables variables = kNoXdg;
    variables.emplace_back("HOME", home);
    return variables;
}

// ---- homes ----

// A user of this test's own, whose folder under /tmp no other test uses.
class StrangeUser {
  public:
    explicit StrangeUser(const Sandbox& machine) {
        remove_folder();  // left by a killed run
        for (const auto& entry : fs::recursive_directory_iterator(machine.folder())) give(entry.path());
        give(machine.folder());
    }
    ~StrangeUser() { remove_folder(); }
    StrangeUser(const StrangeUser&) = delete;
    StrangeUser& operator=(const StrangeUser&) = delete;

    std::string folder() const { return "/tmp/autotune-" + std::to_string(id_); }
    Outcome run(const Sandbox& machine, const Words& words, const Variables& variables) const {
        const std::string id = std::to_string(id_);
        return machine.run(
            plus({"/usr/bin/setpriv", "--reuid", id, "--regid", id, "--clear-groups", fake::autotune_binary()}, words),
            {.timeout_s = kPatience_s, .environment = variables});
    }

  private:
    void remove_folder() const {
        std::error_code ignored;
        fs::remove_all(folder(), ignored);
    }
    void give(const fs::path& path) const { [[maybe_unused]] const int given = ::lchown(path.c_str(), id_, id_); }
    const uid_t id_ = 200'000 + static_cast<uid_t>(::getpid()) % 100'000;
};

TEST(Homes, ThatCannotBeUsedCostNothing) {
    if (::geteuid() != 0) GTEST_SKIP() << "only root becomes another user";
    for (const std::string home : {"/", "/nonexistent", ""}) {
        const Sandbox machine;
        ASSERT_EQ(machine.run({"/bin/true"}).exit_code, 0);  // creates the folder of links to the scripted libraries
        const StrangeUser user(machine);
        const Outcome tuned = user.run(machine, kTune, with_home(home));
        ASSERT_EQ(tuned.exit_code, 0) << home << tuned.err;
        EXPECT_THAT(tuned.out, HasSubstr("tuned now"));
        EXPECT_THAT(tuned.err, HasSubstr(user.folder())) << home;
        EXPECT_EQ(fs::status(user.folder()).permissions(), fs::perms::owner_all);
        EXPECT_FALSE(fs::exists("/nonexistent"));
        const Outcome again = user.run(machine, kTune, with_home(home));
        EXPECT_EQ(again.exit_code, 0) << again.err;
        EXPECT_THAT(again.out, HasSubstr("from the database")) << "winners are found where they were put";
        EXPECT_THAT(user.run(machine, {"show"}, with_home(home)).out, HasSubstr("64x64x32"));
        EXPECT_EQ(user.run(machine, kCompile, with_home(home)).exit_code, 0);
        EXPECT_EQ(user.run(machine, {"doctor"}, with_home(home)).exit_code, 0);
    }
}

// Only the cubin cache uses this user's folder under /tmp, which all programs of the user share. The database and the lock are
// the test's own, so that neither another test nor an earlier run changes the messages.
Variables with_home_for_cubins(const Sandbox& machine, const std::string& home) {
    Variables variables = with_home(home);
    variables.emplace_back("XDG_STATE_HOME", machine.folder() / "state");
    variables.emplace_back("AUTOTUNE_DB", machine.folder() / "a.db");
    return variables;
}

TEST(Homes, TheWarningNamesTheCauseAndTheRemedyOnce) {
    const Sandbox machine;
    const Outcome tuned = run(machine, kTune, with_home_for_cubins(machine, "/nonexistent"));
    ASSERT_EQ(tuned.exit_code, 0) << tuned.err;
    EXPECT_EQ(tuned.err, "warning: HOME (/nonexistent) cannot be used (No such file or directory): /tmp/autotune-" +
                             std::to_string(::geteuid()) +
                             " is used instead, which a restart may empty; set HOME, or AUTOTUNE_DB, AUTOTUNE_CACHE_DIR and "
                             "XDG_STATE_HOME\n");
}

TEST(Homes, OfAnotherUserStayThatUsers) {
    if (::geteuid() != 0) GTEST_SKIP() << "only root gives folders away";
    const Sandbox machine;
    const std::string home = machine.folder() / "home";
    ASSERT_EQ(::chown(home.c_str(), 65534, 65534), 0);
    const Outcome tuned = run(machine, kTune, with_home_for_cubins(machine, home));
    EXPECT_EQ(tuned.exit_code, 0) << tuned.err;
    EXPECT_THAT(tuned.err, HasSubstr("HOME (" + home + ") belongs to another user, whom our files would lock out"));
    EXPECT_TRUE(fs::is_empty(home));
}

TEST(Homes, TheFolderUnderTmpMustBeOurs) {
    if (::geteuid() != 0) GTEST_SKIP() << "only root becomes another user";
    const Sandbox machine;
    ASSERT_EQ(machine.run({"/bin/true"}).exit_code, 0);
    const StrangeUser user(machine);
    const fs::path trap = machine.folder() / "trap";
    fs::create_directory(trap);
    fs::create_directory_symlink(trap, user.folder());
    const Outcome tuned = user.run(machine, kTune, with_home("/nonexistent"));
    EXPECT_EQ(tuned.exit_code, 5) << "a winner that is printed and not stored" << tuned.err;
    EXPECT_THAT(tuned.out, HasSubstr("winner     gemm/simt"));
    EXPECT_THAT(tuned.err,
                AllOf(HasSubstr(user.folder() + " is not a private folder of this user"),
                      HasSubstr("winners are printed and not stored; --db or AUTOTUNE_DB names another place"),
                      HasSubstr("the winner is not stored: there is no place for a database, and no other folder can be "
                                "written. Save the next line in a file FILE")));
    EXPECT_TRUE(fs::is_empty(trap));
}

// ---- the cache ----

std::string finding(const Outcome& doctor, const std::string& name) {
    const auto json = nlohmann::json::parse(doctor.out);
    for (const auto& check : json.at("checks")) {
        if (check.at("name") == name) return check.at("status").get<std::string>() + ": " + check.at("detail").get<std::string>();
    }
    return "";
}

TEST(Cache, EveryCommandSaysTheSameOfAFolderThatOthersCanReplace) {
    const Sandbox machine;
    const std::string folder = machine.folder() / "cache";
    fs::permissions(folder, fs::perms(0775));  // as umask 002 creates ~/.cache
    const std::string instead = "/tmp/autotune-" + std::to_string(::geteuid()) + "/.cache/autotune";
    const std::string warning = "the folder that holds the cubin cache " + folder +
                                "/autotune belongs to another user or can be written by others; chmod go-w it, or name another "
                                "cache folder; compiled kernels are kept in " +
                                instead + " instead; AUTOTUNE_CACHE_DIR names another place";
    const Outcome compiled = run(machine, kCompile);
    EXPECT_EQ(compiled.exit_code, 0) << compiled.err;
    EXPECT_EQ(compiled.err, "warning: " + warning + "\n");
    EXPECT_THAT(compiled.out, HasSubstr("The compiled kernels are in " + instead + ".\n"));
    EXPECT_EQ(finding(run(machine, {"doctor", "--json"}), "cubin cache"), "note: " + warning);
}

TEST(Cache, OfAFullDiskIsSaidToKeepNothing) {
    if (!test::kCanCount) GTEST_SKIP() << "no preloaded library under a sanitizer";
    const Sandbox machine;
    const Variables full = {{"LD_PRELOAD", fake::refusing_library()}, {"AUTOTUNE_REFUSE", "mkostemps=28"}};
    const Outcome compiled = run(machine, kCompile, full);
    EXPECT_EQ(compiled.exit_code, 0) << compiled.err;
    EXPECT_THAT(compiled.out,
                HasSubstr("The compiled kernels are not kept: the cubin cache does not keep anything: the folder " +
                          (machine.folder() / "cache/autotune").string() + " cannot be written: No space left on device"));
    EXPECT_THAT(finding(run(machine, {"doctor", "--json"}, full), "cubin cache"),
                AllOf(HasSubstr("note: "), HasSubstr("No space left on device"), HasSubstr("compiled kernels are not kept")));
}

// ---- refusals by the system ----

Variables refusing(const std::string& calls) {
    return {{"LD_PRELOAD", fake::refusing_library()}, {"AUTOTUNE_REFUSE", calls}};
}

TEST(Refusals, ALockThatNobodyCanTakeIsOneWarning) {
    if (!test::kCanCount) GTEST_SKIP() << "no preloaded library under a sanitizer";
    const std::vector<std::pair<int, std::string>> codes = {
        {38, "Function not implemented"}, {95, "Operation not supported"}, {37, "No locks available"}, {5, "Input/output error"}};
    for (const auto& [code, words] : codes) {
        const Sandbox machine;
        const Outcome tuned = run(machine, kTune, refusing("flock=" + std::to_string(code)));
        EXPECT_EQ(tuned.exit_code, 0) << tuned.err;
        EXPECT_EQ(tuned.err,
                  "warning: the lock of this GPU cannot be taken: " +
                      (machine.folder() / "state/autotune/gpu-GPU-fa4e0000-0000-0000-0000-000000000000.lock").string() +
                      " cannot be locked: " + words +
                      ". The run goes on without it: do not time anything else on this GPU meanwhile, or name another "
                      "folder in XDG_STATE_HOME\n");
    }
}

TEST(Refusals, FewerProcessesAreFewerCompilers) {
    if (!test::kCanCount) GTEST_SKIP() << "no preloaded library under a sanitizer";
    const Sandbox machine("nvrtc delay_ms=100\n");
    const Outcome tuned = run(machine, plus(kTune, {"--jobs", "4"}), refusing("posix_spawn=11/4"));
    EXPECT_EQ(tuned.exit_code, 0) << tuned.err;
    EXPECT_THAT(tuned.err,
                AllOf(HasSubstr(" at once and no more: cannot start a worker process: Resource temporarily unavailable; "
                                "raise the limit on processes (`ulimit -u`, pids.max of the container)\n"),
                      Not(HasSubstr("internal error"))));
}

TEST(Refusals, NoProcessAtAllIsAnErrorWithARemedy) {
    if (!test::kCanCount) GTEST_SKIP() << "no preloaded library under a sanitizer";
    const Sandbox machine;
    const Outcome compiled = run(machine, kCompile, refusing("posix_spawn=11"));
    EXPECT_EQ(compiled.exit_code, 1);
    EXPECT_EQ(compiled.err,
              "autotune: cannot start a worker process: Resource temporarily unavailable; raise the limit on processes "
              "(`ulimit -u`, pids.max of the container)\n");
}

// ---- how many compilers ----

std::size_t compilers_of(const Sandbox& machine) {
    std::set<std::string> processes;
    for (const std::string& call : machine.calls()) {
        if (call.find("nvrtcCompileProgram") != std::string::npos) processes.insert(call.substr(0, call.find(' ')));
    }
    return processes.size();
}

TEST(Jobs, AreAsManyAsTheFlagOrElseTheVariableSays) {
    const Sandbox machine("nvrtc delay_ms=200\n");
    const Words many = {"compile", "--op", "hgemm", "--shape", "64x64x64", "--family", "gemm/simt", "--count", "12"};
    EXPECT_EQ(run(machine, plus(many, {"--jobs", "3"})).exit_code, 0);
    EXPECT_EQ(compilers_of(machine), 3U);
    machine.clear_calls();
    fs::remove_all(machine.folder() / "cache/autotune");
    EXPECT_EQ(run(machine, many, {{"AUTOTUNE_JOBS", "2"}}).exit_code, 0);
    EXPECT_EQ(compilers_of(machine), 2U);
    const Outcome odd = run(machine, many, {{"AUTOTUNE_JOBS", "many"}});
    EXPECT_EQ(odd.exit_code, 2);
    EXPECT_THAT(odd.err, HasSubstr("AUTOTUNE_JOBS"));
    EXPECT_EQ(run(machine, plus(many, {"--jobs", "0"})).exit_code, 2);
}

TEST(Jobs, OnOneAllowedProcessorAreOne) {
    const Sandbox machine("nvrtc delay_ms=100\n");
    const Outcome compiled =
        machine.run(plus({"/usr/bin/taskset", "1", fake::autotune_binary()}, kCompile), {.timeout_s = kPatience_s});
    if (compiled.exit_code == 127) GTEST_SKIP() << "no taskset";
    EXPECT_EQ(compiled.exit_code, 0) << compiled.err;
    EXPECT_EQ(compilers_of(machine), 1U);
}

// ---- drivers and compilers ----

TEST(OlderDriver, SaysWhichCompilerWasFoundAndWhichIsWanted) {
    const Sandbox machine("driver version=12040\n");
    for (const Words& words : {kTune, Words{"doctor"}}) {
        const Outcome said = run(machine, words);
        EXPECT_EQ(said.exit_code, 1) << said.err;
        EXPECT_THAT(
            said.out + said.err,
            AllOf(HasSubstr("NVRTC 13.0 ("),
                  HasSubstr("libnvrtc.so.13) was found, but the driver supports CUDA 12 and cannot load kernels of a newer "
                            "compiler: install NVRTC 12 with `pip install nvidia-cuda-nvrtc-cu12`, or a driver of release "
                            "580 or newer, which supports CUDA 13")));
    }
}

TEST(OlderDriver, WorksWithACompilerThatIsNotNewer) {
    const Sandbox machine("driver version=12040\nnvrtc version=12.8\n");
    const Outcome tuned = machine.autotune(kTune, {.nvrtc_major = 12, .timeout_s = kPatience_s});
    EXPECT_EQ(tuned.exit_code, 0) << tuned.err;
    const Outcome doctor = machine.autotune({"doctor"}, {.nvrtc_major = 12, .timeout_s = kPatience_s});
    EXPECT_EQ(doctor.exit_code, 0) << doctor.out;
    EXPECT_THAT(doctor.out, AllOf(HasSubstr("CUDA 12.4"), HasSubstr("12.8, ")));
}

TEST(OlderDriver, ThanCuda124IsNamed) {
    const Sandbox machine("driver version=12020\n");
    const Outcome said = run(machine, kTune);
    EXPECT_EQ(said.exit_code, 3);
    EXPECT_EQ(said.err,
              "autotune: the NVIDIA driver supports CUDA 12.2, and at least CUDA 12.4 is needed: install a driver of "
              "release 550 "
              "or newer (CUDA 12.4)\n");
}

// ---- a card that others hold ----

TEST(GpuInUse, IsExit9WithWhatIsFreeAndWhoHoldsIt) {
    const Sandbox machine(
        "rule on=cuDevicePrimaryCtxRetain do=return code=2\nnvml others_mib=142000 processes=1 process_mib=141000\n");
    const Outcome said = run(machine, kTune);
    EXPECT_EQ(said.exit_code, 9);
    EXPECT_EQ(
        said.err,
        "autotune: the GPU is in use: cuDevicePrimaryCtxRetain failed: CUDA_ERROR_OUT_OF_MEMORY (2); 1.1 of 139.8 GiB are "
        "free; used by process 100000000 (137.7 GiB); wait until other processes have freed memory, end them, or choose another "
        "GPU with --device\n");
}

TEST(GpuInUse, AnExclusiveOneAndAnMpsServerThatIsGoneAreNamed) {
    const Sandbox exclusive("rule on=cuDevicePrimaryCtxRetain do=return code=46\n");
    const Outcome held = run(exclusive, kTune);
    EXPECT_EQ(held.exit_code, 9);
    EXPECT_THAT(held.err,
                HasSubstr("CUDA_ERROR_DEVICE_UNAVAILABLE (46); 139.8 of 139.8 GiB are free; no other process that can be seen "
                          "here uses it; another process holds the GPU, whose compute mode is exclusive, or the mode "
                          "prohibits computing: wait for that process, choose another GPU with --device, or allow several "
                          "processes with `nvidia-smi -c DEFAULT`"));
    const Sandbox mps("driver init=805\n");
    const Outcome gone = run(mps, kTune);
    EXPECT_EQ(gone.exit_code, 9);
    EXPECT_THAT(gone.err, HasSubstr("the MPS daemon does not answer: start it with `nvidia-cuda-mps-control -d`, or unset "
                                    "CUDA_MPS_PIPE_DIRECTORY"));
}

TEST(GpuInUse, ShowsWhereAProblemDoesNotFitBesideOthers) {
    const Sandbox machine("nvml others_mib=143164\n");
    const Outcome said =
        run(machine, {"--op", "hgemm", "--shape", "4096x4096x4096", "--family", "gemm/simt", "--budget", "5s,4t"});
    EXPECT_EQ(said.exit_code, 9) << said.err;
    EXPECT_THAT(said.err, AllOf(HasSubstr("CUDA_ERROR_OUT_OF_MEMORY (2)"), HasSubstr("0.0 of 139.8 GiB are free"),
                                Not(HasSubstr("unhealthy"))));
}

// ---- inherited state, and upgrades ----

bool is_at_work(const Sandbox& machine) {
    for (int i = 0; i < 3000; ++i) {
        if (machine.count_calls("execute gemm_simt") > 0) return true;
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return false;
}

const Words kLongTune = {"--op", "hgemm", "--shape", "64x64x32", "--family", "gemm/simt", "--budget", "60s"};

TEST(Inherited, BlockedSignalsAreUnblocked) {
    const Sandbox machine("rule symbol=^gemm_simt do=hang seconds=0.05\n");
    fake::Running tune =
        machine.start(plus({"/usr/bin/env", "--block-signal=TERM", "--ignore-signal=CHLD", fake::autotune_binary()}, kLongTune),
                      {.timeout_s = kPatience_s});
    ASSERT_TRUE(is_at_work(machine));
    tune.signal(SIGTERM);
    const Outcome ended = tune.wait();
    EXPECT_FALSE(ended.timed_out);
    EXPECT_EQ(ended.exit_code, 130) << ended.err;
}

TEST(Inherited, ASmallStackIsEnough) {
    const Sandbox machine;
    const Outcome tuned =
        machine.run(plus({"/bin/bash", "-c", "ulimit -s 80; exec \"$0\" \"$@\"", fake::autotune_binary()}, kTune),
                    {.timeout_s = kPatience_s});
    EXPECT_EQ(tuned.exit_code, 0) << tuned.err << tuned.signal;
}

TEST(Upgrade, WorkersAreOfTheBuildThatRuns) {
    const Sandbox machine("rule block_m=16 do=crash how=segv\nrule block_m=32 do=crash how=segv\n");
    const fs::path command = machine.folder() / "autotune";
    fs::copy_file(fake::autotune_binary(), command);
    fake::Running tune = machine.start(plus({command.string()}, plus(kLongTune, {"--trials", "30"})), {.timeout_s = kPatience_s});
    ASSERT_TRUE(is_at_work(machine));
    std::ofstream(machine.folder() / "newer") << "#!/bin/sh\nexit 1\n";
    fs::permissions(machine.folder() / "newer", fs::perms::owner_all);
    fs::rename(machine.folder() / "newer", command);
    const int contexts = machine.count_calls("cuDevicePrimaryCtxRetain");
    const Outcome tuned = tune.wait();
    EXPECT_EQ(tuned.exit_code, 0) << tuned.err;
    EXPECT_GT(machine.count_calls("cuDevicePrimaryCtxRetain"), contexts) << "no worker was started afterwards";
}

}  // namespace
}  // namespace autotune::other_machines_fake_test
