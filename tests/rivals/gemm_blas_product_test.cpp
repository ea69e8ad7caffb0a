#include <gtest/gtest.h>

#include <cstring>

#include "kernel_templates/gemm/rivals/blas_product.h"
#include "src/catalogue/catalogue.h"
#include "tests/support/embedded_catalogue.h"

namespace autotune::test {
namespace {

struct Wish {
    std::string layout = "nn";
    std::string acc = "f32";
    std::string compute = "f16";
    DType in = DType::f16;
    DType out = DType::f16;
    double alpha = 1, beta = 0;
};

Tensor tensor(const char* name, DType type, Access access, std::vector<Dim> dims, int alignment_bytes) {
    Tensor made;
    made.name = name;
    made.dtype = type;
    made.access = access;
    made.dims = std::move(dims);
    made.alignment_bytes = alignment_bytes;
    return made;
}

// 3x5x7 with padded rows.
Problem problem(const Wish& wish) {
    const bool ta = wish.layout[0] == 't';
    const bool tb = wish.layout[1] == 't';
    Problem p;
    p.op = "gemm";
    p.extents = {{"m", 3}, {"n", 5}, {"k", 7}, {"batch", 1}};
    p.attributes = {{"layout", wish.layout}, {"acc", wish.acc}, {"compute", wish.compute}};
    p.tensors = {tensor("a", wish.in, Access::in, {{1, 0}, {ta ? 7 : 3, 16}, {ta ? 3 : 7, 1}}, 2),
                 tensor("b", wish.in, Access::in, {{1, 0}, {tb ? 5 : 7, 24}, {tb ? 7 : 5, 1}}, 4),
                 tensor("c", wish.out, Access::inout, {{1, 0}, {3, 8}, {5, 1}}, 16)};
    p.scalars = {{"alpha", static_cast<float>(wish.alpha)}, {"beta", static_cast<float>(wish.beta)}};
    return p;
}

gpu::BlasProduct mapped(const Wish& wish) {
    return gemm::blas_product(problem(wish), nullptr).value();
}

std::string refusal(const Wish& wish) {
    std::string why;
    gemm::blas_product(problem(wish), &why);
    return why;
}

Problem fp8(const std::map<std::string, std::string>& options) {
    return test::embedded_catalogue().problem({"fp8gemm", "256x512x1024", options});
}

// Our B is the first matrix, so its scales are those of cuBLASLt's A.
TEST(GemmBlasProduct, Fp8HasItsAccumulationAndScales) {
    const auto plain = gemm::blas_product(fp8({{"acc", "f32fast"}, {"b", "e5m2"}}), nullptr).value();
    EXPECT_EQ(plain.first.type, gpu::blas::kR8E5M2);
    EXPECT_EQ(plain.second.type, gpu::blas::kR8E4M3);
    EXPECT_EQ(plain.out.type, gpu::blas::kR16BF);
    ASSERT_EQ(plain.attributes.size(), 1U);
    EXPECT_EQ(plain.attributes[0].name, gpu::blas::kFastAccumulation);
    EXPECT_EQ(plain.attributes[0].value, 1);
    EXPECT_TRUE(plain.addresses.empty());
    const auto block = gemm::blas_product(fp8({{"scale", "block"}}), nullptr).value();
    ASSERT_EQ(block.attributes.size(), 3U);
    EXPECT_EQ(block.attributes[0].value, 0);
    EXPECT_EQ(block.attributes[1].name, gpu::blas::kScaleModeOfA);
    EXPECT_EQ(block.attributes[1].value, 5);
    EXPECT_EQ(block.attributes[2].value, 4);
    ASSERT_EQ(block.addresses.size(), 2U);
    EXPECT_EQ(block.addresses[0].tensor, 4);
    EXPECT_EQ(block.addresses[1].tensor, 3);
}

TEST(GemmBlasProduct, TheEpilogueOfFp8IsThatOfItsDescription) {
    const auto all =
        gemm::blas_product(fp8({{"c", "e4m3"}, {"scale", "tensor"}, {"bias", "bf16"}, {"scale_d", "tensor"}, {"amax", "yes"}}),
                           nullptr)
            .value();
    EXPECT_EQ(all.out.type, gpu::blas::kR8E4M3);
    EXPECT_EQ(all.added_type, gpu::blas::kR16BF);
    ASSERT_EQ(all.attributes.size(), 3U);
    EXPECT_EQ(all.attributes[1].name, gpu::blas::kEpilogue);
    EXPECT_EQ(all.attributes[2].value, gpu::blas::kR16BF);
    ASSERT_EQ(all.addresses.size(), 5U);
    EXPECT_EQ(all.addresses[0].name, gpu::blas::kBias);
    EXPECT_EQ(all.addresses[0].tensor, 5);
    EXPECT_EQ(all.addresses[2].name, gpu::blas::kAmaxOfD);
    EXPECT_EQ(all.addresses[2].tensor, 7);
    EXPECT_EQ(gemm::blas_product(fp8({}), nullptr).value().added_type, -1);
}

TEST(GemmBlasProduct, EpiloguesThatCublasLtDoesNotHaveAreRefusedByName) {
    const std::vector<std::pair<std::map<std::string, std::string>, std::string>> cases = {
        {{{"c", "e4m3"}, {"beta", "any"}}, "in fp8 that is read"},
        {{{"amax", "yes"}}, "amax of a C that is not fp8"},
        {{{"bias", "f32"}}, "a bias in f32"},
        {{{"bias", "bf16"}, {"align", "16,16,2"}}, "or a bias of 4"},
        {{{"scale", "tensor"}, {"align", "16,16,8"}}, "no multiples of 16"}};
    for (const auto& [options, reason] : cases) {
        std::string why;
        EXPECT_FALSE(gemm::blas_product(fp8(options), &why)) << reason;
        EXPECT_NE(why.find(reason), std::string::npos) << why;
    }
    EXPECT_TRUE(gemm::blas_product(fp8({{"bias", "bf16"}}), nullptr));
}

TEST(GemmBlasProduct, BlockScalesThatLieOtherwiseHaveNoEntry) {
    std::string why;
    EXPECT_FALSE(gemm::blas_product(test::embedded_catalogue().problem({"fp8gemm", "255x512x1024", {{"scale", "block"}}}), &why));
    EXPECT_NE(why.find("lie otherwise"), std::string::npos);
}

TEST(GemmBlasProduct, RowMajorProductIsTheTransposedProductInColumnMajor) {
    const auto g = mapped({});
    EXPECT_EQ(g.m, 5);
    EXPECT_EQ(g.n, 3);
    EXPECT_EQ(g.k, 7);
    EXPECT_EQ(g.first.tensor, 1);
    EXPECT_EQ(g.second.tensor, 0);
    EXPECT_EQ(g.first.ld, 24);
    EXPECT_EQ(g.second.ld, 16);
    EXPECT_EQ(g.out.ld, 8);
}

TEST(GemmBlasProduct, EachLetterOfTheLayoutTransposesItsOwnMatrix) {
    EXPECT_EQ(mapped({.layout = "nn"}).first_op, gpu::blas::kPlain);
    EXPECT_EQ(mapped({.layout = "nt"}).first_op, gpu::blas::kTransposed);
    EXPECT_EQ(mapped({.layout = "nt"}).second_op, gpu::blas::kPlain);
    EXPECT_EQ(mapped({.layout = "tn"}).first_op, gpu::blas::kPlain);
    EXPECT_EQ(mapped({.layout = "tn"}).second_op, gpu::blas::kTransposed);
    EXPECT_EQ(mapped({.layout = "tt"}).first_op, gpu::blas::kTransposed);
}

TEST(GemmBlasProduct, StoredShapeIsTurnedForColumnMajor) {
    const auto g = mapped({.layout = "nt"});
    EXPECT_EQ(g.first.rows, 7);  // B is stored [5,7], which is 7 x 5 column by column
    EXPECT_EQ(g.first.cols, 5);
}

TEST(GemmBlasProduct, HalfAccumulatorTakesHalfScalars) {
    const auto g = mapped({.acc = "f16", .alpha = 0.5, .beta = 2});
    EXPECT_EQ(g.compute, gpu::blas::kCompute16F);
    EXPECT_EQ(g.scale_type, gpu::blas::kR16F);
    std::uint16_t alpha = 0;
    std::uint16_t beta = 0;
    std::memcpy(&alpha, g.alpha.data(), 2);
    std::memcpy(&beta, g.beta.data(), 2);
    EXPECT_EQ(alpha, 0x3800);
    EXPECT_EQ(beta, 0x4000);
}

TEST(GemmBlasProduct, FloatAccumulatorTakesFloatScalars) {
    const auto g = mapped({.compute = "bf16", .in = DType::bf16, .out = DType::bf16, .alpha = 0.5});
    EXPECT_EQ(g.compute, gpu::blas::kCompute32F);
    EXPECT_EQ(g.first.type, gpu::blas::kR16BF);
    float alpha = 0;
    std::memcpy(&alpha, g.alpha.data(), 4);
    EXPECT_EQ(alpha, 0.5f);
}

TEST(GemmBlasProduct, Tf32IsAskedForByNameAlone) {
    EXPECT_EQ(mapped({.compute = "tf32", .in = DType::f32, .out = DType::f32}).compute, gpu::blas::kCompute32FFastTf32);
    EXPECT_EQ(mapped({.compute = "f32", .in = DType::f32, .out = DType::f32}).compute, gpu::blas::kCompute32F);
    EXPECT_EQ(mapped({.compute = "tf32x3", .in = DType::f32, .out = DType::f32}).compute, gpu::blas::kCompute32F);
}

TEST(GemmBlasProduct, HalfAccumulatorOfBf16IsRefusedWithAReason) {
    EXPECT_EQ(refusal({.acc = "f16", .in = DType::bf16, .out = DType::bf16}), "cuBLAS: an f16 accumulator needs f16 tensors");
}

TEST(GemmBlasProduct, ExtentBeyond32BitsIsRefused) {
    Problem p = problem({});
    p.extents[0].value = std::int64_t{1} << 31;
    std::string why;
    EXPECT_FALSE(gemm::blas_product(p, &why).has_value());
}

}  // namespace
}  // namespace autotune::test
