// Tests of the verifier itself: what it must accept and what it must refuse, for every type and depth, with simulated kernels.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <map>
#include <memory>
#include <numeric>
#include <string>
#include <tuple>

#include "kernel_templates/harness/fill.h"
#include "kernel_templates/harness/harness.h"
#include "src/catalogue/catalogue.h"
#include "tests/support/embedded_catalogue.h"
#include "tests/support/sanitizer.h"

namespace autotune::gemm_verifier_test {
namespace {

constexpr std::int64_t kRows = 16;
constexpr std::int64_t kCols = 16;
constexpr std::int64_t kStep = 16;  // k of one matrix instruction

struct Case {
    std::string op;
    std::int64_t k;
};

double cut_to_tf32(double value) {
    return static_cast<double>(std::bit_cast<float>(std::bit_cast<std::uint32_t>(static_cast<float>(value)) & 0xFFFFE000U));
}

// One product with its reference, and the inputs of a tested kernel.
class Bench {
  public:
    Bench(const Case& which, const std::string& test)
        : catalogue_(test::embedded_catalogue()),
          problem_(catalogue_.problem({which.op, "16x16x" + std::to_string(which.k), {{"beta", "any"}}})),
          test_(test_named(catalogue_.op_of(problem_).tests(problem_), test)) {
        compute_ = problem_.word("compute");
        for (int i = 0; i < 3; ++i) {
            const auto at = static_cast<std::size_t>(i);
            tensors_.push_back(filled_tensor(test_.fills[at], problem_.tensors[at], i, 42));
        }
        c_ = catalogue_.op_of(problem_).reference_on_host(problem_, test_, tensors_).front();
    }

    bool accepts(const std::vector<double>& out) const {
        CompareResult result;
        for (std::size_t i = 0; i < out.size(); ++i) {
            compare_element(result, out_type(), encode(out_type(), out[i]), c_.values[i], c_.bounds[i], i);
        }
        return passes(test_.outputs.front(), result);
    }

    double a(std::int64_t row, std::int64_t k) const {
        return multiplied(tensors_[0][static_cast<std::size_t>(row * depth() + k)]);
    }
    double b(std::int64_t k, std::int64_t col) const {
        return multiplied(tensors_[1][static_cast<std::size_t>(k * kCols + col)]);
    }
    double c(std::int64_t row, std::int64_t col) const { return tensors_[2][static_cast<std::size_t>(row * kCols + col)]; }
    std::int64_t depth() const { return depth_; }
    DType out_type() const { return out_type_; }
    bool accumulates_in_half() const { return accumulates_in_half_; }
    bool is_f32_accurate() const { return compute_ == "f32" || compute_ == "tf32x3"; }

  private:
    // The value of an operand in the multiplication.
    double multiplied(double value) const { return compute_ == "tf32" ? cut_to_tf32(value) : value; }

    std::string compute_;
    const Catalogue& catalogue_;
    Problem problem_;
    std::int64_t depth_ = problem_.extent("k");
    DType out_type_ = problem_.tensor("c").dtype;
    bool accumulates_in_half_ = problem_.word("acc") == "f16";
    OpTest test_;
    std::vector<std::vector<double>> tensors_;
    Expected c_;
};

double truncated_to_float(double value) {
    const auto nearest = static_cast<float>(value);
    const bool is_away = std::fabs(static_cast<double>(nearest)) > std::fabs(value);
    return static_cast<double>(is_away ? std::nextafter(nearest, 0.0F) : nearest);
}

double accumulated(const Bench& bench, double sum) {
    if (bench.is_f32_accurate()) return round_to(DType::f32, sum);
    return bench.accumulates_in_half() ? round_to(DType::f16, sum) : truncated_to_float(sum);
}

// Simulates a tensor core. The products of one step are exact. One addition to the accumulator follows, truncated in f32 and
// rounded in f16.
double simulated_element(const Bench& bench, std::int64_t row, std::int64_t col, std::int64_t missing_step = -1) {
    double sum = 0;
    for (std::int64_t k0 = 0; k0 < bench.depth(); k0 += kStep) {
        if (k0 / kStep == missing_step) continue;
        double step = 0;
        for (std::int64_t k = k0; k < std::min(k0 + kStep, bench.depth()); ++k) step += bench.a(row, k) * bench.b(k, col);
        sum = accumulated(bench, sum + step);
    }
    return round_to(bench.out_type(), sum + bench.c(row, col));
}

const std::vector<double>& simulated(const Bench& bench) {
    static std::map<const Bench*, std::vector<double>> results;
    std::vector<double>& out = results[&bench];
    if (!out.empty()) return out;
    for (std::int64_t row = 0; row < kRows; ++row) {
        for (std::int64_t col = 0; col < kCols; ++col) out.push_back(simulated_element(bench, row, col));
    }
    return out;
}

// Each case is made once, because the reference takes most of the time of these tests.
const Bench& bench_for(const Case& which, const std::string& test) {
    static std::map<std::tuple<std::string, std::int64_t, std::string>, std::unique_ptr<Bench>> benches;
    std::unique_ptr<Bench>& bench = benches[{which.op, which.k, test}];
    if (!bench) bench = std::make_unique<Bench>(which, test);
    return *bench;
}

class GemmVerifier : public ::testing::TestWithParam<std::tuple<const char*, int>> {
  protected:
    Case which() const { return {std::get<0>(GetParam()), std::get<1>(GetParam())}; }
    // Whether all tests accept the results of `kernel`, as in verifying a candidate.
    bool accepts(const std::function<std::vector<double>(const Bench&)>& kernel) const {
        const Catalogue& catalogue = test::embedded_catalogue();
        const Problem problem = catalogue.problem({which().op, "16x16x" + std::to_string(which().k), {}});
        for (const OpTest& test : catalogue.op_of(problem).tests(problem)) {
            const Bench& bench = bench_for(which(), test.name);
            if (!bench.accepts(kernel(bench))) return false;
        }
        return true;
    }
};

TEST_P(GemmVerifier, AcceptsASimulatedTensorCore) {
    EXPECT_TRUE(accepts(simulated));
}

TEST_P(GemmVerifier, AcceptsOneMultiplyAddAtATime) {
    EXPECT_TRUE(accepts([](const Bench& bench) {
        std::vector<double> out;
        const DType acc = bench.accumulates_in_half() ? DType::f16 : DType::f32;
        for (std::int64_t i = 0; i < kRows * kCols; ++i) {
            double sum = 0;
            for (std::int64_t k = 0; k < bench.depth(); ++k)
                sum = round_to(acc, sum + bench.a(i / kCols, k) * bench.b(k, i % kCols));
            out.push_back(round_to(bench.out_type(), sum + bench.c(i / kCols, i % kCols)));
        }
        return out;
    }));
}

TEST_P(GemmVerifier, RefusesAllZeros) {
    EXPECT_FALSE(accepts([](const Bench&) { return std::vector<double>(kRows * kCols, 0.0); }));
}

TEST_P(GemmVerifier, RefusesAllZerosInTheNumericTestAlone) {
    EXPECT_FALSE(bench_for(which(), "numeric").accepts(std::vector<double>(kRows * kCols, 0.0)));
}

TEST_P(GemmVerifier, RefusesTwoSwappedRows) {
    EXPECT_FALSE(accepts([](const Bench& bench) {
        std::vector<double> out = simulated(bench);
        std::swap_ranges(out.begin(), out.begin() + kCols, out.begin() + kCols * 5);
        return out;
    }));
}

TEST_P(GemmVerifier, RefusesOneElementThatMissesOneStepOfK) {
    const Bench& bench = bench_for(which(), "exact");
    std::vector<double> out = simulated(bench);
    // The first step, from the middle on, whose loss is visible in the output type.
    const std::int64_t steps = (bench.depth() + kStep - 1) / kStep;
    for (std::int64_t i = 0; i < steps; ++i) {
        const double changed = simulated_element(bench, 3, 7, (steps / 2 + i) % steps);
        if (changed == out[3 * kCols + 7]) continue;
        out[3 * kCols + 7] = changed;
        break;
    }
    EXPECT_FALSE(bench.accepts(out));
}

TEST_P(GemmVerifier, RefusesOneNan) {
    const Bench& bench = bench_for(which(), "numeric");
    std::vector<double> out = simulated(bench);
    out[17] = std::nan("");
    EXPECT_FALSE(bench.accepts(out));
}

INSTANTIATE_TEST_SUITE_P(TypesAndDepths, GemmVerifier,
                         ::testing::Combine(::testing::Values("hgemm", "hgemm_f16acc", "bgemm", "sgemm", "tf32gemm", "sgemm_tc"),
                                            test::kIsSanitized ? ::testing::ValuesIn({16, 17, 250})
                                                               : ::testing::ValuesIn({16, 17, 64, 250, 1024, 4096, 16384})),
                         [](const auto& entry) {
                             return std::string(std::get<0>(entry.param)) + "_" + std::to_string(std::get<1>(entry.param));
                         });

// Kernels that multiply one or two pairs of tf32 parts instead of three.
class GemmVerifierF32 : public ::testing::TestWithParam<std::tuple<const char*, int>> {};

TEST_P(GemmVerifierF32, RefusesOperandsThatAreCutToTf32InEveryTestThatCanTell) {
    for (const std::string test : {"wide_a", "wide_b", "numeric"}) {
        for (const bool cuts_a : {true, false}) {
            const Bench& bench = bench_for({std::get<0>(GetParam()), std::get<1>(GetParam())}, test);
            std::vector<double> out;
            for (std::int64_t i = 0; i < kRows * kCols; ++i) {
                double sum = 0;
                for (std::int64_t k = 0; k < bench.depth(); ++k) {
                    const double a = bench.a(i / kCols, k), b = bench.b(k, i % kCols);
                    sum = round_to(DType::f32, sum + (cuts_a ? cut_to_tf32(a) * b : a * cut_to_tf32(b)));
                }
                out.push_back(round_to(DType::f32, sum + bench.c(i / kCols, i % kCols)));
            }
            const bool can_tell = test == "numeric" || (test == "wide_a") == cuts_a;
            EXPECT_EQ(bench.accepts(out), !can_tell) << test << (cuts_a ? " a" : " b");
        }
    }
}

INSTANTIATE_TEST_SUITE_P(Depths, GemmVerifierF32,
                         ::testing::Combine(::testing::Values("sgemm", "sgemm_tc"), ::testing::Values(16, 250, 4096)),
                         [](const auto& entry) {
                             return std::string(std::get<0>(entry.param)) + "_" + std::to_string(std::get<1>(entry.param));
                         });

// Sums of N(0,1) that are so long that the truncation error exceeds 6 sqrt(K) roundings.
class GemmVerifierLongSums : public ::testing::TestWithParam<const char*> {
  protected:
    static constexpr std::int64_t kDepth = 32768;
    const Bench& bench() const { return bench_for({GetParam(), kDepth}, "numeric"); }
    // Whether the verifier accepts these elements in the first row.
    bool accepts(const std::function<double(std::int64_t col)>& element) const {
        std::vector<double> out;
        for (std::int64_t col = 0; col < kCols; ++col) out.push_back(element(col));
        return bench().accepts(out);
    }
};

TEST_P(GemmVerifierLongSums, AcceptTruncation) {
    EXPECT_TRUE(accepts([&](std::int64_t col) { return simulated_element(bench(), 0, col); }));
}

TEST_P(GemmVerifierLongSums, RefuseAStepThatIsMissing) {
    EXPECT_FALSE(accepts([&](std::int64_t col) { return simulated_element(bench(), 0, col, 1000); }));
}

TEST_P(GemmVerifierLongSums, RefuseSumsInHalf) {
    EXPECT_FALSE(accepts([&](std::int64_t col) {
        double sum = 0;
        for (std::int64_t k0 = 0; k0 < kDepth; k0 += kStep) {
            double step = 0;
            for (std::int64_t k = k0; k < k0 + kStep; ++k) step += bench().a(0, k) * bench().b(k, col);
            sum = round_to(DType::f16, sum + step);
        }
        return round_to(bench().out_type(), sum + bench().c(0, col));
    }));
}

INSTANTIATE_TEST_SUITE_P(Types, GemmVerifierLongSums,
                         test::kIsSanitized ? ::testing::ValuesIn({"hgemm"})
                                            : ::testing::ValuesIn({"hgemm", "bgemm", "tf32gemm"}),
                         [](const auto& entry) { return std::string(entry.param); });

// A sum that grows large and returns, so that neither R nor the result shows how large it was. It is 1x1xK of magnitudes of
// N(0,1), subtracted in the second half of K.
class FarSum {
  public:
    explicit FarSum(std::int64_t k) : problem_(catalogue_.problem({"hgemm", "1x1x" + std::to_string(k), {}})) {
        const Op& op = catalogue_.op_of(problem_);
        const OpTest test = typical_test(op.tests(problem_));
        std::vector<double> a = filled_tensor(test.fills[0], problem_.tensors[0], 0, 42);
        std::vector<double> b = filled_tensor(test.fills[1], problem_.tensors[1], 1, 42);
        for (std::size_t i = 0; i < a.size(); ++i) {
            a[i] = i < a.size() / 2 ? std::fabs(a[i]) : -std::fabs(a[i]);
            b[i] = std::fabs(b[i]);
        }
        c_ = op.reference_on_host(problem_, test, std::vector{a, b, {0.0}}).front();
        for (auto at = a.begin(); at != a.end(); at += kStep)
            steps_.push_back(std::inner_product(at, at + kStep, b.begin() + (at - a.begin()), 0.0));
    }
    // Error / bound of a kernel that adds step after step and truncates each sum with `cut`.
    double error(const std::function<double(double)>& cut, std::size_t first_step = 0) const {
        double sum = 0;
        for (std::size_t i = first_step; i < steps_.size(); ++i) sum = cut(sum + steps_[i]);
        return std::fabs(round_to(DType::f16, sum) - c_.values.front()) / c_.bounds.front();
    }

  private:
    const Catalogue& catalogue_ = test::embedded_catalogue();
    Problem problem_;
    Expected c_;
    std::vector<double> steps_;
};

TEST(GemmVerifierLimits, ASumThatGoesFarAndReturnsMayLoseWhatTruncationCuts) {
    for (const std::int64_t k : {4096, 32768}) {
        const FarSum sum(k);
        const double truncated = sum.error(truncated_to_float);
        EXPECT_LT(truncated, 0.5) << k;
        EXPECT_GT(truncated, 0.05) << k;  // the bound is not much wider than needed
        EXPECT_GT(sum.error([](double value) { return round_to(DType::f16, value); }), 4) << k;
        EXPECT_GT(sum.error(truncated_to_float, 1), 1) << k;
    }
}

TEST(GemmVerifierLimits, HalfAccumulationSeesAtMost512TermsSpreadOverAllOfK) {
    const Bench bench({"hgemm_f16acc", 16384}, "exact");
    for (std::int64_t row = 0; row < kRows; ++row) {
        std::int64_t terms = 0;
        std::int64_t last = 0;
        for (std::int64_t k = 0; k < bench.depth(); ++k) {
            if (bench.a(row, k) == 0) continue;
            ++terms;
            last = k;
        }
        EXPECT_LE(terms, 512);
        EXPECT_GT(terms, 300);  // by chance one in five of the 512 is zero
        EXPECT_GT(last, bench.depth() - 400);
    }
}

TEST(GemmVerifierLimits, CIsNanWhereItMustNotBeRead) {
    const Catalogue& catalogue = test::embedded_catalogue();
    const Problem problem = catalogue.problem({"hgemm", "64x64x64", {}});
    const OpTest test = typical_test(catalogue.op_of(problem).tests(problem));
    EXPECT_EQ(test.outputs.front().tensor, 2);
    EXPECT_EQ(test.fills[2].kind, Fill::Kind::nan);
}

TEST(GemmVerifierLimits, FactorsThatRoundGetABoundInTheExactTest) {
    const Catalogue& catalogue = test::embedded_catalogue();
    const auto bound_of = [&](const char* alpha) {
        const Problem problem = catalogue.problem({"hgemm", "1x1x64", {{"alpha", alpha}}});
        std::vector<std::vector<double>> tensors(3);
        for (std::size_t i = 0; i < 3; ++i) tensors[i].assign(static_cast<std::size_t>(problem.tensors[i].span()), 1.0);
        const Op& op = catalogue.op_of(problem);
        return op.reference_on_host(problem, test_named(op.tests(problem), "exact"), tensors).front().bounds[0];
    };
    EXPECT_EQ(bound_of("1"), 0);
    EXPECT_EQ(bound_of("-0.5"), 0);
    EXPECT_GT(bound_of("0.3"), 0);
}

}  // namespace
}  // namespace autotune::gemm_verifier_test
