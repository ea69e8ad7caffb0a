#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "src/core/error.h"
#include "src/core/system/private_folder.h"
#include "tools/cli/environment.h"
#include "tools/cli/exit_codes.h"
#include "tools/cli/input/budget.h"
#include "tools/cli/input/parser.h"
#include "tools/cli/output/data/csv.h"
#include "tools/cli/output/terminal/progress.h"
#include "tools/cli/output/terminal/table.h"
#include "tools/cli/output/terminal/wrap.h"
#include "tools/cli/output/text/common_words.h"
#include "tools/cli/output/text/text_format.h"
#include "tools/cli/places.h"
#include "tools/cli/shared/each_problem.h"

namespace autotune::cli {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

TEST(Csv, QuotesWhatWouldBreakALineAndFlattensMembers) {
    using Json = nlohmann::ordered_json;
    const std::vector<Json> rows = {
        {{"name", "a,b"}, {"compile", {{"registers", 64}}}, {"config", {{"block_m", 128}, {"stages", 2}}}},
        {{"name", "say \"x\""}, {"us", 1.5}, {"values", {1, 2}}}};
    EXPECT_EQ(csv_of(rows),
              "name,compile.registers,config,us,values\n"
              "\"a,b\",64,block_m=128 stages=2,,\n"
              "\"say \"\"x\"\"\",,,1.5,1 2\n");
}

TEST(Csv, NoRowsAreNoText) {
    EXPECT_EQ(csv_of({}), "");
}

TEST(Budget, ReadsSecondsMinutesHoursAndTrials) {
    EXPECT_DOUBLE_EQ(parse_budget("30s").seconds, 30);
    EXPECT_DOUBLE_EQ(parse_budget("2m").seconds, 120);
    EXPECT_DOUBLE_EQ(parse_budget("1h").seconds, 3600);
    EXPECT_DOUBLE_EQ(parse_budget("1.5").seconds, 1.5);
    EXPECT_DOUBLE_EQ(parse_budget("1500ms").seconds, 1.5);
    EXPECT_EQ(parse_budget("200t").trials, 200);
}

TEST(Budget, UnitsHaveTheirUsualNames) {
    for (const char* text : {"120s", "120 s", "120S", "120sec", "2m", "2 min", "2minutes", "2M"})
        EXPECT_DOUBLE_EQ(parse_budget(text).seconds, 120) << text;
    EXPECT_DOUBLE_EQ(parse_budget("2 hours").seconds, 7200);
    EXPECT_EQ(parse_budget("200T").trials, 200);
    EXPECT_EQ(parse_budget("200 trials").trials, 200);
    EXPECT_DOUBLE_EQ(parse_time_us("95us", "--target"), 95);
    EXPECT_DOUBLE_EQ(parse_time_us("1.5 MS", "--target"), 1500);
    EXPECT_DOUBLE_EQ(parse_time_us("95", "--target"), 95);
}

TEST(Budget, TrialsAloneSetNoLimitOnTimeThatAnyoneMeets) {
    EXPECT_GE(parse_budget("200t").seconds, 24 * 3600);
}

TEST(Budget, BothLimitsMayBeGiven) {
    const tuner::Budget budget = parse_budget("30s,200t");
    EXPECT_DOUBLE_EQ(budget.seconds, 30);
    EXPECT_EQ(budget.trials, 200);
    EXPECT_EQ(parse_budget(" 30s , 200t ").trials, 200);
}

TEST(Budget, RefusesWhatIsNoTime) {
    for (const char* text : {"", "s", "t", "0s", "nan", "inf", "1e400", "-1", "3d", "5.5t", "99999999999t", "1e300", "2e9s",
                             "30s,40s", "3t,4t", "30s,", "fast"}) {
        EXPECT_THROW(parse_budget(text), Error) << text;
    }
}

TEST(ExitCodes, EachErrorHasTheDocumentedCode) {
    EXPECT_EQ(static_cast<int>(exit_code_of(ErrorCode::internal)), 1);
    EXPECT_EQ(static_cast<int>(exit_code_of(ErrorCode::usage)), 2);
    EXPECT_EQ(static_cast<int>(exit_code_of(ErrorCode::no_gpu)), 3);
    EXPECT_EQ(static_cast<int>(exit_code_of(ErrorCode::no_valid_config)), 4);
    EXPECT_EQ(static_cast<int>(exit_code_of(ErrorCode::database)), 5);
    EXPECT_EQ(static_cast<int>(exit_code_of(ErrorCode::verification)), 6);
    EXPECT_EQ(static_cast<int>(exit_code_of(ErrorCode::gpu_unhealthy)), 8);
    EXPECT_EQ(static_cast<int>(exit_code_of(ErrorCode::gpu_in_use)), 9);
    EXPECT_EQ(static_cast<int>(exit_code_of(ErrorCode::gpu_memory)), 9);
    EXPECT_EQ(static_cast<int>(exit_code_of(ErrorCode::system)), 1);
    EXPECT_EQ(static_cast<int>(exit_code_of(ErrorCode::interrupted)), 130);
}

TEST(ExitCodes, SeveralItemsThatEndAlikeShareTheirCode) {
    EXPECT_EQ(combined({ExitCode::done, ExitCode::done}), ExitCode::done);
    EXPECT_EQ(combined({ExitCode::no_valid_config, ExitCode::no_valid_config}), ExitCode::no_valid_config);
    EXPECT_EQ(combined({ExitCode::done, ExitCode::no_valid_config}), ExitCode::some_failed);
}

// A private folder that contains a home and XDG folders.
class PlacesTest : public testing::Test {
  protected:
    PlacesTest() {
        std::string pattern = (std::filesystem::temp_directory_path() / "autotune-places-XXXXXX").string();
        root = mkdtemp(pattern.data());
        std::filesystem::create_directory(root + "/h");
    }
    ~PlacesTest() override { std::filesystem::remove_all(root); }
    Environment with(Environment::Variables variables) const { return Environment(std::move(variables)); }
    std::string root;
};

TEST_F(PlacesTest, FollowXdgFolders) {
    const Environment environment = with({{"XDG_DATA_HOME", root + "/d"},
                                          {"XDG_CACHE_HOME", root + "/c"},
                                          {"XDG_STATE_HOME", root + "/s"},
                                          {"HOME", root + "/h"}});
    Places places(environment);
    EXPECT_EQ(places.database_to_write().path, root + "/d/autotune/autotune.db");
    EXPECT_EQ(places.cache().path, root + "/c/autotune");
    EXPECT_EQ(places.state().path, root + "/s/autotune");
    for (const Place& place : {places.database_to_write(), places.cache(), places.state()}) EXPECT_EQ(place.warning, "");
}

TEST_F(PlacesTest, LieBelowHomeWhenAnXdgFolderIsRelative) {
    const Environment environment = with({{"XDG_DATA_HOME", "d"}, {"HOME", root + "/h"}});
    EXPECT_EQ(Places(environment).database_to_read().path, root + "/h/.local/share/autotune/autotune.db");
    EXPECT_TRUE(std::filesystem::is_empty(root + "/h")) << "a reader makes nothing";
}

TEST_F(PlacesTest, OwnVariablesGoFirst) {
    const Environment environment =
        with({{"HOME", root + "/h"}, {"AUTOTUNE_DB", root + "/x.db"}, {"AUTOTUNE_CACHE_DIR", root + "/y"}});
    Places places(environment);
    EXPECT_EQ(places.database_to_write().path, root + "/x.db");
    EXPECT_EQ(places.cache().path, root + "/y");
}

TEST_F(PlacesTest, ThatFailNameTheirOwnVariable) {
    std::ofstream(root + "/file") << "in the way";
    const Environment environment = with({{"HOME", root + "/h"}, {"XDG_STATE_HOME", root + "/file"}});
    const Place state = Places(environment).state();
    EXPECT_EQ(state.path, fallback_home() + "/.local/state/autotune");
    EXPECT_EQ(state.warning, "the folder " + root + "/file cannot be made: Not a directory; locks and journals are kept in " +
                                 state.path + " instead; XDG_STATE_HOME names another place");
}

TEST(TableText, AlignsColumnsAndEndsNoLineWithSpaces) {
    Table table({{"name", Table::Align::left}, {"us"}, {"", Table::Align::left}});
    table.add({"a", "1.5", ""});
    table.add({"longer", "12.5", "tie"});
    EXPECT_EQ(table.to_string(), "name      us\na        1.5\nlonger  12.5  tie\n");
}

TEST(TableText, ColumnsThatWrapShrinkUntilALineFits) {
    Table table({{"#"}, {"state", Table::Align::left}, {"candidate", Table::Align::wrap}});
    table.add({"1", "ok", "alpha=1 beta=2 gamma=3 delta=4"});
    EXPECT_EQ(table.to_string(27), "#  state  candidate\n1  ok     alpha=1 beta=2\n          gamma=3 delta=4\n");
    EXPECT_EQ(table.to_string(SIZE_MAX), "#  state  candidate\n1  ok     alpha=1 beta=2 gamma=3 delta=4\n");
}

TEST(Wrap, BreaksAtSpacesAndALongWordAnywhere) {
    EXPECT_THAT(wrap("one two three", 7), testing::ElementsAre("one two", "three"));
    EXPECT_THAT(wrap("abcdefgh", 3), testing::ElementsAre("abc", "def", "gh"));
    EXPECT_THAT(wrap("", 3), testing::ElementsAre(""));
    EXPECT_EQ(wrapped("at: ", "one two", 7), "at: one\n    two\n");
}

TEST(CommonWords, SaysOnceWhatAllRowsOfAGroupHave) {
    CommonWords names;
    names.add("mma m=1 n=2 k=3");
    names.add("mma m=1 n=4 k=3");
    names.add("simt m=1");
    EXPECT_EQ(names.name("mma m=1 n=4 k=3"), "mma n=4");
    EXPECT_EQ(names.name("simt m=1"), "simt");
    EXPECT_EQ(names.legend(), "every mma:  m=1 k=3\nthe simt:  m=1\n\n");
    CommonWords whole(true);
    whole.add("mma m=1");
    EXPECT_EQ(whole.name("mma m=1"), "mma m=1");
    EXPECT_EQ(whole.legend(), "");
}

TEST(Numbers, ReadWell) {
    EXPECT_EQ(us_text(112.34), "112.3");
    EXPECT_EQ(us_text(12.345), "12.35");
    EXPECT_EQ(us_text(1.2345), "1.234");
    EXPECT_EQ(count_text(1234567), "1,234,567");
    EXPECT_EQ(count_text(123), "123");
    EXPECT_EQ(bytes_text(49152), "48 KiB");
    EXPECT_EQ(seconds_text(8.25), "8.2 s");
    EXPECT_EQ(seconds_text(185), "3 min 05 s");
}

TEST(ProgressText, SaysHowFarAndHowLong) {
    tuner::Progress progress;
    progress.phase = tuner::Phase::trial;
    progress.compiled = 12;
    progress.tried = 8;
    progress.failed = 1;
    progress.elapsed_s = 5;
    progress.eta_s = 14;
    progress.best_us = 112.3;
    EXPECT_EQ(progress_text(progress), "searching: compiled 12, tried 8 (1 failed), best 112.3 us, 5.0 s, 14.0 s left");
    progress.default_us = 146;
    EXPECT_EQ(progress_text(progress),
              "searching: compiled 12, tried 8 (1 failed), best 112.3 us (1.30 x the default's speed), 5.0 s, 14.0 s left");
}

TEST(PercentValue, IsAShareFromNothingToAll) {
    const FlagCheck check = percent_value();
    for (const char* text : {"0", "0.5", "0.5%", " 12 % ", "100"}) EXPECT_NO_THROW(check("--target-gain", text)) << text;
    for (const char* text : {"", "%", "-1", "101", "half", "1.5.2"}) {
        try {
            check("--target-gain", text);
            ADD_FAILURE() << text << " was taken";
        } catch (const Error& error) {
            EXPECT_EQ(std::string(error.what()),
                      "--target-gain is a percentage from 0 to 100, such as 0.5, not '" + std::string(text) + "'");
        }
    }
}

TEST(ProgressText, OfACompileSaysHowManyOfHowMany) {
    tuner::Progress progress;
    progress.compiled = 12;
    progress.total = 24;
    progress.elapsed_s = 3.2;
    EXPECT_EQ(progress_text(progress), "compiled 12 of 24, 3.2 s");
    progress.failed = 2;
    EXPECT_EQ(progress_text(progress), "compiled 12 of 24 (2 failed), 3.2 s");
    progress.eta_s = 4;
    EXPECT_EQ(progress_text(progress), "compiled 12 of 24 (2 failed), 3.2 s, 4.0 s left");
}

}  // namespace
}  // namespace autotune::cli
