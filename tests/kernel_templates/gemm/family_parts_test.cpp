#include "kernel_templates/gemm/shared/family_parts.h"

#include <gtest/gtest.h>

#include <optional>
#include <vector>

#include "kernel_templates/parameter_table.h"
#include "src/catalogue/catalogue.h"
#include "src/core/error.h"
#include "tests/support/embedded_catalogue.h"

namespace autotune::gemm::family_parts_test {
namespace {

Gemm gemm_of(const std::string& shape) {
    return Gemm(test::embedded_catalogue().problem({"hgemm", shape, {}}));
}

// clang-format off
#define FAMILY_PARTS_TEST_SHARED(ROW) ROW(threads, 64, compile, "threads a block", 64, 128)
#define FAMILY_PARTS_TEST_PARAMETERS(ROW) \
    FAMILY_PARTS_TEST_SHARED(ROW) \
    ROW(unroll, 1, compile, "steps", 1, 2) \
    ROW(waves, 0, launch, "fillings of the GPU", values_in_steps(0, 4, 2))
// clang-format on

struct Resolved {
    AUTOTUNE_RESOLVED_CONFIG(FAMILY_PARTS_TEST_PARAMETERS)
    std::int64_t warps() const { return threads / 32; }
};

TEST(ParameterTable, DeclaresTheParametersInOrder) {
    const std::vector<Parameter> all = Resolved::parameters();
    ASSERT_EQ(all.size(), 3U);
    EXPECT_EQ(all[0].name, "threads");
    EXPECT_EQ(all[1].kind, ParameterKind::compile);
    EXPECT_EQ(all[2].name, "waves");
    EXPECT_EQ(all[2].kind, ParameterKind::launch);
    EXPECT_EQ(all[2].about, "fillings of the GPU");
    EXPECT_EQ(all[2].values, (std::vector<std::int64_t>{0, 2, 4}));
}

TEST(ParameterTable, AConfigThatLacksAParameterHasTheRowsValue) {
    const auto resolved = resolve<Resolved>(Config{{"waves", 4}, {"other", 7}});
    EXPECT_EQ(resolved.warps(), 2);
    EXPECT_EQ(resolved.unroll, 1);
    EXPECT_EQ(resolved.waves, 4);
}

TEST(ParameterTable, WhatIsResolvedIsWrittenBackInOrder) {
    const Config config{{"threads", 128}, {"unroll", 2}, {"waves", 4}};
    EXPECT_EQ(config_from(resolve<Resolved>(config)), config);
    const Config of_the_shared_rows = AUTOTUNE_CONFIG(FAMILY_PARTS_TEST_SHARED, resolve<Resolved>(config));
    EXPECT_EQ(of_the_shared_rows, (Config{{"threads", 128}}));
}

TEST(ParameterTable, AConfigIsWrittenDownByItsFirstValues) {
    EXPECT_EQ(config_with<Resolved>({128, 2}), (Config{{"threads", 128}, {"unroll", 2}, {"waves", 0}}));
    EXPECT_THROW(config_with<Resolved>({128, 2, 0, 1}), Error);
}

TEST(ParameterTable, AConstraintReadsTheResolvedConfig) {
    const auto holds = rules_by<Resolved>()([](const Resolved& s) { return s.warps() == 4; });
    EXPECT_TRUE(holds(Config{{"threads", 128}}));
    EXPECT_FALSE(holds(Config{{"threads", 64}}));
}

TEST(ParameterTable, AFamilyMayHaveOtherValuesThanItsTable) {
    std::vector<Parameter> all = AUTOTUNE_PARAMETERS(FAMILY_PARTS_TEST_PARAMETERS);
    parameter_of(all, "unroll").values = {1, 4};
    EXPECT_EQ(all[1].values, (std::vector<std::int64_t>{1, 4}));
    EXPECT_THROW(parameter_of(all, "none"), Error);
}

TEST(BlockOrder, WithoutAStrideAPanelIsAllOfC) {
    const Gemm g = gemm_of("1000x3000x64");
    EXPECT_EQ((BlockOrder{128, 256, 0, 0}.group(g)), 12);
    EXPECT_EQ((BlockOrder{128, 256, 1, 0}.group(g)), 8);
}

TEST(BlockOrder, AStrideIsCountedInTilesOfItsDirection) {
    const Gemm g = gemm_of("4096x4096x64");
    EXPECT_EQ((BlockOrder{128, 256, 0, 1024}.group(g)), 4);
    EXPECT_EQ((BlockOrder{128, 256, 1, 1024}.group(g)), 8);
}

TEST(BlockOrder, APanelHasTwoTilesAndIsNarrowerThanC) {
    const Gemm g = gemm_of("4096x2048x64");
    EXPECT_TRUE((BlockOrder{128, 256, 0, 1024}.is_proper(g)));
    EXPECT_FALSE((BlockOrder{128, 1024, 0, 1024}.is_proper(g)));
    EXPECT_FALSE((BlockOrder{128, 256, 0, 2048}.is_proper(g)));
    EXPECT_TRUE((BlockOrder{128, 256, 1, 2048}.is_proper(g)));
}

TEST(WorkspaceLayout, HandsOutMultiplesOf256InOrder) {
    WorkspaceLayout layout;
    EXPECT_EQ(layout.take(1), 0U);
    EXPECT_EQ(layout.take(300), 256U);
    EXPECT_EQ(layout.take(0), 768U);
    EXPECT_EQ(layout.bytes(), 768U);
}

TEST(PackStep, CopiesRowsPaddedToWholeChunks) {
    const Problem problem = test::embedded_catalogue().problem({"hgemm", "100x64x77", {}});
    const TypedMatrix a = matrix_view(problem.tensors[0]);
    EXPECT_EQ(packed_ld(a), 80);
    EXPECT_EQ(packed_bytes(a), 100 * 80 * 2);
    const LaunchStep step = pack_step(a, 0, 512);
    EXPECT_EQ(step.entry, "_pack");
    EXPECT_EQ(step.grid.x, (100 * 10 + 255) / 256);
    EXPECT_EQ(std::get<WorkspaceArg>(step.arguments.at(1)).offset_bytes, 512U);
}

// On an H200 30 clusters of four fit at once, and 15 of eight. For three and six the numbers come from trials.
TEST(SmsOfClusters, LackThoseThatNoWholeClusterFits) {
    const Device device = *reference_device("sm_90a");
    EXPECT_EQ(usable_sms(device, 1), 132);
    EXPECT_EQ(usable_sms(device, 2), 132);
    EXPECT_EQ(usable_sms(device, 3), 30 * 3);
    EXPECT_EQ(usable_sms(device, 4), 30 * 4);
    EXPECT_EQ(usable_sms(device, 6), 17 * 6);
    EXPECT_EQ(usable_sms(device, 8), 15 * 8);
}

TEST(SharedSectors, AreThoseWhoseTilesBeginWithinOne) {
    EXPECT_EQ(shared_sectors(gemm_of("4000x12528x96"), 160), 0);
    EXPECT_DOUBLE_EQ(shared_sectors(gemm_of("4000x12520x96"), 160), 16.0 / 320.0);
    EXPECT_EQ(shared_sectors(gemm_of("4000x120x96"), 160), 0) << "one tile has no neighbour";
}

// A line has eight rows of 16 bytes, and each of many blocks requests each of them.
TEST(AsksOfALine, AreManyWhereFewRowsAreStoredAlongThem) {
    const auto asks = [](const std::string& layout) {
        const Gemm g(test::embedded_catalogue().problem({"hgemm", "8x20512x664", {{"layout", layout}}}));
        return line_requests_by_tiles(g, 32, 64, 1000.0);
    };
    EXPECT_EQ(asks("nt"), 321);
    EXPECT_EQ(asks("tt"), 8 * 321);
}

// A kernel tuned for one problem serves another with launch parameters of its own. They are legal if any are legal, and predicted
// to be at least as fast as the old parameters.
TEST(Relaunch, OfGemvAndMmaIsLegalWhereItCanBe) {
    const Catalogue& catalogue = test::embedded_catalogue();
    const Device device = *reference_device("sm_90a");
    for (const char* name : {"gemm/gemv", "gemm/mma"}) {
        const Family& family = *catalogue.find_family(name);
        const auto problem = [&](const char* shape) { return catalogue.problem({"bgemm", shape, {{"layout", "nt"}}}); };
        const std::vector<Config> tuned = family.space(problem("24x4096x8192"), device).sample({}, 300);
        int legal = 0;
        for (const char* shape : {"1x4096x4096", "17x11008x512", "64x512x8192", "100x80x20000"}) {
            const Problem other = problem(shape);
            const SearchSpace rules = family.rules(other, device);
            const Relauncher relaunch = family.relauncher(other, device);
            for (const Config& each : tuned) {
                const Relaunched given = relaunch(each);
                const Config config = given.of(each);
                EXPECT_EQ(rules.compile_part(config), rules.compile_part(each));
                const bool was_legal = rules.contains(each);
                if (!was_legal) continue;
                ++legal;
                EXPECT_EQ(rules.why_not(config), std::nullopt) << shape << " " << config.to_string();
                EXPECT_LE(*given.predicted_us, 1.001 * *family.predict_us(other, each, device))
                    << shape << " " << each.to_string();
            }
        }
        EXPECT_GT(legal, 40) << name;
    }
}

}  // namespace
}  // namespace autotune::gemm::family_parts_test
