#include <gmock/gmock.h>

#include <algorithm>
#include <chrono>

#include "tests/db/sample.h"

namespace autotune::db {
namespace {

using namespace test;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

std::string line_of(std::int64_t m, double median_us = 100) {
    return records::to_json_line(sample_winner(sample_problem(m), median_us)) + "\n";
}

Store store_over(const std::string& shipped) {
    return Store::open({.path = ":memory:", .shipped = {shipped}});
}

TEST(Shipped, AnswersBeneathAnEmptyDatabase) {
    const TempFolder folder;
    write_file(folder / "gemm.jsonl", line_of(1) + line_of(2));
    const auto found = store_over(folder.path()).find(sample_problem(2), sample_device());
    ASSERT_THAT(found, SizeIs(1));
    EXPECT_TRUE(found[0].shipped);
    EXPECT_EQ(found[0].extents, sample_problem(2).extents);
}

TEST(Shipped, ComesAfterTheUsersRows) {
    const TempFolder folder;
    write_file(folder / "gemm.jsonl", line_of(2, 50));
    Store store = store_over(folder.path());
    store.put(sample_winner(sample_problem(2), 60));
    const auto found = store.find(sample_problem(2), sample_device());
    ASSERT_THAT(found, SizeIs(2));
    EXPECT_FALSE(found[0].shipped);
    EXPECT_TRUE(found[1].shipped);
}

TEST(Shipped, NeverAnswersForAnotherDevice) {
    const TempFolder folder;
    write_file(folder / "gemm.jsonl", line_of(2));
    DeviceIdentity h100 = sample_device();
    h100.memory_gib = 80;
    EXPECT_THAT(store_over(folder.path()).find(sample_problem(2), h100), IsEmpty());
}

TEST(Shipped, JoinsInNear) {
    const TempFolder folder;
    write_file(folder / "gemm.jsonl", line_of(1000));
    Store store = store_over(folder.path());
    store.put(sample_winner(sample_problem(100)));
    const auto found = store.near(sample_problem(2000), sample_device(), 2);
    ASSERT_THAT(found, SizeIs(2));
    EXPECT_TRUE(found[0].shipped);
    EXPECT_FALSE(found[1].shipped);
}

TEST(Shipped, IsListedAfterTheUsersRowsUpToTheLimit) {
    const TempFolder folder;
    write_file(folder / "gemm.jsonl", line_of(1) + line_of(2) + line_of(3));
    Store store = store_over(folder.path());
    store.put(sample_winner(sample_problem(9)));
    const auto rows = store.list({.limit = 3});
    ASSERT_THAT(rows, SizeIs(3));
    EXPECT_FALSE(rows[0].shipped);
    EXPECT_TRUE(rows[1].shipped);
    EXPECT_THAT(rows[1].evidence.finalists, IsEmpty());
    EXPECT_THAT(store.list({.limit = 1}), SizeIs(1));
}

TEST(Shipped, IsFilteredAndCountedLikeRows) {
    const TempFolder folder;
    write_file(folder / "gemm.jsonl", line_of(1) + line_of(2) + line_of(3));
    const Store store = store_over(folder.path());
    const std::vector<std::pair<Filter, std::int64_t>> filters = {{Filter{}, 3},
                                                                  {Filter{.op = "gemm"}, 3},
                                                                  {Filter{.op = "add"}, 0},
                                                                  {Filter{.class_key = sample_problem().class_key()}, 3},
                                                                  {Filter{.class_key = "gemm other"}, 0},
                                                                  {Filter{.device_key = sample_device().key()}, 3},
                                                                  {Filter{.device_key = other_device().key()}, 0},
                                                                  {Filter{.extents = sample_problem(2).extents}, 1}};
    for (const auto& [filter, expected] : filters) {
        EXPECT_EQ(store.count(filter), expected) << filter.op << filter.class_key << filter.device_key;
        EXPECT_THAT(store.list(filter), SizeIs(static_cast<std::size_t>(expected)));
        EXPECT_THAT(store.list_shipped(filter), SizeIs(static_cast<std::size_t>(expected)));
    }
}

TEST(Shipped, IsNotHandedOverWithTheUsersRows) {
    const TempFolder folder;
    write_file(folder / "gemm.jsonl", line_of(1));
    store_over(folder.path()).for_each({}, [](const Winner&) {
        ADD_FAILURE() << "a shipped row was handed over";
        return true;
    });
}

TEST(Shipped, PassesOverABadLineWithItsPlace) {
    const TempFolder folder;
    std::string bad = line_of(2);
    bad.replace(bad.find("\"stages\":3"), 10, "\"stages\":x");
    write_file(folder / "gemm.jsonl", "\n" + bad + line_of(2) + "garbage\n");
    const Store store = store_over(folder.path());
    EXPECT_THAT(store.find(sample_problem(2), sample_device()), SizeIs(1));
    EXPECT_THAT(texts_of(store.warnings()), ElementsAre(AllOf(HasSubstr("gemm.jsonl:4"), HasSubstr("no op")),
                                                        AllOf(HasSubstr("gemm.jsonl:2"), HasSubstr("not JSON"))));
}

TEST(Shipped, ParsesOnlyLinesOfTheProblem) {
    const TempFolder folder;
    std::string broken = line_of(3);
    broken.replace(broken.find("\"stages\":3"), 10, "\"stages\":x");
    write_file(folder / "gemm.jsonl", broken + line_of(2));
    const Store store = store_over(folder.path());
    EXPECT_THAT(store.find(sample_problem(2), sample_device()), SizeIs(1));
    EXPECT_THAT(store.warnings(), IsEmpty());  // nobody asked for m = 3
}

TEST(Shipped, ParsesOnlyTheNearestLinesOfAClass) {
    const TempFolder folder;
    std::string broken = line_of(3000);
    broken.replace(broken.find("\"stages\":3"), 10, "\"stages\":x");
    write_file(folder / "gemm.jsonl", broken + line_of(100) + line_of(20) + line_of(200));
    const Store store = store_over(folder.path());
    const auto found = store.near(sample_problem(100), sample_device(), 2);
    ASSERT_THAT(found, SizeIs(2));
    EXPECT_EQ(found[0].extents, sample_problem(200).extents);
    EXPECT_EQ(found[1].extents, sample_problem(20).extents);
    EXPECT_THAT(store.warnings(), IsEmpty());  // two others are nearer than m = 3000
}

TEST(Shipped, TakesHandWrittenSpaces) {
    const TempFolder folder;
    std::string line = line_of(2);
    line.replace(line.find("\"op\":"), 5, "\"op\" : ");
    line.replace(line.find("{\"m\":2,"), 7, "{ \"m\": 2, ");
    write_file(folder / "gemm.jsonl", line);
    EXPECT_THAT(store_over(folder.path()).find(sample_problem(2), sample_device()), SizeIs(1));
}

TEST(Shipped, WarnsOfAFileThatIsNotThere) {
    const TempFolder folder;
    const Store store = store_over(folder / "missing.jsonl");
    EXPECT_THAT(store.find(sample_problem(2), sample_device()), IsEmpty());
    EXPECT_THAT(texts_of(store.warnings()), ElementsAre(HasSubstr("missing.jsonl")));
}

TEST(Shipped, ReadsNothingBeforeTheFirstQuestion) {
    const TempFolder folder;
    EXPECT_THAT(store_over(folder / "missing.jsonl").warnings(), IsEmpty());
}

TEST(Shipped, IsNotWrittenBySavingOrRemoving) {
    const TempFolder folder;
    write_file(folder / "gemm.jsonl", line_of(2));
    Store store = store_over(folder / "gemm.jsonl");
    store.put(sample_winner(sample_problem(2)));
    EXPECT_EQ(store.remove({}), 1);
    EXPECT_EQ(read_file(folder / "gemm.jsonl"), line_of(2));
    EXPECT_THAT(store.find(sample_problem(2), sample_device()), SizeIs(1));
}

// The shortest of several tries, because a busy machine adds its own waits.
template <class Act>
std::chrono::nanoseconds shortest_time_of(const std::string& shipped, const Act& act) {
    std::chrono::nanoseconds shortest = std::chrono::hours(1);
    for (int attempt = 0; attempt < 5; ++attempt) {
        const Store store = store_over(shipped);  // has read nothing yet
        const auto start = std::chrono::steady_clock::now();
        act(store);
        shortest = std::min<std::chrono::nanoseconds>(shortest, std::chrono::steady_clock::now() - start);
    }
    return shortest;
}

TEST(Shipped, FindsALineInAFractionOfTheTimeToParseAll) {
    const TempFolder folder;
    std::string lines;
    for (std::int64_t m = 1; m <= 1000; ++m) lines += line_of(m);
    write_file(folder / "gemm.jsonl", lines);
    const auto one = shortest_time_of(
        folder.path(), [](const Store& store) { EXPECT_THAT(store.find(sample_problem(700), sample_device()), SizeIs(1)); });
    const auto all =
        shortest_time_of(folder.path(), [](const Store& store) { EXPECT_THAT(store.list_shipped({}), SizeIs(1000)); });
    RecordProperty("one_us", std::to_string(one.count() / 1000));
    RecordProperty("all_us", std::to_string(all.count() / 1000));
    EXPECT_LT(one * 3, all);
}

}  // namespace
}  // namespace autotune::db
