#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <variant>

#include "src/catalogue/catalogue.h"
#include "tests/support/embedded_catalogue.h"

namespace autotune::attention_bwd_wgmma_family_test {
namespace {

class AttentionBwdWgmmaFamily : public testing::Test {
  protected:
    Problem problem(const std::string& shape, std::map<std::string, std::string> options = {}) const {
        options.emplace("dtype", "bf16");
        return catalogue_.problem({.op = "attention_bwd", .shape = shape, .options = std::move(options)});
    }
    SearchSpace space(const Problem& problem) const { return family_.space(problem, device_); }
    LaunchPlan usual(const Problem& problem) const {
        return family_.plan(problem, family_.default_config(problem, device_), device_);
    }

    const Catalogue& catalogue_ = test::embedded_catalogue();
    const Family& family_ = *catalogue_.find_family("attention_bwd/wgmma");
    Device device_ = *reference_device("sm_90a");
};

TEST_F(AttentionBwdWgmmaFamily, TakesAlignedSixteenBitRowsOnHopperAlone) {
    EXPECT_EQ(family_.refuses(problem("1x2x300x64"), device_), std::nullopt);
    EXPECT_EQ(family_.refuses(problem("1x2x300x128", {{"dtype", "f16"}}), device_), std::nullopt);
    EXPECT_NE(family_.refuses(problem("1x2x300x64", {{"dtype", "f32"}}), device_), std::nullopt);
    EXPECT_NE(family_.refuses(problem("1x2x300x64", {{"align", "8"}}), device_), std::nullopt);
    EXPECT_EQ(family_.refuses(problem("1x2x300x256"), device_), std::nullopt);
    EXPECT_NE(family_.refuses(problem("1x2x300x64"), *reference_device("sm_80")), std::nullopt);
}

TEST_F(AttentionBwdWgmmaFamily, HasHundredsOfLegalConfigs) {
    for (const char* shape : {"4x16x4096x128", "1x16x13312x64"})
        EXPECT_GE(space(problem(shape, {{"mask", "causal"}})).count().legal, 100U) << shape;
}

// From 384 columns on, dK and dV do not both fit into a block, so different blocks compute them.
TEST_F(AttentionBwdWgmmaFamily, WideSumsAreOfTwoBlocks) {
    for (const char* size : {"96", "160", "192", "256"}) {
        const Problem wide = problem("2x8x1024x" + std::string(size), {{"kv-heads", "2"}});
        EXPECT_GE(space(wide).count().legal, 20U) << size;
        EXPECT_EQ(usual(wide).steps[2].grid.x, 2U * 2 * 8 * (std::stoi(size) > 172 ? 2 : 1)) << size;
    }
    EXPECT_EQ(usual(problem("2x8x1024x192", {{"dv", "128"}})).steps[2].grid.x, 2U * 8 * 8);
}

TEST_F(AttentionBwdWgmmaFamily, SaysWhyAConfigIsDropped) {
    const Problem causal = problem("4x16x4096x128", {{"mask", "causal"}});
    const SearchSpace all = space(causal);
    Config config = all.default_config;
    config.set("k_block_q", 80);
    EXPECT_EQ(all.why_not(config), "dK, dV, scores and their gradients exceed the registers that setmaxnreg can give");
    config = all.default_config;
    config.set("q_block_k", 96);
    config.set("q_stages", 4);
    EXPECT_EQ(all.why_not(config), "tiles of the pass of dQ exceed shared memory");
}

// The workspace has whole tiles of queries for both passes, whatever the heights of the tiles.
TEST_F(AttentionBwdWgmmaFamily, TheWorkspaceHoldsWholeTilesOfQueries) {
    for (int rows = 1; rows < 1000; rows += 7) {
        const Problem few = problem("1x1x" + std::to_string(rows) + "x64");
        const auto padded = static_cast<int>(usual(few).workspace_bytes / 2 / 4);
        for (const int tile : {64, 128, 192, 48, 80, 112})
            EXPECT_GE(padded, (rows + tile - 1) / tile * tile) << rows << " " << tile;
    }
}

TEST_F(AttentionBwdWgmmaFamily, EachPassOwnsItsSide) {
    const LaunchPlan plan = usual(problem("2x8x1000x128", {{"kv-heads", "2"}, {"kv-len", "600"}}));
    ASSERT_EQ(plan.steps.size(), 3U);
    EXPECT_EQ(plan.steps[0].entry, "_prepare");
    EXPECT_EQ(plan.steps[1].grid.x, 2U * 8 * 8);  // tiles of 128 queries
    EXPECT_EQ(plan.steps[2].entry, "_keys");
    EXPECT_EQ(plan.steps[2].grid.x, 2U * 2 * 5);  // tiles of 128 keys
    EXPECT_TRUE(plan.deterministic);
    EXPECT_EQ(plan.workspace_zero_bytes, 0U);
}

}  // namespace
}  // namespace autotune::attention_bwd_wgmma_family_test
