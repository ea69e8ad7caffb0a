// A card is one device however much memory its driver reserves, even in files of older versions.
#include "src/core/problem/device_key.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include <algorithm>
#include <sstream>

#include "db/sqlite/sqlite_handle.h"
#include "db/store/trials.h"
#include "db/text/transfer.h"
#include "tests/db/sample.h"

namespace autotune::db {
namespace {

using namespace test;
using ::testing::IsEmpty;
using ::testing::SizeIs;

DeviceIdentity h100(int memory_gib) {
    return {
        .cc_major = 9, .cc_minor = 0, .sm_count = 132, .l2_mib = 50, .memory_gib = memory_gib, .bus_bits = 5120, .name = "H100"};
}

Winner winner_on(const DeviceIdentity& device, std::int64_t m, double median_us) {
    Winner winner = sample_winner(sample_problem(m), median_us);
    winner.device = device;
    return winner;
}

// Makes a file of the previous version for an H100 whose driver was updated. It has one device per memory size, with winners and
// trials of both.
void make_older_file(const std::string& path) {
    {
        Store store = Store::open({.path = path});
        store.put(winner_on(h100(79), 1, 100));
        store.put(winner_on(h100(79), 2, 100));
        store.record(sample_problem(1), h100(79), sample_trial(3, TrialStatus::crashed));
        store.record(sample_problem(1), h100(79), sample_trial(4));
        store.record_misses(std::vector<Miss>{{sample_problem(7), h100(79), "near"}});
    }
    Connection connection({.path = path});
    connection.run(
        "UPDATE device SET key = 'cc9.0-sm132-l2_50-mem79-bus5120';"
        "INSERT INTO device(key, cc_major, cc_minor, sm_count, l2_mib, memory_gib, bus_bits)"
        " VALUES('cc9.0-sm132-l2_50-mem80-bus5120', 9, 0, 132, 50, 80, 5120);"
        "UPDATE winner SET device_id = 2 WHERE e0 = 2;"
        "UPDATE trial SET device_id = 2 WHERE config LIKE '%stages=4%'");
}

TEST(DeviceKey, TwoDriversOfOneCardAreOneDevice) {
    Store store = memory_store();
    store.put(winner_on(h100(79), 1, 100));
    EXPECT_THAT(store.find(sample_problem(1), h100(80)), SizeIs(1));
    store.put(winner_on(h100(80), 1, 90));
    const auto found = store.find(sample_problem(1), h100(79));
    ASSERT_THAT(found, SizeIs(1));  // replaced
    EXPECT_EQ(found[0].timing.median_us, 90);
    EXPECT_THAT(store.find(sample_problem(1), h100(81)), IsEmpty());
}

TEST(DeviceKey, NoRowOfAnOlderFileIsLost) {
    const TempFolder folder;
    make_older_file(folder / "old.db");
    for (const int memory_gib : {79, 80, 73}) {
        const Store store = Store::open({.path = folder / "old.db", .read_only = true});
        EXPECT_THAT(store.find(sample_problem(1), h100(memory_gib)), SizeIs(1));
        EXPECT_THAT(store.find(sample_problem(2), h100(memory_gib)), SizeIs(1));
        EXPECT_THAT(store.near(sample_problem(3), h100(memory_gib), 8), SizeIs(2));
        EXPECT_THAT(store.trials(sample_problem(1), h100(memory_gib)), SizeIs(2));
        EXPECT_THAT(store.near_of_other_cards(sample_problem(3), h100(memory_gib), 8), IsEmpty());
    }
    const Store store = Store::open({.path = folder / "old.db", .read_only = true});
    EXPECT_EQ(store.misses().at(0).device_key, "cc9.0-sm132-l2_50-mem80-bus5120");
    for (const char* key : {"cc9.0-sm132-l2_50-mem79-bus5120", "cc9.0-sm132-l2_50-mem80-bus5120"}) {
        EXPECT_EQ(store.count({.device_key = key}), 2) << key;
        EXPECT_THAT(store.list({.device_key = key}), SizeIs(2)) << key;
    }
    EXPECT_EQ(store.verify_integrity(), "");
}

TEST(DeviceKey, ANewWinnerReplacesTheOneUnderTheOlderKey) {
    const TempFolder folder;
    make_older_file(folder / "old.db");
    Store store = Store::open({.path = folder / "old.db"});
    for (const std::int64_t m : {1, 2}) {
        store.put(winner_on(h100(80), m, 50));
        const auto found = store.find(sample_problem(m), h100(80));
        ASSERT_THAT(found, SizeIs(1)) << m;
        EXPECT_EQ(found[0].timing.median_us, 50);
    }
    store.put(winner_on(h100(80), 7, 50));
    EXPECT_THAT(store.misses(), IsEmpty());
    EXPECT_EQ(store.remove({.device_key = h100(79).key()}), 3);
    EXPECT_EQ(store.verify_integrity(), "");
}

TEST(DeviceKey, LinesOfBothAreImportedAsOne) {
    Store store = memory_store();
    std::istringstream lines(records::to_json_line(winner_on(h100(79), 1, 100)) + "\n" +
                             records::to_json_line(winner_on(h100(80), 1, 90)) + "\n");
    const TakeReport report = import_lines(store, lines, {});
    EXPECT_EQ(report.added, 1);
    EXPECT_EQ(report.replaced, 1);
    EXPECT_EQ(store.find(sample_problem(1), h100(80)).at(0).timing.median_us, 90);
}

TEST(DeviceKey, WinnersOfACardWithTheSameChipAreNearOnes) {
    const TempFolder folder;
    write_file(folder / "gemm.jsonl", records::to_json_line(winner_on(h100(96), 5, 100)) + "\n");
    Store store = Store::open({.path = ":memory:", .shipped = {folder.path()}});
    DeviceIdentity other_bus = h100(80);
    other_bus.bus_bits = 6144;
    DeviceIdentity other_chip = h100(80);
    other_chip.l2_mib = 60;
    store.put(winner_on(other_bus, 4, 100));
    store.put(winner_on(other_bus, 3, 100));
    store.put(winner_on(other_chip, 4, 100));
    store.put(winner_on(h100(79), 4, 100));
    const auto found = store.near_of_other_cards(sample_problem(4), h100(80), 8);
    ASSERT_THAT(found, SizeIs(3));
    EXPECT_EQ(found[0].extents, sample_problem(4).extents);  // the near winner is for the same problem, but from the other card
    EXPECT_EQ(found[0].device.bus_bits, 6144);
    EXPECT_TRUE(found[1].shipped);
    EXPECT_EQ(found[1].device.memory_gib, 96);
    EXPECT_THAT(store.near(sample_problem(4), h100(80), 8), IsEmpty());
}

TEST(Misses, AreForgottenWhenTheirProblemIsTuned) {
    Store store = memory_store();
    store.record_misses(
        std::vector<Miss>{{sample_problem(7), sample_device(), "near"}, {sample_problem(8), sample_device(), "near"}});
    Winner winner = sample_winner(sample_problem(8));
    winner.doubt = "it is too fast";
    store.put(winner);
    winner.doubt = "";
    winner.restricted_to = "family=gemm/mma";
    store.put(winner);
    EXPECT_EQ(store.count_misses(), 2);  // these rows do not answer calls
    winner.restricted_to = "";
    store.put(winner);
    ASSERT_EQ(store.count_misses(), 1);
    EXPECT_EQ(store.misses().at(0).shape, sample_problem(7).shape());
    store.forget_misses(std::vector<Problem>{sample_problem(7), sample_problem(9)}, sample_device());
    EXPECT_EQ(store.count_misses(), 0);
}

TEST(Misses, AreBoundedAndThoseThatWereCalledLeastGo) {
    Store store = memory_store();
    std::vector<Miss> misses;
    for (std::int64_t m = 1; m <= kMostMisses; ++m)
        misses.push_back({sample_problem(m), sample_device(), "near", m == 5 ? 1 : 2});
    store.record_misses(misses);
    EXPECT_EQ(store.count_misses(), kMostMisses);
    // Waits for another second, so that the dates of the new rows differ.
    const std::string before = store.misses(1).at(0).date;
    while (utc_now() == before) ::usleep(10'000);
    store.record_misses(std::vector<Miss>{{sample_problem(kMostMisses + 1), sample_device(), "near", 1}});
    EXPECT_EQ(store.count_misses(), kMostMisses);
    const auto all = store.misses();
    const auto has = [&](std::int64_t m) {
        return std::any_of(all.begin(), all.end(), [&](const MissRow& row) { return row.shape == sample_problem(m).shape(); });
    };
    EXPECT_TRUE(has(kMostMisses + 1));  // the problem stays although it was called only once
    EXPECT_FALSE(has(5));
    EXPECT_TRUE(has(6));
}

TEST(Misses, AreListedMostCalledFirstUpToALimit) {
    Store store = memory_store();
    std::vector<Miss> misses;
    for (std::int64_t m = 1; m <= 100; ++m) misses.push_back({sample_problem(m), sample_device(), "near", m});
    store.record_misses(misses);
    const auto first = store.misses(2);
    ASSERT_THAT(first, SizeIs(2));
    EXPECT_EQ(first[0].count, 100);
    EXPECT_EQ(first[1].count, 99);
    EXPECT_EQ(store.count_misses(), 100);
}

}  // namespace
}  // namespace autotune::db
