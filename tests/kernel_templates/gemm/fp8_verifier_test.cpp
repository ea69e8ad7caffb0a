// For fp8 the verifier must distinguish sums in the tensor cores, promoted sums, and kernels that apply scales wrongly.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "kernel_templates/gemm/op/scaling.h"
#include "kernel_templates/harness/fill.h"
#include "kernel_templates/harness/harness.h"
#include "src/catalogue/catalogue.h"
#include "tests/support/embedded_catalogue.h"
#include "tests/support/sanitizer.h"

namespace autotune::fp8_verifier_test {
namespace {

constexpr std::int64_t kRows = 16, kCols = 32;
constexpr std::int64_t kAtOnce = 32;  // products that one instruction adds

// How a tensor core of sm_90 adds 32 products to a sum: each is truncated 13 bits after the largest one's leading bit.
double added_in_tensor_core(double sum, const std::array<double, kAtOnce>& products) {
    double largest = std::fabs(sum);
    for (const double product : products) largest = std::max(largest, std::fabs(product));
    if (largest == 0) return 0;
    const double unit = std::ldexp(1.0, std::ilogb(largest) - 13);
    double units = std::trunc(sum / unit);
    for (const double product : products) units += std::trunc(product / unit);
    return units * unit;
}

struct Fault {
    bool promotes = true;
    std::int64_t scale_step = 1;  // 0: the scales of the first 128 k everywhere
};

// A product of one op test, and kernels that compute it with the hardware's precision.
class Bench {
  public:
    Bench(const std::string& acc, const std::string& scale, std::int64_t k)
        : catalogue_(test::embedded_catalogue()),
          problem_(catalogue_.problem({"fp8gemm",
                                       std::to_string(kRows) + "x" + std::to_string(kCols) + "x" + std::to_string(k),
                                       {{"acc", acc}, {"scale", scale}, {"c", "f32"}}})),
          k_(k) {}

    // Whether all of the op's tests accept the results of a kernel with this fault.
    bool accepts(const Fault& fault) const {
        const Op& op = catalogue_.op_of(problem_);
        for (const OpTest& test : op.tests(problem_)) {
            std::vector<std::vector<double>> values;
            for (std::size_t i = 0; i < problem_.tensors.size(); ++i)
                values.push_back(filled_tensor(test.fills[i], problem_.tensors[i], static_cast<int>(i), 3));
            const Expected expected = op.reference_on_host(problem_, test, values).front();
            CompareResult result;
            for (std::int64_t at = 0; at < kRows * kCols; ++at) {
                const auto place = static_cast<std::size_t>(at);
                const double value = element(values, fault, at / kCols, at % kCols);
                compare_element(result, DType::f32, encode(DType::f32, value), expected.values[place], expected.bounds[place],
                                place);
            }
            if (!passes(test.outputs.front(), result)) return false;
        }
        return true;
    }

  private:
    double scale(const std::vector<std::vector<double>>& values, int tensor, std::int64_t line, std::int64_t run) const {
        if (gemm::scaling_of(problem_) == gemm::Scaling::none) return 1;
        const gemm::ScaleStrides strides = gemm::scale_strides(problem_, tensor);
        return values[static_cast<std::size_t>(tensor)][static_cast<std::size_t>(line * strides.line + run * strides.k)];
    }
    double element(const std::vector<std::vector<double>>& values, const Fault& fault, std::int64_t row, std::int64_t col) const {
        float promoted = 0;
        double sum = 0;
        for (std::int64_t k0 = 0; k0 < k_; k0 += kAtOnce) {
            std::array<double, kAtOnce> products{};
            for (std::int64_t k = k0; k < std::min(k_, k0 + kAtOnce); ++k)
                products[static_cast<std::size_t>(k - k0)] =
                    values[0][static_cast<std::size_t>(row * k_ + k)] * values[1][static_cast<std::size_t>(col * k_ + k)];
            sum = added_in_tensor_core(sum, products);
            if (!fault.promotes || ((k0 + kAtOnce) % gemm::kScaleBlock != 0 && k0 + kAtOnce < k_)) continue;
            const std::int64_t run = k0 / gemm::kScaleBlock * fault.scale_step;
            const double factor = scale(values, gemm::kScaleA, row, run) * scale(values, gemm::kScaleB, 0, run);
            promoted = static_cast<float>(promoted + sum * factor);
            sum = 0;
        }
        return fault.promotes ? promoted : sum;
    }

    const Catalogue& catalogue_;
    Problem problem_;
    std::int64_t k_;
};

TEST(Fp8Verifier, AcceptsSumsOfTheTensorCoresWhereTheyAreAskedFor) {
    for (const std::int64_t k : {32, 100, 512, 4096, 8192})
        EXPECT_TRUE(Bench("f32fast", "none", k).accepts({.promotes = false})) << k;
}

TEST(Fp8Verifier, AcceptsPromotedSums) {
    const std::int64_t most = test::kIsSanitized ? 1000 : 8192;
    for (const std::int64_t k : {32, 100, 512, 4096, 8192}) {
        if (k > most) continue;
        EXPECT_TRUE(Bench("f32", "none", k).accepts({})) << k;
    }
    for (const std::int64_t k : {256, 1000, 4096}) {
        if (k > most) continue;
        EXPECT_TRUE(Bench("f32", "block", k).accepts({})) << k;
    }
}

TEST(Fp8Verifier, RefusesSumsThatShouldHaveBeenPromoted) {
    for (const std::int64_t k : {4096, 8192}) EXPECT_FALSE(Bench("f32", "none", k).accepts({.promotes = false})) << k;
}

TEST(Fp8Verifier, RefusesTheScalesOfAnotherBlock) {
    for (const std::int64_t k : {256, 4096}) EXPECT_FALSE(Bench("f32", "block", k).accepts({.scale_step = 0})) << k;
}

}  // namespace
}  // namespace autotune::fp8_verifier_test
