#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/embedded_catalogue.h"
#include "tests/tools/cli_bench.h"

namespace autotune::cli {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;
using State = tuner::SweepItem::State;

std::vector<std::string> on_shape(const std::string& shape, const std::string& command, const std::vector<std::string>& more) {
    std::vector<std::string> words = {"--op", "hgemm", "--shape", shape};
    if (!command.empty()) words.insert(words.begin(), command);
    words.insert(words.end(), more.begin(), more.end());
    return words;
}

std::vector<std::string> on(const std::string& command, const std::vector<std::string>& more = {}) {
    return on_shape("512x512x512", command, more);
}

// For a command that looks at every config: a small problem has a fifth of them.
std::vector<std::string> on_small(const std::string& command, const std::vector<std::string>& more = {}) {
    return on_shape("8x8x8", command, more);
}

// ---- tune ----

TEST(Tune, IsWhatALineOfFlagsMeans) {
    CliBench autotune;
    EXPECT_EQ(autotune(on("")).code, ExitCode::done);
    EXPECT_EQ(autotune(on("tune", {"--retune"})).code, ExitCode::done);
    EXPECT_THAT(autotune.services.tuned, SizeIs(2));
}

TEST(Tune, AKnownWinnerIsShownAndNothingIsTuned) {
    CliBench autotune;
    autotune.services.is_known = true;
    const Said said = autotune(on(""));
    EXPECT_EQ(said.code, ExitCode::done);
    EXPECT_THAT(said.out, AllOf(HasSubstr("exact"), HasSubstr("from the database")));
    EXPECT_THAT(autotune.services.tuned, IsEmpty());
    EXPECT_EQ(autotune.services.versions_learned, 0) << "NVRTC and NVML cost time that a known answer does not need";
}

TEST(Tune, RetuneDoesNotAskTheStore) {
    CliBench autotune;
    autotune.services.is_known = true;
    autotune(on("", {"--retune"}));
    EXPECT_THAT(autotune.services.recalled, IsEmpty());
    EXPECT_THAT(autotune.services.tuned, SizeIs(1));
    EXPECT_TRUE(autotune.services.tune_options.retune);
}

TEST(Tune, JsonHasProblemDeviceWinnerAndEvidence) {
    CliBench autotune;
    const auto json = autotune(on("", {"--json"})).json();
    EXPECT_EQ(json["problem"]["shape"], "512x512x512");
    EXPECT_EQ(json["problem"]["extents"]["k"], 512);
    EXPECT_EQ(json["device"]["arch"], "sm_90a");
    EXPECT_EQ(json["origin"], "exact");
    EXPECT_EQ(json["timed"], true);
    EXPECT_EQ(json["tuned"], true);
    EXPECT_EQ(json["winner"]["median_us"], 100);
    EXPECT_GT(json["winner"]["tflops"].get<double>(), 0);
    EXPECT_EQ(json["winner"]["config"]["block_m"].is_number_integer(), true);
    EXPECT_THAT(json["evidence"]["finalists"], SizeIs(1));
}

TEST(Tune, FlagsReachTheTuner) {
    CliBench autotune;
    autotune(on("", {"--budget", "7s,9t", "--seed", "5", "--strategy", "random", "--l2", "warm", "--streams", "2", "--keep",
                     "kept", "--family", "mma"}));
    const tuner::TuneOptions& options = autotune.services.tune_options;
    EXPECT_DOUBLE_EQ(options.budget.seconds, 7);
    EXPECT_EQ(options.budget.trials, 9);
    EXPECT_EQ(options.seed, 5u);
    EXPECT_EQ(options.strategy, "random");
    EXPECT_TRUE(options.method.l2_warm);
    EXPECT_EQ(options.method.streams, 2);
    EXPECT_EQ(options.keep_folder, "kept");
    EXPECT_THAT(options.choice.families, testing::ElementsAre("gemm/mma"));
}

TEST(Tune, SeveralShapesGiveOneJsonArray) {
    CliBench autotune;
    const auto json = autotune({"--op", "hgemm", "--shape", "64,128x64x64", "--shape", "8x8x8", "--json"}).json();
    ASSERT_TRUE(json.is_array());
    EXPECT_THAT(json, SizeIs(3));
}

TEST(Tune, AShapeThatFailsIsAnElementOfTheArray) {
    CliBench autotune;
    autotune.services.on_tune = [](const Problem& problem) {
        if (problem.extent("m") == 64) throw Error(ErrorCode::no_valid_config, "nothing fits");
    };
    const auto json = autotune({"--op", "hgemm", "--shape", "64,128x64x64", "--json"}).json();
    ASSERT_THAT(json, SizeIs(2));
    EXPECT_EQ(json[0]["error"], "nothing fits");
    EXPECT_EQ(json[0]["exit_code"], 4);
    EXPECT_EQ(json[1]["problem"]["shape"], "128x64x64");
}

TEST(Tune, AnArrayThatAFailureEndsIsStillOneDocument) {
    CliBench autotune;
    autotune.services.on_tune = [](const Problem& problem) {
        if (problem.extent("m") == 128) throw Error(ErrorCode::gpu_unhealthy, "the canary fails");
    };
    const Said said = autotune({"--op", "hgemm", "--shape", "64,128x64x64", "--json"});
    EXPECT_EQ(said.code, ExitCode::gpu_unhealthy);
    EXPECT_THAT(said.json(), SizeIs(1));
}

TEST(Tune, OneOfSeveralThatFailsDoesNotEndTheRun) {
    CliBench autotune;
    autotune.services.on_tune = [](const Problem& problem) {
        if (problem.extent("m") == 64) throw Error(ErrorCode::no_valid_config, "nothing fits");
    };
    const Said said = autotune({"--op", "hgemm", "--shape", "64,128x64x64"});
    EXPECT_EQ(said.code, ExitCode::some_failed);
    EXPECT_THAT(autotune.services.tuned, SizeIs(2));
    EXPECT_THAT(said.err, AllOf(HasSubstr("64x64x64"), HasSubstr("nothing fits")));
}

TEST(Tune, ASickGpuEndsTheRunAtOnce) {
    CliBench autotune;
    autotune.services.on_tune = [](const Problem&) { throw Error(ErrorCode::gpu_unhealthy, "the canary fails"); };
    EXPECT_EQ(autotune({"--op", "hgemm", "--shape", "64,128x64x64"}).code, ExitCode::gpu_unhealthy);
    EXPECT_THAT(autotune.services.tuned, SizeIs(1));
}

TEST(Tune, AStopIsExit130AndSaysHowToGoOn) {
    CliBench autotune;
    autotune.services.on_tune = [](const Problem&) { throw Error(ErrorCode::interrupted, "interrupted; 3 trials are kept"); };
    const Said said = autotune(on(""));
    EXPECT_EQ(static_cast<int>(said.code), 130);
    EXPECT_THAT(said.err, AllOf(HasSubstr("3 trials are kept"), HasSubstr("same command again")));
}

TEST(Tune, DryRunTunesNothing) {
    CliBench autotune;
    const Said said = autotune(on_small("", {"--dry-run"}));
    EXPECT_EQ(said.code, ExitCode::done);
    EXPECT_THAT(said.out, AllOf(HasSubstr("gemm/mma"), HasSubstr("legal")));
    EXPECT_THAT(autotune.services.tuned, IsEmpty());
}

TEST(Tune, AnotherArchitectureThanTheGpusIsRefused) {
    CliBench autotune;
    const Said said = autotune(on("", {"--arch", "sm_80"}));
    EXPECT_EQ(said.code, ExitCode::usage);
    EXPECT_THAT(said.err, HasSubstr("autotune compile"));
}

TEST(Tune, ADeviceThatIsNotThereIsExit3) {
    CliBench autotune;
    const Said said = autotune(on("", {"--device", "3"}));
    EXPECT_EQ(said.code, ExitCode::no_gpu);
    EXPECT_THAT(said.err, HasSubstr("0 to 0"));
}

TEST(Tune, ADriverThatFailsIsExit3AndNotAnExcuseToCompile) {
    CliBench autotune;
    autotune.services.on_open = [] { throw Error(ErrorCode::no_gpu, "cuInit failed: CUDA_ERROR_STUB_LIBRARY"); };
    EXPECT_EQ(autotune(on("")).code, ExitCode::no_gpu);
    EXPECT_THAT(autotune.services.compiled, IsEmpty());
}

TEST(Tune, ColourIsForTerminalsWithoutNoColor) {
    CliBench autotune;
    EXPECT_THAT(autotune(on("")).out, Not(HasSubstr("\x1b")));
    autotune.terminal = true;
    EXPECT_THAT(autotune(on("", {"--retune"})).out, HasSubstr("\x1b[1m"));
    autotune.variables["NO_COLOR"] = "1";
    EXPECT_THAT(autotune(on("", {"--retune"})).out, Not(HasSubstr("\x1b")));
}

// ---- without a GPU ----

TEST(WithoutGpu, TuneCompilesAndSaysThatNothingWasTimed) {
    CliBench autotune;
    autotune.services.has_driver = false;
    const Said said = autotune(on(""));
    EXPECT_EQ(said.code, ExitCode::done);
    EXPECT_THAT(said.out, AllOf(HasSubstr("Nothing was timed"), HasSubstr("sm_90a"), HasSubstr("128"), HasSubstr("48 KiB")));
}

std::vector<tuner::CompiledRow> rows_of(std::size_t count) {
    std::vector<tuner::CompiledRow> rows(count);
    for (std::size_t i = 0; i < count; ++i) {
        rows[i].candidate = {"gemm/mma", Config({{"block_m", static_cast<std::int64_t>(i)}})};
        rows[i].report.registers = 64;
    }
    return rows;
}

std::ptrdiff_t candidates_in(const std::string& out) {
    std::ptrdiff_t lines = 0;
    for (std::size_t at = out.find("gemm/mma block_m="); at != std::string::npos; at = out.find("gemm/mma block_m=", at + 1))
        ++lines;
    return lines;
}

TEST(WithoutGpu, TheFirstAnswerIsFiveCandidatesAndTheNextStep) {
    CliBench autotune;
    autotune.services.has_driver = false;
    autotune.services.compiled_rows = rows_of(24);
    const std::string db = autotune.folder + "/my.db";
    const Said said = autotune({"--op", "hgemm", "--shape", "64X64X64", "--layout", "NT", "--budget", "20s", "--db", db});
    EXPECT_EQ(said.code, ExitCode::done) << said.err;
    EXPECT_EQ(candidates_in(said.out), 5) << said.out;
    EXPECT_THAT(said.out, HasSubstr("... and 19 more; --all shows them\n"));
    EXPECT_THAT(
        said.out,
        HasSubstr("\nNext: run it where there is an NVIDIA GPU with its driver, which finds the fastest kernel and stores "
                  "it:\n  autotune --op hgemm --shape 64x64x64 --layout nt --budget 20s --db " +
                  db + "\n"));
    EXPECT_LE(std::count(said.out.begin(), said.out.end(), '\n'), 25);
    EXPECT_EQ(candidates_in(autotune(on("", {"--all"})).out), 24);
    EXPECT_EQ(candidates_in(autotune(on("", {"--top", "7"})).out), 7);
    EXPECT_THAT(autotune(on("", {"--top", "24"})).out, Not(HasSubstr("more; --all")));
    EXPECT_THAT(autotune(on("", {"--top", "7", "--all"})).err, HasSubstr("--all and --top exclude each other"));
    EXPECT_THAT(autotune(on("", {"--json"})).json()["candidates"], SizeIs(24)) << "a program gets all";
    EXPECT_EQ(candidates_in(autotune(on("compile")).out), 24);
    EXPECT_EQ(candidates_in(autotune(on("compile", {"--top", "3"})).out), 3);
}

TEST(Tune, AnotherArchitectureIsToldTheWholeCommand) {
    CliBench autotune;
    EXPECT_THAT(autotune({"--op", "bgemm", "--shape", "8x8x8", "--layout", "nt", "--arch", "sm_80"}).err,
                HasSubstr("`autotune compile --op bgemm --shape 8x8x8 --layout nt --arch sm_80` compiles for another one"));
    EXPECT_EQ(autotune(on("bench", {"--arch", "sm_80"})).code, ExitCode::usage);
    EXPECT_EQ(autotune(on("sweep", {"--arch", "sm_80"})).code, ExitCode::usage);
}

TEST(WithoutGpu, JsonSaysTimedFalse) {
    CliBench autotune;
    autotune.services.has_driver = false;
    const auto json = autotune(on("", {"--json", "--arch", "sm_80"})).json();
    EXPECT_EQ(json["timed"], false);
    EXPECT_EQ(json["arch"], "sm_80");
    EXPECT_EQ(json["candidates"][0]["registers"], 128);
    EXPECT_EQ(json["candidates"][0]["predicted_us"], 123.4);
}

TEST(WithoutGpu, WhatTimesIsExit3) {
    CliBench autotune;
    autotune.services.has_driver = false;
    for (const char* command : {"bench", "sweep"}) EXPECT_EQ(autotune(on(command)).code, ExitCode::no_gpu) << command;
    EXPECT_EQ(autotune({"verify"}).code, ExitCode::no_gpu);
    EXPECT_EQ(autotune(on("", {"--require-gpu"})).code, ExitCode::no_gpu);
    EXPECT_EQ(autotune({"doctor", "--require-gpu"}).code, ExitCode::no_gpu);
}

TEST(WithoutGpu, TheDatabaseIsStillServed) {
    CliBench autotune;
    autotune(on_small(""));
    autotune.services.has_driver = false;
    EXPECT_THAT(autotune({"show"}).out, HasSubstr("8x8x8"));
    EXPECT_THAT(autotune({"export"}).out, HasSubstr("\"gemm\""));
    EXPECT_EQ(autotune(on_small("explain")).code, ExitCode::done);
    EXPECT_THAT(autotune(on_small("")).out, HasSubstr("winner on record"));
    EXPECT_EQ(autotune({"verify", "--database-only"}).code, ExitCode::done);
}

TEST(Compile, EachArchitectureIsCompiledFor) {
    CliBench autotune;
    autotune(on("compile", {"--arch", "sm_80,sm_90a", "--count", "3"}));
    EXPECT_THAT(autotune.services.compiled_archs, testing::ElementsAre("sm_80", "sm_90a"));
    EXPECT_EQ(autotune.services.compile_options.count, 3);
}

TEST(Compile, SeveralArchitecturesGiveOneJsonArray) {
    CliBench autotune;
    const auto json = autotune(on("compile", {"--arch", "sm_80,sm_90a", "--json"})).json();
    ASSERT_THAT(json, SizeIs(2));
    EXPECT_EQ(json[0]["arch"], "sm_80");
    EXPECT_EQ(json[1]["arch"], "sm_90a");
}

// fp8 has tensor cores from sm_89 on.
TEST(Compile, AnArchitectureThatNoFamilyServesDoesNotEndTheOthers) {
    CliBench autotune;
    const std::vector<std::string> line{"compile", "--op", "fp8gemm", "--shape", "512x512x512", "--dry-run", "--arch"};
    const auto compile = [&](const std::string& archs) {
        std::vector<std::string> words = line;
        words.push_back(archs);
        return autotune(words);
    };
    const Said both = compile("sm_80,sm_89");
    EXPECT_EQ(both.code, ExitCode::some_failed);
    EXPECT_THAT(both.err, AllOf(HasSubstr("on sm_80"), HasSubstr("from compute capability 8.9 on (gemm/mma_fp8)")));
    EXPECT_THAT(both.out, AllOf(HasSubstr("sm_89"), HasSubstr("gemm/mma_fp8")));
    EXPECT_EQ(compile("sm_80").code, ExitCode::no_valid_config);
}

TEST(Explain, AProblemThatNoFamilyServesIsNotSentToATune) {
    CliBench autotune;
    const Said said = autotune({"explain", "--op", "fp8gemm", "--shape", "512x512x512", "--arch", "sm_80"});
    EXPECT_EQ(said.code, ExitCode::done);
    EXPECT_THAT(said.out, AllOf(HasSubstr("no family can do"), Not(HasSubstr("finds one"))));
}

// ---- bench ----

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

// ---- sweep ----

TEST(Sweep, TakesAFileWithWordsPerLine) {
    CliBench autotune;
    const std::string path = autotune.file("shapes.txt", "8x8x8\n16x16x16 op=bgemm layout=nt\n");
    const auto json = autotune({"sweep", "--op", "hgemm", "--shapes", path, "--json"}).json();
    const auto& items = json["items"];
    ASSERT_THAT(items, SizeIs(2));
    EXPECT_EQ(items[0]["problem"]["traits"]["a"], "f16");
    EXPECT_EQ(items[1]["problem"]["traits"]["a"], "bf16");
    EXPECT_EQ(items[1]["problem"]["traits"]["layout"], "nt");
    EXPECT_EQ(json["summary"]["tuned"], 2);
}

TEST(Sweep, TakesRanges) {
    CliBench autotune;
    EXPECT_THAT(autotune({"sweep", "--op", "hgemm", "--shapes", "8:32:8x8x8", "--json"}).json()["items"], SizeIs(4));
}

TEST(Sweep, ABadLineIsNamedBeforeAnythingIsTuned) {
    CliBench autotune;
    const std::string path = autotune.file("shapes.txt", "8x8x8\n8x8\n");
    const Said said = autotune({"sweep", "--op", "hgemm", "--shapes", path});
    EXPECT_EQ(said.code, ExitCode::usage);
    EXPECT_THAT(said.err, HasSubstr("shapes.txt:2"));
}

TEST(Sweep, SomeFailedIsExit7) {
    CliBench autotune;
    autotune.services.sweep_states = {State::tuned, State::failed};
    const Said said = autotune({"sweep", "--op", "hgemm", "--shapes", "8,16x8x8"});
    EXPECT_EQ(said.code, ExitCode::some_failed);
    EXPECT_THAT(said.out, HasSubstr("1 failed"));
}

TEST(Sweep, InterruptedIsExit130AndSaysHowManyAreLeft) {
    CliBench autotune;
    autotune.services.sweep_states = {State::tuned, State::interrupted, State::interrupted};
    const Said said = autotune({"sweep", "--op", "hgemm", "--shapes", "8,16,24x8x8"});
    EXPECT_EQ(said.code, ExitCode::interrupted);
    EXPECT_THAT(said.err, AllOf(HasSubstr("1 winners are kept"), HasSubstr("other 2")));
}

// A problem takes its budget, blocks beside it, and one that began before the end is finished.
TEST(Sweep, ADryRunSaysHowLongItTakesAtMost) {
    CliBench autotune;
    const std::vector<std::string> line{"sweep",    "--op", "hgemm",     "--shapes", "8,16,24x8x8",
                                        "--budget", "10s",  "--dry-run", "--json"};
    EXPECT_DOUBLE_EQ(autotune(line).json()["seconds_at_most"].get<double>(), 35.4);
    std::vector<std::string> limited = line;
    limited.insert(limited.end(), {"--total-budget", "20s"});
    EXPECT_DOUBLE_EQ(autotune(limited).json()["seconds_at_most"].get<double>(), 31.8);
}

TEST(Sweep, BudgetsReachTheTuner) {
    CliBench autotune;
    autotune({"sweep", "--op", "hgemm", "--shapes", "8x8x8", "--budget", "3s", "--total-budget", "2m"});
    EXPECT_DOUBLE_EQ(autotune.services.sweep_options.each.budget.seconds, 3);
    EXPECT_DOUBLE_EQ(autotune.services.sweep_options.total_seconds, 120);
}

TEST(Sweep, ProgressIsForTerminalsOnly) {
    CliBench autotune;
    EXPECT_EQ(autotune({"sweep", "--op", "hgemm", "--shapes", "8x8x8"}).err, "");
    autotune.terminal = true;
    EXPECT_THAT(autotune({"sweep", "--op", "hgemm", "--shapes", "8x8x8"}).err, HasSubstr("1/1"));
}

// ---- the database ----

TEST(Show, AnEmptyDatabaseIsNoError) {
    CliBench autotune;
    const Said said = autotune({"show"});
    EXPECT_EQ(said.code, ExitCode::done);
    EXPECT_THAT(said.out, HasSubstr("no winner yet"));
}

TEST(Show, JsonCountsAllAndShowsTheLimit) {
    CliBench autotune;
    autotune({"--op", "hgemm", "--shape", "8,16,24x8x8"});
    const auto json = autotune({"show", "--json", "--limit", "2"}).json();
    EXPECT_EQ(json["total"], 3);
    EXPECT_EQ(json["shown"], 2);
    EXPECT_THAT(json["winners"], SizeIs(2));
}

TEST(Show, AShapeSelectsItsRow) {
    CliBench autotune;
    autotune({"--op", "hgemm", "--shape", "8,16,24x8x8"});
    const auto json = autotune({"show", "--json", "--op", "hgemm", "--shape", "16x8x8"}).json();
    ASSERT_EQ(json["total"], 1);
    EXPECT_EQ(json["winners"][0]["shape"], "16x8x8");
}

TEST(Database, ANamedOneThatIsMissingIsExit5ForReaders) {
    CliBench autotune;
    const Said said = autotune({"show", "--db", autotune.folder + "/none.db"});
    EXPECT_EQ(said.code, ExitCode::database);
    EXPECT_THAT(said.err, HasSubstr("none.db"));
}

TEST(Database, AForeignFileIsExit5AndIsNotTouched) {
    CliBench autotune;
    const std::string notes(200, 'n');
    const std::string path = autotune.file("notes.txt", notes);
    const Said said = autotune(on("", {"--db", path}));
    EXPECT_EQ(said.code, ExitCode::database);
    EXPECT_THAT(said.err, HasSubstr("notes.txt"));
    EXPECT_EQ((std::ostringstream() << std::ifstream(path).rdbuf()).str(), notes);
    EXPECT_THAT(autotune.services.tuned, IsEmpty());
}

TEST(Database, AFolderThatCannotBeMadeIsExit5) {
    CliBench autotune;
    const std::string file = autotune.file("file", "in the way");
    const Said said = autotune(on("", {"--db", file + "/x.db"}));
    EXPECT_EQ(said.code, ExitCode::database);
    EXPECT_THAT(said.err, HasSubstr("x.db"));
}

TEST(Transfer, WhatIsExportedIsImported) {
    CliBench here, there;
    here({"--op", "hgemm", "--shape", "8,16x8x8"});
    const std::string path = there.file("rows.jsonl", here({"export"}).out);
    EXPECT_EQ(there({"import", path}).code, ExitCode::done);
    EXPECT_EQ(there({"show", "--json"}).json()["total"], 2);
}

TEST(Transfer, ARowThatIsNotValidIsRefusedAndTheOthersAreTaken) {
    CliBench here, there;
    here(on(""));
    const std::string good = here({"export"}).out;
    std::string foreign = good;
    foreign.replace(foreign.find("gemm/"), 5, "gemm/x");
    const std::string path = there.file("rows.jsonl", "{\"op\": \n" + foreign + good);
    const Said said = there({"import", path});
    EXPECT_EQ(said.code, ExitCode::some_failed);
    EXPECT_EQ(there({"show", "--json"}).json()["total"], 1);
    EXPECT_THAT(said.out, HasSubstr("2 refused"));
}

TEST(Transfer, MergeTakesRowsOfAnotherDatabase) {
    CliBench here, there;
    here(on("", {"--db", here.folder + "/here.db"}));
    EXPECT_EQ(there({"merge", here.folder + "/here.db"}).code, ExitCode::done);
    EXPECT_EQ(there({"show", "--json"}).json()["total"], 1);
}

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

TEST(Csv, ShowSweepAndSimulatePrintRowsWithTheNamesOfTheirJson) {
    CliBench autotune;
    autotune(on(""));
    EXPECT_THAT(autotune({"show", "--csv"}).out,
                AllOf(testing::StartsWith("op,class_key,shape,device.name,"), HasSubstr("512x512x512")));
    EXPECT_THAT(autotune({"sweep", "--op", "hgemm", "--shapes", "8x8x8", "--csv"}).out,
                AllOf(testing::StartsWith("problem.op,problem.shape,"), HasSubstr(",tuned,")));
    const std::string simulated = autotune({"simulate", "space.json", "--csv"}).out;
    EXPECT_THAT(simulated,
                AllOf(testing::StartsWith("space,name,runs,"), HasSubstr("median_evaluations_to_5pct"), Not(HasSubstr("curve"))));
}

TEST(Simulate, RunsMayEndBeforeTheOptimum) {
    CliBench autotune;
    autotune({"simulate", "space.json", "--until", "5"});
    EXPECT_EQ(autotune.services.simulate_options.until_percent, 5);
}

TEST(Simulate, ComparesTheFirstStrategyWithTheBestOther) {
    CliBench autotune;
    autotune.services.simulated = {"model", "greedy"};
    EXPECT_THAT(autotune({"simulate", "space.json"}).out, HasSubstr("model / best other"));
    EXPECT_EQ(autotune({"simulate", "space.json", "--json"}).json()["best_other"][0]["name"], "greedy");
}

TEST(Simulate, APlotHasACurveForEachStrategy) {
    CliBench autotune;
    const std::string path = autotune.folder + "/curves.svg";
    EXPECT_EQ(autotune({"simulate", "space.json", "--plot", path}).code, ExitCode::done);
    EXPECT_THAT(text_of(path), AllOf(HasSubstr(">random<"), HasSubstr("evaluations")));
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

// ---- the rest ----

TEST(Families, JsonHasTheDocumentedMembers) {
    const auto json = all_families({"--json"}).json();
    ASSERT_GE(json["families"].size(), 2u);
    for (const auto& family : json["families"]) {
        for (const char* member : {"name", "op", "parameters", "named_configs", "legal"})
            EXPECT_TRUE(family.contains(member)) << member;
        EXPECT_EQ(family["legal"].size(), known_archs().size());
    }
}

TEST(Families, MmaHasAtLeast500LegalConfigsAt4096Cubed) {
    CliBench autotune;
    const auto json = autotune({"families", "--json", "--op", "hgemm", "--family", "mma"}).json();
    ASSERT_THAT(json["families"], SizeIs(1));
    for (const auto& [arch, count] : json["families"][0]["legal"].items()) EXPECT_GE(count.get<int>(), 500) << arch;
}

TEST(Doctor, JsonListsChecks) {
    CliBench autotune;
    const Said said = autotune({"doctor", "--json"});
    EXPECT_EQ(said.code, ExitCode::done) << said.out;
    EXPECT_EQ(said.json()["ok"], true);
    EXPECT_GE(said.json()["checks"].size(), 6u);
}

TEST(Doctor, ADatabaseThatIsNotMadeYetIsSaidToBeSo) {
    CliBench autotune;
    for (const std::vector<std::string>& words :
         std::vector<std::vector<std::string>>{{"doctor"}, {"doctor", "--db", autotune.folder + "/none/x.db"}}) {
        const Said said = autotune(words);
        EXPECT_EQ(said.code, ExitCode::done) << said.out;
        EXPECT_THAT(said.out, HasSubstr(".db (not made yet: the first tune makes it)"));
        EXPECT_EQ(said.err, "") << "a finding, not a warning";
    }
    autotune(on(""));
    EXPECT_THAT(autotune({"doctor"}).out, HasSubstr(": 1 winner of its own, 0 shipped; SQLite "));
}

TEST(Doctor, AMissingNvrtcIsExit1AndNamed) {
    CliBench autotune;
    autotune.variables["AUTOTUNE_NVRTC"] = "/missing";
    const Said said = autotune({"doctor"});
    EXPECT_EQ(said.code, ExitCode::error);
    EXPECT_THAT(said.out, HasSubstr("unset AUTOTUNE_NVRTC"));
}

TEST(Doctor, ACompilerThatCannotCompileIsNamedWithItsWordsAndARemedy) {
    CliBench autotune;
    autotune.services.tiny_compile.failure = "nvrtc: error: failed to open libnvrtc-builtins.so.13.0.\n  Make sure that ...\n";
    const Said said = autotune({"doctor"});
    EXPECT_EQ(said.code, ExitCode::error);
    EXPECT_THAT(said.out, HasSubstr("failed to open libnvrtc-builtins.so.13.0"));
    EXPECT_THAT(said.out, HasSubstr("AUTOTUNE_NVRTC"));
    EXPECT_THAT(said.out, HasSubstr("/lib/libnvrtc.so.13"));
}

TEST(Doctor, ADriverThatFailsIsExit3) {
    CliBench autotune;
    autotune.services.on_open = [] { throw Error(ErrorCode::no_gpu, "cuInit failed: CUDA_ERROR_STUB_LIBRARY"); };
    const Said said = autotune({"doctor"});
    EXPECT_EQ(said.code, ExitCode::no_gpu);
    EXPECT_THAT(said.out, HasSubstr("STUB_LIBRARY"));
}

TEST(Simulate, JsonHasTheDocumentedMembers) {
    CliBench autotune;
    const auto json = autotune({"simulate", "space.json", "--runs", "7", "--json"}).json();
    EXPECT_EQ(autotune.services.simulate_options.runs, 7);
    const auto& strategy = json["strategies"][0];
    for (const char* member : {"name", "runs", "median_evaluations_to_5pct", "runs_solved_5pct"})
        EXPECT_TRUE(strategy.contains(member)) << member;
}

TEST(Completion, IsAScriptForEachShell) {
    CliBench autotune;
    EXPECT_THAT(autotune({"completion", "bash"}).out, HasSubstr("complete -F _autotune autotune"));
    EXPECT_THAT(autotune({"completion", "zsh"}).out, HasSubstr("#compdef autotune"));
}

TEST(Streams, OutputThatCannotBeWrittenIsAnError) {
    FakeServices services;
    std::ostringstream err;
    std::ofstream full("/dev/full");
    std::atomic<bool> stop{false};
    Cli cli({.out = full, .err = err}, Environment(Environment::Variables{{"HOME", "/nonexistent"}}), services,
            {.binary = "", .version = "1", .shipped_folders = {}, .stop = &stop});
    EXPECT_EQ(cli.run({"families", "--op", "add", "--json"}), ExitCode::error);
    EXPECT_THAT(err.str(), HasSubstr("standard output"));
}

// ---- record ----

// The words of a help's example, with its output in the bench's folder.
std::vector<std::string> words_of_example(const CliBench& autotune, const std::string& example) {
    std::vector<std::string> words = split(example, ' ');
    words.erase(words.begin());  // the program's name
    for (std::size_t i = 1; i < words.size(); ++i) {
        if (words[i - 1] == "--out") words[i] = autotune.folder + "/" + words[i];
    }
    return words;
}

TEST(Record, TheExampleOfItsHelpIsASpaceThatIsSmallEnough) {
    CliBench autotune;
    const std::vector<std::string> words = words_of_example(autotune, record_command().examples.at(0));
    EXPECT_EQ(autotune(words).code, ExitCode::done);
    const tuner::RecordOptions& options = autotune.services.record_options;
    ASSERT_THAT(options.choice.families, SizeIs(1));
    const Catalogue& catalogue = test::embedded_catalogue();
    const Problem problem = catalogue.problem({.op = "hgemm", .shape = "2048x2048x2048", .options = {}});
    for (const std::string& arch : known_archs()) {
        const SearchSpace space = catalogue.find_family(options.choice.families[0])->space(problem, *reference_device(arch));
        const std::size_t points = space.enumerate(options.choice.pins).size();
        EXPECT_GT(points, 100u) << arch;
        EXPECT_LE(points, options.most_points) << arch;
    }
}

TEST(Record, ARefusedOneLeavesNoFileAndAnExistingOneAsItIs) {
    CliBench autotune;
    const std::string out = autotune.folder + "/space.json";
    EXPECT_EQ(autotune({"record", "--op", "hgemm", "--shape", "64x64x64,32x32x32", "--out", out}).code, ExitCode::usage);
    EXPECT_FALSE(std::filesystem::exists(out));
    autotune.file("space.json", "kept");
    EXPECT_EQ(autotune({"record", "--op", "hgemm", "--shape", "64x64x64,32x32x32", "--out", out}).code, ExitCode::usage);
    EXPECT_EQ(text_of(out), "kept");
}

}  // namespace
}  // namespace autotune::cli
