// Everything that may go wrong around a candidate, injected into whole tunes on the scripted driver: one test for each kind of
// fault, numbered as in README.md. A candidate's fault is named, stored and not tried again; the run continues, and what follows
// is right. F2 is kill_fake_test.cpp.
#include <gmock/gmock.h>
#include <sys/stat.h>

#include <algorithm>

#include "db/sqlite/sqlite_handle.h"
#include "db/store/store.h"
#include "src/catalogue/catalogue.h"
#include "tests/db/sample.h"
#include "tests/support/embedded_catalogue.h"
#include "tests/support/interposer/interposer.h"
#include "tests/tuner/session/fake_tune.h"
#include "tuner/session/tune.h"

namespace autotune::faults_fake_test {
namespace {

using db::test::read_file;
using db::test::write_file;
using fake::Outcome;
using fake::Sandbox;
using fake::Use;
using test::Json;
using test::no_orphans_soon;
using test::result_of;
using testing::AnyOf;
using testing::HasSubstr;

// ---- faults of candidates ----

// The fault of one config, as a rule of the script, and the text that must be reported.
struct Culprit {
    std::string rule;
    TrialStatus status;
    std::string words;
};

// Each faulty config has its own block_m, thread_m and thread_n, in this order.
constexpr std::array<std::array<int, 3>, 9> kConfigs = {
    {{16, 4, 4}, {16, 4, 8}, {16, 8, 4}, {32, 4, 4}, {32, 4, 8}, {32, 8, 4}, {64, 4, 4}, {64, 4, 8}, {64, 8, 8}}};

std::string config_words(std::size_t number) {
    const auto& [block_m, thread_m, thread_n] = kConfigs.at(number);
    return "block_m=" + std::to_string(block_m) + " thread_m=" + std::to_string(thread_m) +
           " thread_n=" + std::to_string(thread_n) + " ";
}

bool has_config(std::size_t number, const Config& config) {
    const auto& [block_m, thread_m, thread_n] = kConfigs.at(number);
    return config["block_m"] == block_m && config["thread_m"] == thread_m && config["thread_n"] == thread_n;
}

std::vector<db::StoredTrial> stored_trials(const Sandbox& sandbox) {
    const Problem problem = test::embedded_catalogue().problem({"hgemm", "256x256x256", {}});
    const db::Store store = db::Store::open({.path = sandbox.folder() / "data/autotune/autotune.db", .read_only = true});
    EXPECT_EQ(store.verify_integrity(), "");
    DeviceIdentity scripted = reference_device("sm_90a")->identity;
    scripted.bus_bits = 6144;  // the memory bus of the scripted card; a real driver reports 6016 bits
    return store.trials(problem, scripted);
}

const db::StoredTrial* stored_of(const std::vector<db::StoredTrial>& all, std::size_t number) {
    const auto found = std::find_if(all.begin(), all.end(),
                                    [&](const auto& stored) { return has_config(number, stored.trial.candidate.config); });
    return found == all.end() ? nullptr : &*found;
}

// Expects each culprit to be named. `unstored`: number of further trials that failed because of the machine.
void expect_named(const Sandbox& sandbox, const std::vector<Culprit>& culprits, std::size_t unstored = 0) {
    const std::vector<db::StoredTrial> all = stored_trials(sandbox);
    std::size_t right = 0, wrong = 0;
    for (const db::StoredTrial& stored : all) {
        if (stored.trial.status == TrialStatus::ok) ++right;
        // The scripted compiler spills for large tiles.
        if (stored.trial.status != TrialStatus::ok && stored.trial.candidate.config["block_m"] < 128) ++wrong;
    }
    EXPECT_EQ(wrong, culprits.size());
    EXPECT_EQ(right, 15 - culprits.size() - unstored);
    for (std::size_t i = 0; i < culprits.size(); ++i) {
        const db::StoredTrial* stored = stored_of(all, i);
        ASSERT_NE(stored, nullptr) << culprits[i].rule;
        EXPECT_EQ(to_string(stored->trial.status), to_string(culprits[i].status)) << culprits[i].rule;
        EXPECT_THAT(stored->trial.detail, HasSubstr(culprits[i].words)) << culprits[i].rule;
    }
}

bool is_culprit(const Json& config, std::size_t culprits) {
    return std::any_of(kConfigs.begin(), kConfigs.begin() + static_cast<std::ptrdiff_t>(culprits), [&](const auto& one) {
        return config["block_m"] == one[0] && config["thread_m"] == one[1] && config["thread_n"] == one[2];
    });
}

const test::Words kEverything = {"--strategy", "exhaustive"};

// Tunes a space with faulty configs, then again without the faults: the results of the first tune stay.
void expect_survived(const std::vector<Culprit>& culprits) {
    std::string script;
    for (std::size_t i = 0; i < culprits.size(); ++i) script += "rule " + config_words(i) + culprits[i].rule + "\n";
    Sandbox sandbox(script);
    const Json result = result_of(sandbox.autotune(test::wide_tune("30s", kEverything)));
    EXPECT_FALSE(is_culprit(result.at("winner").at("config"), culprits.size())) << result.at("winner");
    expect_named(sandbox, culprits);
    EXPECT_TRUE(no_orphans_soon(sandbox));
    sandbox.script("");
    result_of(sandbox.autotune(test::wide_tune("3s", test::with_words(kEverything, {"--retune"}))));
    expect_named(sandbox, culprits);
}

// A fault that a rule attributes to the machine says nothing about the candidate: this tune continues without it, nothing is
// stored, and the next tune tries it again and succeeds.
void expect_tried_again(const std::vector<std::string>& rules) {
    std::string script;
    for (std::size_t i = 0; i < rules.size(); ++i) script += "rule " + config_words(i) + rules[i] + "\n";
    Sandbox sandbox(script);
    const Json result = result_of(sandbox.autotune(test::wide_tune("40s", kEverything)));
    EXPECT_FALSE(is_culprit(result.at("winner").at("config"), rules.size())) << result.at("winner");
    expect_named(sandbox, {}, rules.size());
    for (std::size_t i = 0; i < rules.size(); ++i) EXPECT_EQ(stored_of(stored_trials(sandbox), i), nullptr) << rules[i];
    EXPECT_TRUE(no_orphans_soon(sandbox));
    sandbox.script("");
    result_of(sandbox.autotune(test::wide_tune("20s", test::with_words(kEverything, {"--retune"}))));
    expect_named(sandbox, {});
}

TEST(Faults, F1WhatTheMachineDidIsNotStored) {
    expect_tried_again(
        {"do=crash how=kill", "do=return code=2", "do=return code=999", "do=return code=214", "on=compile do=crash how=kill"});
}

TEST(Faults, F1AWorkerThatDies) {
    expect_survived({{"do=crash how=segv", TrialStatus::crashed, "signal 11"},
                     {"do=crash how=abort", TrialStatus::crashed, "signal 6"},
                     {"do=crash how=exit", TrialStatus::crashed, "exited with 3"},
                     {"do=crash how=half_message", TrialStatus::crashed, "in the middle of a message"},
                     {"on=compile do=crash how=segv", TrialStatus::compile_failed, "signal 11"},
                     {"on=compile do=crash how=half_message", TrialStatus::compile_failed, "in the middle of a message"}});
}

TEST(Faults, F1AWorkerThatDiesOnceIsForgiven) {
    Sandbox sandbox("rule " + config_words(4) + "once do=crash how=segv\n");
    result_of(sandbox.autotune(test::wide_tune("30s", kEverything)));
    expect_named(sandbox, {});
}

// A person, or the kernel for lack of memory, may kill a worker that has just begun.
TEST(Faults, F1AWorkerKilledBeforeItHasAContextIsStartedAgain) {
    const std::string killed_once = "rule on=cuDevicePrimaryCtxRetain once do=crash how=kill\n";
    Sandbox sandbox(killed_once + killed_once);
    result_of(sandbox.autotune(test::wide_tune("30s", kEverything)));
    expect_named(sandbox, {});
    EXPECT_EQ(sandbox.count_calls("cuDevicePrimaryCtxRetain"), 3);
    EXPECT_TRUE(no_orphans_soon(sandbox));
}

TEST(Faults, F1WorkersThatAreAlwaysKilledBeforeTheyHaveAContextEndTheTune) {
    Sandbox sandbox("rule on=cuDevicePrimaryCtxRetain do=crash how=kill\n");
    const Outcome outcome = sandbox.autotune(test::small_tune());
    EXPECT_EQ(outcome.exit_code, 1);
    EXPECT_EQ(outcome.err,
              "autotune: the GPU worker was ended by signal 9 (Killed) before it had a GPU context, 3 times in a row; signal 9 "
              "often means that host memory ran out: free memory or raise the memory limit, and run the same command again\n");
    EXPECT_EQ(sandbox.count_calls("cuDevicePrimaryCtxRetain"), 3);
    EXPECT_TRUE(no_orphans_soon(sandbox));
}

TEST(Faults, F3ErrorsOfTheDriver) {
    expect_survived({{"do=return code=700", TrialStatus::crashed, "ILLEGAL_ADDRESS"},
                     {"do=return code=716", TrialStatus::crashed, "MISALIGNED_ADDRESS"},
                     {"do=return code=719", TrialStatus::crashed, "LAUNCH_FAILED"},
                     {"do=return code=715", TrialStatus::crashed, "ILLEGAL_INSTRUCTION"},
                     {"do=return code=710", TrialStatus::crashed, "ASSERT"},
                     {"do=return code=701", TrialStatus::launch_refused, "OUT_OF_RESOURCES"},
                     {"on=load do=return code=200", TrialStatus::launch_refused, "INVALID_IMAGE"},
                     {"on=load do=return code=218", TrialStatus::launch_refused, "INVALID_PTX"}});
}

TEST(Faults, F3OnlyStickyErrorsCostAWorker) {
    Sandbox sandbox("rule " + config_words(3) + "do=return code=701\n" + "rule " + config_words(4) + "do=return code=2\n");
    result_of(sandbox.autotune(test::wide_tune("30s", kEverything)));
    EXPECT_EQ(sandbox.count_calls("cuDevicePrimaryCtxRetain"), 1);
}

TEST(Faults, F4AHangIsKilledInItsLimit) {
    const auto begun = std::chrono::steady_clock::now();
    expect_survived({{"do=hang seconds=60", TrialStatus::timed_out, "launch did not end in 2 s of its own time"}});
    const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - begun;
    EXPECT_LT(spent.count(), 45);  // there are two tries of 2 s, and two tunes
}

TEST(Faults, F5AWorkerThatCannotBeReapedIsAWedgedGpu) {
    if (!test::kCanCount) GTEST_SKIP() << "no preloaded library under a sanitizer";
    Sandbox sandbox("rule " + config_words(7) + "do=hang seconds=30\n");
    const Outcome outcome = sandbox.autotune(
        test::small_tune(), {.environment = {{"LD_PRELOAD", fake::interposer_library()}, {"AUTOTUNE_UNREAPABLE", "1"}}});
    EXPECT_EQ(outcome.exit_code, 8) << outcome.err;
    EXPECT_THAT(outcome.err, HasSubstr("cannot be ended"));
    EXPECT_LT(outcome.wall_s, 40);
}

TEST(Faults, F16WrongAnswers) {
    expect_survived({{"do=wrong how=element", TrialStatus::wrong_result, "1 of 65536 elements"},
                     {"do=wrong how=zeros", TrialStatus::wrong_result, "exact test"},
                     {"do=wrong how=garbage", TrialStatus::wrong_result, "exact test"},
                     {"do=wrong how=flaky", TrialStatus::wrong_result, ""},
                     {"do=wrong how=input", TrialStatus::wrong_result, ""},
                     {"do=out_of_bounds bytes=64", TrialStatus::wrong_result, "writes outside tensor c"},
                     {"on=compile do=report registers=255 spill=512", TrialStatus::rejected, "spills"}});
}

TEST(Faults, F16AWinnerThatIsWrongOnceInAHundredRunsIsFoundOut) {
    Sandbox sandbox("rule " + config_words(4) + "every=100 do=wrong how=element\nrule " + config_words(4) +
                    "do=slow factor=0.3\n");
    result_of(sandbox.autotune(test::wide_tune("30s", kEverything)));
    const std::vector<db::StoredTrial> all = stored_trials(sandbox);
    const db::StoredTrial* stored = stored_of(all, 4);
    ASSERT_NE(stored, nullptr);
    EXPECT_EQ(stored->trial.status, TrialStatus::wrong_result);
    EXPECT_THAT(stored->trial.detail, HasSubstr("other bits in run"));
}

}  // namespace
}  // namespace autotune::faults_fake_test
