#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/tools/cli_bench.h"
#include "tests/tools/commands/words_of_commands.h"

namespace autotune::cli {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::SizeIs;

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

// Tensor cores have fp8 from sm_89 on.
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

}  // namespace
}  // namespace autotune::cli
