#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/tools/cli_bench.h"
#include "tests/tools/commands/words_of_commands.h"

namespace autotune::cli {
namespace {

using testing::AllOf;
using testing::HasSubstr;

TEST(Verify, AWrongAnswerIsExit6) {
    CliBench autotune;
    autotune(on(""));
    EXPECT_EQ(autotune({"verify"}).code, ExitCode::done);
    autotune.services.verdict = TrialStatus::wrong_result;
    EXPECT_EQ(autotune({"verify"}).code, ExitCode::verification);
}

TEST(Verify, ARowThatCannotBeTriedIsNamedAndTheOthersAreChecked) {
    CliBench autotune;
    autotune(on(""));
    autotune.services.not_verified = "the reference does not compile";
    const Said said = autotune({"verify"});
    EXPECT_EQ(said.code, ExitCode::some_failed);
    EXPECT_THAT(said.out, AllOf(HasSubstr("not verified"), HasSubstr("the reference does not compile"), HasSubstr("1 winners")));
}

TEST(Verify, AFreshWinnerIsCheckedAndAStaleOneRacesAgain) {
    CliBench autotune;
    autotune(on(""));
    EXPECT_THAT(autotune({"verify"}).out, HasSubstr("right"));
    EXPECT_EQ(autotune.services.races, 0);
    autotune.services.driver = "590.2";
    EXPECT_THAT(autotune({"verify"}).out, AllOf(HasSubstr("confirmed"), HasSubstr("driver was 580.1 and is 590.2")));
    EXPECT_EQ(autotune.services.races, 1);
    EXPECT_THAT(autotune({"verify"}).out, HasSubstr("right")) << "a race makes it fresh";
    EXPECT_EQ(autotune.services.races, 1);
}

TEST(Verify, WhoLosesTheRaceIsDemotedAndAnotherAnswersFromThenOn) {
    CliBench autotune;
    autotune(on(""));
    autotune.services.on_race = [](db::Winner& winner) { winner.candidate.config.set("stages", 2); };
    const Said said = autotune({"verify", "--race"});
    EXPECT_EQ(said.code, ExitCode::done);
    EXPECT_THAT(said.out, AllOf(HasSubstr("demoted"), HasSubstr("promoted")));
    EXPECT_EQ(autotune({"show", "--json"}).json()["winners"][0]["config"]["stages"], 2);
}

TEST(Verify, ARaceThatNobodySurvivesIsExit6) {
    CliBench autotune;
    autotune(on(""));
    autotune.services.somebody_is_right = false;
    const Said said = autotune({"verify", "--race"});
    EXPECT_EQ(said.code, ExitCode::verification);
    EXPECT_THAT(said.out, AllOf(HasSubstr("demoted"), HasSubstr("row 0 is wrong"), HasSubstr("--retune")));
}

TEST(Verify, NoRaceChecksAnswersAlone) {
    CliBench autotune;
    autotune(on(""));
    autotune.services.driver = "590.2";
    EXPECT_THAT(autotune({"verify", "--no-race"}).out, HasSubstr("right"));
    EXPECT_EQ(autotune.services.races, 0);
}

}  // namespace
}  // namespace autotune::cli
