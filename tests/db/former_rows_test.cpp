#include "db/store/former_rows.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <functional>
#include <sstream>
#include <thread>

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

// The samples' identity is a former one, and `stages` was renamed to `depth`.
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

// A file with two winners and a trial of an earlier version, and a winner of an unknown template.
void make_former_file(const std::string& path) {
    Store store = Store::open({.path = path});
    store.put_all(std::vector{former_winner(), former_winner(1), unknown_winner(2)});
    store.record(sample_problem(), sample_device(), former_trial());
    store.record_misses(std::vector<Miss>{{sample_problem(3), sample_device(), "near", 2}});
}

void expect_present(const Winner& winner) {
    EXPECT_EQ(winner.template_identity, kPresent);
    EXPECT_EQ(winner.candidate.config, kPresentConfig);
    // The names have the order in which a search writes them.
    EXPECT_EQ(winner.restricted_to, "family=gemm/mma depth=3 evict=1");
    ASSERT_THAT(winner.evidence.finalists, SizeIs(2));
    EXPECT_EQ(winner.evidence.finalists[0].name, "gemm/mma block_m=128 block_n=256 depth=3");
    EXPECT_EQ(winner.evidence.finalists[0].candidate->config, kPresentConfig);
    EXPECT_EQ(winner.evidence.finalists[1].name, "cublas stages=3");  // no kernel of ours
}

// Expects that the row is stale. Reading keeps its identity and the restriction of its search, but gives its config today's
// names, because a later search starts from that config.
void expect_stale(const Winner& winner) {
    EXPECT_EQ(winner.template_identity, "00000000deadbeef");
    EXPECT_EQ(winner.candidate.config, kPresentConfig);
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
    expect_stale(store.find(sample_problem(2), sample_device()).at(0));
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
    {
        const Store plain = Store::open({.path = path, .read_only = true});  // The file is read without renaming.
        expect_present(plain.find(sample_problem(), sample_device()).at(0));
        EXPECT_EQ(plain.find(sample_problem(2), sample_device()).at(0).candidate, sample_candidate());
    }
    const Store backup = Store::open({.path = path + ".templates.backup", .read_only = true});
    EXPECT_EQ(backup.find(sample_problem(), sample_device()).at(0).candidate, sample_candidate());
    EXPECT_FALSE(std::filesystem::exists(path + ".templates.backup2"));
}

// The rewritten row has the key that a tune of today uses, so the tune replaces the row.
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

Winner with_median(Winner winner, double us) {
    winner.timing.min_us = winner.timing.low_us = winner.timing.median_us = winner.timing.high_us = us;
    return winner;
}

Winner of_today(Winner winner) {
    bring_up_to_date(winner, sample_names());
    return winner;
}

// Two builds with one folder wrote to one file: of two winners of one problem the better one stays, by the rule of import.
TEST(FormerRows, BesideWinnersOfTodayLeaveTheBetterOfTwo) {
    struct Case {
        const char* what;
        std::function<void(Winner& former, Winner& today)> change;
        bool former_stays;
    };
    const std::vector<Case> cases = {
        {"the faster one", [](Winner& former, Winner&) { former = with_median(former, 20); }, true},
        {"the faster one", [](Winner&, Winner& today) { today = with_median(today, 20); }, false},
        {"the newer one of another driver",
         [](Winner& former, Winner& today) {
             former.provenance.driver = "999.1", former.provenance.date = "2026-11-28T12:00:00Z";
             today = with_median(today, 20), today.provenance.date = "2026-11-27T12:00:00Z";
         },
         true},
        {"the believed one",
         [](Winner& former, Winner& today) { today = with_median(today, 20), today.doubt = "too fast", (void)former; }, true},
        {"the believed one",
         [](Winner& former, Winner& today) { former = with_median(former, 20), former.doubt = "too fast", (void)today; }, false},
    };
    for (const Case& each : cases) {
        const TempFolder folder;
        const std::string path = folder / "old.db";
        Winner former = with_median(former_winner(), 50), today = with_median(former_winner(), 50);
        each.change(former, today);
        former.provenance.tool_version = "former";
        today.provenance.tool_version = "today";
        Store::open({.path = path}).put_all(std::vector{former, of_today(today)});
        const Store store = Store::open({.path = path, .former = sample_names()});
        EXPECT_THAT(
            texts_of(store.warnings()),
            ElementsAre("database " + path +
                        " has 1 winners and 0 trials of an earlier version, whose kernels are the same today; they are kept "
                        "under today's names; 1 problems had a winner of each version, and the better one was kept; what "
                        "the file was before is in " +
                        path + ".templates.backup"));
        const auto found = store.find(sample_problem(), sample_device());
        ASSERT_THAT(found, SizeIs(1)) << each.what;
        EXPECT_EQ(found[0].provenance.tool_version, each.former_stays ? "former" : "today") << each.what;
        expect_present(found[0]);
        EXPECT_TRUE(store.check().is_sound());
    }
}

TEST(FormerRows, BesideTrialsOfTodayLeaveTheLaterOfTwo) {
    for (const bool former_is_later : {true, false}) {
        const TempFolder folder;
        const std::string path = folder / "old.db";
        StoredTrial former = former_trial(), today = former_trial();
        bring_up_to_date(today, sample_names());
        former.trial.detail = "former";
        today.trial.detail = "today";
        {
            Store store = Store::open({.path = path});
            store.record(sample_problem(), sample_device(), former);
            store.record(sample_problem(), sample_device(), today);
        }
        Connection({.path = path})
            .run(former_is_later ? "UPDATE trial SET date = '2026-01-01T00:00:00Z' WHERE detail = 'today'"
                                 : "UPDATE trial SET date = '2026-01-01T00:00:00Z' WHERE detail = 'former'");
        const Store store = Store::open({.path = path, .former = sample_names()});
        const auto trials = store.trials(sample_problem(), sample_device());
        ASSERT_THAT(trials, SizeIs(1));
        EXPECT_EQ(trials[0].trial.detail, former_is_later ? "former" : "today");
        EXPECT_EQ(trials[0].template_identity, kPresent);
    }
}

std::vector<std::string> files_of(const std::string& folder) {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(folder)) names.push_back(entry.path().filename().string());
    std::sort(names.begin(), names.end());
    return names;
}

// Another process has the lock and rewrites the rows while this one waits.
TEST(FormerRows, AreRewrittenByOneOfTwoOpeners) {
    const TempFolder folder;
    const std::string path = folder / "old.db";
    make_former_file(path);
    Connection other({.path = path});
    other.run("BEGIN IMMEDIATE");
    std::thread first([&] {
        std::this_thread::sleep_for(std::chrono::milliseconds(300));
        update_former_rows(other, sample_names());
        other.run("COMMIT");
    });
    const Store store = Store::open({.path = path, .former = sample_names()});
    first.join();
    EXPECT_THAT(store.warnings(), IsEmpty());
    expect_present(store);
    EXPECT_THAT(files_of(folder.path()), ElementsAre("old.db"));
}

// Two builds use one file in turn. There is one backup, of the state before the last rewriting.
TEST(FormerRows, OfBuildsThatAlternateLeaveOneBackup) {
    const TempFolder folder;
    const std::string path = folder / "old.db";
    for (const std::int64_t m : {4096, 1, 8}) {
        Store::open({.path = path}).put(former_winner(m));
        EXPECT_THAT(Store::open({.path = path, .former = sample_names()}).warnings(), SizeIs(1));
    }
    EXPECT_THAT(files_of(folder.path()), ElementsAre("old.db", "old.db.templates.backup"));
    const Store backup = Store::open({.path = path + ".templates.backup", .read_only = true});
    EXPECT_EQ(backup.find(sample_problem(1), sample_device()).at(0).candidate.config, kPresentConfig);
    EXPECT_EQ(backup.find(sample_problem(8), sample_device()).at(0).candidate, sample_candidate());
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
