// The output of `autotune compile`, and of a tune without an installed driver, about candidates that did not compile.
#include <gmock/gmock.h>

#include "tests/tools/cli_bench.h"
#include "tests/tools/commands/words_of_commands.h"

namespace autotune::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::SizeIs;

tuner::CompiledRow row_of(TrialStatus status, const std::string& detail) {
    tuner::CompiledRow row;
    row.candidate.family = "gemm/simt";
    row.status = status;
    row.detail = detail;
    row.report.registers = status == TrialStatus::compile_failed ? -1 : 96;
    return row;
}

tuner::CompiledRow refused(const std::string& symbol) {
    return row_of(TrialStatus::compile_failed,
                  "NVRTC refused " + symbol + " for sm_90a: nvrtc: error: failed to open libnvrtc-builtins.so.13.0.");
}

Said compile(CliBench& autotune, const std::vector<std::string>& more = {}) {
    std::vector<std::string> words{"compile", "--op", "hgemm", "--shape", "64x64x64"};
    words.insert(words.end(), more.begin(), more.end());
    return autotune(words);
}

TEST(CompiledRows, ACompilerThatRefusesAllIsAnErrorWithItsCauseOnce) {
    CliBench autotune;
    autotune.services.compiled_rows = {refused("gemm_simt_1"), refused("gemm_simt_2")};
    const Said said = compile(autotune);
    EXPECT_EQ(said.code, ExitCode::error);
    EXPECT_THAT(said.out, AllOf(HasSubstr("status"), HasSubstr("compile_failed"), HasSubstr("2 of 2 did not compile")));
    EXPECT_THAT(said.out, HasSubstr("   2  nvrtc: error: failed to open libnvrtc-builtins.so.13.0.\n"));
    EXPECT_THAT(said.out, HasSubstr("Nothing was timed, and nothing was compiled."));
    EXPECT_THAT(said.out, AllOf(Not(HasSubstr("compiled kernels are in")), Not(HasSubstr("?")), HasSubstr("autotune doctor")));
}

TEST(CompiledRows, ATuneWithoutAGpuSaysTheSame) {
    CliBench autotune;
    autotune.services.has_driver = false;
    autotune.services.compiled_rows = {refused("gemm_simt_1")};
    const Said said = autotune({"--op", "hgemm", "--shape", "64x64x64"});
    EXPECT_EQ(said.code, ExitCode::error);
    EXPECT_THAT(said.out, AllOf(HasSubstr("1 of 1 did not compile"), Not(HasSubstr("compiled kernels are in"))));
}

TEST(CompiledRows, SomeThatFailAreCountedByCause) {
    CliBench autotune;
    autotune.services.compiled_rows = {row_of(TrialStatus::ok, ""), refused("gemm_simt_1"),
                                       row_of(TrialStatus::compile_failed, "compiling took longer than 30 s"),
                                       row_of(TrialStatus::rejected, "spills 120 bytes")};
    const Said said = compile(autotune);
    EXPECT_EQ(said.code, ExitCode::done);
    EXPECT_THAT(said.out, AllOf(HasSubstr("2 of 4 did not compile:\n"), HasSubstr("   1  compiling took longer than 30 s\n"),
                                HasSubstr("1 of 4 compiled and are not used:\n"), HasSubstr("   1  spills 120 bytes\n")));
    EXPECT_THAT(said.out, HasSubstr("The compiled kernels are in "));
}

TEST(CompiledRows, AllRejectedIsNoValidConfig) {
    CliBench autotune;
    autotune.services.compiled_rows = {row_of(TrialStatus::rejected, "spills 120 bytes")};
    EXPECT_EQ(compile(autotune).code, ExitCode::no_valid_config);
}

TEST(CompiledRows, WhereAllAreUsableThereIsNoStatusColumn) {
    CliBench autotune;
    EXPECT_THAT(compile(autotune).out, AllOf(Not(HasSubstr("status")), Not(HasSubstr("did not compile"))));
}

TEST(CompiledRows, JsonCountsWhatFailed) {
    CliBench autotune;
    autotune.services.compiled_rows = {row_of(TrialStatus::ok, ""), refused("gemm_simt_1")};
    const auto json = compile(autotune, {"--json"}).json();
    EXPECT_EQ(json["failed"], 1);
    EXPECT_EQ(json["candidates"][1]["status"], "compile_failed");
    EXPECT_THAT(json["candidates"][1]["detail"].get<std::string>(), HasSubstr("libnvrtc-builtins"));
}

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

}  // namespace
}  // namespace autotune::cli
