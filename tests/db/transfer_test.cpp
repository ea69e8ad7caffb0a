#include "db/text/transfer.h"

#include <gmock/gmock.h>

#include <sstream>

#include "db/text/merge.h"
#include "tests/db/sample.h"

namespace autotune::db {
namespace {

using namespace test;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;
using ::testing::SizeIs;

Winner winner_of(std::int64_t m, double median_us) {
    return sample_winner(sample_problem(m), median_us);
}

std::string lines_of(const std::vector<Winner>& winners) {
    std::string lines;
    for (const Winner& winner : winners) lines += records::to_json_line(winner) + "\n";
    return lines;
}

TakeReport import_text(Store& store, const std::string& text, const TakeOptions& options = {}) {
    std::istringstream in(text);
    return import_lines(store, in, options);
}

double median_of(const Store& store, std::int64_t m) {
    return store.find(sample_problem(m), sample_device()).at(0).timing.median_us;
}

TEST(Transfer, ExportsWhatItImports) {
    Store store = memory_store();
    const std::string lines = lines_of({winner_of(1, 10), winner_of(2, 20), winner_of(3, 30)});
    EXPECT_EQ(import_text(store, lines).added, 3);
    std::ostringstream out;
    EXPECT_EQ(export_lines(store, {}, out), 3);
    EXPECT_EQ(out.str(), lines);
}

TEST(Transfer, ExportsWhatMatchesAlone) {
    Store store = memory_store();
    store.put(winner_of(1, 10));
    store.put(winner_of(2, 10));
    std::ostringstream out;
    EXPECT_EQ(export_lines(store, {.extents = sample_problem(2).extents}, out), 1);
}

TEST(Transfer, SaysThatTheTargetOfAnExportFails) {
    Store store = memory_store();
    store.put(winner_of(1, 10));
    std::ofstream full("/dev/full");
    EXPECT_THAT(database_error_of([&] { export_lines(store, {}, full); }), HasSubstr("free space"));
}

TEST(Transfer, GoesOnAfterABadLineAndCountsIt) {
    Store store = memory_store();
    const TakeReport report =
        import_text(store, "garbage\n\n" + lines_of({winner_of(1, 10)}) + std::string(3 << 20, 'x') + "\n{}");
    EXPECT_EQ(report.added, 1);
    EXPECT_EQ(report.refused, 3);
    EXPECT_THAT(report.refusals,
                ElementsAre(HasSubstr("line 1: "), AllOf(HasSubstr("line 4: "), HasSubstr("1 MiB")), HasSubstr("line 5: ")));
}

TEST(Transfer, TakesAFileThatBeginsWithAMark) {
    Store store = memory_store();
    std::istringstream lines("\xEF\xBB\xBF" + records::to_json_line(sample_winner()) + "\n");
    EXPECT_EQ(import_lines(store, lines, {}).added, 1);
}

TEST(Transfer, AsksTheCallerAboutEveryRow) {
    Store store = memory_store();
    const TakeOptions options{.check = [](const Winner& winner) -> RowVerdict {
        if (winner.extents[0].value == 2) return {Refusal::unusable, "block_m = 128 is not in the space"};
        return {std::nullopt, winner.extents[0].value == 3 ? "it is too fast" : ""};
    }};
    const TakeReport report = import_text(store, lines_of({winner_of(1, 10), winner_of(2, 20), winner_of(3, 30)}), options);
    EXPECT_EQ(report.added, 2);
    EXPECT_EQ(report.doubted, 1);
    EXPECT_THAT(report.refusals, ElementsAre("line 2: block_m = 128 is not in the space"));
    EXPECT_THAT(report.refused_for, ElementsAre(Pair(Refusal::unusable, 1)));
    EXPECT_EQ(store.find(sample_problem(1), sample_device()).at(0).doubt, "");
    EXPECT_EQ(store.find(sample_problem(3), sample_device()).at(0).doubt, "it is too fast");
    std::ostringstream out;
    export_lines(store, {}, out);
    EXPECT_THAT(out.str(), HasSubstr("\"doubt\":\"it is too fast\""));  // it travels on
}

TEST(Transfer, RefusesEvidenceThatCannotBeTrue) {
    Store store = memory_store();
    const auto with = [](const std::function<void(Winner&)>& change) {
        Winner winner = winner_of(1, 10);
        change(winner);
        return winner;
    };
    const TakeReport report = import_text(
        store, lines_of({with([](Winner& row) { row.evidence.max_error = 5; }), with([](Winner& row) { row.timing.low_us = 11; }),
                         with([](Winner& row) { row.timing.high_us = 9; }), with([](Winner& row) { row.timing.min_us = 10.5; }),
                         with([](Winner& row) { row.evidence.finalists[1].timing.low_us = 1e6; }),
                         with([](Winner& row) { row.provenance.date = "9999-01-01T00:00:00Z"; }),
                         with([](Winner& row) { row.provenance.date = "yesterday"; })}));
    EXPECT_THAT(report.refused_for, ElementsAre(Pair(Refusal::impossible, 7)));
    EXPECT_THAT(report.refusals,
                ElementsAre(HasSubstr("max_error is 5"), HasSubstr("outside its interval"), HasSubstr("outside its interval"),
                            HasSubstr("outside its interval"), HasSubstr("a finalist's median"), HasSubstr("in the future"),
                            HasSubstr("not of the form")));
    EXPECT_EQ(store.count({}), 0);
}

TEST(Transfer, ARowInDoubtReplacesNoneThatIsBelieved) {
    Store store = memory_store();
    store.put(winner_of(1, 10));
    Winner doubted = winner_of(1, 1);
    doubted.doubt = "it is too fast";
    EXPECT_EQ(import_text(store, lines_of({doubted})).kept, 1);
    EXPECT_EQ(median_of(store, 1), 10);
    store.put(doubted);
    EXPECT_EQ(import_text(store, lines_of({winner_of(1, 10)})).replaced, 1);
    EXPECT_EQ(median_of(store, 1), 10);
}

// /dev/zero is a line without an end.
TEST(Transfer, EndsAtALineWithoutEndAndKeepsWhatCameBefore) {
    Store store = memory_store();
    const TakeReport report = import_text(store, lines_of({winner_of(1, 10)}) + std::string(kMostLineBytes + 2, '\0'));
    EXPECT_EQ(report.added, 1);
    EXPECT_THAT(report.refusals, ElementsAre(AllOf(HasSubstr("line 2: "), HasSubstr("16 MiB"))));
    EXPECT_EQ(store.count({}), 1);
    std::ifstream zeros("/dev/zero");
    EXPECT_EQ(import_lines(store, zeros, {}).refused, 1);
}

TEST(Transfer, SaysWhyAStreamCannotBeRead) {
    Store store = memory_store();
    std::ifstream folder("/tmp");
    EXPECT_THAT(import_lines(store, folder, {}).refusals, ElementsAre(HasSubstr("Is a directory")));
}

TEST(Transfer, StopsBetweenLinesWhenItIsAsked) {
    Store store = memory_store();
    int asked = 0;
    const TakeReport report = import_text(store, lines_of({winner_of(1, 1), winner_of(2, 1), winner_of(3, 1)}),
                                          {.stopped = [&] { return ++asked > 2; }});
    EXPECT_TRUE(report.stopped);
    EXPECT_EQ(report.added, 2);
    EXPECT_EQ(store.count({}), 2);
}

TEST(Transfer, KeepsTheFasterOfOneToolchain) {
    Store store = memory_store();
    store.put(winner_of(1, 10));
    EXPECT_EQ(import_text(store, lines_of({winner_of(1, 11)})).kept, 1);
    EXPECT_EQ(median_of(store, 1), 10);
    EXPECT_EQ(import_text(store, lines_of({winner_of(1, 9)})).replaced, 1);
    EXPECT_EQ(median_of(store, 1), 9);
}

TEST(Transfer, KeepsTheNewerOfTwoToolchains) {
    Store store = memory_store();
    store.put(winner_of(1, 10));
    Winner newer = winner_of(1, 12);
    newer.provenance.nvrtc = "13.1";
    newer.provenance.date = "2026-11-22T00:00:00Z";
    EXPECT_EQ(import_text(store, lines_of({newer})).replaced, 1);
    Winner older = winner_of(1, 5);
    older.provenance.nvrtc = "12.4";
    older.provenance.date = "2025-01-01T00:00:00Z";
    EXPECT_EQ(import_text(store, lines_of({older})).kept, 1);
    EXPECT_EQ(median_of(store, 1), 12);
}

TEST(Transfer, ComparesRowsOfOneImportWithEachOther) {
    Store store = memory_store();
    import_text(store, lines_of({winner_of(1, 10), winner_of(1, 8), winner_of(1, 9)}));
    EXPECT_EQ(median_of(store, 1), 8);
}

TEST(Transfer, WritesNothingInADryRun) {
    Store store = memory_store();
    EXPECT_EQ(import_text(store, lines_of({winner_of(1, 10)}), {.dry_run = true}).added, 1);
    EXPECT_EQ(store.count({}), 0);
}

TEST(Merge, TakesTheRowsOfAnotherFileAndItsEvidence) {
    const TempFolder folder;
    Store::open({.path = folder / "other.db"}).put_all(std::vector{winner_of(1, 10), winner_of(2, 20)});
    Store store = memory_store();
    store.put(winner_of(2, 15));
    const TakeReport report = merge(store, folder / "other.db", {});
    EXPECT_EQ(report.added, 1);
    EXPECT_EQ(report.kept, 1);
    EXPECT_THAT(store.find(sample_problem(1), sample_device()).at(0).evidence.finalists, SizeIs(2));
    EXPECT_EQ(median_of(store, 2), 15);
}

TEST(Merge, LeavesTheOtherFileAsItWas) {
    const TempFolder folder;
    Store::open({.path = folder / "other.db"}).put(winner_of(1, 10));
    const std::string before = read_file(folder / "other.db");
    Store store = memory_store();
    merge(store, folder / "other.db", {});
    EXPECT_TRUE(read_file(folder / "other.db") == before);
}

TEST(Merge, WithItselfChangesNothing) {
    const TempFolder folder;
    Store store = Store::open({.path = folder / "a.db"});
    store.put(winner_of(1, 10));
    EXPECT_EQ(merge(store, folder / "a.db", {}).kept, 1);
}

TEST(Merge, RefusesADamagedFile) {
    const TempFolder folder;
    Store store = memory_store();
    write_file(folder / "bad.db", std::string(8192, 'x'));
    EXPECT_THAT(database_error_of([&] { merge(store, folder / "bad.db", {}); }), HasSubstr("not an SQLite database"));
    EXPECT_THAT(database_error_of([&] { merge(store, folder / "none.db", {}); }), HasSubstr("does not exist"));
}

}  // namespace
}  // namespace autotune::db
