// Rows that no version can use, inputs that cannot be read, and flags that have no effect: each command reports them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "db/winner_store.h"
#include "src/records/json_line.h"
#include "tests/tools/cli_bench.h"

namespace autotune::cli::rows_read_test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

const std::vector<std::string> kTune = {"tune", "--op", "hgemm", "--shape", "512x512x512"};

std::vector<std::string> with(std::vector<std::string> words, const std::vector<std::string>& more) {
    words.insert(words.end(), more.begin(), more.end());
    return words;
}

std::vector<std::string> explain(const std::vector<std::string>& more = {}) {
    return with({"explain", "--op", "hgemm", "--shape", "512x512x512"}, more);
}

// A test bench whose one winner was changed in the database.
class ReadRows : public ::testing::Test {
  protected:
    ReadRows() {
        autotune_(kTune);
        const std::string text = autotune_({"export"}).out;
        row_ = records::from_json_line(text.substr(0, text.find('\n')));
        autotune_.variables["AUTOTUNE_DB"] = path_;
    }
    void put(const db::Winner& winner) { db::open_store({.path = path_})->put(winner); }

    CliBench autotune_;
    std::string path_ = autotune_.folder + "/other.db";
    db::Winner row_;
};

TEST_F(ReadRows, OneOutsideItsDomainIsNotExportedAndMarkedEverywhere) {
    db::Winner sound = row_;
    sound.extents[0].value = 1024;
    put(sound);
    row_.candidate.config.set("block_m", 0);
    put(row_);
    const Said exported = autotune_({"export"});
    EXPECT_EQ(exported.code, ExitCode::some_failed);
    EXPECT_EQ(std::count(exported.out.begin(), exported.out.end(), '\n'), 1);
    EXPECT_THAT(exported.err, HasSubstr("warning: left out: " + row_.class_key + " 512x512x512 on " + row_.device.key() + ", " +
                                        row_.candidate.to_string() + ": "));
    EXPECT_THAT(exported.err, HasSubstr("autotune: 1 winner is not exported, because `autotune import` refuses it; a tune of its "
                                        "problem replaces it\n"));
    const auto json = autotune_({"export", "--json"}).json();
    EXPECT_EQ(json["written"], 1);
    EXPECT_EQ(json["left_out"], 1);
    CliBench there;
    EXPECT_EQ(there({"import", there.file("rows.jsonl", exported.out)}).code, ExitCode::done);

    EXPECT_THAT(autotune_({"show", "--full"}).out, HasSubstr("tuned, not used: "));
    const auto shown = autotune_({"show", "--json"}).json()["winners"];
    int marked = 0;
    for (const auto& winner : shown) marked += winner["why_not"].is_null() ? 0 : 1;
    EXPECT_EQ(marked, 1);
    EXPECT_THAT(autotune_(explain()).out, HasSubstr("The stored winner is not used: "));
    EXPECT_EQ(autotune_({"verify", "--database-only"}).code, ExitCode::some_failed);
    EXPECT_EQ(there({"merge", path_}).code, ExitCode::some_failed);
    autotune_.services.has_driver = false;
    EXPECT_THAT(autotune_(kTune).out, HasSubstr("no winner on record"));
}

TEST_F(ReadRows, OnesOfAnotherVersionAreExportedWithAWord) {
    row_.template_identity = "0123456789abcdef";
    put(row_);
    const Said exported = autotune_({"export"});
    EXPECT_EQ(exported.code, ExitCode::done);
    EXPECT_EQ(exported.err,
              "warning: 1 of the exported winners was tuned with another version of its family: only an autotune that has that "
              "version takes it\n");
    EXPECT_THAT(autotune_({"show", "--full"}).out, HasSubstr("tuned for another version of this kernel"));
}

TEST_F(ReadRows, AnExportOfNothingSaysSo) {
    EXPECT_THAT(autotune_({"export"}).err, HasSubstr("warning: nothing is exported: no winner in " + path_));
    const std::string folder = autotune_.folder + "/winners";
    std::filesystem::create_directories(folder);
    row_.shipped = true;
    std::ofstream(folder + "/rows.jsonl") << records::to_json_line(row_) << "\n";
    autotune_.variables["AUTOTUNE_SHIPPED"] = folder;
    EXPECT_THAT(
        autotune_({"export"}).err,
        HasSubstr("nothing is exported: no winner in " + path_ +
                  ". 1 shipped winner is known beside it; they are lines of this form already, in " + folder + "/*.jsonl"));
}

TEST_F(ReadRows, ExplainWithoutAGpuHeadsTheRowsOwnCard) {
    row_.device.memory_gib = 96;
    row_.device.name = "NVIDIA GH200";
    put(row_);
    const std::string difference =
        "memory 96 GiB, here " + std::to_string(reference_device("sm_90a")->identity.memory_gib) + " GiB";
    EXPECT_THAT(autotune_(explain({"--full"})).out, HasSubstr(difference));
    EXPECT_EQ(autotune_(explain({"--json"})).json()["other_cards"][0]["differs"], difference);
    const auto named = autotune_(explain({"--device-key", row_.device.key(), "--json"})).json();
    EXPECT_EQ(named["device"]["key"], row_.device.key());
    EXPECT_FALSE(named["winner"].is_null());
    autotune_.services.has_driver = false;
    EXPECT_EQ(autotune_(explain({"--json"})).json()["device"]["key"], row_.device.key());
    EXPECT_THAT(autotune_(explain({"--device-key", "cc9.0-sm1"})).err, HasSubstr("no winner is of a device 'cc9.0-sm1'"));
    EXPECT_THAT(autotune_(explain({"--device-key", row_.device.key(), "--arch", "sm_80"})).err,
                HasSubstr("--arch and --device-key exclude each other; give one of them"));
}

TEST_F(ReadRows, ExplainTellsOfAPortfolioThatCannotBeRead) {
    const std::string shipped = autotune_.folder + "/winners";
    std::filesystem::create_directories(shipped + "/portfolio/portfolios.jsonl");
    autotune_.variables["AUTOTUNE_SHIPPED"] = shipped;
    EXPECT_THAT(autotune_(explain()).err,
                AllOf(HasSubstr("warning: portfolios in " + shipped + "/portfolio/portfolios.jsonl cannot be read ("),
                      HasSubstr("); they are not used")));
}

TEST(Inputs, OneThatCannotBeReadLeavesNoDatabase) {
    CliBench autotune;
    const std::string db = autotune.folder + "/new.db";
    const std::string good = autotune.file("good.jsonl", "");
    for (const std::string& bad : {autotune.folder + "/none", autotune.folder}) {
        EXPECT_NE(autotune({"import", good, bad, "--db", db}).code, ExitCode::done);
        EXPECT_FALSE(std::filesystem::exists(db)) << bad;
    }
    for (const std::string& bad : {autotune.folder + "/none", autotune.file("bad.db", std::string(8192, 'x'))}) {
        EXPECT_EQ(autotune({"merge", bad, "--db", db}).code, ExitCode::database);
        EXPECT_FALSE(std::filesystem::exists(db)) << bad;
    }
    EXPECT_EQ(autotune({"import", good, "--dry-run", "--db", db}).code, ExitCode::done);
    EXPECT_NE(autotune({"verify", "--db", db}).code, ExitCode::done);
    EXPECT_EQ(autotune({"doctor", "--repair", "--db", db}).code, ExitCode::done);
    EXPECT_FALSE(std::filesystem::exists(db));
}

// If every row is refused, no database is created either; an accepted row creates one.
TEST(Inputs, OneOfRefusedRowsAloneLeavesNoDatabase) {
    CliBench autotune, there;
    autotune(kTune);
    const std::string row = autotune({"export"}).out;
    const std::string db = there.folder + "/new.db", bad_db = there.folder + "/bad.db";
    db::Winner winner = records::from_json_line(row.substr(0, row.find('\n')));
    winner.candidate.config.set("extra", 1);
    db::open_store({.path = bad_db})->put(winner);
    const std::string bad = there.file("bad.jsonl", "no row\n" + records::to_json_line(winner) + "\n");
    const Said refused = there({"import", bad, "--db", db, "--json"});
    EXPECT_EQ(refused.code, ExitCode::some_failed);
    EXPECT_EQ(refused.json()["files"][0]["refused"], 2) << refused.out;
    EXPECT_EQ(there({"merge", bad_db, "--db", db}).code, ExitCode::some_failed);
    EXPECT_FALSE(std::filesystem::exists(db));
    const Said taken = there({"import", bad, there.file("good.jsonl", row), "--db", db, "--json"});
    EXPECT_EQ(taken.json()["files"][1]["added"], 1) << taken.out;
    EXPECT_EQ(there({"show", "--db", db, "--json"}).json()["total"], 1);
}

// Each row takes 0.2 ms, so a long wait is announced.
TEST_F(ReadRows, ManyAreAnnounced) {
    std::vector<db::Winner> many(10'001, row_);
    for (std::size_t i = 0; i < many.size(); ++i) {
        many[i].extents[0].value = static_cast<std::int64_t>(1 + i);
        many[i].candidate.family = "gemm/none";  // checking such a row takes almost no time
    }
    db::open_store({.path = path_})->put_all(many);
    const std::string text = "each of the 10,001 rows is checked against the rules of its kernel, which takes about 3 s";
    EXPECT_THAT(autotune_({"show", "--limit", "0", "--json"}).err, HasSubstr(text));
    EXPECT_THAT(autotune_({"export"}).err, HasSubstr(text));
    EXPECT_THAT(autotune_({"show"}).err, Not(HasSubstr("is checked")));
}

TEST(NamedConfigs, AreRefusedWithTheReason) {
    CliBench autotune;
    EXPECT_THAT(autotune(explain({"--config", "wgmma", "--family", "mma"})).err,
                HasSubstr("unknown config 'wgmma', which is a family: write --family wgmma; "));
    EXPECT_THAT(autotune(explain({"--config", "nope"})).err, AllOf(HasSubstr("unknown config 'nope'; the configs of gemm are "),
                                                                   HasSubstr(" more (`autotune families gemm` lists all)")));
    EXPECT_THAT(
        autotune(explain({"--config", "wgmma_coop_128x128x128", "--family", "mma"})).err,
        HasSubstr("config 'wgmma_coop_128x128x128' cannot be used for gemm 512x512x512: it is a config of gemm/wgmma, and "
                  "--family chooses gemm/mma"));
    EXPECT_THAT(autotune({"explain", "--op", "hgemm", "--shape", "7x7x7", "--config", "wgmma_coop_128x128x128"}).err,
                AllOf(HasSubstr("config 'wgmma_coop_128x128x128' cannot be used for gemm 7x7x7: "), Not(HasSubstr("unknown"))));
}

TEST(Flags, ThatHaveNoEffectAreNamed) {
    CliBench autotune;
    const std::string shapes = autotune.file("a.txt", "64x64 op=softmax\n");
    EXPECT_THAT(autotune({"show", "--op", "hgemm", "--shapes", shapes}).err,
                HasSubstr("warning: --op hgemm has no effect: every problem of --shapes " + shapes + " says op=... itself"));
    EXPECT_THAT(autotune({"families", "gemm/mma", "--shape", "64x64x64", "--arch", "sm_80"}).out, HasSubstr("gemm/mma"));
    autotune.services.has_driver = false;
    const Said said = autotune(with(kTune, {"--budget", "3s", "--trials", "4", "--device", "1"}));
    EXPECT_THAT(said.err, HasSubstr("warning: --budget, --trials have no effect: no CUDA driver is installed here, so nothing is "
                                    "searched or timed"));
    EXPECT_THAT(said.err, HasSubstr("warning: --device 1 has no effect: no CUDA driver is installed here"));
}

}  // namespace
}  // namespace autotune::cli::rows_read_test
