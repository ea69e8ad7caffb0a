// The mutants without a GPU: each must change its template and compile. tests/conformance/mutants_gpu_test.cpp checks that a
// verifier finds them. Those that run on the host are compiled and rejected there (mutants_host_test.cpp).
#include <gtest/gtest.h>

#include "src/jit/compiler.h"
#include "tests/conformance/hand_over.h"
#include "tests/kernel_templates/mutants.h"
#include "tests/support/nvrtc_for_tests.h"

namespace autotune::test {
namespace {

class MutantTest : public ::testing::TestWithParam<Mutant> {
  protected:
    static const std::shared_ptr<const gpu::Nvrtc>& nvrtc() {
        static std::string why;
        static const std::shared_ptr<const gpu::Nvrtc> found = nvrtc_or_skip(why);
        return found;
    }
};

TEST_P(MutantTest, ChangesItsTemplateAndCompiles) {
    const Mutant& mutant = GetParam();
    const Catalogue sound = Catalogue::embedded();
    ASSERT_EQ(occurrences(text_of_template(sound, mutant.path()), mutant.find), 1) << mutant.path() << ": " << mutant.find;
    ASSERT_NE(mutant.find, mutant.replace);
    const Catalogue catalogue = mutated(mutant);
    const Family& family = *catalogue.find_family(mutant.family);
    const Device device = reference_device("sm_90a").value();
    const Problem problem = problem_of(mutant, catalogue);
    ASSERT_FALSE(family.refuses(problem, device)) << *family.refuses(problem, device);
    const SearchSpace space = family.space(problem, device);
    const Config config = config_of(mutant, space);
    if (!nvrtc()) GTEST_SKIP() << "NVRTC was not found";
    const jit::Target target = {"sm_90a", nvrtc()->version()};
    const jit::Rendered rendered = jit::render(catalogue, family, problem, space, config, target);
    EXPECT_NE(rendered.identity, jit::render(sound, family, problem, space, config, target).identity);
    const jit::CompileResult result = jit::compile(*nvrtc(), jit::CubinCache(""), rendered);
    EXPECT_TRUE(result.compiled) << result.failure;
    EXPECT_EQ(result.rejected, "");
}

std::vector<Mutant> not_on_host() {
    std::vector<Mutant> all = mutants();
    std::erase_if(all, runs_on_host);
    return all;
}

INSTANTIATE_TEST_SUITE_P(Each, MutantTest, ::testing::ValuesIn(not_on_host()),
                         [](const auto& entry) { return entry.param.name; });
// tests/conformance/overlap_gpu_test.cpp runs these mutants in chains. This test shows without a GPU that chains of them are
// possible.
TEST(OverlapMutants, HaveAResultThatTheNextLaunchReads) {
    const Catalogue catalogue = Catalogue::embedded();
    for (const Mutant& mutant : overlap_mutants()) EXPECT_TRUE(hand_over(problem_of(mutant, catalogue))) << mutant.name;
}

INSTANTIATE_TEST_SUITE_P(Overlap, MutantTest, ::testing::ValuesIn(overlap_mutants()),
                         [](const auto& entry) { return entry.param.name; });

}  // namespace
}  // namespace autotune::test
