#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/tools/cli_bench.h"
#include "tests/tools/commands/words_of_commands.h"

namespace autotune::cli {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;

TEST(Bench, JsonHasTheDocumentedMembers) {
    CliBench autotune;
    const auto json = autotune(on("bench", {"--against", "cublas", "--json"})).json();
    EXPECT_EQ(json["problem"]["op"], "gemm");
    EXPECT_TRUE(json["device"].contains("name"));
    ASSERT_THAT(json["rows"], SizeIs(2));
    const auto& row = json["rows"][0];
    EXPECT_EQ(row["name"], "winner");
    EXPECT_EQ(row["median_us"], 100);
    EXPECT_EQ(row["low_us"], 99);
    EXPECT_EQ(row["high_us"], 101);
    EXPECT_NEAR(row["tflops"].get<double>(), 2.0 * 512 * 512 * 512 / 100e6, 1e-6);
}

TEST(Bench, ARowWithoutATimeSaysWhy) {
    CliBench autotune;
    const auto row = autotune(on("bench", {"--json"})).json()["rows"][1];
    EXPECT_TRUE(row["median_us"].is_null());
    EXPECT_EQ(row["status"], "launch_refused");
    EXPECT_EQ(row["detail"], "the library is not found");
}

TEST(Bench, SeveralShapesGiveOneJsonArray) {
    CliBench autotune;
    EXPECT_THAT(autotune({"bench", "--op", "hgemm", "--shape", "8x8x8", "--shape", "16x16x16", "--json"}).json(), SizeIs(2));
}

TEST(Bench, FlagsReachTheTuner) {
    CliBench autotune;
    autotune(on("bench", {"--against", "cublas,cublaslt", "--named", "--rounds", "50", "--burst", "--best-of-family", "--racers",
                          "3", "--budget", "2m"}));
    EXPECT_THAT(autotune.services.bench_options.against, testing::ElementsAre("cublas", "cublaslt"));
    EXPECT_TRUE(autotune.services.bench_options.named);
    EXPECT_EQ(autotune.services.bench_options.rounds, 50);
    EXPECT_EQ(autotune.services.bench_options.warm_seconds, 0);
    EXPECT_TRUE(autotune.services.bench_options.best_of_family);
    EXPECT_EQ(autotune.services.bench_options.racers, 3u);
    EXPECT_EQ(autotune.services.bench_options.survey_seconds, 120);
    EXPECT_EQ(autotune.services.bench_options.after, tuner::Predecessor::filler);
    autotune(on("bench", {"--after", "trigger", "--no-pdl", "--blocks", "2", "--streams", "2"}));
    EXPECT_EQ(autotune.services.bench_options.after, tuner::Predecessor::trigger);
    EXPECT_FALSE(autotune.services.bench_options.may_overlap);
    EXPECT_EQ(autotune.services.bench_options.method.streams, 2);
    EXPECT_EQ(autotune.services.bench_options.blocks, 2);
}

TEST(Bench, SaysAfterWhatALaunchWasTimedAndWhatABlockConsumed) {
    CliBench autotune;
    tuner::BenchRow& row = autotune.services.bench_rows.front();
    row.after_us = {{tuner::Predecessor::filler, 100}, {tuner::Predecessor::itself, 80}};
    row.sustained = tuner::Sustained{.timing = {.median_us = 110, .low_us = 109, .high_us = 111, .min_us = 109, .samples = 2},
                                     .joules_per_launch = 0.07,
                                     .conditions = {}};
    const auto json = autotune(on("bench", {"--json"})).json();
    EXPECT_EQ(json["after"], "filler");
    EXPECT_EQ(json["rows"][0]["after_itself_us"], 80);
    EXPECT_TRUE(json["rows"][0]["after_trigger_us"].is_null());
    EXPECT_EQ(json["rows"][0]["sustained_us"], 110);
    EXPECT_EQ(json["rows"][0]["joules_per_launch"], 0.07);
    const Said table = autotune(on("bench", {}));
    EXPECT_THAT(table.out, AllOf(HasSubstr("stream time"), HasSubstr("sustained us"), HasSubstr("0.07")));
}

TEST(Bench, UntunedIsWhatTheLibraryTakesAndSaysWhatItLost) {
    CliBench autotune;
    tuner::BenchRow winner = FakeServices::timed_row("winner", 100), untuned = FakeServices::timed_row("untuned", 125);
    winner.candidate = untuned.candidate = Candidate{"gemm/mma", Config({{"block_m", 128}})};
    untuned.ratio_to_first = untuned.ratio_low = untuned.ratio_high = 1.25;
    autotune.services.bench_rows = {winner, untuned};
    const auto json = autotune(on("bench", {"--untuned", "--json"})).json();
    ASSERT_TRUE(autotune.services.bench_options.untuned);
    EXPECT_EQ(json["untuned"]["family"], autotune.services.bench_options.untuned->family);
    EXPECT_THAT(json["untuned"]["source"].get<std::string>(), testing::AnyOf("portfolio", "near", "default"));
    EXPECT_EQ(json["untuned"]["regret"], 0.25);
    EXPECT_THAT(autotune(on("bench", {"--untuned"})).out, HasSubstr("Here it is 25.0 % slower than the winner."));
    EXPECT_TRUE(autotune(on("bench", {"--json"})).json()["untuned"].is_null());
    EXPECT_FALSE(autotune.services.bench_options.untuned);
}

TEST(Bench, SeveralShapesShareOneRun) {
    CliBench autotune;
    const std::string path = autotune.file("shapes.txt", "8x8x8\n16x16x16 op=bgemm\n");
    EXPECT_EQ(autotune({"bench", "--op", "hgemm", "--shapes", path, "--shape", "4,5x4x4"}).code, ExitCode::done);
    EXPECT_THAT(autotune.services.benched, SizeIs(4));
    EXPECT_EQ(autotune.services.bench_runs, 1);
}

TEST(Bench, GainIsOverTheFastestBefore) {
    CliBench autotune;
    autotune.services.bench_rows = {
        FakeServices::timed_row("naive", 200), FakeServices::timed_row("tiled", 100), FakeServices::timed_row("detour", 125),
        FakeServices::failed_row("broken", TrialStatus::wrong_result, "row 0 is wrong"), FakeServices::timed_row("winner", 50)};
    const auto rows = autotune(on("bench", {"--named", "--json"})).json()["rows"];
    EXPECT_EQ(rows[0]["gain_percent"], 0);
    EXPECT_EQ(rows[1]["gain_percent"], 100);
    EXPECT_NEAR(rows[2]["gain_percent"].get<double>(), -20, 1e-9);
    EXPECT_TRUE(rows[3]["gain_percent"].is_null());
    EXPECT_EQ(rows[4]["gain_percent"], 100);
}

TEST(Bench, AWrongRowIsShownWithItsReasonAndIsExit6) {
    CliBench autotune;
    autotune.services.bench_rows.push_back(FakeServices::failed_row("broken", TrialStatus::wrong_result, "row 0 is wrong"));
    const Said said = autotune(on("bench", {"--named"}));
    EXPECT_EQ(said.code, ExitCode::verification);
    EXPECT_THAT(said.out, HasSubstr("wrong_result: row 0 is wrong"));
}

TEST(Bench, TheClassicTableHasSamplesSwizzleAndGain) {
    CliBench autotune;
    tuner::BenchRow row = FakeServices::timed_row("mma_swizzle2048", 100);
    row.candidate = Candidate{"gemm/mma", Config({{"block_m", 128}, {"swizzle_stride", 2048}})};
    row.sample_values = {1.5, -2.25};
    autotune.services.bench_rows = {row};
    const std::string text = autotune(on("bench", {"--named", "--full"})).out;
    EXPECT_THAT(text, AllOf(HasSubstr("swizzle_stride"), HasSubstr("gain %"), HasSubstr("TFLOP/s"), HasSubstr("  1.5  "),
                            HasSubstr("  -2.25  "), HasSubstr("  2048  ")));
    EXPECT_THAT(autotune(on("bench", {"--named"})).out, AllOf(HasSubstr("  2048  "), Not(HasSubstr("-2.25"))));
}

TEST(Bench, CsvHasOneHeaderForAllShapesAndTheNamesOfTheJson) {
    CliBench autotune;
    const Said said = autotune({"bench", "--op", "hgemm", "--shape", "8x8x8", "--shape", "16x16x16", "--csv"});
    EXPECT_THAT(said.out, testing::StartsWith("class,shape,name,status,measured,median_us,"));
    EXPECT_EQ(std::count(said.out.begin(), said.out.end(), '\n'), 5);
    EXPECT_THAT(said.out, HasSubstr(",16x16x16,winner,ok,rounds,100"));
}

TEST(Bench, APlotOfOneProblemIsItsLadder) {
    CliBench autotune;
    const std::string path = autotune.folder + "/ladder.svg";
    EXPECT_EQ(autotune(on("bench", {"--named", "--plot", path})).code, ExitCode::done);
    const std::string svg = text_of(path);
    EXPECT_THAT(svg, AllOf(HasSubstr("<svg"), HasSubstr(">winner<"), HasSubstr(">launch_refused<")));
}

TEST(Bench, APlotOfSeveralProblemsHasRooflineRatesAndRatios) {
    CliBench autotune;
    tuner::BenchRow winner = FakeServices::timed_row("winner", 100), rival = FakeServices::timed_row("cublas", 105);
    winner.candidate = Candidate{"gemm/mma", Config({{"block_m", 128}})};
    rival.ratio_to_first = rival.ratio_low = rival.ratio_high = 1.05;
    autotune.services.bench_rows = {winner, rival};
    const std::string path = autotune.folder + "/set.svg";
    EXPECT_EQ(autotune({"bench", "--op", "hgemm", "--shape", "512,1024x512x512", "--plot", path}).code, ExitCode::done);
    EXPECT_THAT(text_of(path),
                AllOf(HasSubstr("under the roofline"), HasSubstr(">1024x512x512<"), HasSubstr("cublas (geometric mean 1.050)")));
}

TEST(Bench, APlotOfSeveralOpsIsRefusedBeforeAnythingIsTimed) {
    CliBench autotune;
    const std::string shapes = autotune.file("shapes.txt", "8x8x8 op=hgemm\n64 op=add\n");
    const Said said = autotune({"bench", "--shapes", shapes, "--plot", autotune.folder + "/set.svg"});
    EXPECT_EQ(said.code, ExitCode::usage);
    EXPECT_THAT(autotune.services.benched, IsEmpty());
}

}  // namespace
}  // namespace autotune::cli
