#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/tools/cli_bench.h"
#include "tests/tools/commands/words_of_commands.h"

namespace autotune::cli {
namespace {

using testing::HasSubstr;

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

}  // namespace
}  // namespace autotune::cli
