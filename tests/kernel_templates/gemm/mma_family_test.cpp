#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "src/catalogue/catalogue.h"
#include "tests/support/embedded_catalogue.h"

namespace autotune::mma_family_test {
namespace {

class MmaFamily : public testing::Test {
  protected:
    Problem problem(const std::string& shape, std::map<std::string, std::string> options = {}) const {
        return catalogue_.problem({.op = "hgemm", .shape = shape, .options = std::move(options)});
    }
    SearchSpace space(const Problem& problem) const { return family_.space(problem, device_); }

    const Catalogue& catalogue_ = test::embedded_catalogue();
    const Family& family_ = *catalogue_.find_family("gemm/mma");
    Device device_ = *reference_device("sm_90a");
};

TEST_F(MmaFamily, HasAtLeast500LegalConfigsAt4096Cubed) {
    EXPECT_GE(space(problem("4096x4096x4096")).count().legal, 500U);
}

TEST_F(MmaFamily, DefaultIsLegalFromTheSmallestShapeOnEveryArchitecture) {
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

TEST_F(MmaFamily, ClassicNamesAreConfigsAt4096Cubed) {
    const SearchSpace s = space(problem("4096x4096x4096"));
    for (const char* name : {"mma_m16n8k16_mma2x4_warp4x4", "mma_m16n8k16_mma2x4_warp4x4_stage3_dsmem",
                             "mma_m16n8k16_mma2x4_warp4x4x2_smem_swizzle_rbuf_stage4_dsmem_swizzle2048"}) {
        EXPECT_TRUE(std::any_of(s.named.begin(), s.named.end(), [&](const NamedConfig& n) { return n.name == name; })) << name;
    }
}

TEST_F(MmaFamily, SplitKAddsAReduceThatReadsTheWorkspace) {
    const Problem p = problem("512x512x8192");
    Config config = space(p).default_config;
    config.set("split_k", 4);
    const LaunchPlan plan = family_.plan(p, config, device_);
    ASSERT_EQ(plan.steps.size(), 2U);
    EXPECT_EQ(plan.steps[1].entry, "_reduce");
    EXPECT_EQ(plan.workspace_bytes, 4U * 512 * 512 * 4);
}

TEST_F(MmaFamily, PackingCopiesOnlyUnalignedOperands) {
    const Problem p = problem("512x512x513", {{"layout", "nn"}});  // rows of A have 1026 bytes, rows of B 1024
    Config config = space(p).default_config;
    config.set("pack", 1);
    config.set("split_k", 1);
    const LaunchPlan plan = family_.plan(p, config, device_);
    ASSERT_EQ(plan.steps.size(), 2U);
    EXPECT_EQ(plan.steps[0].entry, "_pack");
    EXPECT_EQ(plan.steps[1].entry, "");
    EXPECT_EQ(plan.workspace_bytes, 512U * 520 * 2);
}

TEST_F(MmaFamily, EveryPlanOfASmallProblemCoversCWithItsGrid) {
    const Problem p = problem("200x304x256");
    for (const Config& config : space(p).enumerate()) {
        const LaunchPlan plan = family_.plan(p, config, device_);
        const auto tiles = (199 / config["block_m"] + 1) * (303 / config["block_n"] + 1);
        ASSERT_EQ(plan.steps.front().grid.x, tiles * config["split_k"]) << config.to_string();
    }
}

TEST_F(MmaFamily, NoConfigAsksForMoreSharedMemoryThanABlockMayHave) {
    const Device small = *reference_device("sm_86");
    const Problem p = problem("1024x1024x1024");
    for (const Config& config : family_.space(p, small).enumerate({{"raster", 0}, {"swizzle_stride", 0}})) {
        const LaunchPlan plan = family_.plan(p, config, small);
        ASSERT_LE(plan.steps.front().dynamic_smem_bytes, static_cast<std::size_t>(small.limits.smem_per_block_bytes))
            << config.to_string();
    }
}

TEST_F(MmaFamily, SplitBarrierTakes16BytesMoreSharedMemory) {
    const Problem p = problem("4096x4096x2048");
    Config config = space(p).default_config;
    config.set("split_barrier", 0);
    const std::size_t plain = family_.plan(p, config, device_).steps.front().dynamic_smem_bytes;
    config.set("split_barrier", 1);
    EXPECT_EQ(family_.plan(p, config, device_).steps.front().dynamic_smem_bytes, plain + 16);
}

TEST_F(MmaFamily, SplitBarrierIsIllegalBeforeTheNextTilesCopiesAreIssued) {
    const SearchSpace s = space(problem("4096x4096x2048"));
    Config config = s.default_config;
    config.set("split_barrier", 1);
    config.set("block_k", 32);
    config.set("stages", 3);
    EXPECT_EQ(s.why_not(config), std::nullopt);
    config.set("stages", 2);
    EXPECT_NE(s.why_not(config), std::nullopt);
}

TEST_F(MmaFamily, RanksTheFastestMeasuredConfigAmongTheFirst40) {
    // On an H200 it takes 166.1 us, the least of 58 configs for this problem.
    const Problem p = problem("4096x4096x2048");
    Config fastest = space(p).default_config;
    for (const auto& [name, value] : std::map<std::string, std::int64_t>{{"block_m", 128},
                                                                         {"block_n", 256},
                                                                         {"warps_m", 2},
                                                                         {"warps_n", 4},
                                                                         {"block_k", 64},
                                                                         {"stages", 4},
                                                                         {"smem_swizzle", 1},
                                                                         {"reg_buffers", 2},
                                                                         {"split_barrier", 0},
                                                                         {"min_blocks", 1},
                                                                         {"split_k", 1},
                                                                         {"raster", 0},
                                                                         {"swizzle_stride", 0}}) {
        fastest.set(name, value);
    }
    const double fastest_us = *family_.predict_us(p, fastest, device_);
    const auto all = space(p).enumerate();
    EXPECT_LT(
        std::count_if(all.begin(), all.end(), [&](const Config& c) { return *family_.predict_us(p, c, device_) < fastest_us; }),
        40);
}

// 12338x9881x186 with beta takes 1,016 us in 64x192 and eight warps if one block runs on an SM, 606 us with two.
TEST_F(MmaFamily, PredictsThatTheRegistersOf64x192LeaveRoomForASecondBlockOnlyWhereItIsAskedFor) {
    const Problem p = problem("12338x9881x186", {{"beta", "any"}});
    Config one = space(p).default_config;
    for (const auto& [name, value] : std::map<std::string, std::int64_t>{{"block_m", 64},
                                                                         {"block_n", 192},
                                                                         {"warps_m", 2},
                                                                         {"warps_n", 4},
                                                                         {"block_k", 32},
                                                                         {"stages", 4},
                                                                         {"smem_swizzle", 1},
                                                                         {"reg_buffers", 2},
                                                                         {"split_barrier", 1},
                                                                         {"min_blocks", 1},
                                                                         {"pack", 1},
                                                                         {"split_k", 1},
                                                                         {"raster", 0},
                                                                         {"swizzle_stride", 0}})
        one.set(name, value);
    Config two = one;
    two.set("min_blocks", 2);
    EXPECT_TRUE(space(p).contains(one));
    EXPECT_TRUE(space(p).contains(two));
    EXPECT_GT(*family_.predict_us(p, one, device_), 1.2 * *family_.predict_us(p, two, device_));
}

TEST_F(MmaFamily, PredictsThatTwiceTheDepthTakesLonger) {
    const Problem shallow = problem("4096x4096x2048");
    const Problem deep = problem("4096x4096x4096");
    const Config config = space(shallow).default_config;
    EXPECT_GT(*family_.predict_us(deep, config, device_), 1.7 * *family_.predict_us(shallow, config, device_));
}

}  // namespace
}  // namespace autotune::mma_family_test
