#include "tuner/worker/journal.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

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

// A person, a batch system or a lack of memory killed the tuner. The machine kept running, so no candidate caused it.
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
    auto held = GpuLock::try_take({.state = folder_}, "GPU-1");
    ASSERT_TRUE(held.lock.has_value());
    const GpuLock::Attempt second = GpuLock::try_take({.state = folder_}, "GPU-1");
    EXPECT_FALSE(second.lock.has_value());
    EXPECT_EQ(second.failure, "");
    EXPECT_TRUE(GpuLock::try_take({.state = folder_}, "GPU-2").lock.has_value());
    EXPECT_EQ(GpuLock::holder({.state = folder_}, "GPU-1"), "process " + std::to_string(::getpid()));
    held.lock.reset();
    EXPECT_TRUE(GpuLock::try_take({.state = folder_}, "GPU-1").lock.has_value());
}

TEST_F(JournalTest, ALockThatCannotBeTakenIsNotHeld) {
    const GpuLock::Attempt attempt = GpuLock::try_take({.state = folder_ + "/journal_file/x"}, "GPU-1");
    EXPECT_TRUE(attempt.lock.has_value()) << "its folder is made";
    std::ofstream(folder_ + "/file") << "in the way";
    const GpuLock::Attempt none = GpuLock::try_take({.state = folder_ + "/file/x"}, "GPU-1");
    EXPECT_FALSE(none.lock.has_value());
    EXPECT_EQ(none.failure, "the folder " + folder_ + "/file cannot be made: Not a directory");
}

// Two users have separate state folders.
TEST_F(JournalTest, UsersOfAHostShareOneLockAGpu) {
    const LockFolders mine{.host = folder_ + "/shared", .state = folder_ + "/mine"};
    const LockFolders theirs{.host = folder_ + "/shared", .state = folder_ + "/theirs"};
    auto held = GpuLock::try_take(mine, "GPU-1");
    ASSERT_TRUE(held.lock.has_value());
    EXPECT_EQ(held.only_this_user, "");
    struct stat folder {
    }, file{};
    ASSERT_EQ(::stat(mine.host.c_str(), &folder), 0);
    EXPECT_EQ(folder.st_mode & 07777u, 01777u);
    ASSERT_EQ(::stat((mine.host + "/gpu-GPU-1").c_str(), &file), 0);
    EXPECT_EQ(file.st_mode & 07777u, 0666u);
    EXPECT_FALSE(GpuLock::try_take(theirs, "GPU-1").lock.has_value());
    EXPECT_EQ(GpuLock::holder(theirs, "GPU-1"), "process " + std::to_string(::getpid()));
    EXPECT_TRUE(GpuLock::try_take(theirs, "GPU-2").lock.has_value());
    held.lock.reset();
    EXPECT_TRUE(GpuLock::try_take(theirs, "GPU-1").lock.has_value());
}

// The lock is taken as an older version takes it, which uses only the state folder.
TEST_F(JournalTest, ALockInTheStateFolderCountsToo) {
    const LockFolders both{.host = folder_ + "/shared", .state = folder_};
    auto held = GpuLock::try_take({.state = folder_}, "GPU-1");
    ASSERT_TRUE(held.lock.has_value());
    EXPECT_FALSE(GpuLock::try_take(both, "GPU-1").lock.has_value());
    held.lock.reset();
    EXPECT_TRUE(GpuLock::try_take(both, "GPU-1").lock.has_value()) << "the first file was let go";
}

TEST_F(JournalTest, WithoutASharedFolderTheStateFolderServes) {
    const LockFolders folders{.host = folder_ + "/missing/locks", .state = folder_};
    const GpuLock::Attempt attempt = GpuLock::try_take(folders, "GPU-1");
    EXPECT_TRUE(attempt.lock.has_value());
    EXPECT_EQ(attempt.only_this_user, folders.host + " cannot be made: No such file or directory");
    EXPECT_FALSE(GpuLock::try_take(folders, "GPU-1").lock.has_value());
    // A link instead of the file is not followed.
    const LockFolders linked{.host = folder_ + "/shared", .state = folder_ + "/own"};
    std::filesystem::create_directory(linked.host);
    std::filesystem::create_symlink(folder_ + "/target", linked.host + "/gpu-GPU-1");
    EXPECT_EQ(GpuLock::try_take(linked, "GPU-1").only_this_user,
              linked.host + "/gpu-GPU-1 cannot be opened: Too many levels of symbolic links");
}

TEST_F(JournalTest, AHolderOfAnotherUserIsNamedWithIt) {
    const LockFolders folders{.host = folder_ + "/shared"};
    std::filesystem::create_directory(folders.host);
    std::ofstream(folders.host + "/gpu-GPU-1") << "4711 12345\n";
    EXPECT_EQ(GpuLock::holder(folders, "GPU-1"), "process 4711 of user 12345");
}

TEST_F(JournalTest, AUuidCannotLeaveTheFolder) {
    EXPECT_EQ(file_stem("../../etc/x y"), "______etc_x_y");
}

}  // namespace
}  // namespace autotune::tuner::journal_test
