#include "src/core/problem/tensor.h"

#include <gtest/gtest.h>

#include <random>
#include <set>

#include "src/core/error.h"
#include "src/core/integer_math.h"
#include "src/core/problem/problem.h"

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

TEST(Tensor, OfAnEmptyExtentHasNoElementWhateverTheOthersAre) {
    const std::int64_t large = std::int64_t{1} << 31;
    EXPECT_EQ(with_dims({{large, 1}, {large, 1}, {large, 1}, {0, 1}}).elements(), 0);
    EXPECT_TRUE(with_dims({{0, 1}}).is_empty());
}

TEST(Tensor, RepeatsWhereAStrideIsZero) {
    EXPECT_TRUE(with_dims({{4, 0}, {5, 1}}).repeats());
    EXPECT_FALSE(with_dims({{1, 0}, {5, 1}}).repeats());
}

TEST(Tensor, OverlapsItselfWhereAStrideIsWithinWhatTheOthersSpan) {
    EXPECT_TRUE(overlaps_itself({{4, 0}, {5, 1}}));
    EXPECT_TRUE(overlaps_itself({{4, 4}, {5, 1}}));
    EXPECT_FALSE(overlaps_itself({{4, 5}, {5, 1}}));
    EXPECT_FALSE(overlaps_itself({{4, 1}, {5, 4}}));
    EXPECT_FALSE(overlaps_itself({{1, 0}, {5, 1}}));
}

bool meet_at(const Tensor& left, std::uint64_t left_base, const Tensor& right, std::uint64_t right_base) {
    return meet(Footprint(left), left_base, Footprint(right), right_base);
}

// Columns of one matrix, and rows of adjacent heads.
TEST(Footprint, ArraysThatTakeTurnsInOneMemoryDoNotMeet) {
    const Tensor left = with_dims({{64, 96}, {32, 1}}), right = with_dims({{64, 96}, {64, 1}});
    EXPECT_FALSE(meet_at(left, 4096, right, 4096 + 64));
    EXPECT_TRUE(meet_at(left, 4096, right, 4096 + 62));
    EXPECT_FALSE(meet_at(right, 4096, left, 4096 + 128));
    EXPECT_TRUE(meet_at(right, 4096, left, 4096 + 130));  // into the next row
    const Tensor heads = with_dims({{2, 3000}, {4, 24}, {30, 96}, {8, 1}});
    for (const std::uint64_t other : {1, 2}) EXPECT_FALSE(meet_at(heads, 4096, heads, 4096 + other * 8 * 2));
    EXPECT_TRUE(meet_at(heads, 4096, heads, 4096 + 24 * 2));
}

TEST(Footprint, TheSameElementsInTheSameOrderAreEqual) {
    EXPECT_EQ(Footprint(with_dims({{1, 7}, {5, 1}})), Footprint(with_dims({{5, 1}})));
    EXPECT_NE(Footprint(with_dims({{4, 8}, {5, 1}})), Footprint(with_dims({{4, 9}, {5, 1}})));
    EXPECT_NE(Footprint(with_dims({{5, 1}}, DType::f32)), Footprint(with_dims({{5, 1}}, DType::f16)));
}

TEST(Footprint, AnEmptyArrayMeetsNothing) {
    EXPECT_FALSE(meet_at(with_dims({{0, 1}}), 0, with_dims({{5, 1}}), 0));
}

// The result is compared with the bytes of all elements.
TEST(Footprint, MeetsWhereABlockOfBytesDoes) {
    std::mt19937 random(7);
    const auto below = [&](int count) { return static_cast<std::int64_t>(random() % static_cast<unsigned>(count)); };
    const auto drawn = [&] {
        constexpr std::array<DType, 3> types = {DType::e4m3, DType::f16, DType::f32};
        std::vector<Dim> dims(static_cast<std::size_t>(below(4)));
        for (Dim& dim : dims) dim = {1 + below(4), below(12)};
        return with_dims(dims, types[static_cast<std::size_t>(below(3))]);
    };
    const auto bytes_of = [](const Tensor& tensor, std::uint64_t base) {
        std::set<std::uint64_t> bytes;
        for (std::int64_t i = 0; i < tensor.elements(); ++i)
            for (std::size_t byte = 0; byte < size_bytes(tensor.dtype); ++byte)
                bytes.insert(base + static_cast<std::uint64_t>(tensor.offset_of(i)) * size_bytes(tensor.dtype) + byte);
        return bytes;
    };
    int met = 0;
    for (int i = 0; i < 20'000; ++i) {
        const Tensor left = drawn(), right = drawn();
        const std::uint64_t left_base = 1000 + static_cast<std::uint64_t>(below(60)), right_base = 1030;
        const std::set<std::uint64_t> of_left = bytes_of(left, left_base), of_right = bytes_of(right, right_base);
        const bool expected =
            std::any_of(of_left.begin(), of_left.end(), [&](std::uint64_t at) { return of_right.contains(at); });
        met += expected ? 1 : 0;
        ASSERT_EQ(meet_at(left, left_base, right, right_base), expected) << i;
    }
    EXPECT_GT(met, 2000);
    EXPECT_LT(met, 18'000);
}

TEST(IntegerMath, AProductOrASumThatDoesNotFitIsNone) {
    EXPECT_EQ(checked_product(1 << 30, 4), std::int64_t{1} << 32);
    EXPECT_EQ(checked_product(std::int64_t{1} << 32, std::int64_t{1} << 31), std::nullopt);
    EXPECT_EQ(checked_sum(INT64_MAX, 1), std::nullopt);
    EXPECT_EQ(checked_sum(INT64_MAX, -1), INT64_MAX - 1);
}

TEST(IntegerMath, NarrowingThatLosesANumberIsOurMistake) {
    EXPECT_EQ(narrow<std::int32_t>(std::int64_t{2147483647}), 2147483647);
    EXPECT_EQ(narrow<std::uint32_t>(std::int64_t{4294967295}), 4294967295U);
    for (const std::int64_t value : {std::int64_t{1} << 31, (std::int64_t{1} << 32) + 1, -(std::int64_t{1} << 31) - 1}) {
        try {
            narrow<std::int32_t>(value);
            ADD_FAILURE() << value;
        } catch (const Error& error) {
            EXPECT_EQ(error.code(), ErrorCode::internal);
            EXPECT_NE(std::string(error.what()).find("is " + std::to_string(value) + ", which does not fit 32 bits"),
                      std::string::npos);
        }
    }
    EXPECT_THROW(narrow<std::uint32_t>(std::int64_t{-1}), Error);
}

TEST(Problem, TheAlignmentOfAStrideNeedsItsLowestBitsAlone) {
    EXPECT_EQ(alignment_of_stride(0, 2), 16);
    EXPECT_EQ(alignment_of_stride(3, 2), 2);
    EXPECT_EQ(alignment_of_stride(12, 2), 8);
    EXPECT_EQ(alignment_of_stride(INT64_MAX, 8), 8);
    EXPECT_EQ(alignment_of_stride(std::int64_t{1} << 62, 8), 16);
}

}  // namespace
}  // namespace autotune
