#include <gtest/gtest.h>

#include <algorithm>

#include "kernel_templates/gemm/gemv/geometry.h"
#include "src/catalogue/catalogue.h"
#include "tests/support/embedded_catalogue.h"
#include "tests/support/sanitizer.h"

namespace autotune::gemv_family_test {
namespace {

class GemvFamily : public testing::Test {
  protected:
    Problem problem(const std::string& shape, std::map<std::string, std::string> options = {}) const {
        return catalogue_.problem({.op = "bgemm", .shape = shape, .options = std::move(options)});
    }
    SearchSpace space(const Problem& problem) const { return family_.space(problem, device_); }

    const Catalogue& catalogue_ = test::embedded_catalogue();
    const Family& family_ = *catalogue_.find_family("gemm/gemv");
    Device device_ = *reference_device("sm_90a");
};

TEST_F(GemvFamily, TakesFewRowsOrFewColumnsOnly) {
    for (const char* shape : {"1x4096x4096", "64x4096x4096", "4096x8x512", "129x513x8191"})
        EXPECT_EQ(family_.refuses(problem(shape), device_), std::nullopt) << shape;
    EXPECT_TRUE(family_.refuses(problem("512x512x512"), device_).has_value());
}

TEST_F(GemvFamily, DefaultIsLegalFromTheSmallestShapeOnEveryArchitecture) {
    for (const std::string& arch : known_archs()) {
        for (const char* shape : {"1x1x1", "1x4096x4096", "17x33x65", "129x513x8191", "4096x64x7168", "64x100x8"}) {
            for (const char* layout : {"nn", "nt", "tn", "tt"}) {
                for (const char* align : {"2", "4", "8", "16"}) {
                    const Problem p = problem(shape, {{"align", align}, {"layout", layout}});
                    const SearchSpace s = family_.space(p, *reference_device(arch));
                    EXPECT_EQ(s.why_not(s.default_config), std::nullopt) << arch << " " << p.key();
                }
            }
        }
        if (test::kIsSanitized) break;  // 96 spaces take 2 s there
    }
}

TEST_F(GemvFamily, StreamsTheOperandWithMoreLines) {
    EXPECT_EQ(space(problem("16x4096x4096")).default_config["swap_ab"], 1);
    EXPECT_EQ(space(problem("4096x16x4096")).default_config["swap_ab"], 0);
}

TEST_F(GemvFamily, EveryPlanCoversCWithItsTilesAndKWithItsParts) {
    const Problem p = problem("17x4097x4095", {{"layout", "nt"}});
    const gemv::Streams x{gemm::Gemm(p)};
    for (const Config& config : space(p).enumerate({{"evict_first", 0}})) {
        const LaunchStep step = family_.plan(p, config, device_).steps.front();
        const std::int64_t tiles = step.grid.x / config["split_k"];
        // Lines have eight possible offsets, and a block's lines belong to one group of them.
        ASSERT_GE(tiles / 8 * config["block_m"], (x.lines + 7) / 8) << config.to_string();
        ASSERT_EQ(step.grid.x, tiles * config["split_k"]);
        ASSERT_GE(step.grid.y * config["block_n"], x.columns);
        const auto part_k = std::get<I32Arg>(step.arguments.at(step.arguments.size() - 2)).value;
        ASSERT_GE(part_k * config["split_k"], x.k);
        ASSERT_LT(part_k * (config["split_k"] - 1), x.k + 64 * config["split_k"]);
    }
}

TEST_F(GemvFamily, WindowsThatSlideLeaveRoomForSevenLines) {
    const gemv::Streams unaligned{gemm::Gemm(problem("17x4097x4095", {{"layout", "nn"}}))};
    const gemv::Streams aligned{gemm::Gemm(problem("16x4096x4096", {{"layout", "nn"}}))};
    const auto shape = resolve<gemv::ResolvedConfig>(Config{{"block_m", 128}, {"warps_m", 2}});
    EXPECT_EQ(shape.block_lines(unaligned), 112);
    EXPECT_EQ(shape.block_lines(aligned), 128);
}

TEST_F(GemvFamily, PartsOfKThatAClusterAddsNeedNoWorkspace) {
    const Problem p = problem("16x4096x4096", {{"layout", "nt"}});
    Config config = space(p).default_config;
    config.set("split_k", 4);
    config.set("cluster", 1);
    const LaunchPlan in_cluster = family_.plan(p, config, device_);
    EXPECT_EQ(in_cluster.workspace_bytes, 0U);
    EXPECT_EQ(in_cluster.steps.front().cluster.x, 4U);
    config.set("cluster", 0);
    const LaunchPlan in_memory = family_.plan(p, config, device_);
    EXPECT_EQ(in_memory.workspace_zero_bytes, 4U * in_memory.steps.front().grid.x / 4);
    EXPECT_GE(in_memory.workspace_bytes, std::size_t{4} * 4096 * 16 * 4);
}

TEST_F(GemvFamily, ClustersAndPrefetchBeforeTheTurnAreForHopperAndLater) {
    const Problem p = problem("16x4096x4096", {{"layout", "nt"}});
    for (const Config& config : family_.space(p, *reference_device("sm_80")).enumerate({}, 20'000)) {
        ASSERT_EQ(config["cluster"], 0);
        ASSERT_EQ(config["prefetch_k"], 0);
    }
}

TEST_F(GemvFamily, StepsThatWaitInSharedMemoryTakeItInsteadOfRegisters) {
    Config config{{"block_m", 32},  {"warps_m", 1}, {"warps_k", 8}, {"block_n", 8},
                  {"block_k", 256}, {"unroll", 8},  {"x_smem", 0},  {"cluster", 0}};
    const auto in_registers = resolve<gemv::ResolvedConfig>(config);
    config.set("x_smem", 1);
    const auto in_smem = resolve<gemv::ResolvedConfig>(config);
    EXPECT_EQ(in_smem.smem_bytes(1, 1) - (256 + 32) * 2, 8 * 8 * 2048);  // 8 warps, 8 steps of 32 lines by 32 k
    EXPECT_LT(in_smem.registers(), in_registers.registers());
}

TEST_F(GemvFamily, HasHundredsOfInstancesForADecodeProblem) {
    const SpaceCount count = space(problem("16x4096x4096", {{"layout", "nt"}})).count();
    EXPECT_GE(count.instances, 100U);
}

}  // namespace
}  // namespace autotune::gemv_family_test
