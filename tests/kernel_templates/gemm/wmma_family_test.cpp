#include <gtest/gtest.h>

#include <algorithm>

#include "src/catalogue/catalogue.h"
#include "tests/support/embedded_catalogue.h"

namespace autotune::wmma_family_test {
namespace {

class WmmaFamily : public testing::Test {
  protected:
    Problem problem(const std::string& shape, std::map<std::string, std::string> options = {}) const {
        return catalogue_.problem({.op = "hgemm", .shape = shape, .options = std::move(options)});
    }
    SearchSpace space(const Problem& problem) const { return family_.space(problem, device_); }
    Config named(const Problem& problem, const std::string& name) const {
        for (const NamedConfig& found : space(problem).named) {
            if (found.name == name) return found.config;
        }
        return {};
    }

    const Catalogue& catalogue_ = test::embedded_catalogue();
    const Family& family_ = *catalogue_.find_family("gemm/wmma");
    Device device_ = *reference_device("sm_90a");
};

TEST_F(WmmaFamily, HasAtLeast500LegalConfigsAt4096Cubed) {
    EXPECT_GE(space(problem("4096x4096x4096")).count().legal, 500U);
}

TEST_F(WmmaFamily, DefaultIsLegalFromTheSmallestShapeOnEveryArchitecture) {
    for (const std::string& arch : known_archs()) {
        for (const char* shape : {"1x1x1", "1x4096x4096", "17x33x65", "129x513x8191", "4096x4096x2048", "512x512x8192"}) {
            for (const char* align : {"2", "4", "8", "16"}) {
                const Problem p = problem(shape, {{"align", align}});
                const SearchSpace s = family_.space(p, *reference_device(arch));
                EXPECT_EQ(s.why_not(s.default_config), std::nullopt) << arch << " " << p.key();
            }
        }
    }
}

TEST_F(WmmaFamily, AClassicBlockIsItsWarpsTimesTheirTiles) {
    const Config config = named(problem("4096x4096x2048"), "wmma_m16n16k16_mma4x2_warp2x4_stage3_dsmem_swizzle2048");
    EXPECT_EQ(config["block_m"], 16 * 4 * 2);
    EXPECT_EQ(config["block_n"], 16 * 2 * 4);
    EXPECT_EQ(config["stages"], 3);
    EXPECT_EQ(config["swizzle_stride"], 2048);
}

TEST_F(WmmaFamily, DynamicSharedMemoryIsAskedForAtLaunchAndStaticIsNot) {
    const Problem p = problem("4096x4096x2048");
    const Config fixed = named(p, "wmma_m16n16k16_mma4x2_warp2x4_stage4");
    const Config dynamic = named(p, "wmma_m16n16k16_mma4x2_warp2x4_stage4_dsmem");
    EXPECT_EQ(family_.plan(p, fixed, device_).steps.front().dynamic_smem_bytes, 0U);
    // Shared memory holds four stages of 128 rows of 16 + 8 elements and 16 rows of 128 + 8.
    EXPECT_EQ(family_.plan(p, dynamic, device_).steps.front().dynamic_smem_bytes, 4U * (128 * 24 + 16 * 136) * 2);
}

TEST_F(WmmaFamily, AStaticRingBeyond48KiBIsIllegal) {
    const SearchSpace s = space(problem("4096x4096x2048"));
    Config config = named(problem("4096x4096x2048"), "wmma_m16n16k16_mma4x2_warp2x4_stage5_dsmem");
    EXPECT_EQ(s.why_not(config), std::nullopt);
    config.set("dsmem", 0);
    EXPECT_EQ(s.why_not(config).value_or(""), "buffers exceed static shared memory");
}

TEST_F(WmmaFamily, PanelsAreAsWideAsTheirNamesSay) {
    const Problem p = problem("4096x8192x2048");
    const Config config = named(p, "wmma_m16n16k16_mma4x2_warp2x4_stage2_swizzle2048");
    const LaunchPlan plan = family_.plan(p, config, device_);
    EXPECT_EQ(std::get<I32Arg>(plan.steps.front().arguments.back()).value, 2048 / 128);
}

TEST_F(WmmaFamily, NamedConfigsServeRowsOfAnyAlignment) {
    EXPECT_EQ(space(problem("4096x4096x2048", {{"align", "2"}})).named.size(), space(problem("4096x4096x2048")).named.size());
}

TEST_F(WmmaFamily, EveryPlanOfASmallProblemCoversCWithItsGrid) {
    const Problem p = problem("200x304x64");
    for (const Config& config : space(p).enumerate({{"raster", 0}, {"swizzle_stride", 0}})) {
        const auto blocks = (199 / config["block_m"] + 1) * (303 / config["block_n"] + 1);
        ASSERT_EQ(family_.plan(p, config, device_).steps.front().grid.x, blocks) << config.to_string();
    }
}

TEST_F(WmmaFamily, PredictsThatEachClassicStepIsNoSlower) {
    const Problem p = problem("4096x4096x2048");
    double before = 1e9;
    for (const char* name : {"wmma_m16n16k16_naive", "wmma_m16n16k16_mma4x2", "wmma_m16n16k16_mma4x2_warp2x4",
                             "wmma_m16n16k16_mma4x2_warp2x4_async_offset", "wmma_m16n16k16_mma4x2_warp2x4_stage3_dsmem"}) {
        const double now = family_.predict_us(p, named(p, name), device_).value();
        EXPECT_LE(now, before) << name;
        before = now;
    }
}

}  // namespace
}  // namespace autotune::wmma_family_test
