#include <gtest/gtest.h>

#include "src/catalogue/catalogue.h"
#include "tests/support/embedded_catalogue.h"
#include "tests/support/sanitizer.h"

namespace autotune::wgmma_fp8_family_test {
namespace {

const Catalogue& catalogue() {
    return test::embedded_catalogue();
}

// Each rule is evaluated when the parameters that it names have values. A rule that read another parameter would let configs
// through.
TEST(WgmmaFp8Family, OffersNoConfigOfBlockScalesThatIsIllegalAsAWhole) {
    const Problem problem = catalogue().problem({"fp8gemm", "4096x2112x7168", {{"scale", "block"}}});
    const SearchSpace space = catalogue().find_family("gemm/wgmma_fp8")->space(problem, *reference_device("sm_90a"));
    for (const std::int64_t swap_ab : {0, 1}) {
        for (const std::int64_t block_n : {96, 128}) {
            const Config held = {{"block_m", 256}, {"block_n", block_n}, {"swap_ab", swap_ab}, {"raster", 0}};
            for (const Config& config : space.enumerate(held, 2'000))
                EXPECT_EQ(space.why_not(config).value_or(""), "") << config.to_string();
        }
    }
}

TEST(WgmmaFp8Family, PingPongTakesWholeTiles) {
    const Problem problem = catalogue().problem({"fp8gemm", "4096x2112x7168", {{"acc", "f32fast"}}});
    const SearchSpace space = catalogue().find_family("gemm/wgmma_fp8")->space(problem, *reference_device("sm_90a"));
    EXPECT_FALSE(space.enumerate({{"pingpong", 1}, {"split_k", 1}}, 1).empty());
    EXPECT_TRUE(space.enumerate({{"pingpong", 1}, {"split_k", 0}}, 1).empty());
    EXPECT_FALSE(space.enumerate({{"pingpong", 0}, {"split_k", 0}}, 1).empty());
}

TEST(WgmmaFp8Family, LargeTilesThatPromoteTakeWholeTiles) {
    const Problem problem = catalogue().problem({"fp8gemm", "4096x2112x7168", {{"scale", "block"}}});
    const SearchSpace space = catalogue().find_family("gemm/wgmma_fp8")->space(problem, *reference_device("sm_90a"));
    EXPECT_FALSE(space.enumerate({{"block_m", 256}, {"block_n", 128}, {"split_k", 1}}, 1).empty());
    EXPECT_TRUE(space.enumerate({{"block_m", 256}, {"block_n", 128}, {"split_k", 0}}, 1).empty());
    EXPECT_TRUE(space.enumerate({{"block_m", 128}, {"block_n", 192}, {"cluster_k", 2}}, 1).empty());
    EXPECT_FALSE(space.enumerate({{"block_m", 128}, {"block_n", 128}, {"split_k", 0}}, 1).empty());
}

// In a stream whose kernels trigger nothing early, a launch without overlap is shorter.
TEST(WgmmaFp8Family, FewRowsAreTriedWithAndWithoutProgrammaticLaunch) {
    const Problem problem = catalogue().problem({"fp8gemm", "64x7168x2048", {{"acc", "f32fast"}, {"scale", "tensor"}}});
    const SearchSpace space = catalogue().find_family("gemm/wgmma_fp8")->space(problem, *reference_device("sm_90a"));
    const Config tile = {{"block_m", 64}, {"block_n", 64}, {"pingpong", 0}, {"cluster_k", 1}};
    for (const std::int64_t pdl : {0, 1}) {
        Config held = tile;
        held.set("pdl", pdl);
        EXPECT_FALSE(space.enumerate(held, 1).empty()) << pdl;
    }
    Config early = tile;
    early.set("pdl", 0);
    early.set("prefetch_steps", 8);
    EXPECT_TRUE(space.enumerate(early, 1).empty());
}

// From a larger space a search takes a sample, which may lack good points.
TEST(WgmmaFp8Family, FewRowsAreSearchedWhole) {
    for (const char* shape : {"16x24576x1536", "64x2112x7168", "128x2112x7168", "128x4096x14336"}) {
        for (const char* scale : {"tensor", "block"}) {
            const std::string acc = scale == std::string("block") ? "f32" : "f32fast";
            const Problem problem = catalogue().problem({"fp8gemm", shape, {{"acc", acc}, {"scale", scale}}});
            const SearchSpace space = catalogue().find_family("gemm/wgmma_fp8")->space(problem, *reference_device("sm_90a"));
            EXPECT_LT(space.enumerate({}, 200'001).size(), 200'000U) << shape << " " << scale;
            if (test::kIsSanitized) return;  // one space takes 4 s there
        }
    }
}

// Before sm_89 there is no e4m3 type, and the refusal says so.
TEST(WgmmaFp8Family, EveryFamilyRefusesArchitecturesWithoutTheType) {
    const Problem problem = catalogue().problem({"fp8gemm", "1024x768x512", {}});
    for (const char* arch : {"sm_80", "sm_86"}) {
        for (const Family* family : catalogue().families_of("gemm")) {
            const auto reason = family->refuses(problem, *reference_device(arch));
            ASSERT_TRUE(reason.has_value()) << family->name() << " on " << arch;
            EXPECT_GT(reason->size(), 10U) << family->name();
        }
    }
    for (const char* arch : {"sm_89", "sm_90a", "sm_120"}) {
        int takes = 0;
        for (const Family* family : catalogue().families_of("gemm")) takes += !family->refuses(problem, *reference_device(arch));
        EXPECT_GE(takes, 1) << arch;
    }
}

}  // namespace
}  // namespace autotune::wgmma_fp8_family_test
