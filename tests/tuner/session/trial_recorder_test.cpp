// The records of a tune: finished trials in the store, running candidates in the journal.
#include "tuner/session/tune/trial_recorder.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "src/catalogue/former_templates.h"
#include "tests/support/embedded_catalogue.h"
#include "tests/support/memory_store.h"

namespace autotune::tuner::trial_recorder_test {
namespace {

class TrialRecorderTest : public testing::Test {
  protected:
    TrialRecorderTest() { std::filesystem::create_directories(folder_); }
    ~TrialRecorderTest() override { std::filesystem::remove_all(folder_); }

    static Candidate candidate(std::int64_t block_m) { return {"gemm/simt", {{"block_m", block_m}}}; }
    static Trial trial(std::int64_t block_m, TrialStatus status = TrialStatus::ok) {
        Trial made;
        made.candidate = candidate(block_m);
        made.status = status;
        if (status == TrialStatus::ok) made.timing = Timing{.median_us = 12};
        return made;
    }
    TrialRecorder recorder(const Problem& problem) {
        return {services_, {problem, "13.0", "method", [](const std::string&) { return "0123456789abcdef"; }}};
    }
    // Each call returns a journal on a machine that has been restarted.
    Journal journal() const { return {folder_, "GPU-1", "boot " + std::to_string(++boots_)}; }
    mutable int boots_ = 0;
    std::vector<db::StoredTrial> kept(const Problem& problem) const { return store_.trials(problem, services_.device.identity); }

    const std::string folder_ = testing::TempDir() + "trial_recorder_test_" + std::to_string(::getpid());
    const Catalogue& catalogue_ = test::embedded_catalogue();
    const Problem problem_ = catalogue_.problem({"hgemm", "256x256x256", {}});
    const Problem other_ = catalogue_.problem({"hgemm", "128x256x256", {}});
    test::MemoryStore store_;
    TuneServices services_{.catalogue = catalogue_,
                           .store = &store_,
                           .device = *reference_device("sm_90a"),
                           .device_uuid = "",
                           .provenance = {},
                           .workers = {}};
};

TEST_F(TrialRecorderTest, AFinishedTrialIsInTheStoreWithItsConditions) {
    TrialRecorder keeper = recorder(problem_);
    keeper.finished(trial(64));
    keeper.flush(true);
    const std::vector<db::StoredTrial> rows = kept(problem_);
    ASSERT_EQ(rows.size(), 1U);
    EXPECT_EQ(rows[0].trial.candidate, candidate(64));
    EXPECT_EQ(rows[0].nvrtc, "13.0");
    EXPECT_EQ(rows[0].method, "method");
    EXPECT_EQ(rows[0].template_identity, "0123456789abcdef");
}

TEST_F(TrialRecorderTest, WhatIsWrittenIsForgottenByTheJournal) {
    Journal first = journal();
    TrialRecorder keeper = recorder(problem_);
    keeper.recover(first);
    keeper.started(candidate(64));
    keeper.finished(trial(64));
    keeper.flush(true);
    EXPECT_TRUE(journal().left_over().empty());
}

TEST_F(TrialRecorderTest, WithoutAStoreTheJournalKeepsIt) {
    services_.store = nullptr;
    Journal first = journal();
    TrialRecorder keeper = recorder(problem_);
    keeper.recover(first);
    keeper.started(candidate(64));
    keeper.finished(trial(64));
    keeper.flush(true);
    EXPECT_EQ(journal().left_over().size(), 1U);
}

TEST_F(TrialRecorderTest, WhatAKilledRunHadMeasuredComesBack) {
    {
        services_.store = nullptr;
        Journal first = journal();
        TrialRecorder keeper = recorder(problem_);
        keeper.recover(first);
        keeper.finished(trial(64));
    }
    services_.store = &store_;
    Journal next = journal();
    const std::vector<db::StoredTrial> ours = recorder(problem_).recover(next);
    ASSERT_EQ(ours.size(), 1U);
    EXPECT_EQ(ours[0].trial.candidate, candidate(64));
    EXPECT_EQ(kept(problem_).size(), 1U);
}

// A row that an earlier version would have written is converted: its parameter gets today's name, its template today's identity.
TEST_F(TrialRecorderTest, WhatARunOfAnEarlierVersionHadMeasuredHasTodaysNames) {
    const FormerIdentity& wgmma = *std::find_if(former_identities().begin(), former_identities().end(),
                                                [](const FormerIdentity& each) { return each.family == "gemm/wgmma"; });
    const auto renamed = std::find_if(renamed_parameters().begin(), renamed_parameters().end(),
                                      [](const RenamedParameter& each) { return each.present == "consumer_warpgroups"; });
    Trial former = trial(64);
    former.candidate = {"gemm/wgmma", {{"block_m", 128}, {std::string(renamed->former), 2}}};
    const Candidate present{"gemm/wgmma", {{"block_m", 128}, {"consumer_warpgroups", 2}}};
    for (const std::string& identity : {std::string(wgmma.former), std::string("00000000deadbeef")}) {
        {
            services_.store = nullptr;
            Journal first = journal();
            TrialRecorder keeper{services_, {problem_, "13.0", "method", [&](const std::string&) { return identity; }}};
            keeper.recover(first);
            keeper.finished(former);
        }
        services_.store = &store_;
        Journal next = journal();
        const std::vector<db::StoredTrial> ours = recorder(problem_).recover(next);
        ASSERT_EQ(ours.size(), 1U);
        EXPECT_EQ(ours[0].trial.candidate, present);
        EXPECT_EQ(ours[0].template_identity, identity == wgmma.former ? wgmma.same_code : identity);
        EXPECT_EQ(kept(problem_).back().trial.candidate, present);
    }
}

TEST_F(TrialRecorderTest, WhatIsOfAnotherProblemIsStoredAndNotReturned) {
    {
        services_.store = nullptr;
        Journal first = journal();
        TrialRecorder keeper = recorder(other_);
        keeper.recover(first);
        keeper.finished(trial(64));
    }
    services_.store = &store_;
    Journal next = journal();
    EXPECT_TRUE(recorder(problem_).recover(next).empty());
    EXPECT_EQ(kept(other_).size(), 1U);
}

TEST_F(TrialRecorderTest, WhatTheMachineDidIsNeitherStoredNorRemembered) {
    Journal first = journal();
    TrialRecorder keeper = recorder(problem_);
    keeper.recover(first);
    Trial killed = trial(64, TrialStatus::crashed);
    killed.detail = "the GPU worker was ended by signal 9 (Killed) during launch";
    Trial lost = trial(32, TrialStatus::crashed);
    lost.by_circumstance = true;
    for (const Trial& one : {trial(128, TrialStatus::timed_out), trial(16, TrialStatus::out_of_memory), killed, lost}) {
        keeper.started(one.candidate);
        keeper.finished(one);
    }
    keeper.flush(true);
    EXPECT_TRUE(kept(problem_).empty());
    const Journal reopened = journal();
    for (const JournalEntry& left : reopened.left_over()) EXPECT_EQ(left.begun, 0);
}

TEST_F(TrialRecorderTest, WhoWasRunningWhenTheMachineWentDownTwiceIsCharged) {
    for (int run = 0; run < 2; ++run) {
        Journal opened = journal();
        TrialRecorder keeper = recorder(problem_);
        EXPECT_TRUE(keeper.recover(opened).empty()) << "once may be somebody else's doing";
        keeper.started(candidate(64));
    }
    Journal next = journal();
    const std::vector<db::StoredTrial> ours = recorder(problem_).recover(next);
    ASSERT_EQ(ours.size(), 1U);
    EXPECT_EQ(ours[0].trial.status, TrialStatus::crashed);
    EXPECT_EQ(ours[0].trial.detail, "the machine went down twice while it was running");
}

TEST_F(TrialRecorderTest, WhoEndedItsWorkerAloneIsUnderNoSuspicion) {
    {
        Journal opened = journal();
        TrialRecorder keeper = recorder(problem_);
        keeper.recover(opened);
        keeper.started(candidate(64));
        keeper.survived(candidate(64));
    }
    {
        Journal opened = journal();
        TrialRecorder keeper = recorder(problem_);
        keeper.recover(opened);
        keeper.started(candidate(64));
    }
    Journal next = journal();
    EXPECT_TRUE(recorder(problem_).recover(next).empty());
}

}  // namespace
}  // namespace autotune::tuner::trial_recorder_test
