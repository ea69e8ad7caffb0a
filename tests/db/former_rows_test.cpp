#include "db/store/former_rows.h"

#include <gmock/gmock.h>

#include <sstream>

#include "db/sqlite/schema.h"
#include "db/text/merge.h"
#include "tests/db/sample.h"

namespace autotune::db {
namespace {

using namespace test;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

// The samples' identity is a former one, and `stages` is `depth` today.
FormerTemplates sample_names() {
    return {.present_identity = [](const std::string& family, const std::string& identity) -> std::optional<std::string> {
                if (family == "gemm/mma" && identity == "3f2a00ff") return "a0da70day0000000";
                return std::nullopt;
            },
            .present_parameter = [](const std::string& family, const std::string& parameter) -> std::string {
                return family == "gemm/mma" && parameter == "stages" ? "depth" : parameter;
            }};
}

const std::string kPresent = "a0da70day0000000";
const Config kPresentConfig = {{"block_m", 128}, {"block_n", 256}, {"depth", 3}};

Winner former_winner(std::int64_t m = 4096) {
    Winner winner = sample_winner(sample_problem(m));
    winner.restricted_to = "family=gemm/mma evict=1 stages=3";
    winner.evidence.finalists = {
        {.name = "gemm/mma " + winner.candidate.config.to_string(),
         .candidate = winner.candidate,
         .timing = winner.timing,
         .ratio = 1,
         .ratio_low = 1,
         .ratio_high = 1},
        {.name = "cublas stages=3", .timing = winner.timing, .ratio = 1, .ratio_low = 1, .ratio_high = 1}};
    return winner;
}

Winner unknown_winner(std::int64_t m = 4096) {
    Winner winner = former_winner(m);
    winner.template_identity = "00000000deadbeef";
    return winner;
}

StoredTrial former_trial() {
    StoredTrial trial;
    trial.trial.candidate = sample_candidate();
    trial.trial.status = TrialStatus::crashed;
    trial.template_identity = "3f2a00ff";
    trial.nvrtc = "13.0";
    return trial;
}

// A file with two winners and a trial of an earlier version, and a winner of a template that is not known.
void make_former_file(const std::string& path) {
    Store store = Store::open({.path = path});
    store.put_all(std::vector{former_winner(), former_winner(1), unknown_winner(2)});
    store.record(sample_problem(), sample_device(), former_trial());
    store.record_misses(std::vector<Miss>{{sample_problem(3), sample_device(), "near", 2}});
}

void expect_present(const Winner& winner) {
    EXPECT_EQ(winner.template_identity, kPresent);
    EXPECT_EQ(winner.candidate.config, kPresentConfig);
    EXPECT_EQ(winner.restricted_to, "family=gemm/mma depth=3 evict=1");  // in the order that a search writes
    ASSERT_THAT(winner.evidence.finalists, SizeIs(2));
    EXPECT_EQ(winner.evidence.finalists[0].name, "gemm/mma block_m=128 block_n=256 depth=3");
    EXPECT_EQ(winner.evidence.finalists[0].candidate->config, kPresentConfig);
    EXPECT_EQ(winner.evidence.finalists[1].name, "cublas stages=3");  // no kernel of ours
}

void expect_as_stored(const Winner& winner) {
    EXPECT_EQ(winner.template_identity, "00000000deadbeef");
    EXPECT_EQ(winner.candidate, sample_candidate());
    EXPECT_EQ(winner.restricted_to, "family=gemm/mma evict=1 stages=3");
}

void expect_present(const Store& store) {
    const auto found = store.find(sample_problem(), sample_device());
    ASSERT_THAT(found, SizeIs(1));
    expect_present(found[0]);
    const auto trials = store.trials(sample_problem(), sample_device());
    ASSERT_THAT(trials, SizeIs(1));
    EXPECT_EQ(trials[0].template_identity, kPresent);
    EXPECT_EQ(trials[0].trial.candidate.config, kPresentConfig);
    for (const Winner& near : store.near(sample_problem(5), sample_device(), 10))
        EXPECT_EQ(near.template_identity, near.extents == sample_problem(2).extents ? "00000000deadbeef" : kPresent);
    EXPECT_THAT(store.list({}), SizeIs(3));
    EXPECT_THAT(store.misses(), SizeIs(1));
    expect_as_stored(store.find(sample_problem(2), sample_device()).at(0));
}

TEST(FormerRows, AreReadAsTodaysWhereTheFileIsNotWritten) {
    const TempFolder folder;
    make_former_file(folder / "old.db");
    const std::string before = read_file(folder / "old.db");
    {
        const Store store = Store::open({.path = folder / "old.db", .read_only = true, .former = sample_names()});
        expect_present(store);
        EXPECT_THAT(store.warnings(), IsEmpty());
    }
    EXPECT_TRUE(read_file(folder / "old.db") == before);
}

TEST(FormerRows, AreRewrittenOnceWithABackup) {
    const TempFolder folder;
    const std::string path = folder / "old.db";
    make_former_file(path);
    {
        const Store store = Store::open({.path = path, .former = sample_names()});
        EXPECT_THAT(
            texts_of(store.warnings()),
            ElementsAre("database " + path +
                        " has 2 winners and 1 trials of an earlier version, whose kernels are the same today; they are kept "
                        "under today's names; what the file was before is in " +
                        path + ".templates.backup"));
        expect_present(store);
        EXPECT_TRUE(store.check().is_sound());
    }
    {
        const Store again = Store::open({.path = path, .former = sample_names()});
        EXPECT_THAT(again.warnings(), IsEmpty());
    }
    expect_present(Store::open({.path = path, .read_only = true}));  // what stands in the file, without any map
    const Store backup = Store::open({.path = path + ".templates.backup", .read_only = true});
    EXPECT_EQ(backup.find(sample_problem(), sample_device()).at(0).candidate, sample_candidate());
    EXPECT_FALSE(std::filesystem::exists(path + ".templates.backup2"));
}

// The key of the rewritten row is that of a tune of today: it replaces the row and does not stand beside it.
TEST(FormerRows, GiveWayToATuneOfToday) {
    const TempFolder folder;
    make_former_file(folder / "old.db");
    Store store = Store::open({.path = folder / "old.db", .former = sample_names()});
    Winner today = store.find(sample_problem(), sample_device()).at(0);
    today.timing.min_us = today.timing.low_us = today.timing.median_us = today.timing.high_us = 50;
    store.put(today);
    const auto found = store.find(sample_problem(), sample_device());
    ASSERT_THAT(found, SizeIs(1));
    EXPECT_EQ(found[0].timing.median_us, 50);
}

TEST(FormerRows, ThatWereTunedAgainGoWithTheirTrials) {
    const TempFolder folder;
    const std::string path = folder / "old.db";
    make_former_file(path);
    Winner today = former_winner();
    bring_up_to_date(today, sample_names());
    StoredTrial trial = former_trial();
    bring_up_to_date(trial, sample_names());
    {
        Store store = Store::open({.path = path});
        store.put(today);
        store.record(sample_problem(), sample_device(), trial);
    }
    const Store store = Store::open({.path = path, .former = sample_names()});
    EXPECT_THAT(texts_of(store.warnings()),
                ElementsAre(HasSubstr("under today's names, but for 1 winners that were tuned again since; what the file was")));
    expect_present(store);
    EXPECT_TRUE(store.check().is_sound());
}

TEST(FormerRows, OfAFileThatIsLockedAreReadAsTodays) {
    const TempFolder folder;
    const std::string path = folder / "old.db";
    make_former_file(path);
    Connection other({.path = path});
    other.run("BEGIN IMMEDIATE");
    const Store store = Store::open({.path = path, .busy_timeout_ms = 1, .former = sample_names()});
    ASSERT_THAT(store.warnings(), SizeIs(1));
    EXPECT_THAT(store.warnings()[0].text,
                ::testing::StartsWith("database " + path +
                                      " has rows of an earlier version. They are used, but could not be rewritten: "));
    EXPECT_THAT(store.warnings()[0].text, ::testing::EndsWith(". The next command tries again"));
    EXPECT_EQ(store.find(sample_problem(), sample_device()).at(0).template_identity, kPresent);
    EXPECT_FALSE(std::filesystem::exists(path + ".templates.backup"));
}

TEST(FormerRows, AreTakenAsTodaysByImportAndMerge) {
    const TempFolder folder;
    make_former_file(folder / "old.db");
    const TakeOptions options{.former = sample_names(), .check = [](const Winner& winner) -> RowVerdict {
                                  if (winner.template_identity == kPresent) return {};
                                  return {Refusal::unusable, "it was tuned with another version of gemm/mma"};
                              }};
    std::istringstream lines(records::to_json_line(former_winner()) + "\n" + records::to_json_line(unknown_winner()) + "\n");
    Store imported = memory_store();
    const TakeReport of_lines = import_lines(imported, lines, options);
    EXPECT_EQ(of_lines.added, 1);
    EXPECT_THAT(of_lines.refusals, ElementsAre("line 2: it was tuned with another version of gemm/mma"));
    expect_present(imported.find(sample_problem(), sample_device()).at(0));
    Store merged = memory_store();
    const TakeReport of_rows = merge(merged, folder / "old.db", options);
    EXPECT_EQ(of_rows.added, 2);
    EXPECT_EQ(of_rows.refused, 1);
    expect_present(merged.find(sample_problem(), sample_device()).at(0));
}

TEST(FormerRows, OfShippedLinesAndPortfoliosAreReadAsTodays) {
    const TempFolder folder;
    write_file(folder / "gemm.jsonl", records::to_json_line(former_winner()) + "\n");
    const Store store = Store::open({.path = ":memory:", .shipped = {folder.path()}, .former = sample_names()});
    expect_present(store.find(sample_problem(), sample_device()).at(0));

    Portfolio portfolio{.op = "gemm", .arch = "sm_90a", .class_key = sample_problem().class_key()};
    portfolio.candidates = {sample_candidate(), {"gemm/simt", {{"stages", 2}}}};
    portfolio.templates = {{"gemm/mma", "3f2a00ff"}, {"gemm/simt", "3f2a00ff"}};
    write_file(folder / "portfolios", to_json_line(portfolio) + "\n");
    const auto fail = [](const std::string& text) { ADD_FAILURE() << text; };
    const auto read = read_portfolios(folder / "portfolios", fail, sample_names());
    ASSERT_THAT(read, SizeIs(1));
    EXPECT_EQ(read[0].templates.at("gemm/mma"), kPresent);
    EXPECT_EQ(read[0].templates.at("gemm/simt"), "3f2a00ff");
    EXPECT_EQ(read[0].candidates[0].config, kPresentConfig);
    EXPECT_EQ(read[0].candidates[1].config, Config({{"stages", 2}}));
}

}  // namespace
}  // namespace autotune::db
