// What `autotune compile`, and a tune where no driver is installed, say of candidates that did not compile.
#include <gmock/gmock.h>

#include "tests/tools/cli_bench.h"

namespace autotune::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

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

}  // namespace
}  // namespace autotune::cli
