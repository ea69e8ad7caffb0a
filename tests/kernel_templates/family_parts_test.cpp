#include "kernel_templates/gemm/family_parts.h"

#include <gtest/gtest.h>

#include "kernel_templates/catalogue.h"

namespace autotune::gemm::family_parts_test {
namespace {

Gemm gemm_of(const std::string& shape) {
    return Gemm(Catalogue::embedded().problem({"hgemm", shape, {}}));
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
    const Problem problem = Catalogue::embedded().problem({"hgemm", "100x64x77", {}});
    const TypedMatrix a = matrix_view(problem.tensors[0]);
    EXPECT_EQ(packed_ld(a), 80);
    EXPECT_EQ(packed_bytes(a), 100 * 80 * 2);
    const LaunchStep step = pack_step(a, 0, 512);
    EXPECT_EQ(step.entry, "_pack");
    EXPECT_EQ(step.grid.x, (100 * 10 + 255) / 256);
    EXPECT_EQ(std::get<WorkspaceArg>(step.arguments.at(1)).offset_bytes, 512U);
}

}  // namespace
}  // namespace autotune::gemm::family_parts_test
