#include "src/jit/render.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <regex>

#include "src/core/error.h"
#include "tests/support/embedded_catalogue.h"

namespace autotune::jit {
namespace {

using ::testing::Contains;
using ::testing::Not;

const Target kHopper{"sm_90a", "13.0"};

// Every family that accepts an f16 GEMM on the data-sheet H200, rendered with its default config.
class RenderFamily : public ::testing::TestWithParam<std::string> {
  protected:
    RenderFamily()
        : device_(*reference_device("sm_90a")),
          problem_(catalogue_.problem({"hgemm", "512x512x512", {}})),
          family_(*catalogue_.find_family(GetParam())) {}

    void SetUp() override {
        if (const auto reason = family_.refuses(problem_, device_)) GTEST_SKIP() << *reason;
        space_ = family_.space(problem_, device_);
    }
    Rendered rendered(const Config& config, const Target& target = kHopper) const {
        return render(catalogue_, family_, problem_, space_, config, target);
    }

    const Catalogue& catalogue_ = test::embedded_catalogue();
    Device device_;
    Problem problem_;
    const Family& family_;
    SearchSpace space_;
};

std::vector<std::string> gemm_families() {
    std::vector<std::string> names;
    for (const Family* family : test::embedded_catalogue().families_of("gemm")) names.emplace_back(family->name());
    return names;
}

INSTANTIATE_TEST_SUITE_P(Gemm, RenderFamily, ::testing::ValuesIn(gemm_families()),
                         [](const auto& test) { return std::regex_replace(test.param, std::regex("[^a-z0-9]"), "_"); });

TEST_P(RenderFamily, NamesTheSymbolByOpFamilyAndIdentity) {
    const Rendered instance = rendered(space_.default_config);
    const std::string prefix = std::regex_replace(GetParam(), std::regex("[^a-z0-9]"), "_");
    EXPECT_EQ(instance.identity.size(), 64U);
    EXPECT_EQ(instance.symbol, prefix + "_" + instance.identity.substr(0, 16));
    EXPECT_NE(instance.source.find(instance.symbol), std::string::npos);
}

TEST_P(RenderFamily, GivesTheSameIdentityTwice) {
    EXPECT_EQ(rendered(space_.default_config).identity, rendered(space_.default_config).identity);
}

TEST_P(RenderFamily, GivesOneIdentityToConfigsThatDifferInLaunchParametersAlone) {
    for (const Config& config : space_.enumerate({}, 2000)) {
        const bool same = space_.compile_part(config) == space_.compile_part(space_.default_config);
        if (!same || config == space_.default_config) continue;
        EXPECT_EQ(rendered(config).identity, rendered(space_.default_config).identity) << config.to_string();
    }
}

TEST_P(RenderFamily, GivesAnotherIdentityToAnotherCompilePart) {
    for (const Config& config : space_.enumerate({}, 200)) {
        if (space_.compile_part(config) == space_.compile_part(space_.default_config)) continue;
        EXPECT_NE(rendered(config).identity, rendered(space_.default_config).identity) << config.to_string();
    }
}

TEST_P(RenderFamily, GivesAnotherIdentityToAnotherCompilerOrArchitecture) {
    const std::string identity = rendered(space_.default_config).identity;
    EXPECT_NE(rendered(space_.default_config, {"sm_90a", "13.1"}).identity, identity);
    EXPECT_NE(rendered(space_.default_config, {"sm_100a", "13.0"}).identity, identity);
}

TEST_P(RenderFamily, GivesTheCompilerNothingButOurOwnHeaders) {
    for (const auto& [name, text] : rendered(space_.default_config).headers)
        EXPECT_TRUE(name.starts_with("common/") || name.starts_with("gemm/")) << name;
}

// All other kernels that a plan of the family launches.
TEST_P(RenderFamily, NamesItsOtherKernels) {
    const std::vector<std::string> entries = second_entries(rendered(space_.default_config));
    for (const char* shape : {"512x512x512", "33x65x4099", "1x64x8192"}) {
        for (const char* align : {"2", "16"}) {
            const Problem problem = catalogue_.problem({"hgemm", shape, {{"align", align}}});
            if (family_.refuses(problem, device_)) continue;
            for (const Config& config : family_.space(problem, device_).sample({}, 200)) {
                for (const LaunchStep& step : family_.plan(problem, config, device_).steps) {
                    if (step.entry.empty()) continue;
                    ASSERT_THAT(entries, Contains(step.entry)) << config.to_string();
                }
            }
        }
    }
}

TEST(RenderMma, NamesItsOtherKernelsAlone) {
    const Catalogue& catalogue = test::embedded_catalogue();
    const Problem problem = catalogue.problem({"hgemm", "512x512x512", {}});
    const Family& family = *catalogue.find_family("gemm/mma");
    const Device device = *reference_device("sm_90a");
    const SearchSpace space = family.space(problem, device);
    EXPECT_THAT(second_entries(render(catalogue, family, problem, space, space.default_config, kHopper)),
                ::testing::ElementsAre("_pack", "_reduce"));
}

TEST_P(RenderFamily, LeavesNoPlaceholder) {
    EXPECT_EQ(rendered(space_.default_config).source.find("${"), std::string::npos);
}

TEST_P(RenderFamily, RefusesAConfigOutsideTheSpace) {
    Config config = space_.default_config;
    config.set("no_such_parameter", 1);
    EXPECT_THROW(rendered(config), Error);
}

TEST_P(RenderFamily, TurnsTheCompilersOwnCacheOffWhereItHasOne) {
    EXPECT_THAT(rendered(space_.default_config, {"sm_90a", "12.9"}).options, Contains("--no-cache"));
    EXPECT_THAT(rendered(space_.default_config, {"sm_90a", "12.10"}).options, Contains("--no-cache"));
    EXPECT_THAT(rendered(space_.default_config, {"sm_90a", "12.4"}).options, Not(Contains("--no-cache")));
}

TEST_P(RenderFamily, RefusesAnArchitectureThatIsNone) {
    EXPECT_THROW(rendered(space_.default_config, {"sm_90a --include-path=/", "13.0"}), Error);
    EXPECT_THROW(rendered(space_.default_config, {"", "13.0"}), Error);
}

TEST(RenderReference, IsNamedAfterItsOp) {
    const Catalogue& catalogue = test::embedded_catalogue();
    const Problem problem = catalogue.problem({"hgemm", "64x64x64", {}});
    const Rendered reference = render_reference(catalogue, catalogue.op_of(problem), problem, kHopper);
    EXPECT_TRUE(reference.symbol.starts_with("gemm_reference_")) << reference.symbol;
}

TEST(RenderHarness, IsTheSameForEveryProblem) {
    const Catalogue& catalogue = test::embedded_catalogue();
    EXPECT_EQ(render_harness(catalogue, kHopper).symbol, "autotune");
    EXPECT_EQ(render_harness(catalogue, kHopper).identity, render_harness(catalogue, kHopper).identity);
}

}  // namespace
}  // namespace autotune::jit
