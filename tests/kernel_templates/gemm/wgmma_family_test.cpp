#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "src/catalogue/catalogue.h"
#include "tests/support/embedded_catalogue.h"
#include "tests/support/sanitizer.h"

namespace autotune::wgmma_family_test {
namespace {

class WgmmaFamily : public testing::Test {
  protected:
    Problem problem(const std::string& op, const std::string& shape, std::map<std::string, std::string> options = {}) const {
        return catalogue_.problem({.op = op, .shape = shape, .options = std::move(options)});
    }
    SearchSpace space(const Problem& problem) const { return family_.space(problem, device_); }
    // The config with this name, or nullopt.
    std::optional<Config> named(const SearchSpace& space, const std::string& name) const {
        const auto found = std::find_if(space.named.begin(), space.named.end(), [&](const auto& n) { return n.name == name; });
        if (found == space.named.end()) return std::nullopt;
        return found->config;
    }
    // A config with a tile of 64x32 on each SM, which is legal for few rows.
    Config few_rows(const SearchSpace& space) const { return named(space, "wgmma_single_64x32x128_swapab").value(); }

    const Catalogue& catalogue_ = test::embedded_catalogue();
    const Family& family_ = *catalogue_.find_family("gemm/wgmma");
    Device device_ = *reference_device("sm_90a");
};

Config with(Config config, const std::string& name, std::int64_t value) {
    config.set(name, value);
    return config;
}

TEST_F(WgmmaFamily, HasAtLeast500LegalConfigsAt4096CubedWithEitherSum) {
    for (const char* op : {"hgemm", "hgemm_f16acc"}) {
        EXPECT_GE(space(problem(op, "4096x4096x4096")).count().legal, 500U) << op;
        if (test::kIsSanitized) break;  // counting takes 5 s there
    }
}

// A kernel tuned for one problem serves another with launch parameters of its own, which are legal if any are legal.
TEST_F(WgmmaFamily, RelaunchesAKernelLegallyWhereItCanBe) {
    const SearchSpace from = space(problem("bgemm", "4096x4096x4096", {{"layout", "nt"}}));
    int legal = 0, illegal = 0;
    for (const char* shape : {"1x4096x4096", "17x11008x4096", "128x512x8192", "300x4096x328", "2048x2048x2048", "8192x1000x64"}) {
        const Problem other = problem("bgemm", shape, {{"layout", "nt"}});
        const SearchSpace rules = family_.rules(other, device_);
        const Relauncher relaunch = family_.relauncher(other, device_);
        for (const SearchSpace& source : {from, space(other)}) {
            for (const NamedConfig& each : source.named) {
                const Relaunched given = relaunch(each.config);
                const Config config = given.of(each.config);
                EXPECT_EQ(rules.compile_part(config), rules.compile_part(each.config));
                const bool can_be = !rules.enumerate(rules.compile_part(each.config), 1).empty();
                const auto reason = rules.why_not(config);
                EXPECT_EQ(!reason, can_be) << shape << " " << config.to_string() << ": " << reason.value_or("");
                ++(can_be ? legal : illegal);
                if (rules.contains(each.config)) {
                    EXPECT_LE(*given.predicted_us, 1.1 * *family_.predict_us(other, each.config, device_)) << shape;
                }
            }
        }
    }
    EXPECT_GT(legal, 100);
    EXPECT_GT(illegal, 10);
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

// There are 3 stages of 64 KiB, and 32 KiB for the output.
TEST_F(WgmmaFamily, ATileOf256By256KeepsThreeStagesBesideOneStoreBuffer) {
    const SearchSpace s = space(problem("hgemm_f16acc", "4096x4096x4096"));
    const Config config = named(s, "wgmma_coop_256x256x64").value();
    EXPECT_EQ(config["epilogue_stages"], 1);
    EXPECT_EQ(config["stages"], 3);
    EXPECT_TRUE(s.contains(with(with(config, "epilogue_stages", 2), "stages", 2)));
    EXPECT_FALSE(s.contains(with(with(config, "epilogue_stages", 2), "stages", 3)));
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

// A TMA store writes whole chunks of 16 bytes. So it would write past the end of a row of 61 elements, even if rows are 64 apart.
TEST_F(WgmmaFamily, RowsThatEndInsideAChunkAreNotStoredByTma) {
    const Problem whole = problem("hgemm", "64x64x64"), inside = problem("hgemm", "64x61x64", {{"ldb", "64"}, {"ldc", "64"}});
    const Config direct = with(space(inside).default_config, "tma_store", 0);
    EXPECT_TRUE(space(whole).contains(with(direct, "tma_store", 1)));
    EXPECT_TRUE(space(inside).contains(direct));
    EXPECT_FALSE(space(inside).contains(with(direct, "tma_store", 1)));
}

// The fastest tile for 16384x4096x2048 is 128x160 with 128 along N.
TEST_F(WgmmaFamily, OperandsMayBeExchangedAtAnySize) {
    EXPECT_TRUE(named(space(problem("hgemm", "16384x16384x8192")), "wgmma_pingpong_128x160x64_cluster2x1_swapab"));
}

// Four blocks share a tile of 80 columns. If it is stored as [K, N], each loads 16 of the 64 rows; as [N, K] each would load 20
// columns.
TEST_F(WgmmaFamily, ASharedTileIsDividedAsItIsStored) {
    const auto of_four = [&](const std::string& layout) {
        const SearchSpace s = space(problem("hgemm", "1024x1040x1024", {{"layout", layout}}));
        Config config = with(named(s, "wgmma_coop_128x64x128").value(), "block_n", 80);
        for (const auto& [name, value] : {std::pair{"block_k", 64}, {"cluster_m", 4}, {"stages", 7}, {"group", 1}})
            config.set(name, value);
        return s.why_not(config);
    };
    EXPECT_EQ(of_four("nn"), std::nullopt);
    EXPECT_EQ(of_four("nt"), "a block's share of a tile is not whole swizzle patterns");
}

TEST_F(WgmmaFamily, TheDefaultOfFewRowsFetchesEightStepsEarly) {
    EXPECT_EQ(space(problem("hgemm", "16x4096x4096")).default_config["prefetch_steps"], 8);
    EXPECT_EQ(space(problem("hgemm", "4096x4096x4096")).default_config["prefetch_steps"], 0);
}

TEST_F(WgmmaFamily, AnEarlyFetchNeedsAnEarlyStart) {
    const SearchSpace s = space(problem("bgemm", "128x16384x32768"));
    const Config config = few_rows(s);
    EXPECT_TRUE(s.contains(with(config, "prefetch_steps", 32)));
    EXPECT_TRUE(s.contains(with(config, "pdl", 0)));
    EXPECT_FALSE(s.contains(with(with(config, "pdl", 0), "prefetch_steps", 32)));
}

// 512x512 in tiles of 64x64 takes 64 blocks, which leave 68 of 132 SMs idle; 1056x1024 in tiles of 64x128 takes 136.
TEST_F(WgmmaFamily, BlocksOnIdleSmsFetchForAllWhereThereAreAny) {
    const auto blocks_that_fetch = [&](const Problem& p, const Config& config) {
        return std::get<I32Arg>(family_.plan(p, config, device_).steps.back().arguments.back()).value;
    };
    const Problem small = problem("hgemm", "512x512x4096");
    const SearchSpace s = space(small);
    const Config own = with(named(s, "wgmma_single_64x64x128_swapab").value(), "prefetch_steps", 8);
    EXPECT_TRUE(s.contains(with(own, "prefetch_all", 1)));
    EXPECT_EQ(blocks_that_fetch(small, own), 0);
    EXPECT_EQ(blocks_that_fetch(small, with(own, "prefetch_all", 1)), 132 - 64);
    EXPECT_FALSE(s.contains(with(with(own, "prefetch_steps", 0), "prefetch_all", 1)));
    const SearchSpace large = space(problem("hgemm", "1056x1024x4096"));
    const Config without = named(large, "wgmma_single_64x128x128").value();
    EXPECT_TRUE(large.contains(without));
    EXPECT_FALSE(large.contains(with(with(without, "prefetch_steps", 8), "prefetch_all", 1)));
}

// 80 tiles of 128 columns of weights and 32 rows of activations have 3.1 MiB per step of 128 k, and 5 tiles have 0.2 MiB.
TEST_F(WgmmaFamily, AnEarlyFetchBringsAtMostEightMebibytes) {
    const auto early_steps = [&](const std::string& shape) {
        const Problem p = problem("bgemm", shape, {{"layout", "nt"}});
        const Config config = with(with(few_rows(space(p)), "block_m", 128), "prefetch_steps", 16);
        const LaunchPlan plan = family_.plan(p, config, device_);
        const auto& arguments = plan.steps.back().arguments;
        return std::get<I32Arg>(arguments[arguments.size() - 2]).value;
    };
    EXPECT_EQ(early_steps("16x10240x8192"), 2);
    EXPECT_EQ(early_steps("16x576x8192"), 16);
}

// There are 32 tiles of 64x128 in four parts each. 128 threads of the second kernel add two quads of every thread, which are 8
// pairs per tile.
TEST_F(WgmmaFamily, ASecondKernelAddsThePartsOfSplitK) {
    const Problem p = problem("hgemm", "512x512x8192");
    const SearchSpace s = space(p);
    Config config = with(named(s, "wgmma_single_64x128x128").value(), "split_k", 4);
    EXPECT_EQ(s.why_not(config), std::nullopt);
    EXPECT_EQ(family_.plan(p, config, device_).steps.size(), 1U);
    EXPECT_FALSE(s.contains(with(config, "reduce_kernel", 1)));  // with a second kernel there is nothing for TMA to store
    config = with(with(config, "tma_store", 0), "reduce_kernel", 1);
    EXPECT_EQ(s.why_not(config), std::nullopt);
    const LaunchPlan plan = family_.plan(p, config, device_);
    ASSERT_EQ(plan.steps.size(), 2U);
    EXPECT_EQ(plan.steps[1].entry, "_reduce");
    EXPECT_EQ(plan.steps[1].grid, (Dim3{32 * 8, 1, 1}));
    EXPECT_EQ(plan.workspace_zero_bytes, 0U);
    EXPECT_EQ(plan.workspace_bytes, 512U * 512 * 4 * 4);
    EXPECT_FALSE(s.contains(with(config, "split_k", 1)));
}

// 132 SMs can run 30 clusters of four at once. 512x512 in tiles of 64x128 needs 32, which would take two waves.
TEST_F(WgmmaFamily, ClustersThatDivideKAllRunAtOnce) {
    const auto in_clusters_of_four = [&](const std::string& shape) {
        const SearchSpace s = space(problem("hgemm", shape));
        Config config = with(named(s, "wgmma_single_64x128x128").value(), "tma_store", 0);
        for (const auto& [name, value] : {std::pair{"cluster_k", 4}, {"stages", 4}, {"group", 1}}) config.set(name, value);
        return s.why_not(config);
    };
    EXPECT_EQ(in_clusters_of_four("512x384x8192"), std::nullopt);
    EXPECT_EQ(in_clusters_of_four("512x512x8192"),
              "K divided within clusters although not all blocks run at once, or with fewer than 4 steps each");
}

TEST_F(WgmmaFamily, NothingIsFetchedEarlyOfWhatTheLaunchPacks) {
    const SearchSpace s = space(problem("hgemm", "16x4096x4095", {{"layout", "nt"}}));
    const Config config = few_rows(s);
    EXPECT_TRUE(s.contains(config));
    EXPECT_FALSE(s.contains(with(config, "prefetch_steps", 8)));
}

// 512x512 in tiles of 64x64 takes 64 blocks, and 2048x2048 takes 1,024.
TEST_F(WgmmaFamily, SquareProblemsFetchEarlyWhereAllBlocksRunAtOnce) {
    const SearchSpace small = space(problem("hgemm", "512x512x4096")), large = space(problem("hgemm", "2048x2048x4096"));
    const char* const name = "wgmma_single_64x64x128";
    EXPECT_TRUE(small.contains(with(named(small, name).value(), "prefetch_steps", 8)));
    EXPECT_TRUE(large.contains(named(large, name).value()));
    EXPECT_FALSE(large.contains(with(named(large, name).value(), "prefetch_steps", 8)));
}

// 1024 k are eight steps of 128.
TEST_F(WgmmaFamily, FetchesLessThanTwiceTheStepsOfABlock) {
    const SearchSpace s = space(problem("hgemm", "16x4096x1024", {{"layout", "nt"}}));
    EXPECT_TRUE(s.contains(with(few_rows(s), "prefetch_steps", 8)));
    EXPECT_FALSE(s.contains(with(few_rows(s), "prefetch_steps", 32)));
    EXPECT_FALSE(s.contains(with(with(few_rows(s), "prefetch_steps", 8), "split_k", 2)));
}

// A stage has 24 KiB, so nine fit into a block's 227 KiB, and four into half of an SM's 228.
TEST_F(WgmmaFamily, AShortRingLeavesRoomForTheNextKernelWhereRowsAreFew) {
    const SearchSpace few = space(problem("hgemm", "32x4096x4096", {{"layout", "nt"}}));
    const Config config = few_rows(few);
    std::set<std::int64_t> legal;
    for (const std::int64_t stages : {2, 3, 4, 5, 6, 7, 8, 9, 10, 12})
        if (few.contains(with(config, "stages", stages))) legal.insert(stages);
    EXPECT_EQ(legal, (std::set<std::int64_t>{4, 8, 9}));
    const SearchSpace many = space(problem("hgemm", "512x4096x4096", {{"layout", "nt"}}));
    EXPECT_FALSE(many.contains(with(config, "stages", 4)));
}

TEST_F(WgmmaFamily, AnEarlyFetchIsPredictedToSaveALittle) {
    const Problem p = problem("hgemm", "16x4096x4096", {{"layout", "nt"}});
    const Config config = few_rows(space(p));
    const double plain = family_.predict_us(p, config, device_).value();
    const double early = family_.predict_us(p, with(config, "prefetch_steps", 8), device_).value();
    EXPECT_LT(early, plain);
    EXPECT_GT(early, plain - 1.0);
}

// By hardware counters L2 keeps 21 to 36 MB. So every wave reads an operand of 67 MB again, but not one of 17 MB.
TEST_F(WgmmaFamily, KTurnsWhereAnOperandIsLargerThanL2) {
    for (const auto& [shape, pays] : {std::pair{"16384x8192x4096", true}, std::pair{"4096x4096x2048", false}}) {
        const Problem p = problem("hgemm", shape, {{"layout", "nt"}});
        const SearchSpace rules = family_.rules(p, device_);
        const Config forward = with(named(space(p), "wgmma_coop_128x256x64").value(), "serpentine_k", 0);
        const Config turned = with(forward, "serpentine_k", 1);
        ASSERT_TRUE(rules.contains(forward) && rules.contains(turned)) << shape;
        EXPECT_EQ(family_.predict_us(p, turned, device_).value() < family_.predict_us(p, forward, device_).value(), pays)
            << shape;
        EXPECT_EQ(space(p).default_config["serpentine_k"], pays ? 1 : 0) << shape;
    }
}

TEST_F(WgmmaFamily, KTurnsOnlyWhereATileHasAllOfIt) {
    const Problem p = problem("hgemm", "8192x8192x8192");
    const SearchSpace rules = family_.rules(p, device_);
    const Config turned = with(named(space(p), "wgmma_coop_128x256x64").value(), "serpentine_k", 1);
    ASSERT_TRUE(rules.contains(turned));
    EXPECT_FALSE(rules.contains(with(turned, "split_k", 0)));
    EXPECT_FALSE(rules.contains(with(turned, "advance_descriptors", 0)));
    EXPECT_TRUE(rules.contains(with(turned, "group", 12)));
    EXPECT_FALSE(rules.contains(with(with(turned, "serpentine_k", 0), "group", 12)));
    const Problem one_wave = problem("hgemm", "2048x1024x8192");
    EXPECT_FALSE(family_.rules(one_wave, device_).contains(turned));
}

}  // namespace
}  // namespace autotune::wgmma_family_test
