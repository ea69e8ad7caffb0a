#include "db/store/store.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <limits>
#include <utility>

#include "db/sqlite/schema.h"
#include "db/verdicts.h"
#include "tests/db/sample.h"

namespace autotune::db {
namespace {

using namespace test;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

TEST(Store, TreatsQuotesInAClassAsData) {
    Store store = memory_store();
    EXPECT_EQ(store.count({.op = "gemm' OR 1=1 --"}), 0);
    EXPECT_THAT(store.list({.class_key = "x'; DROP TABLE winner; --"}), IsEmpty());
    EXPECT_EQ(store.verify_integrity(), "");
}

TEST(Store, SaysWhatIsWrongWithARowThatItDoesNotTake) {
    Store store = memory_store();
    Winner bad = sample_winner();
    bad.extents[0].value = -1;
    EXPECT_EQ(database_error_of([&] { store.put(bad); }),
              "database :memory: cannot take a winner (extent m is -1, outside 0 to 2^40); internal error: invalid row, nothing "
              "was stored");
    StoredTrial trial = sample_trial(1);
    trial.template_identity = "";
    EXPECT_EQ(database_error_of([&] { store.record(sample_problem(), sample_device(), trial); }),
              "database :memory: cannot take a trial (the template's identity is missing or too long); internal error: invalid "
              "row, nothing was stored");
}

TEST(Store, CommitsBufferedTrialsWhenItCloses) {
    const TempFolder folder;
    {
        Store store = Store::open({.path = folder / "a.db"});
        for (std::int64_t at = 0; at < 10; ++at) store.record(sample_problem(), sample_device(), sample_trial(at));
    }
    const Store store = Store::open({.path = folder / "a.db", .read_only = true});
    EXPECT_THAT(store.trials(sample_problem(), sample_device()), SizeIs(10));
}

TEST(Store, CommitsATrialAtOnceWhenTrialsComeSlowly) {
    const TempFolder folder;
    Store store = Store::open({.path = folder / "a.db"});
    store.record(sample_problem(), sample_device(), sample_trial(1));
    const Store reader = Store::open({.path = folder / "a.db", .read_only = true});
    EXPECT_THAT(reader.trials(sample_problem(), sample_device()), SizeIs(1));
}

// ---- verdicts ----

Verdict verdict(const std::string& problem, double in_stream = 1.25) {
    return {.problem = problem, .device = "a card", .rival = "torch 1", .in_stream = in_stream, .in_graphs = 1.5};
}

std::vector<std::string> problems_of(const std::vector<Verdict>& verdicts) {
    std::vector<std::string> problems;
    for (const Verdict& one : verdicts) problems.push_back(one.problem);
    return problems;
}

TEST(Verdicts, ComeBackOldestFirst) {
    const TempFolder folder;
    const OpenOptions options{.path = folder / "a.db"};
    put_verdicts(options, std::vector{verdict("x"), verdict("y")});
    Verdict other = verdict("x");
    other.rival = "torch 2";
    put_verdicts(options, std::vector{other});
    const auto found = read_verdicts(options, "torch 1");
    EXPECT_THAT(problems_of(found), ElementsAre("x", "y"));
    EXPECT_EQ(found[0].device, "a card");
    EXPECT_EQ(found[0].in_stream, 1.25);
    EXPECT_EQ(found[0].in_graphs, 1.5);
    EXPECT_THAT(found[0].date, SizeIs(20));
    EXPECT_THAT(problems_of(read_verdicts(options, "")), ElementsAre("x", "y", "x"));
    EXPECT_EQ(Store::open(options).verify_integrity(), "");
}

TEST(Verdicts, OfTheSameProblemReplaceEachOther) {
    const TempFolder folder;
    const OpenOptions options{.path = folder / "a.db"};
    put_verdicts(options, std::vector{verdict("x"), verdict("y")});
    put_verdicts(options, std::vector{verdict("x", 0.5)});
    const auto found = read_verdicts(options, "torch 1");
    EXPECT_THAT(problems_of(found), ElementsAre("y", "x"));
    EXPECT_EQ(found[1].in_stream, 0.5);
}

TEST(Verdicts, ThatAreOutOfRangeAreRefusedAll) {
    const TempFolder folder;
    const OpenOptions options{.path = folder / "a.db"};
    const std::vector<std::pair<Verdict, std::string>> bad = {
        {verdict(""), "its problem is empty"},
        {verdict(std::string(kMaxVerdictProblem + 1, 'x')), "its problem is empty, longer than 4000 bytes"},
        {verdict("a\nb"), "no text"},
        {verdict("x", 0), "its ratios are not between"},
        {verdict("x", -1), "its ratios"},
        {verdict("x", std::numeric_limits<double>::quiet_NaN()), "its ratios"},
        {verdict("x", std::numeric_limits<double>::infinity()), "its ratios"},
    };
    for (const auto& [one, why] : bad) {
        try {
            put_verdicts(options, std::vector{verdict("good"), one});
            ADD_FAILURE() << why;
        } catch (const Error& error) {
            EXPECT_THAT(error.what(), HasSubstr(why));
        }
    }
    put_verdicts(options, {});
    EXPECT_THAT(read_verdicts(options, ""), IsEmpty());
}

TEST(Verdicts, ThatAnotherProgramChangedAreLeftOut) {
    const TempFolder folder;
    const OpenOptions options{.path = folder / "a.db"};
    put_verdicts(options, std::vector{verdict("x"), verdict("y"), verdict("z")});
    {
        Connection connection({.path = folder / "a.db"});
        connection.run("UPDATE verdict SET device = '' WHERE problem = 'x'");
        connection.run("UPDATE verdict SET in_graphs = 1e300 WHERE problem = 'y'");
    }
    EXPECT_THAT(problems_of(read_verdicts(options, "")), ElementsAre("z"));
}

TEST(Verdicts, AreNoneWhereThereIsNoFileAndNoneIsMade) {
    const TempFolder folder;
    EXPECT_THAT(read_verdicts({.path = folder / "a.db", .read_only = true, .missing_is_empty = true}, ""), IsEmpty());
    EXPECT_FALSE(std::filesystem::exists(folder / "a.db"));
}

TEST(Verdicts, AreBounded) {
    const TempFolder folder;
    const OpenOptions options{.path = folder / "a.db"};
    put_verdicts(options, std::vector{verdict("old")});
    std::vector<Verdict> many;
    for (std::int64_t i = 0; i < kMostVerdicts; ++i) many.push_back(verdict(std::to_string(i)));
    put_verdicts(options, many);
    const auto found = read_verdicts(options, "");
    EXPECT_THAT(found, SizeIs(static_cast<std::size_t>(kMostVerdicts)));
    EXPECT_EQ(found.front().problem, "0");
}

TEST(Store, DescribesItself) {
    Store store = memory_store();
    store.put(sample_winner());
    EXPECT_THAT(store.describe(), HasSubstr("schema " + std::to_string(schema_version())));
    EXPECT_THAT(store.describe(), HasSubstr(" KiB"));
}

TEST(Store, ReadsTheSameDatabaseReadOnly) {
    const TempFolder folder;
    Store::open({.path = folder / "a.db"}).put(sample_winner());
    Store store = Store::open({.path = folder / "a.db", .read_only = true});
    EXPECT_THAT(store.find(sample_problem(), sample_device()), SizeIs(1));
    EXPECT_THAT(database_error_of([&] { store.put(sample_winner()); }), HasSubstr("cannot be written"));
}

}  // namespace
}  // namespace autotune::db
