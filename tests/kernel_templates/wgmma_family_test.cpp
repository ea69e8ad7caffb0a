#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "kernel_templates/catalogue.h"

namespace autotune {
namespace {

class WgmmaFamily : public testing::Test {
  protected:
    Problem problem(const std::string& op, const std::string& shape, std::map<std::string, std::string> options = {}) const {
        return catalogue_.problem({.op = op, .shape = shape, .options = std::move(options)});
    }
    SearchSpace space(const Problem& problem) const { return family_.space(problem, device_); }
    // The named config, nullopt if there is none of that name.
    std::optional<Config> named(const SearchSpace& space, const std::string& name) const {
        const auto found = std::find_if(space.named.begin(), space.named.end(), [&](const auto& n) { return n.name == name; });
        if (found == space.named.end()) return std::nullopt;
        return found->config;
    }

    Catalogue catalogue_ = Catalogue::embedded();
    const Family& family_ = *catalogue_.find_family("gemm/wgmma");
    Device device_ = *reference_device("sm_90a");
};

Config with(Config config, const std::string& name, std::int64_t value) {
    config.set(name, value);
    return config;
}

TEST_F(WgmmaFamily, HasAtLeast500LegalConfigsAt4096CubedWithEitherSum) {
    for (const char* op : {"hgemm", "hgemm_f16acc"}) EXPECT_GE(space(problem(op, "4096x4096x4096")).count().legal, 500U) << op;
}

TEST_F(WgmmaFamily, TakesSumsInF16OnHopperAlone) {
    const Problem p = problem("hgemm_f16acc", "512x512x512");
    EXPECT_EQ(family_.refuses(p, device_), std::nullopt);
    EXPECT_NE(family_.refuses(p, *reference_device("sm_80")), std::nullopt);
}

TEST_F(WgmmaFamily, TilesOf256By256AreForSumsInF16) {
    const SearchSpace half = space(problem("hgemm_f16acc", "4096x4096x4096"));
    const SearchSpace full = space(problem("hgemm", "4096x4096x4096"));
    for (const char* name : {"wgmma_coop_256x256x64", "wgmma_coop_256x192x64", "wgmma_pingpong_128x256x64",
                             "wgmma_pingpong_128x192x64", "wgmma_coop_256x256x64_cluster2x1"}) {
        EXPECT_TRUE(named(half, name)) << name;
        EXPECT_FALSE(named(full, name)) << name;
    }
    EXPECT_FALSE(full.contains(named(half, "wgmma_coop_256x256x64").value()));
}

TEST_F(WgmmaFamily, EveryNamedConfigOfF32SumsIsOneOfF16Sums) {
    const SearchSpace half = space(problem("hgemm_f16acc", "4096x4096x4096"));
    for (const NamedConfig& config : space(problem("hgemm", "4096x4096x4096")).named)
        EXPECT_EQ(named(half, config.name), config.config) << config.name;
}

// 3 stages of 64 KiB, and 32 KiB on the way out.
TEST_F(WgmmaFamily, ATileOf256By256KeepsThreeStagesBesideOneStoreBuffer) {
    const SearchSpace s = space(problem("hgemm_f16acc", "4096x4096x4096"));
    const Config config = named(s, "wgmma_coop_256x256x64").value();
    EXPECT_EQ(config["store_buffers"], 1);
    EXPECT_EQ(config["stages"], 3);
    EXPECT_TRUE(s.contains(with(with(config, "store_buffers", 2), "stages", 2)));
    EXPECT_FALSE(s.contains(with(with(config, "store_buffers", 2), "stages", 3)));
}

TEST_F(WgmmaFamily, PartsOfSumsInF16TakeHalfTheWorkspace) {
    const auto bytes = [&](const char* op) {
        const Problem p = problem(op, "512x512x8192");
        const Config config = named(space(p), "wgmma_coop_128x128x128_swapab").value();
        const LaunchPlan plan = family_.plan(p, with(config, "split_k", 4), device_);
        return plan.workspace_bytes - plan.workspace_zero_bytes;
    };
    const std::size_t full = bytes("hgemm"), half = bytes("hgemm_f16acc");
    EXPECT_NEAR(static_cast<double>(full), 4.0 * 512 * 512 * 4, 256.0);
    EXPECT_NEAR(static_cast<double>(half), 4.0 * 512 * 512 * 2, 256.0);
}

TEST_F(WgmmaFamily, BlocksThatDivideKReceiveHalfAsMuchOfSumsInF16) {
    const auto smem = [&](const char* op) {
        const Problem p = problem(op, "512x512x8192");
        const Config config = with(named(space(p), "wgmma_single_64x64x128").value(), "cluster_k", 2);
        return family_.plan(p, config, device_).steps.front().dynamic_smem_bytes;
    };
    EXPECT_EQ(smem("hgemm") - smem("hgemm_f16acc"), 64U * 64 / 2 * 2);
}

}  // namespace
}  // namespace autotune
