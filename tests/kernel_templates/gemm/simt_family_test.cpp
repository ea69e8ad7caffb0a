// Only gemm/simt: problems that it must accept.
#include <gtest/gtest.h>

#include "src/catalogue/catalogue.h"
#include "tests/support/embedded_catalogue.h"

namespace autotune::simt_family_test {
namespace {

TEST(SimtSpace, HasHundredsOfLegalConfigs) {
    const Catalogue& catalogue = test::embedded_catalogue();
    const Problem problem = catalogue.problem({"hgemm", "4096x4096x4096", {}});
    const SearchSpace space = catalogue.find_family("gemm/simt")->space(problem, reference_device("sm_90a").value());
    EXPECT_GE(space.count().legal, 500U);
}

TEST(SimtSpace, TakesEveryLayoutAndAlignmentOf16BitTypes) {
    const Catalogue& catalogue = test::embedded_catalogue();
    const Device device = reference_device("sm_80").value();
    for (const ProblemRequest& request : catalogue.find_op("gemm")->examples()) {
        const Problem problem = catalogue.problem(request);
        if (size_bytes(problem.tensor("a").dtype) != 2) continue;
        EXPECT_EQ(catalogue.find_family("gemm/simt")->refuses(problem, device), std::nullopt);
    }
}

}  // namespace
}  // namespace autotune::simt_family_test
