#include <gtest/gtest.h>

#include <map>
#include <string>
#include <variant>

#include "src/catalogue/catalogue.h"
#include "tests/support/embedded_catalogue.h"

namespace autotune::wgmma_nonpersistent_family_test {
namespace {

class WgmmaNonpersistentFamily : public testing::Test {
  protected:
    Problem problem(const std::string& op, const std::string& shape, std::map<std::string, std::string> options = {}) const {
        return catalogue_.problem({.op = op, .shape = shape, .options = std::move(options)});
    }
    SearchSpace space(const Problem& problem) const { return family_.space(problem, device_); }
    LaunchStep step(const Problem& problem, const Config& config) const {
        return family_.plan(problem, config, device_).steps.at(0);
    }

    const Catalogue& catalogue_ = test::embedded_catalogue();
    const Family& family_ = *catalogue_.find_family("gemm/wgmma_nonpersistent");
    Device device_ = *reference_device("sm_90a");
};

Config tile(std::int64_t block_m, std::int64_t block_n, std::int64_t block_k, std::int64_t stages) {
    return {{"block_m", block_m}, {"block_n", block_n}, {"block_k", block_k}, {"consumer_warpgroups", block_m / 64},
            {"k_warpgroups", 1},  {"cluster_m", 1},     {"cluster_n", 1},     {"cluster_k", 1},
            {"swap_ab", 0},       {"stages", stages},   {"raster", 0},        {"pdl", 0}};
}

Config with(Config config, const std::map<std::string, std::int64_t>& values) {
    for (const auto& [name, value] : values) config.set(name, value);
    return config;
}

TEST_F(WgmmaNonpersistentFamily, TakesRowsOfWholeChunksOnHopperAlone) {
    const Problem aligned = problem("hgemm", "512x512x512");
    EXPECT_EQ(family_.refuses(aligned, device_), std::nullopt);
    EXPECT_NE(family_.refuses(aligned, *reference_device("sm_80")), std::nullopt);
    EXPECT_NE(family_.refuses(problem("hgemm", "512x512x513"), device_), std::nullopt);
    EXPECT_EQ(family_.refuses(problem("hgemm", "512x509x512", {{"ldb", "512"}}), device_), std::nullopt);
}

TEST_F(WgmmaNonpersistentFamily, LeavesLargeProductsToBlocksThatStay) {
    EXPECT_EQ(family_.refuses(problem("hgemm", "2048x4096x4096"), device_), std::nullopt);
    EXPECT_NE(family_.refuses(problem("hgemm", "4096x4096x4096"), device_), std::nullopt);
    EXPECT_NE(family_.refuses(problem("hgemm", "512x512x512", {{"batch", "1000"}}), device_), std::nullopt);
}

TEST_F(WgmmaNonpersistentFamily, HasHundredsOfLegalConfigsForSmallProducts) {
    for (const char* shape : {"256x256x256", "512x512x512", "1024x1024x1024"})
        EXPECT_GE(space(problem("hgemm", shape)).count().legal, 300U) << shape;
}

// A set of warpgroups that waits for another set's fill of a stage could mistake an old fill's parity for its own.
TEST_F(WgmmaNonpersistentFamily, EveryRingIsAMultipleOfTheSetsThatReadIt) {
    const SearchSpace s = space(problem("hgemm", "512x512x4096"));
    bool some_divide = false;
    for (const Config& config : s.enumerate()) {
        ASSERT_EQ(config["stages"] % config["k_warpgroups"], 0) << config.to_string();
        ASSERT_GT(config["stages"], config["k_warpgroups"]) << config.to_string();
        some_divide = some_divide || config["k_warpgroups"] == 4;
    }
    EXPECT_TRUE(some_divide);
}

// 512 is 8 steps of 64, which fit into one fill of the ring. A deeper ring would have empty stages.
TEST_F(WgmmaNonpersistentFamily, ARingIsNoDeeperThanK) {
    const SearchSpace s = space(problem("hgemm", "512x512x512"));
    EXPECT_TRUE(s.contains(tile(64, 32, 64, 8)));
    EXPECT_FALSE(s.contains(tile(64, 32, 64, 10)));
    EXPECT_FALSE(s.contains(tile(64, 32, 64, 6)));
}

// 777 rows need 11 tiles of 72 rows but 13 of 64, 9 of 88 but 10 of 80, and 7 of 120, as many as of 112. A width of 72 has no
// swizzle span for an operand stored along N.
TEST_F(WgmmaNonpersistentFamily, OddMultiplesOfEightColumnsAreForFewerTiles) {
    const SearchSpace s = space(problem("hgemm", "777x3072x3072", {{"layout", "nt"}}));
    const auto swapped = [](const Config& config) { return with(config, {{"swap_ab", 1}}); };
    EXPECT_TRUE(s.contains(swapped(tile(128, 72, 64, 8))));
    EXPECT_TRUE(s.contains(swapped(tile(128, 88, 64, 8))));
    EXPECT_FALSE(s.contains(swapped(tile(128, 120, 64, 7)))) << "as many as of 112";
    EXPECT_FALSE(s.contains(with(swapped(tile(128, 72, 64, 8)), {{"cluster_m", 2}}))) << "half of it is no swizzle pattern";
    EXPECT_FALSE(space(problem("hgemm", "3072x776x3072")).contains(tile(128, 72, 64, 8)));
    EXPECT_FALSE(space(problem("gemm", "777x3072x3072", {{"dtype", "f16"}, {"layout", "nt"}, {"acc", "f16"}}))
                     .contains(swapped(tile(128, 72, 64, 8))));
}

// 128x144 spills 6.7 KB per thread with two sets of warpgroups and takes ten times as long.
TEST_F(WgmmaNonpersistentFamily, SetsOfWarpgroupsHoldAtMost128AccumulatorsAThread) {
    const Problem p = problem("bgemm", "5782x280x272", {{"layout", "nt"}});
    const SearchSpace s = space(p);
    const auto sets = [](const Config& config) {
        return with(config, {{"consumer_warpgroups", 1}, {"k_warpgroups", 2}, {"swap_ab", 0}});
    };
    EXPECT_TRUE(s.contains(sets(tile(128, 128, 64, 4))));
    EXPECT_FALSE(s.contains(sets(tile(128, 144, 64, 4))));
}

// 13 warps get the registers of 16, which is 128 per thread. NVRTC 13.0 refuses 192x208 (C7602).
TEST_F(WgmmaNonpersistentFamily, ThreeMathGroupsHoldAtMost96AccumulatorsAThread) {
    const SearchSpace s = space(problem("bgemm", "1000x4096x4096", {{"layout", "nt"}}));
    const auto three = [](const Config& config) { return with(config, {{"consumer_warpgroups", 3}, {"swap_ab", 1}}); };
    EXPECT_TRUE(s.contains(three(tile(192, 192, 64, 4))));
    EXPECT_FALSE(s.contains(three(tile(192, 208, 64, 4))));
}

// 1024x1024 is 256 tiles of 64x64. Two of them fit on an SM with six stages each, and one with twelve. Of 128x64 it is 128 tiles.
TEST_F(WgmmaNonpersistentFamily, ShallowerRingsAreForSeveralBlocksOnAnSm) {
    const SearchSpace s = space(problem("hgemm", "1024x1024x1024"));
    EXPECT_TRUE(s.contains(tile(64, 64, 64, 12)));
    EXPECT_TRUE(s.contains(tile(64, 64, 64, 6)));
    EXPECT_FALSE(s.contains(tile(64, 64, 64, 8)));
    EXPECT_TRUE(s.contains(tile(128, 64, 64, 8)));
    EXPECT_FALSE(s.contains(tile(128, 64, 64, 4)));
}

TEST_F(WgmmaNonpersistentFamily, AGridIsWholeClusters) {
    const Problem p = problem("hgemm", "448x512x512", {{"batch", "3"}});
    const LaunchStep shared = step(p, with(tile(64, 32, 64, 8), {{"cluster_m", 2}, {"cluster_n", 4}}));
    EXPECT_EQ(shared.grid.x, 8U);  // 7 tiles of 64 rows
    EXPECT_EQ(shared.grid.y, 16U);
    EXPECT_EQ(shared.grid.z, 3U);
    EXPECT_EQ(shared.cluster.x, 2U);
    EXPECT_EQ(shared.cluster.y, 4U);
    const LaunchStep divided = step(p, with(tile(64, 32, 64, 4), {{"cluster_k", 2}}));
    EXPECT_EQ(divided.grid.x, 14U);
    EXPECT_EQ(divided.cluster.x, 2U);
    EXPECT_EQ(divided.cluster.y, 1U);
    const LaunchStep both = step(p, with(tile(64, 32, 64, 4), {{"cluster_m", 2}, {"cluster_n", 2}, {"cluster_k", 2}}));
    EXPECT_EQ(both.grid.x, 16U);
    EXPECT_EQ(both.cluster.x, 4U);
    EXPECT_EQ(both.cluster.y, 2U);
}

TEST_F(WgmmaNonpersistentFamily, WithRaster1ClustersAreNeighboursAlongN) {
    const Problem p = problem("hgemm", "448x512x512", {{"batch", "3"}});
    const Config config = with(tile(64, 32, 64, 4), {{"cluster_m", 2}, {"cluster_n", 4}, {"raster", 1}});
    const LaunchStep launch = step(p, config);
    EXPECT_EQ(launch.grid.x, 4U * 2);  // 4 clusters along N, of 2 blocks along M
    EXPECT_EQ(launch.grid.y, 4U * 4);
    EXPECT_EQ(launch.cluster.x, 2U);
    EXPECT_EQ(launch.cluster.y, 4U);
    EXPECT_FALSE(space(problem("hgemm", "64x512x512")).contains(with(tile(64, 32, 64, 8), {{"raster", 1}})))
        << "one row of tiles";
}

TEST_F(WgmmaNonpersistentFamily, OneWarpLoadsBesideTheMathWarps) {
    const Problem p = problem("hgemm", "512x512x512");
    EXPECT_EQ(step(p, tile(64, 32, 64, 8)).block.x, 128U + 32);
    EXPECT_EQ(step(p, with(tile(192, 32, 64, 8), {{"k_warpgroups", 2}})).block.x, 6 * 128U + 32);
}

TEST_F(WgmmaNonpersistentFamily, IsADependentLaunchOnlyOnRequest) {
    const Problem p = problem("hgemm", "512x512x512");
    EXPECT_FALSE(step(p, space(p).default_config).programmatic_dependent);
    EXPECT_TRUE(step(p, with(space(p).default_config, {{"pdl", 1}})).programmatic_dependent);
}

// The default is close to the fastest measured configs for these extents (docs/results/small_products.md).
TEST_F(WgmmaNonpersistentFamily, TheDefaultFillsTheDeviceWithOneWave) {
    for (const char* shape : {"384x384x384", "512x512x512", "768x768x768", "1024x1024x1024", "2048x2048x2048"}) {
        const Problem p = problem("hgemm", shape);
        const LaunchStep launch = step(p, space(p).default_config);
        const unsigned blocks = launch.grid.x * launch.grid.y;
        EXPECT_LE(blocks, 2 * 132U) << shape;
        EXPECT_GE(blocks, 64U) << shape;
    }
}

}  // namespace
}  // namespace autotune::wgmma_nonpersistent_family_test
