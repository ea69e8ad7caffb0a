#include "src/core/tensor.h"

#include <gtest/gtest.h>

#include "src/core/error.h"

namespace autotune {
namespace {

Tensor with_dims(std::vector<Dim> dims, DType type = DType::f16) {
    Tensor tensor;
    tensor.name = "x";
    tensor.dtype = type;
    tensor.dims = std::move(dims);
    return tensor;
}

TEST(Tensor, SpanCountsGapsBetweenRowsAndBatches) {
    EXPECT_EQ(with_dims({{3, 8}, {5, 1}}).span(), 21);
    const Tensor batched = with_dims({{2, 100}, {3, 8}, {5, 1}});
    EXPECT_EQ(batched.span(), 121);
    EXPECT_EQ(batched.span_bytes(), 242);
    EXPECT_EQ(batched.elements(), 30);
    EXPECT_TRUE(batched.has_gaps());
    EXPECT_EQ(with_dims({{0, 8}, {5, 1}}).span(), 0);
}

TEST(Tensor, WithoutDimensionsIsOneElement) {
    EXPECT_EQ(with_dims({}).elements(), 1);
    EXPECT_EQ(with_dims({}).span(), 1);
}

TEST(Tensor, ThatIsAbsentHasNoElement) {
    Tensor tensor = with_dims({});
    tensor.is_optional = tensor.is_absent = true;
    EXPECT_EQ(tensor.elements(), 0);
    EXPECT_EQ(tensor.span_bytes(), 0);
    EXPECT_FALSE(tensor.is_written());
}

TEST(Tensor, NumbersElementsInTheLogicalOrderWhateverTheStridesAre) {
    const Tensor transposed = with_dims({{3, 1}, {2, 3}});
    EXPECT_EQ(transposed.offset_of(0), 0);
    EXPECT_EQ(transposed.offset_of(1), 3);
    EXPECT_EQ(transposed.offset_of(2), 1);
    EXPECT_EQ(transposed.offset_of(5), 5);
    EXPECT_FALSE(transposed.has_gaps());
    const Tensor five = with_dims({{2, 1}, {3, 2000}, {5, 4}, {7, 256}, {6, 30}});
    EXPECT_EQ(five.offset_of(five.elements() - 1), 1 + 2 * 2000 + 4 * 4 + 6 * 256 + 5 * 30);
    EXPECT_EQ(five.span(), five.offset_of(five.elements() - 1) + 1);
}

TEST(MatrixView, OfOneTwoAndThreeDimensions) {
    const TypedMatrix line = matrix_view(with_dims({{7, 1}}, DType::f32));
    EXPECT_EQ(line.rows, 1);
    EXPECT_EQ(line.cols, 7);
    EXPECT_EQ(line.ld, 7);
    EXPECT_EQ(line.dtype, DType::f32);
    const TypedMatrix padded = matrix_view(with_dims({{3, 8}, {5, 1}}));
    EXPECT_EQ(padded.rows, 3);
    EXPECT_EQ(padded.ld, 8);
    EXPECT_EQ(padded.batch, 1);
    const TypedMatrix batched = matrix_view(with_dims({{2, 100}, {3, 8}, {5, 1}}));
    EXPECT_EQ(batched.batch, 2);
    EXPECT_EQ(batched.batch_stride, 100);
    EXPECT_EQ(batched.dims(), with_dims({{2, 100}, {3, 8}, {5, 1}}).dims);
}

TEST(MatrixView, RefusesWhatIsNoMatrix) {
    EXPECT_THROW(matrix_view(with_dims({})), Error);
    EXPECT_THROW(matrix_view(with_dims({{3, 1}, {5, 3}})), Error);
    EXPECT_THROW(matrix_view(with_dims({{2, 1}, {2, 1}, {2, 1}, {2, 1}})), Error);
}

TEST(DenseDims, AreRowMajor) {
    const std::vector<Dim> dims = dense_dims({2, 3, 5});
    EXPECT_EQ(dims, (std::vector<Dim>{{2, 15}, {3, 5}, {5, 1}}));
}

}  // namespace
}  // namespace autotune
