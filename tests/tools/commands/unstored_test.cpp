// A winner is never lost: if the database cannot store it, it is printed and saved in a file, and the message has the remedy.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/tools/cli_bench.h"

namespace autotune::cli {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::SizeIs;

// A file whose header requires a newer write version is read but never written by SQLite, even as root.
void make_read_only(const std::string& path, bool is_read_only) {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(18);
    file.put(is_read_only ? '\3' : '\1');
    EXPECT_TRUE(file.good());
}

// A command with a database of one winner that cannot be written.
class UnstoredTest : public testing::Test {
  protected:
    void SetUp() override {
        EXPECT_EQ(autotune(with_db({"--op", "hgemm", "--shape", "8x8x8"})).code, ExitCode::done);
        make_read_only(database, true);
    }
    std::vector<std::string> with_db(std::vector<std::string> words) const {
        words.insert(words.end(), {"--db", database});
        return words;
    }
    Said import_what_was_kept() {
        make_read_only(database, false);
        return autotune(with_db({"import", kept}));
    }
    nlohmann::json shown() { return autotune(with_db({"show", "--json"})).json(); }

    CliBench autotune;
    const std::string database = autotune.folder + "/winners.db";
    const std::string kept = autotune.folder + "/.local/state/autotune/unstored.jsonl";
};

TEST_F(UnstoredTest, ATunedWinnerIsPrintedAndItsLineCanBeImported) {
    const Said said = autotune(with_db({"--op", "hgemm", "--shape", "16x8x8"}));
    EXPECT_EQ(said.code, ExitCode::database);
    EXPECT_THAT(said.out, AllOf(HasSubstr("winner     gemm/"), HasSubstr("100.0 us"), HasSubstr("time ratio")));
    EXPECT_THAT(said.err, AllOf(HasSubstr("not stored"), HasSubstr("winners.db"),
                                HasSubstr("`autotune import " + kept + " --db " + database + "` stores it")));
    EXPECT_EQ(shown()["total"], 1);
    EXPECT_EQ(import_what_was_kept().code, ExitCode::done);
    EXPECT_EQ(shown()["total"], 2);
}

TEST_F(UnstoredTest, JsonSaysSo) {
    const auto json = autotune(with_db({"--op", "hgemm", "--shape", "16x8x8", "--json"})).json();
    EXPECT_EQ(json["stored"], false);
    EXPECT_EQ(json["import_file"], kept);
    EXPECT_THAT(json["not_stored_because"].get<std::string>(), HasSubstr("winners.db"));
    EXPECT_EQ(json["winner"]["median_us"], 100);
}

TEST_F(UnstoredTest, AStoredAnswerIsShownAsEver) {
    autotune.services.is_known = true;
    const Said said = autotune(with_db({"--op", "hgemm", "--shape", "8x8x8", "--json"}));
    EXPECT_EQ(said.code, ExitCode::done) << said.err;
    EXPECT_EQ(said.json()["tuned"], false);
    EXPECT_EQ(said.json()["stored"], true);
}

TEST_F(UnstoredTest, ASweepEndsWithItsTableAndKeepsEveryWinner) {
    const Said said = autotune(with_db({"sweep", "--op", "hgemm", "--shapes", "16,24x8x8"}));
    EXPECT_EQ(said.code, ExitCode::database);
    EXPECT_THAT(said.out, AllOf(HasSubstr("16x8x8"), HasSubstr("24x8x8"), HasSubstr("tuned, not stored"), HasSubstr("2 tuned")));
    EXPECT_THAT(said.err, AllOf(HasSubstr(kept), HasSubstr("2 winners of this sweep are not stored")));
    EXPECT_EQ(import_what_was_kept().code, ExitCode::done);
    EXPECT_EQ(shown()["total"], 3);
}

TEST_F(UnstoredTest, TheItemsOfASweepSaySo) {
    const auto json = autotune(with_db({"sweep", "--op", "hgemm", "--shapes", "16,24x8x8", "--json"})).json();
    ASSERT_THAT(json["items"], SizeIs(2));
    EXPECT_EQ(json["items"][0]["stored"], false);
    EXPECT_EQ(json["items"][1]["import_file"], kept);
}

TEST_F(UnstoredTest, ARaceIsNotLostEither) {
    const Said said = autotune(with_db({"verify", "--race"}));
    EXPECT_EQ(said.code, ExitCode::database);
    EXPECT_THAT(said.out, HasSubstr("confirmed"));
    EXPECT_THAT(said.err, HasSubstr("autotune import " + kept));
}

TEST_F(UnstoredTest, AnotherFolderTakesTheLineWhereTheFirstCannot) {
    std::filesystem::create_directories(kept);  // a folder has the name of the file
    const Said said = autotune(with_db({"--op", "hgemm", "--shape", "16x8x8"}));
    EXPECT_EQ(said.code, ExitCode::database);
    EXPECT_THAT(said.err, HasSubstr(".cache/autotune/unstored.jsonl"));
}

TEST(Sweep, EndsWithTheTableOfWhatItDidWhateverEndsIt) {
    CliBench autotune;
    autotune.services.on_sweep_item = [](std::size_t index) {
        if (index == 1) throw Error(ErrorCode::gpu_unhealthy, "the canary fails");
    };
    const Said said = autotune({"sweep", "--op", "hgemm", "--shapes", "8,16x8x8"});
    EXPECT_EQ(said.code, ExitCode::gpu_unhealthy);
    EXPECT_THAT(said.out, AllOf(HasSubstr("8x8x8"), HasSubstr("1 tuned")));
    const auto json = autotune({"sweep", "--op", "hgemm", "--shapes", "8,16x8x8", "--json"}).json();
    EXPECT_THAT(json["items"], SizeIs(1));
}

}  // namespace
}  // namespace autotune::cli
