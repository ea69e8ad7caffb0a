#include <fcntl.h>
#include <gmock/gmock.h>

#include <cerrno>
#include <chrono>

#include "db/sqlite/schema.h"
#include "tests/db/fault_vfs.h"
#include "tests/db/sample.h"

namespace autotune::db {
namespace {

using namespace test;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::SizeIs;

constexpr int kMostOperations = 400;  // none of these actions needs nearly as many

class DiskFaults : public ::testing::TestWithParam<Fault> {
  protected:
    std::string path() const { return folder_ / "a.db"; }

    // Fails the first, second, ... operation of `act` on a fresh copy of `sound`, until all of `act` succeeds. It fails each of
    // the first 30 operations, then every third. `after` gets the result of `act` and checks the file on a working disk.
    void fail_each_operation(const std::string& sound, const std::function<void()>& act,
                             const std::function<void(const std::string&)>& after) {
        int operations = 0;
        for (bool failed = true; failed && operations < kMostOperations; operations += operations < 30 ? 1 : 3) {
            SCOPED_TRACE("failing after " + std::to_string(operations) + " operations");
            for (const auto& entry : std::filesystem::directory_iterator(folder_.path())) std::filesystem::remove(entry);
            if (!sound.empty()) write_file(path(), sound);
            vfs_.arm(operations, GetParam());
            const std::string message = database_error_of(act);
            failed = vfs_.disarm();
            if (!message.empty()) {
                EXPECT_THAT(message, AllOf(HasSubstr("database " + path()), HasSubstr("; ")));
            }
            after(message);
        }
        EXPECT_GT(operations, 3);
        EXPECT_LT(operations, kMostOperations);
    }

    std::string sound_file() const {
        {
            Store store = Store::open({.path = path()});
            for (std::int64_t m = 1; m <= 30; ++m) store.put(sample_winner(sample_problem(m)));
        }
        return read_file(path());
    }

  private:
    TempFolder folder_;
    FaultVfs vfs_;
};

TEST_P(DiskFaults, WhatWasStoredOutlivesAFailedWrite) {
    fail_each_operation(
        sound_file(),
        [&] {
            Store store = Store::open({.path = path()});
            store.put(sample_winner(sample_problem(100)));
        },
        [&](const std::string& message) {
            const Store store = Store::open({.path = path()});
            EXPECT_EQ(store.verify_integrity(), "");
            EXPECT_GE(store.count({}), 30);
            const std::size_t least = message.empty() ? 1 : 0;
            EXPECT_GE(store.find(sample_problem(100), sample_device()).size(), least);
        });
}

TEST_P(DiskFaults, AReplacedWinnerIsTheOldOrTheNewOneWhole) {
    fail_each_operation(
        sound_file(),
        [&] {
            Store store = Store::open({.path = path()});
            Winner better = sample_winner(sample_problem(5), 50);
            better.evidence.finalists.resize(1);
            store.put(better);
        },
        [&](const std::string&) {
            const auto found = Store::open({.path = path()}).find(sample_problem(5), sample_device());
            ASSERT_THAT(found, SizeIs(1));
            EXPECT_EQ(found[0].evidence.finalists.size(), found[0].timing.median_us == 50 ? 1U : 2U);
        });
}

TEST_P(DiskFaults, AFileHalfMadeIsMadeAgain) {
    fail_each_operation(
        "", [&] { Store::open({.path = path()}).put(sample_winner()); },
        [&](const std::string&) {
            Store store = Store::open({.path = path()});
            EXPECT_EQ(store.verify_integrity(), "");
            store.put(sample_winner());
        });
}

TEST_P(DiskFaults, AFailedMigrationLeavesTheOldFileOrTheNew) {
    std::string old;
    {
        Connection connection({.path = path()});
        migrate(connection, 1);
        connection.run(read_file(AUTOTUNE_TEST_DATA "/db/schema1_rows.sql").c_str());
    }
    old = read_file(path());
    fail_each_operation(
        old, [&] { Store::open({.path = path()}); },
        [&](const std::string&) {
            const Store store = Store::open({.path = path()});
            EXPECT_EQ(store.verify_integrity(), "");
            EXPECT_THAT(store.find(sample_problem(), sample_device()), SizeIs(1));
        });
}

TEST_P(DiskFaults, ARepairDeletesAllOrNothing) {
    sound_file();
    { Connection(ConnectionOptions{.path = path()}).run("PRAGMA foreign_keys = OFF; DELETE FROM winner WHERE id > 20"); }
    fail_each_operation(
        read_file(path()), [&] { Store::open({.path = path()}).repair(); },
        [&](const std::string& message) {
            const FileHealth health = Store::open({.path = path()}).check();
            EXPECT_EQ(health.damage, "");
            EXPECT_TRUE(health.orphans == 30 || health.orphans == 0) << health.orphans;
            EXPECT_TRUE(!message.empty() || health.is_sound());
        });
}

TEST_P(DiskFaults, TrialsThatCouldNotBeWrittenAreWrittenLater) {
    const std::string sound = sound_file();
    std::optional<Store> store;
    fail_each_operation(
        sound,
        [&] {
            store.reset();
            store = Store::open({.path = path()});
            store->record(sample_problem(), sample_device(), sample_trial(1));
            store->flush();
        },
        [&](const std::string&) {
            if (!store) return;  // it did not open
            EXPECT_THAT(store->trials(sample_problem(), sample_device()), SizeIs(1));
            store.reset();
        });
}

INSTANTIATE_TEST_SUITE_P(Kinds, DiskFaults, ::testing::Values(Fault::once, Fault::from_now, Fault::full), [](const auto& tested) {
    return tested.param == Fault::once ? "Once" : tested.param == Fault::from_now ? "FromNow" : "Full";
});

// Simulates a file system without locks, as Lustre and NFS may be: SQLite treats ENOLCK as a lock that another process holds.
class NoLocks {
  public:
    explicit NoLocks(int code) {
        wanted() = code;
        vfs_->xSetSystemCall(vfs_, "fcntl", reinterpret_cast<sqlite3_syscall_ptr>(&NoLocks::refuse));
    }
    ~NoLocks() { vfs_->xSetSystemCall(vfs_, "fcntl", nullptr); }
    NoLocks(const NoLocks&) = delete;
    NoLocks& operator=(const NoLocks&) = delete;

  private:
    static int& wanted() {
        static int code = 0;
        return code;
    }
    static int refuse(int file, int command, void* argument) {
        if (command != F_SETLK && command != F_GETLK) return ::fcntl(file, command, argument);
        errno = wanted();
        return -1;
    }
    sqlite3_vfs* vfs_ = sqlite3_vfs_find(nullptr);
};

TEST(NoLocksAtAll, AreNotALockThatAnotherProcessHolds) {
    const TempFolder folder;
    const std::string path = folder / "a.db";
    { Store store = Store::open({.path = path}); }
    for (const auto& [code, name] : {std::pair(ENOLCK, "No locks available"), std::pair(ENOSYS, "Function not implemented"),
                                     std::pair(EOPNOTSUPP, "Operation not supported")}) {
        const NoLocks none(code);
        const auto begun = std::chrono::steady_clock::now();
        for (const bool read_only : {true, false}) {
            const std::string said =
                database_error_of([&] { Store::open({.path = path, .read_only = read_only, .busy_timeout_ms = 20'000}); });
            EXPECT_EQ(said, "database " + path + " cannot be locked (" + name +
                                "); its file system has no locks that can be relied on: keep it on a local disk, with --db or "
                                "AUTOTUNE_DB");
        }
        EXPECT_LT(std::chrono::steady_clock::now() - begun, std::chrono::seconds(10)) << "waiting does not help: said at once";
    }
    const NoLocks held(EAGAIN);
    EXPECT_THAT(database_error_of([&] { Store::open({.path = path, .busy_timeout_ms = 5}); }),
                HasSubstr("is locked by another process (waited 5 ms)"));
}

}  // namespace
}  // namespace autotune::db
