#include "tuner/worker/journal.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "tuner/worker/gpu_lock.h"

namespace autotune::tuner::journal_test {
namespace {

class JournalTest : public ::testing::Test {
  protected:
    JournalTest() { std::filesystem::create_directories(folder_); }
    ~JournalTest() override { std::filesystem::remove_all(folder_); }

    static JournalEntry entry(std::int64_t block_m) {
        JournalEntry entry;
        entry.problem.op = "gemm";
        entry.problem.extents = {{"m", 64}, {"n", 64}, {"k", 64}};
        entry.template_identity = "0123456789abcdef";
        entry.nvrtc = "13.0";
        entry.method = "stream-2";
        entry.trial.candidate = {"gemm/mma", {{"block_m", block_m}}};
        return entry;
    }

    const std::string folder_ = ::testing::TempDir() + "journal_test_" + std::to_string(::getpid());
};

TEST_F(JournalTest, NamesWhoWasRunningWhenTheLastRunEnded) {
    {
        Journal journal(folder_, "GPU-1");
        journal.started(entry(64));
        journal.finished(entry(64));
        journal.started(entry(128));
    }
    const Journal next(folder_, "GPU-1", "another boot");
    ASSERT_EQ(next.left_over().size(), 2u);
    EXPECT_TRUE(next.left_over()[0].finished);
    EXPECT_EQ(next.left_over()[0].method, "stream-2");
    EXPECT_FALSE(next.left_over()[1].finished);
    EXPECT_EQ(next.left_over()[1].begun, 1);
    EXPECT_EQ(next.left_over()[1].trial.candidate.config["block_m"], 128);
}

// A person, a batch system or a lack of memory ended the tuner: the machine stayed up, so no candidate did it.
TEST_F(JournalTest, SuspectsNobodyWhileTheMachineStaysUp) {
    { Journal(folder_, "GPU-1").started(entry(64)); }
    EXPECT_EQ(Journal(folder_, "GPU-1").left_over().at(0).begun, 0);
}

TEST_F(JournalTest, WithoutAFolderKeepsNothing) {
    Journal journal("", "GPU-1");
    journal.finished(entry(64));
    EXPECT_TRUE(Journal("", "GPU-1").left_over().empty());
}

TEST_F(JournalTest, ALineCutShortIsSkipped) {
    {
        Journal journal(folder_, "GPU-1");
        journal.finished(entry(64));
    }
    std::ofstream(folder_ + "/journal-GPU-1.jsonl", std::ios::app) << R"({"what":"fini)";
    EXPECT_EQ(Journal(folder_, "GPU-1").left_over().size(), 1u);
}

TEST_F(JournalTest, ClearedMeansNothingIsLeft) {
    {
        Journal journal(folder_, "GPU-1");
        journal.started(entry(64));
        journal.clear();
        journal.finished(entry(32));
    }
    EXPECT_EQ(Journal(folder_, "GPU-1").left_over().size(), 1u);
}

TEST_F(JournalTest, OneGpusLockIsTakenOnceAndComesBack) {
    auto held = GpuLock::try_take(folder_, "GPU-1");
    ASSERT_TRUE(held.lock.has_value());
    const GpuLock::Attempt second = GpuLock::try_take(folder_, "GPU-1");
    EXPECT_FALSE(second.lock.has_value());
    EXPECT_EQ(second.failure, "");
    EXPECT_TRUE(GpuLock::try_take(folder_, "GPU-2").lock.has_value());
    EXPECT_EQ(GpuLock::holder(folder_, "GPU-1"), "process " + std::to_string(::getpid()));
    held.lock.reset();
    EXPECT_TRUE(GpuLock::try_take(folder_, "GPU-1").lock.has_value());
}

TEST_F(JournalTest, ALockThatCannotBeTakenIsNotHeld) {
    const GpuLock::Attempt attempt = GpuLock::try_take(folder_ + "/journal_file/x", "GPU-1");
    EXPECT_TRUE(attempt.lock.has_value()) << "its folder is made";
    std::ofstream(folder_ + "/file") << "in the way";
    const GpuLock::Attempt none = GpuLock::try_take(folder_ + "/file/x", "GPU-1");
    EXPECT_FALSE(none.lock.has_value());
    EXPECT_EQ(none.failure, "the folder " + folder_ + "/file cannot be made: Not a directory");
}

TEST_F(JournalTest, AUuidCannotLeaveTheFolder) {
    EXPECT_EQ(file_stem("../../etc/x y"), "______etc_x_y");
}

}  // namespace
}  // namespace autotune::tuner::journal_test
