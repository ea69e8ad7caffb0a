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

TEST(Tune, AnotherArchitectureIsToldTheWholeCommand) {
    CliBench autotune;
    EXPECT_THAT(autotune({"--op", "bgemm", "--shape", "8x8x8", "--layout", "nt", "--arch", "sm_80"}).err,
                HasSubstr("`autotune compile --op bgemm --shape 8x8x8 --layout nt --arch sm_80` compiles for another one"));
    EXPECT_EQ(autotune(on("bench", {"--arch", "sm_80"})).code, ExitCode::usage);
    EXPECT_EQ(autotune(on("sweep", {"--arch", "sm_80"})).code, ExitCode::usage);
}

}  // namespace
}  // namespace autotune::cli
