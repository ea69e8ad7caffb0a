#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <variant>

#include "kernel_templates/attention/wgmma/geometry.h"
#include "src/catalogue/catalogue.h"
#include "tests/support/embedded_catalogue.h"

namespace autotune::attention_wgmma_family_test {
namespace {

using attention::View;
using attention_wgmma::Grid;
using attention_wgmma::ResolvedConfig;

class AttentionWgmmaFamily : public testing::Test {
  protected:
    Problem problem(const std::string& shape, std::map<std::string, std::string> options = {}) const {
        options.emplace("dtype", "bf16");
        return catalogue_.problem({.op = "attention", .shape = shape, .options = std::move(options)});
    }
    SearchSpace space(const Problem& problem) const { return family_.space(problem, device_); }
    LaunchPlan plan(const Problem& problem, const Config& config) const { return family_.plan(problem, config, device_); }

    const Catalogue& catalogue_ = test::embedded_catalogue();
    const Family& family_ = *catalogue_.find_family("attention/wgmma");
    Device device_ = *reference_device("sm_90a");
};

// A config with two groups of 64 queries, 128 keys and one tile per block.
Config plain() {
    return {{"consumer_warpgroups", 2},
            {"block_k", 128},
            {"stages", 2},
            {"q_buffers", 1},
            {"blocks_per_sm", 1},
            {"overlap", 1},
            {"order_groups", 1},
            {"rescale", 0},
            {"producer", 1},
            {"schedule", 0},
            {"tile_order", 0},
            {"l2_group_mib", 0},
            {"split_waves", 0},
            {"pdl", 0}};
}
Config with(Config config, const std::map<std::string, std::int64_t>& values) {
    for (const auto& [name, value] : values) config.set(name, value);
    return config;
}

TEST_F(AttentionWgmmaFamily, TakesSixteenBitTypesInAlignedRowsOnHopperAlone) {
    EXPECT_EQ(family_.refuses(problem("1x2x300x64"), device_), std::nullopt);
    EXPECT_EQ(family_.refuses(problem("1x2x300x64", {{"dtype", "f16"}, {"align", "16,16,16,2"}}), device_), std::nullopt);
    EXPECT_NE(family_.refuses(problem("1x2x300x64", {{"dtype", "f32"}}), device_), std::nullopt);
    EXPECT_NE(family_.refuses(problem("1x2x300x64", {{"align", "16,8,16,16"}}), device_), std::nullopt);
    EXPECT_NE(family_.refuses(problem("1x2x300x64"), *reference_device("sm_80")), std::nullopt);
    EXPECT_NE(family_.refuses(problem("1x2x300x64"), *reference_device("sm_120")), std::nullopt);
}

TEST_F(AttentionWgmmaFamily, HasThousandsOfLegalConfigsForLongSequences) {
    for (const char* shape : {"4x16x4096x128", "1x16x13312x64", "2x8x2048x96"})
        EXPECT_GE(space(problem(shape, {{"mask", "causal"}})).count().legal, 1000U) << shape;
    EXPECT_GE(space(problem("1x8x2048x256")).count().legal, 100U);
}

TEST_F(AttentionWgmmaFamily, SaysWhyAConfigIsDropped) {
    const SearchSpace all = space(problem("4x16x4096x128"));
    EXPECT_EQ(all.why_not(plain()), std::nullopt);
    EXPECT_EQ(all.why_not(with(plain(), {{"block_k", 240}})),
              "scores, weights and outputs exceed the registers that setmaxnreg can give");
    EXPECT_EQ(all.why_not(with(plain(), {{"block_k", 176}, {"stages", 3}})), "tiles exceed shared memory");
    EXPECT_EQ(all.why_not(with(plain(), {{"consumer_warpgroups", 1}})), "order_groups with fewer than two warpgroups");
    EXPECT_EQ(all.why_not(with(plain(), {{"tile_order", 1}})),
              "tile_order 1 without a mask that ends at the diagonal: all tiles of a head take equally long");
}

TEST_F(AttentionWgmmaFamily, BlocksThatStayFillTheGpuOnce) {
    const Problem causal = problem("4x16x4096x128", {{"mask", "causal"}});
    EXPECT_EQ(plan(causal, plain()).steps.at(0).grid.x, 4U * 16 * 32);
    EXPECT_EQ(plan(causal, with(plain(), {{"schedule", 1}})).steps.at(0).grid.x, 132U);
    const LaunchPlan counted = plan(causal, with(plain(), {{"schedule", 2}}));
    EXPECT_EQ(counted.steps.at(0).grid.x, 132U);
    EXPECT_EQ(counted.workspace_zero_bytes, 4U);
}

TEST_F(AttentionWgmmaFamily, HeadsWorkedOnTogetherFitTheGroup) {
    const View view(problem("1x16x16384x128", {{"mask", "causal"}, {"kv-heads", "4"}}));
    EXPECT_EQ(attention_wgmma::heads_at_once(view, 16), 2 * 4);  // a head of keys and values has 8 MiB
    EXPECT_EQ(attention_wgmma::heads_at_once(view, 48), 16);
    EXPECT_EQ(attention_wgmma::heads_at_once(view, 1), 4);
}

// A causal head is divided into at most the requested number of parts. No part is longer than `most_steps`, and if parts were
// one step shorter, there would be too many.
TEST_F(AttentionWgmmaFamily, KeysAreDividedIntoAsFewPartsAsAskedFor) {
    const View view(problem("1x1x13312x64", {{"mask", "causal"}}));
    for (const std::int64_t waves : {2, 3, 4, 6}) {
        const Grid grid(view, resolve<ResolvedConfig>(with(plain(), {{"split_waves", waves}})), device_);
        const auto parts = [&](std::int64_t most_steps) {
            std::int64_t count = 0;
            for (std::int64_t tile = 0; tile < 104; ++tile) count += (tile + 1 + most_steps - 1) / most_steps;
            return count;
        };
        ASSERT_GT(grid.most_steps, 0);
        EXPECT_EQ(grid.items, parts(grid.most_steps));
        EXPECT_LE(grid.items, waves * 132);
        EXPECT_GT(parts(grid.most_steps - 1), waves * 132);
    }
}

TEST_F(AttentionWgmmaFamily, DividedKeysTakeASecondKernelAndAWorkspace) {
    const Problem few = problem("1x1x13312x64", {{"mask", "causal"}});
    const Config config = with(plain(), {{"split_waves", 2}});
    ASSERT_EQ(space(few).why_not(config), std::nullopt);
    const LaunchPlan divided = plan(few, config);
    ASSERT_EQ(divided.steps.size(), 2U);
    EXPECT_EQ(divided.steps[1].entry, "_combine");
    EXPECT_EQ(divided.steps[1].grid.x, 104U * 128 / 8);
    const std::size_t items = divided.steps[0].grid.x;
    EXPECT_GE(divided.workspace_bytes, items * 128 * (64 * 4 + 8));
    EXPECT_EQ(plan(few, plain()).steps.size(), 1U);
    EXPECT_NE(space(problem("4x16x4096x64", {{"mask", "causal"}})).why_not(config), std::nullopt);
}

// TMA can load rows of both layouts, with rank 4, the tensor's strides and boxes of whole tiles.
TEST_F(AttentionWgmmaFamily, TensorMapsFollowTheStrides) {
    const Problem bshd = problem("2x4x300x96", {{"order", "bshd"}, {"kv-heads", "2"}, {"kv-len", "500"}});
    const LaunchStep step = plan(bshd, with(plain(), {{"block_k", 96}})).steps.at(0);
    const auto q = std::get<TensorMapArg>(step.arguments.at(0));
    EXPECT_EQ(q.rank, 4);
    EXPECT_EQ(q.dims, (std::array<std::uint64_t, 5>{96, 300, 4, 2, 0}));
    EXPECT_EQ(q.strides_bytes, (std::array<std::uint64_t, 4>{4 * 96 * 2, 96 * 2, 300 * 4 * 96 * 2, 0}));
    EXPECT_EQ(q.box, (std::array<std::uint32_t, 5>{32, 128, 1, 1, 0}));
    const auto k = std::get<TensorMapArg>(step.arguments.at(1));
    EXPECT_EQ(k.dims, (std::array<std::uint64_t, 5>{96, 500, 2, 2, 0}));
    EXPECT_EQ(k.box[1], 96U);
}

// On the problems that were measured (docs/results/attention.md) the default is within 8 % of the winner.
TEST_F(AttentionWgmmaFamily, DefaultsAreOfTheKindThatWon) {
    const auto usual = [&](const std::string& shape, const std::string& mask) {
        return family_.default_config(problem(shape, {{"mask", mask}}), device_);
    };
    EXPECT_EQ(usual("4x16x4096x128", "none")["consumer_warpgroups"], 3);
    EXPECT_EQ(usual("2x32x8192x128", "none")["block_k"], 80);
    EXPECT_EQ(usual("4x16x4096x128", "causal")["order_groups"], 2);
    EXPECT_EQ(usual("1x16x13312x64", "causal")["consumer_warpgroups"], 3);
    EXPECT_LE(usual("16x16x1024x64", "causal")["consumer_warpgroups"], 2);
    EXPECT_GT(usual("1x1x13312x64", "causal")["split_waves"], 0);
}

}  // namespace
}  // namespace autotune::attention_wgmma_family_test
