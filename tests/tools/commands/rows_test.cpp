#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "db/sqlite/sqlite_handle.h"
#include "db/store/store.h"
#include "src/dispatch/rules/stored_winner.h"
#include "tests/support/embedded_catalogue.h"
#include "tests/tools/cli_bench.h"

namespace autotune::cli {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

const std::vector<std::string> kTune = {"--op", "hgemm", "--shape", "512x512x512"};

// The line of a tuned row with one text replaced.
std::string changed_line(CliBench& autotune, const std::string& from, const std::string& to) {
    autotune(kTune);
    std::string line = autotune({"export"}).out;
    const std::size_t at = line.find(from);
    if (at == std::string::npos) throw std::logic_error("the row has no " + from);
    return line.replace(at, from.size(), to);
}

TEST(Rows, EveryShippedOneIsUsableAndBelieved) {
    const Catalogue& catalogue = test::embedded_catalogue();
    TemplateIdentities identities(catalogue);
    db::Store store = db::Store::open({.path = ":memory:", .shipped = {AUTOTUNE_TEST_DATA "/../../db/winners"}});
    std::int64_t usable = 0;
    for (const db::Winner& row : store.list_shipped({})) {
        const RowJudgement judged = judge(identities, row);
        EXPECT_EQ(judged.verdict, RowJudgement::Verdict::take) << row.class_key << ": " << judged.why;
        EXPECT_EQ(judged.why, "") << row.class_key;
        ++usable;
    }
    EXPECT_GE(usable, 186);
}

TEST(Rows, OneOfImpossibleEvidenceIsRefusedAndCountedSo) {
    CliBench here, there;
    for (const auto& [from, to] : std::vector<std::pair<std::string, std::string>>{
             {"\"max_error\":0.5", "\"max_error\":5.0"}, {"\"median_us\":100.0", "\"median_us\":1e-6"}}) {
        const Said said = there({"import", there.file("rows.jsonl", changed_line(here, from, to)), "--json"});
        EXPECT_EQ(said.code, ExitCode::some_failed);
        EXPECT_EQ(said.json()["files"][0]["refused_for"]["impossible"], 1) << said.out << said.err;
        EXPECT_EQ(said.json()["files"][0]["refused_for"]["malformed"], 0);
    }
    EXPECT_EQ(there({"show", "--json"}).json()["total"], 0);
}

TEST(Rows, OneInDoubtAnswersNothingUntilVerifyHasRacedIt) {
    CliBench here, there;
    const std::string path = there.file("rows.jsonl", changed_line(here, "\"max_error\":0.5,", ""));
    EXPECT_THAT(there({"import", path}).out, AllOf(HasSubstr("1 added"), HasSubstr("1 of them are in doubt")));
    EXPECT_THAT(there({"show"}).out, HasSubstr("in doubt"));
    EXPECT_THAT(there({"explain", "--op", "hgemm", "--shape", "512x512x512"}).out,
                AllOf(HasSubstr("It is not used: its evidence is in doubt"), HasSubstr("autotune verify")));
    const Said only = there({"verify", "--database-only"});
    EXPECT_EQ(only.code, ExitCode::some_failed);
    EXPECT_THAT(only.out, HasSubstr("in doubt"));
    EXPECT_THAT(there({"verify"}).out, AllOf(HasSubstr("confirmed"), HasSubstr("it was in doubt")));
    EXPECT_EQ(there.services.races, 1);
    EXPECT_EQ(there({"verify", "--database-only"}).code, ExitCode::done);
    EXPECT_THAT(there({"show"}).out, Not(HasSubstr("in doubt")));
}

TEST(Rows, AParameterTooManyIsRefused) {
    CliBench here, there;
    const std::string path = there.file("rows.jsonl", changed_line(here, "\"config\":{", "\"config\":{\"extra\":1,"));
    const Said said = there({"import", path, "--json"});
    EXPECT_EQ(said.json()["files"][0]["refused_for"]["unusable"], 1) << said.out;
}

TEST(Rows, AMergeSaysWhyItRefused) {
    CliBench here, there;
    here(kTune);
    const std::string path = here.folder + "/.local/share/autotune/autotune.db";
    {
        db::Store store = db::Store::open({.path = path});
        db::Winner row = store.list({}).at(0);
        row.extents[0].value = 256;
        row.evidence.max_error = 7;
        store.put(row);
        row.extents[0].value = 128;
        row.template_identity = "0123456789abcdef";
        row.evidence.max_error = 0.5;
        store.put(row);
    }
    EXPECT_THAT(there({"merge", path}).out, AllOf(HasSubstr("1 added"), HasSubstr("2 refused (1 unusable, 1 impossible)")));
}

TEST(Rows, AFolderIsNoFileToImport) {
    CliBench autotune;
    const Said said = autotune({"import", autotune.folder});
    EXPECT_NE(said.code, ExitCode::done);
    EXPECT_THAT(said.err, AllOf(HasSubstr(autotune.folder), HasSubstr("irectory"), Not(HasSubstr("internal"))));
}

TEST(Rows, MoreThanAPageAreShownWholeInEveryForm) {
    CliBench autotune;
    autotune(kTune);
    {
        db::Store store = db::Store::open({.path = autotune.folder + "/.local/share/autotune/autotune.db"});
        const db::Winner row = store.list({}).at(0);
        std::vector<db::Winner> rows;
        for (std::int64_t m = 1; m <= 1100; ++m) {
            rows.push_back(row);
            rows.back().extents[0].value = 1000 + m;
        }
        store.put_all(rows);
    }
    const auto json = autotune({"show", "--json", "--limit", "0"}).json();
    EXPECT_EQ(json["total"], 1101);
    EXPECT_EQ(json["shown"], 1101);
    EXPECT_EQ(json["winners"].size(), 1101U);
    EXPECT_EQ(autotune({"show", "--json", "--limit", "7"}).json()["winners"].size(), 7U);
    const auto count_of = [](const std::string& text, const std::string& part) {
        std::size_t count = 0;
        for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
        return count;
    };
    EXPECT_EQ(count_of(autotune({"show", "--limit", "0"}).out, "x512x512 "), 1101U);
    EXPECT_EQ(count_of(autotune({"show", "--limit", "0", "--csv"}).out, "\n"), 1102U);
    EXPECT_THAT(autotune({"show", "--limit", "1050"}).out, HasSubstr("... and 51 more"));
}

TEST(Doctor, OffersToRepairWhatAnotherProgramDeleted) {
    CliBench autotune;
    autotune(kTune);
    const std::string path = autotune.folder + "/.local/share/autotune/autotune.db";
    // Other programs leave foreign keys off.
    db::Connection({.path = path}).run("PRAGMA foreign_keys = OFF; DELETE FROM template");
    EXPECT_THAT(autotune({"doctor"}).out,
                AllOf(HasSubstr("rows that are passed over: 1 ("), HasSubstr("autotune doctor --repair")));
    EXPECT_THAT(autotune({"doctor", "--repair"}).err,
                HasSubstr("are deleted; what it was before is in " + path + ".repair.backup"));
    EXPECT_THAT(autotune({"doctor"}).out, Not(HasSubstr("passed over")));
    EXPECT_EQ(autotune(kTune).code, ExitCode::done);
}

}  // namespace
}  // namespace autotune::cli
