// Compares the conversions of harness kernels, which get a format as data, with those of src/core/problem/dtype.h, on the host.
#include "kernel_templates/common/number_format.cuh"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "kernel_templates/harness/harness.h"
#include "src/core/statistics/random.h"

namespace autotune::number_format_test {
namespace {

autotune_number::Format format_of(DType type) {
    return {harness_format(type)};
}

void expect_same(DType type, double value) {
    const std::uint64_t right = encode(type, value), found = autotune_number::encode(format_of(type), value);
    if (std::isnan(value)) {
        EXPECT_EQ(std::isnan(decode(type, right)), std::isnan(decode(type, found))) << to_string(type);
    } else {
        ASSERT_EQ(found, right) << to_string(type) << " of " << value;
    }
}

TEST(NumberFormat, EncodesAsTheHostDoes) {
    std::vector<double> values = {0.0,         1.0, 65504, 65519,  65520, 448,
                                  464,         465, 57344, 61440,  127.5, 126.5,
                                  2147483647,  3e9, 1e-45, 1e-300, 1e300, std::numeric_limits<double>::infinity(),
                                  std::nan("")};
    Random random(5);
    for (int i = 0; i < 20'000; ++i) values.push_back(random.normal() * std::ldexp(1.0, static_cast<int>(random.below(80)) - 50));
    for (const DTypeTraits& traits : kDTypes) {
        for (const double value : values) {
            expect_same(traits.type, value);
            expect_same(traits.type, -value);
        }
    }
}

// The values are half-way cases and their neighbours.
TEST(NumberFormat, EncodesAsTheHostDoesBetweenNeighbours) {
    for (const DType type : {DType::f16, DType::bf16, DType::e4m3, DType::e5m2, DType::i8}) {
        const std::uint64_t patterns = std::uint64_t{1} << (traits_of(type).bits - 1);
        for (std::uint64_t bits = 0; bits + 1 < patterns; ++bits) {
            const double middle = (decode(type, bits) + decode(type, bits + 1)) / 2;
            if (!std::isfinite(middle)) continue;
            for (const double value : {middle, std::nextafter(middle, 0), std::nextafter(middle, 1e300)})
                expect_same(type, value);
        }
    }
}

TEST(NumberFormat, DecodesAsTheHostDoes) {
    Random random(6);
    for (const DTypeTraits& traits : kDTypes) {
        const std::uint64_t mask = ~std::uint64_t{0} >> (64 - traits.bits);
        for (std::uint64_t i = 0; i < 65'536; ++i) {
            const std::uint64_t bits = (traits.bits <= 16 ? i : random.next()) & mask;
            const double right = decode(traits.type, bits), found = autotune_number::decode(format_of(traits.type), bits);
            if (std::isnan(right)) {
                ASSERT_TRUE(std::isnan(found)) << traits.word << " " << bits;
            } else {
                ASSERT_EQ(found, right) << traits.word << " " << bits;
                ASSERT_EQ(std::signbit(found), std::signbit(right)) << traits.word << " " << bits;
            }
        }
    }
}

}  // namespace
}  // namespace autotune::number_format_test
