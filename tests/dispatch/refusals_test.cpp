#include "src/dispatch/rules/refusals.h"

#include <gmock/gmock.h>

#include "src/core/problem/device.h"
#include "src/dispatch/offers.h"
#include "tests/support/embedded_catalogue.h"

namespace autotune {
namespace {

TEST(Refusals, AReasonIsSaidOnceWithAllItsFamilies) {
    const Catalogue& catalogue = test::embedded_catalogue();
    const Problem problem = catalogue.problem({"fp8gemm", "512x512x512", {}});
    const FamilyDefaults defaults = family_defaults(catalogue, problem, reference_device("sm_86").value());
    EXPECT_TRUE(defaults.candidates.empty());
    const std::string text = defaults.refusals.sentence(problem, reference_device("sm_86").value());
    EXPECT_THAT(text, testing::StartsWith("no family can do " + problem.key() + " on sm_86: "));
    EXPECT_THAT(text, testing::HasSubstr("tensor cores multiply fp8 from compute capability 8.9 on (gemm/mma_fp8)"));
    EXPECT_THAT(text, testing::HasSubstr("wgmma exists on compute capability 9.0 alone (gemm/wgmma, gemm/wgmma_fp8, "));
    EXPECT_EQ(text.find("9.0 alone"), text.rfind("9.0 alone"));
}

}  // namespace
}  // namespace autotune
