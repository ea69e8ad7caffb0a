#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/tools/cli_bench.h"
#include "tests/tools/commands/words_of_commands.h"

namespace autotune::cli {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

TEST(Explain, AProblemThatNoFamilyServesIsNotSentToATune) {
    CliBench autotune;
    const Said said = autotune({"explain", "--op", "fp8gemm", "--shape", "512x512x512", "--arch", "sm_80"});
    EXPECT_EQ(said.code, ExitCode::done);
    EXPECT_THAT(said.out, AllOf(HasSubstr("no family can do"), Not(HasSubstr("finds one"))));
}

TEST(Explain, TellsTheWinnerAndWhatWasDropped) {
    CliBench autotune;
    autotune(on_small(""));
    const Said said = autotune(on_small("explain"));
    EXPECT_THAT(said.out, AllOf(HasSubstr("wins with 100.0 us"), HasSubstr("30 interleaved rounds")));
    EXPECT_THAT(said.out, Not(HasSubstr("configs are legal"))) << "families are for --full";
    EXPECT_THAT(autotune(on_small("explain", {"--full"})).out, HasSubstr("configs are legal"));
}

TEST(Explain, AnswersWhatWasPinnedWithoutFull) {
    CliBench autotune;
    EXPECT_THAT(autotune(on_small("explain", {"--family", "mma", "--param", "stages=2"})).out,
                HasSubstr("legal configs have stages=2"));
}

TEST(Explain, AnotherDriverMakesItStaleAndSaysWhatHelps) {
    CliBench autotune;
    autotune(on_small(""));
    EXPECT_EQ(autotune(on_small("explain", {"--json"})).json()["stale"], false);
    autotune.services.driver = "590.2";
    const auto json = autotune(on_small("explain", {"--json"})).json();
    EXPECT_EQ(json["stale"], true);
    EXPECT_EQ(json["stale_because"], "driver was 580.1 and is 590.2");
    EXPECT_THAT(json["remedy"].get<std::string>(), HasSubstr("autotune verify --op hgemm --shape 8x8x8"));
    EXPECT_THAT(autotune(on_small("explain")).out, HasSubstr("stale: driver was 580.1 and is 590.2"));
}

TEST(Explain, RemediesAreWholeCommandsOnLinesOfTheirOwn) {
    CliBench autotune;
    const std::string db = autotune.folder + "/my tunes.db";
    autotune({"--op", "bgemm", "--shape", "2*8x8x8", "--layout", "nt", "--db", db});
    autotune.services.driver = "590.2";
    const std::string out = autotune({"explain", "--op", "bgemm", "--shape", "2*8x8x8", "--layout", "nt", "--db", db}).out;
    const std::string flags = "--op bgemm --shape '2*8x8x8' --layout nt --db '" + db + "'";
    EXPECT_THAT(out, AllOf(HasSubstr("\n  autotune verify " + flags + "\n"), HasSubstr("\n  autotune " + flags + " --retune\n")));
    EXPECT_THAT(out, HasSubstr("To race it again, or to search again:"));
}

TEST(Explain, WithoutAWinnerTheFirstLineSaysSoAndTheHintIsWhole) {
    CliBench autotune;
    const Said said = autotune({"explain", "--op", "fp8gemm", "--shape", "64x64x64", "--scale", "row"});
    EXPECT_EQ(said.out.find("No winner is on record.\n"), 0u) << said.out;
    EXPECT_THAT(said.out, HasSubstr("\n`autotune --op fp8gemm --shape 64x64x64 --scale row` finds one.\n"));
    autotune.services.has_driver = false;
    EXPECT_THAT(autotune(on_small("explain")).out,
                HasSubstr("`autotune --op hgemm --shape 8x8x8` finds one, on a machine with such a GPU.\n"));
    EXPECT_EQ(autotune(on_small("explain", {"--json"})).json()["result"], "No winner is on record.");
}

TEST(Explain, WithoutAGpuNothingIsSaidOfStaleness) {
    CliBench autotune;
    autotune(on_small(""));
    autotune.services.has_driver = false;
    EXPECT_TRUE(autotune(on_small("explain", {"--json"})).json()["stale"].is_null());
}

TEST(Explain, ARemedyNamesWhatTheOpWouldNotChooseByItself) {
    CliBench autotune;
    autotune(on_small("", {"--layout", "nt"}));
    autotune.services.driver = "590.2";
    EXPECT_THAT(autotune(on_small("explain", {"--layout", "nt", "--json"})).json()["remedy"].get<std::string>(),
                HasSubstr("--shape 8x8x8 --layout nt"));
}

TEST(Explain, SaysWhyPinnedValuesAreNotLegal) {
    CliBench autotune;
    const auto json = autotune(on_small("explain", {"--json"})).json();
    ASSERT_FALSE(json["families"].empty());
    for (const auto& family : json["families"]) EXPECT_TRUE(family.contains("refused") || family.contains("dropped")) << family;
    EXPECT_TRUE(json["winner"].is_null());
}

}  // namespace
}  // namespace autotune::cli
