#include <gmock/gmock.h>

#include "src/catalogue/catalogue.h"
#include "src/rivals/rival.h"
#include "tests/support/embedded_catalogue.h"

namespace autotune::test {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::IsEmpty;
using testing::IsSupersetOf;
using testing::Not;

std::vector<std::string> names_of(std::string_view op) {
    std::vector<std::string> names;
    for (const auto& rival : rivals_of(op)) names.emplace_back(rival->name());
    return names;
}

TEST(Rivals, AreRegisteredByTheFolderOfTheirOp) {
    EXPECT_THAT(names_of("gemm"), IsSupersetOf({"cublas", "cublaslt"}));
    EXPECT_THAT(names_of("add"), IsEmpty());
    EXPECT_THAT(names_of("convolution"), IsEmpty());
}

TEST(Rivals, NamesAreGivenOnceAndInOrder) {
    const std::vector<std::string> names = rival_names();
    EXPECT_THAT(names, IsSupersetOf({"cublas", "cublaslt"}));
    EXPECT_TRUE(std::is_sorted(names.begin(), names.end()));
    EXPECT_EQ(std::adjacent_find(names.begin(), names.end()), names.end());
}

TEST(Rivals, OneWithChoicesOfItsOwnStaysOutOfTunes) {
    const Problem problem = test::embedded_catalogue().problem({"hgemm", "64x64x64", {}});
    EXPECT_THAT(rivals_in_tunes(problem), AllOf(Contains("cublas"), Not(Contains("cublaslt"))));
}

TEST(Rivals, OneThatHasNoEntryStaysOutOfTunes) {
    const Problem problem = test::embedded_catalogue().problem({"hgemm", "64x64x64", {}});
    Problem refused = problem;
    for (Extent& extent : refused.extents) {
        if (extent.name == "m") extent.value = std::int64_t{1} << 31;
    }
    EXPECT_THAT(rivals_in_tunes(refused), IsEmpty());
}

// Every example problem of an op is accepted, or refused with a sentence, without a GPU and without a library.
TEST(Rivals, SayOfEachExampleWhetherTheyTakeIt) {
    const Catalogue& catalogue = test::embedded_catalogue();
    int asked = 0;
    for (const Op* op : catalogue.ops()) {
        for (const ProblemRequest& request : op->examples()) {
            const Problem problem = catalogue.problem(request);
            for (const auto& rival : rivals_of(problem.op)) {
                const std::string why = rival->refuses(problem);
                EXPECT_EQ(why, rival->refuses(problem));
                EXPECT_EQ(why.find('\n'), std::string::npos) << rival->name();
                ++asked;
            }
        }
    }
    EXPECT_GT(asked, 0);
}

}  // namespace
}  // namespace autotune::test
