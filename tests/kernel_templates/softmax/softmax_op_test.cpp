#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>

#include "kernel_templates/harness/fill.h"
#include "kernel_templates/harness/harness.h"
#include "src/catalogue/catalogue.h"
#include "src/core/error.h"
#include "tests/kernel_templates/bad_input.h"
#include "tests/support/embedded_catalogue.h"
#include "tests/support/refusal.h"
#include "tests/support/test_names.h"

namespace autotune::softmax_op_test {
namespace {

using test::BadInput;
using test::refusal_of;
using ::testing::HasSubstr;
using Options = std::map<std::string, std::string>;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

Problem parse(const std::string& shape, const Options& options = {}) {
    return test::embedded_catalogue().problem({"softmax", shape, options});
}

const Op& softmax_op() {
    const Catalogue& catalogue = test::embedded_catalogue();
    return *catalogue.find_op("softmax");
}

TEST(SoftmaxOp, AShapeGivesTheDocumentedKey) {
    EXPECT_EQ(parse("8192x4096").key(), "softmax dtype=bf16 scale=1 lse=no align=16,16 8192x4096");
    EXPECT_EQ(parse("3x8", {{"scale", "0.125"}, {"lse", "yes"}}).class_key(),
              "softmax dtype=bf16 scale=0.125 lse=yes align=16,16");
}

TEST(SoftmaxOp, EveryExampleSurvivesTheRoundTripOfItsKey) {
    for (const ProblemRequest& request : softmax_op().examples()) {
        const Problem problem = softmax_op().problem(request);
        Options options;
        for (const Attribute& attribute : problem.attributes) options[attribute.name] = to_string(attribute.value);
        EXPECT_EQ(softmax_op().problem({"softmax", problem.shape(), options}).key(), problem.key());
    }
}

// An access never ends beyond a row, so both the length of a row and its address limit the width of accesses.
TEST(SoftmaxOp, AlignmentIsWhatAddressesRowsAndTheirEndsShare) {
    EXPECT_EQ(parse("4x1000").word("align"), "16,16");
    EXPECT_EQ(parse("4x1001").word("align"), "2,2");
    EXPECT_EQ(parse("4x1000", {{"ldx", "1004"}}).word("align"), "8,16");
    EXPECT_EQ(parse("1x1000", {{"ldx", "1004"}}).word("align"), "16,16");
    EXPECT_EQ(parse("4x1000", {{"align", "8,4"}}).word("align"), "8,4");
    EXPECT_EQ(parse("4x1001", {{"dtype", "f32"}}).word("align"), "4,4");
}

class SoftmaxBadInput : public test::BadInputTest {};

TEST_P(SoftmaxBadInput, IsAUsageErrorThatNamesCulpritAndRemedy) {
    expect_refusal([](const auto& shape, const auto& options) { return parse(shape, options); });
}

INSTANTIATE_TEST_SUITE_P(All, SoftmaxBadInput,
                         ::testing::Values(BadInput{"NoRow", "0x8", {}, "R is 0", "at least 1"},
                                           BadInput{"NoColumn", "8x0", {}, "C is 0", "at least 1"},
                                           BadInput{"OneExtent", "8", {}, "has 1 extent;", "RxC"},
                                           BadInput{"TooLong", "1x1048577", {}, "1048577", "up to 1048576"},
                                           BadInput{"Batch", "2*8x8", {}, "no batch", "ROWSxCOLS"},
                                           BadInput{"ScaleOfNothing", "8x8", {{"scale", "0"}}, "scale is 0", "other than 0"},
                                           BadInput{"ScaleNan", "8x8", {{"scale", "nan"}}, "scale is 'nan'", "finite number"},
                                           BadInput{"ScaleTooLarge", "8x8", {{"scale", "1e31"}}, "scale is", "1e30"},
                                           BadInput{"ShortRows", "8x8", {{"ldy", "7"}}, "ldy is 7", "8 elements"},
                                           BadInput{"Dtype", "8x8", {{"dtype", "f64"}}, "dtype 'f64'", "bf16, f16, f32"},
                                           BadInput{"Align", "8x8", {{"align", "16,16,16"}}, "align is", "each of x, y"}),
                         [](const auto& entry) { return entry.param.name; });

TensorDescription rows(const char* name, std::vector<Dim> dims, DType type = DType::f16) {
    return {name, type, std::move(dims), 16};
}

TEST(SoftmaxDescription, CountsAllDimensionsButTheLastAsRows) {
    const std::vector<Dim> dims = {{4, 3200}, {32, 100}, {96, 1}};
    const DescribedProblem described =
        softmax_op().described({"softmax", {rows("x", dims), rows("y", dims), rows("lse", {{4, 32}, {32, 1}}, DType::f32)}, {}});
    EXPECT_EQ(described.problem.key(), parse("128x96", {{"dtype", "f16"}, {"lse", "yes"}, {"ldx", "100"}, {"ldy", "100"}}).key());
    EXPECT_EQ(described.problem.tensor("x").dims[0].stride, 100);
}

TEST(SoftmaxDescription, RefusesWhatItCannotReadRowByRow) {
    const std::vector<Dim> dense = {{4, 8}, {8, 1}};
    const auto ask = [&](TensorDescription x, TensorDescription y, std::vector<Attribute> attributes = {}) {
        return refusal_of([&] { softmax_op().described({"softmax", {std::move(x), std::move(y)}, std::move(attributes)}); });
    };
    EXPECT_EQ(ask(rows("x", dense), rows("y", dense)), "");
    EXPECT_THAT(ask(rows("x", {{4, 1}, {8, 4}}), rows("y", dense)), HasSubstr("not contiguous"));
    EXPECT_THAT(ask(rows("x", {{2, 99}, {4, 8}, {8, 1}}), rows("y", {{8, 8}, {8, 1}})), HasSubstr("not evenly spaced"));
    EXPECT_THAT(ask(rows("x", dense), rows("y", {{4, 8}, {7, 1}})), HasSubstr("differ in their extents"));
    EXPECT_THAT(ask(rows("x", dense), rows("y", dense, DType::bf16)), HasSubstr("y is bf16 but x is f16"));
    EXPECT_THAT(ask(rows("x", dense, DType::e4m3), rows("y", dense, DType::e4m3)), HasSubstr("f32, f16 and bf16"));
    EXPECT_THAT(ask(rows("x", dense), rows("y", dense), {{"scale", 0.0}}), HasSubstr("scale is 0"));
}

// The right results of one test, computed on the host.
std::vector<Expected> answers(const Problem& problem, const OpTest& test) {
    std::vector<std::vector<double>> tensors;
    for (std::size_t i = 0; i < problem.tensors.size(); ++i)
        tensors.push_back(filled_tensor(test.fills[i], problem.tensors[i], static_cast<int>(i), 7));
    return softmax_op().reference_on_host(problem, test, tensors);
}

Expected answers_of_row(const std::vector<double>& x, const Options& options, std::size_t output) {
    const Problem problem = parse("1x" + std::to_string(x.size()), options);
    const std::vector<std::vector<double>> tensors = {x, {}, {}};
    return softmax_op().reference_on_host(problem, test_named(softmax_op().tests(problem), "numeric"), tensors)[output];
}

TEST(SoftmaxReference, IsWhatTheFormulaSays) {
    const Options options = {{"lse", "yes"}, {"scale", "2"}};
    const Expected y = answers_of_row({0, std::log(3.0) / 2}, options, 0);
    EXPECT_NEAR(y.values[0], 0.25, 1e-15);
    EXPECT_NEAR(y.values[1], 0.75, 1e-15);
    EXPECT_NEAR(answers_of_row({0, std::log(3.0) / 2}, options, 1).values[0], std::log(4.0), 1e-15);
}

TEST(SoftmaxReference, AMaskedRowIsZerosAndARowWithNanOrInfinityIsNan) {
    const Options options = {{"lse", "yes"}};
    EXPECT_EQ(answers_of_row({-kInfinity, -kInfinity}, options, 0).values, (std::vector<double>{0, 0}));
    EXPECT_EQ(answers_of_row({-kInfinity, -kInfinity}, options, 1).values[0], -kInfinity);
    for (const double bad : {kInfinity, std::nan("")}) {
        EXPECT_TRUE(std::isnan(answers_of_row({1, bad}, options, 0).values[0]));
        EXPECT_TRUE(std::isnan(answers_of_row({1, bad}, options, 1).values[0]));
    }
    EXPECT_EQ(answers_of_row({-kInfinity, 5}, options, 0).values, (std::vector<double>{0, 1}));
}

TEST(SoftmaxTests, ExactOnesAllowNothing) {
    for (const char* scale : {"1", "-2", "0.125"}) {
        const Problem problem = parse("5x64", {{"lse", "yes"}, {"scale", scale}});
        for (const char* name : {"constant", "one_hot", "masked"}) {
            const Expected y = answers(problem, test_named(softmax_op().tests(problem), name)).front();
            EXPECT_EQ(y.bounds, std::vector<double>(y.values.size(), 0.0)) << name;
            double sum = 0;
            for (const double value : y.values) sum += value;
            EXPECT_EQ(sum, std::string(name) == "masked" ? 0 : 5) << name;
        }
    }
}

// Simulates a correct kernel: f32 arithmetic in another order, one rounding at the end.
std::vector<double> computed_in_f32(const std::vector<double>& x, DType type) {
    float peak = -std::numeric_limits<float>::infinity();
    for (const double value : x) peak = std::fmax(peak, static_cast<float>(value));
    float sum = 0;
    for (const double value : x) sum += std::exp2((static_cast<float>(value) - peak) * 1.44269504F);
    std::vector<double> y;
    for (const double value : x) y.push_back(round_to(type, std::exp2((static_cast<float>(value) - peak) * 1.44269504F) / sum));
    return y;
}

class SoftmaxVerdict : public ::testing::TestWithParam<std::tuple<const char*, int>> {
  protected:
    // Whether y passes the numeric test of one row after `spoil` has changed it.
    bool passes_after(const std::function<void(std::vector<double>&)>& spoil) const {
        const auto [dtype, cols] = GetParam();
        const Problem problem = parse("1x" + std::to_string(cols), {{"dtype", dtype}});
        const OpTest test = test_named(softmax_op().tests(problem), "numeric");
        const std::vector<double> x = filled_tensor(test.fills[0], problem.tensors[0], 0, 7);
        const Expected expected = answers(problem, test).front();
        const DType type = problem.tensors[1].dtype;
        std::vector<double> y = computed_in_f32(x, type);
        spoil(y);
        CompareResult result;
        for (std::size_t i = 0; i < y.size(); ++i)
            compare_element(result, type, encode(type, y[i]), expected.values[i], expected.bounds[i], i);
        return passes(test.outputs.front(), result);
    }
};

TEST_P(SoftmaxVerdict, ASoundKernelPasses) {
    EXPECT_TRUE(passes_after([](std::vector<double>&) {}));
}
TEST_P(SoftmaxVerdict, ZerosFail) {
    EXPECT_FALSE(passes_after([](std::vector<double>& y) { std::fill(y.begin(), y.end(), 0.0); }));
}
TEST_P(SoftmaxVerdict, AnElementOfAnotherPlaceFails) {
    EXPECT_FALSE(passes_after([](std::vector<double>& y) { std::swap(y[0], y[1]); }));
}
TEST_P(SoftmaxVerdict, ASumThatMissesAnEighthOfTheRowFails) {
    EXPECT_FALSE(passes_after([](std::vector<double>& y) {
        for (double& value : y) value *= 8.0 / 7;
    }));
}
TEST_P(SoftmaxVerdict, ARowThatIsNotNormalisedFails) {
    EXPECT_FALSE(passes_after([](std::vector<double>& y) {
        for (double& value : y) value *= 1.02;
    }));
}

INSTANTIATE_TEST_SUITE_P(All, SoftmaxVerdict,
                         ::testing::Combine(::testing::Values("f32", "f16", "bf16"), ::testing::Values(16, 333, 4096, 131072)),
                         test::NamedByParameter());

TEST(SoftmaxSpace, BothFamiliesHaveHundredsOfLegalConfigsAndTheLadderIsNamed) {
    const Catalogue& catalogue = test::embedded_catalogue();
    const Device device = reference_device("sm_90a").value();
    const Problem problem = parse("8192x4096");
    for (const char* name : {"softmax/rows", "softmax/bulk"}) {
        const SearchSpace space = catalogue.find_family(name)->space(problem, device);
        EXPECT_GE(space.count().legal, 100U) << name;
        EXPECT_GE(space.named.size(), 3U) << name;
    }
}

TEST(SoftmaxSpace, RowsTakesEveryProblemOnEveryArchitecture) {
    const Catalogue& catalogue = test::embedded_catalogue();
    for (const std::string& arch : known_archs()) {
        const Device device = reference_device(arch).value();
        for (const ProblemRequest& request : softmax_op().examples()) {
            const Problem problem = softmax_op().problem(request);
            const Family& family = *catalogue.find_family("softmax/rows");
            EXPECT_FALSE(family.refuses(problem, device)) << problem.key();
            EXPECT_EQ(family.space(problem, device).why_not(family.space(problem, device).default_config).value_or(""), "")
                << arch << " " << problem.key();
        }
    }
}

}  // namespace
}  // namespace autotune::softmax_op_test
