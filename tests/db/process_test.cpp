#include <gmock/gmock.h>
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <functional>
#include <thread>

#include "db/sqlite/sqlite_handle.h"
#include "tests/db/killed_writer.h"
#include "tests/db/sample.h"

namespace autotune::db {
namespace {

using namespace test;
using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::SizeIs;

class Processes : public ::testing::Test {
  protected:
    std::string path() const { return folder_ / "a.db"; }
    Store open(int busy_timeout_ms = 10'000) const { return Store::open({.path = path(), .busy_timeout_ms = busy_timeout_ms}); }

  private:
    TempFolder folder_;
};

TEST_F(Processes, ALockedDatabaseIsNamedAfterTheTimeout) {
    Store store = open(50);
    const LockHolder holder(path(), "BEGIN IMMEDIATE");
    EXPECT_THAT(database_error_of([&] { store.put(sample_winner()); }),
                AllOf(HasSubstr(path()), HasSubstr("locked by another process (waited 50 ms)"), HasSubstr("; ")));
    EXPECT_EQ(fault_of([&] { store.put(sample_winner()); }), DatabaseFault::locked);
}

TEST_F(Processes, ALibraryGivesUpOnALockWithinItsTimeout) {
    open();
    const LockHolder holder(path(), "BEGIN EXCLUSIVE");
    std::chrono::nanoseconds shortest = 1h;  // the shortest of several tries, because a busy machine adds its own waits
    for (int attempt = 0; attempt < 5; ++attempt) {
        const auto start = std::chrono::steady_clock::now();
        EXPECT_THAT(database_error_of([&] { open(30); }), HasSubstr("locked"));
        shortest = std::min<std::chrono::nanoseconds>(shortest, std::chrono::steady_clock::now() - start);
    }
    EXPECT_LT(shortest, 100ms);  // 31 ms
}

TEST_F(Processes, ReadersDoNotWaitForAWriter) {
    open().put(sample_winner());
    const LockHolder holder(path(), "BEGIN IMMEDIATE");
    const Store reader = Store::open({.path = path(), .read_only = true, .busy_timeout_ms = 0});
    EXPECT_THAT(reader.find(sample_problem(), sample_device()), SizeIs(1));
}

TEST_F(Processes, TrialsWaitForALockAndTheSearchGoesOn) {
    Store store = open(20);
    {
        const LockHolder holder(path(), "BEGIN IMMEDIATE");
        const auto start = std::chrono::steady_clock::now();
        for (std::int64_t trial = 1; trial <= 1000; ++trial) store.record(sample_problem(), sample_device(), sample_trial(trial));
        EXPECT_LT(std::chrono::steady_clock::now() - start, 5s);  // it would take 20 s if every batch waited for the lock
        EXPECT_FALSE(store.flush());
        ASSERT_THAT(store.warnings(), SizeIs(1));
        EXPECT_EQ(store.warnings()[0].kind, WarningKind::trials_wait);
    }
    EXPECT_THAT(store.trials(sample_problem(), sample_device()), SizeIs(1000));
    EXPECT_TRUE(store.flush());
}

class KilledWriter : public Processes {
  protected:
    KilledWriter() {
        Store store = open();
        for (std::int64_t m = 1; m <= 200; ++m) store.put(sample_winner(sample_problem(m), 100));
    }
    Store open_reader() const { return Store::open({.path = path(), .read_only = true, .busy_timeout_ms = 30}); }
};

TEST_F(KilledWriter, DoesNotBlindAReaderThatMayWrite) {
    kill_a_writer_half_way(path());
    ASSERT_TRUE(has_hot_journal(path()));
    const Store reader = open_reader();
    EXPECT_EQ(reader.find(sample_problem(7), sample_device()).at(0).timing.median_us, 100);
    ASSERT_THAT(reader.warnings(), SizeIs(1));
    EXPECT_EQ(reader.warnings()[0].kind, WarningKind::recovered);
    EXPECT_FALSE(has_hot_journal(path()));
}

TEST_F(KilledWriter, DoesNotBlindAReaderThatWasThereBefore) {
    const Store reader = open_reader();
    EXPECT_EQ(reader.count({}), 200);
    kill_a_writer_half_way(path());
    ASSERT_TRUE(has_hot_journal(path()));
    EXPECT_EQ(reader.find(sample_problem(7), sample_device()).at(0).timing.median_us, 100);
    EXPECT_EQ(reader.list({}).at(0).timing.median_us, 100);
    EXPECT_THAT(reader.warnings(), SizeIs(1));
}

TEST_F(KilledWriter, LeavesACommandToOneWhoMayNotWrite) {
    if (::geteuid() != 0) GTEST_SKIP() << "becoming another user needs root";
    kill_a_writer_half_way(path());
    ASSERT_TRUE(has_hot_journal(path()));
    const std::string folder = std::filesystem::path(path()).parent_path();
    std::filesystem::permissions(folder, std::filesystem::perms(0755));
    for (const std::string& file : {path(), path() + "-journal"})
        std::filesystem::permissions(file, std::filesystem::perms(0644));
    EXPECT_TRUE(succeeded(start_child([&] {
        if (::setgid(65534) != 0 || ::setuid(65534) != 0) return false;
        return fault_of([&] { open_reader(); }) == DatabaseFault::unfinished &&
               database_error_of([&] { open_reader(); }).find("autotune doctor --db " + path()) != std::string::npos;
    })));
    EXPECT_TRUE(has_hot_journal(path()));
    EXPECT_EQ(open_reader().count({}), 200);
}

TEST_F(Processes, TwoWritersLoseNothing) {
    constexpr std::int64_t kEach = 100;
    const auto write_from = [&](std::int64_t first) {
        return start_child([&, first] {
            Store store = open();  // both processes make the file at once
            for (std::int64_t m = first; m < first + kEach; ++m) {
                store.record(sample_problem(m), sample_device(), sample_trial(m));
                store.put(sample_winner(sample_problem(m)));
            }
            return true;
        });
    };
    const pid_t one = write_from(1);
    const pid_t two = write_from(1 + kEach);
    EXPECT_TRUE(succeeded(one));
    EXPECT_TRUE(succeeded(two));
    const Store store = open();
    EXPECT_EQ(store.count({}), 2 * kEach);
    EXPECT_EQ(store.verify_integrity(), "");
}

TEST_F(Processes, ManyOpenANewFileAtOnce) {
    std::vector<pid_t> children;
    for (int at = 0; at < 8; ++at) {
        children.push_back(start_child([&, at] {
            open().put(sample_winner(sample_problem(1 + at)));
            return true;
        }));
    }
    for (const pid_t child : children) EXPECT_TRUE(succeeded(child));
    EXPECT_EQ(open().count({}), 8);
}

TEST_F(Processes, KillInTheMiddleOfWritingLeavesAGoodFile) {
    std::int64_t least = 0;
    for (int round = 0; round < 20; ++round) {
        const pid_t child = start_child([&]() -> bool {
            Store store = open();
            for (std::int64_t m = 1;; ++m) store.put(sample_winner(sample_problem(1 + m % 500), 100.0 + static_cast<double>(m)));
        });
        std::this_thread::sleep_for(std::chrono::milliseconds(5 + 3 * round));
        ::kill(child, SIGKILL);
        ::waitpid(child, nullptr, 0);
        const Store store = open();
        ASSERT_EQ(store.verify_integrity(), "") << "round " << round;
        ASSERT_GE(store.count({}), least);  // no row is lost
        least = store.count({});
    }
    EXPECT_GT(least, 0);
}

TEST_F(Processes, KillWithAHalfWrittenTransactionRollsItBack) {
    open().put(sample_winner(sample_problem(1)));
    {
        // With a cache of one page SQLite writes the file before COMMIT, so that a hot journal remains.
        const LockHolder holder(path(),
                                "PRAGMA cache_size = 1; BEGIN IMMEDIATE; DELETE FROM winner; CREATE TABLE big(x); "
                                "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 2000) "
                                "INSERT INTO big SELECT randomblob(500) FROM n");
    }
    ASSERT_TRUE(std::filesystem::exists(path() + "-journal"));
    const Store store = open();
    EXPECT_THAT(store.find(sample_problem(1), sample_device()), SizeIs(1));
    EXPECT_EQ(store.verify_integrity(), "");
}

TEST_F(Processes, KillWhileMakingTheFileLeavesOneThatOpens) {
    {
        const LockHolder holder(path(),
                                "PRAGMA cache_size = 1; BEGIN IMMEDIATE; CREATE TABLE big(x); "
                                "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 2000) "
                                "INSERT INTO big SELECT randomblob(500) FROM n");
    }
    EXPECT_EQ(open().verify_integrity(), "");
}

TEST_F(Processes, AForkedChildUsesAHandleOfItsOwn) {
    Store store = open();
    store.put(sample_winner(sample_problem(1)));
    const pid_t child = start_child([&] {
        const bool sees = store.find(sample_problem(1), sample_device()).size() == 1;
        store.put(sample_winner(sample_problem(2)));
        return sees && store.count({}) == 2;
    });
    EXPECT_TRUE(succeeded(child));
    store.put(sample_winner(sample_problem(3)));
    EXPECT_EQ(store.count({}), 3);
    EXPECT_EQ(store.verify_integrity(), "");
}

TEST_F(Processes, AForkedChildDoesNotWriteItsParentsTrials) {
    Store store = open();
    for (std::int64_t at = 0; at < 5; ++at) store.record(sample_problem(), sample_device(), sample_trial(at));  // some wait
    const pid_t child = start_child([&] {
        { const Store dropped = std::move(store); }  // closed in the child
        const Store fresh = open();
        return fresh.trials(sample_problem(), sample_device()).size() < 5;
    });
    EXPECT_TRUE(succeeded(child));
    EXPECT_THAT(store.trials(sample_problem(), sample_device()), SizeIs(5));
}

TEST_F(Processes, TheParentsLocksSurviveAChildThatCloses) {
    Store store = open();
    Connection connection({.path = path()});
    connection.run("BEGIN IMMEDIATE");
    const pid_t child = start_child([&] {
        { const Store dropped = std::move(store); }
        return true;
    });
    EXPECT_TRUE(succeeded(child));
    EXPECT_TRUE(succeeded(start_child([&] { return !database_error_of([&] { open(10).put(sample_winner()); }).empty(); })));
    connection.run("COMMIT");
}

}  // namespace
}  // namespace autotune::db
