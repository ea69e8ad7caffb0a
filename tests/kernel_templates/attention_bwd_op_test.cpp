#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>

#include "kernel_templates/attention_bwd/bwd_problem.h"
#include "kernel_templates/catalogue.h"
#include "kernel_templates/common/fill.h"
#include "src/core/error.h"
#include "tests/support/refusal.h"

namespace autotune {
namespace {

using test::refusal_of;
using ::testing::HasSubstr;
using Options = std::map<std::string, std::string>;
using Tensors = std::vector<std::vector<double>>;

const Op& op_named(const char* name) {
    static const Catalogue catalogue = Catalogue::embedded();
    return *catalogue.find_op(name);
}

Problem parse(const std::string& shape, const Options& options = {}) {
    return op_named("attention_bwd").problem({"attention_bwd", shape, options});
}

TEST(AttentionBwdOp, AShapeGivesTheDocumentedKey) {
    EXPECT_EQ(
        parse("4x16x4096x128", {{"mask", "causal"}, {"kv-heads", "8"}}).key(),
        "attention_bwd dtype=bf16 compute=bf16 mask=causal order=bhsd dv=128 deterministic=yes align=16,16,16,16,16,16,16,16 "
        "4x16x8x4096x4096x128");
}

TEST(AttentionBwdOp, EveryExampleSurvivesTheRoundTripOfItsKey) {
    for (const ProblemRequest& request : op_named("attention_bwd").examples()) {
        const Problem problem = op_named("attention_bwd").problem(request);
        Options options;
        for (const Attribute& attribute : problem.attributes) options[attribute.name] = to_string(attribute.value);
        EXPECT_EQ(parse(problem.shape(), options).key(), problem.key());
    }
}

TEST(AttentionBwdOp, CountsFiveProductsOfVisiblePairs) {
    EXPECT_EQ(op_named("attention_bwd").flops(parse("2x3x100x64", {{"mask", "causal"}})), 10.0 * 6 * 5050 * 64);
}

TEST(AttentionBwdOp, RefusesWhatAttentionRefuses) {
    EXPECT_THAT(refusal_of([] { parse("1x6x4x64", {{"kv-heads", "4"}}); }), HasSubstr("6 query heads"));
    EXPECT_THAT(refusal_of([] { parse("1x1x4x100"); }), HasSubstr("d is 100"));
    EXPECT_THAT(refusal_of([] { parse("1x1x4x64", {{"deterministic", "no"}}); }), HasSubstr("deterministic"));
    EXPECT_THAT(refusal_of([] { parse("1x1x4x64", {{"align", "16,8"}}); }), HasSubstr("each of q, k, v, o, do, dq, dk, dv"));
}

TEST(AttentionBwdDescription, IsTheProblemThatWordsSay) {
    const std::vector<Dim> rows = {{2, 2560}, {8, 64}, {5, 512}, {64, 1}}, keys = {{2, 896}, {2, 448}, {7, 64}, {64, 1}};
    ProblemDescription given{"attention_bwd", {}, {{"mask", "causal"}}};
    for (const char* name : {"q", "o", "do", "dq"}) given.tensors.push_back({name, DType::bf16, rows, 16});
    for (const char* name : {"k", "v", "dk", "dv"}) given.tensors.push_back({name, DType::bf16, keys, 16});
    given.tensors.push_back({"lse", DType::f32, {{2, 40}, {8, 5}, {5, 1}}, 16});
    EXPECT_EQ(op_named("attention_bwd").described(given).problem.key(),
              parse("2x8x5x64", {{"kv-heads", "2"}, {"kv-len", "7"}, {"mask", "causal"}, {"order", "bshd"}}).key());
    given.tensors[3].dims[1].stride = 32;
    EXPECT_THAT(refusal_of([&] { op_named("attention_bwd").described(given); }),
                HasSubstr("tensor dq: its strides let elements overlap"));
}

// What attention gives for q, k and v.
std::vector<Expected> forward(const Problem& problem, const Tensors& tensors, const OpTest& test) {
    return op_named("attention").reference_on_host(problem, test, tensors);
}

// The gradients of sum(o * do), by differences of what attention gives.
TEST(AttentionBwdReference, IsTheDerivativeOfAttention) {
    for (const char* mask : {"none", "causal_bottom_right"}) {
        const Options options = {{"mask", mask}, {"kv-heads", "1"}, {"kv-len", "4"}, {"dtype", "f32"}};
        Options with_lse = options;
        with_lse["lse"] = "yes";
        const Problem problem = parse("1x2x5x8", options);
        const Problem attention = op_named("attention").problem({"attention", "1x2x5x8", with_lse});
        const OpTest of_attention = test_named(op_named("attention").tests(attention), "numeric");
        const OpTest test = test_named(op_named("attention_bwd").tests(problem), "numeric");
        Tensors tensors;
        for (std::size_t i = 0; i < problem.tensors.size(); ++i)
            tensors.push_back(filled_tensor(test.fills[i], problem.tensors[i], static_cast<int>(i), 5));
        const std::vector<Expected> outputs = forward(attention, tensors, of_attention);
        tensors[attention_bwd::kO] = outputs[0].values;
        tensors[attention_bwd::kLse] = outputs[1].values;
        const std::vector<Expected> gradients = op_named("attention_bwd").reference_on_host(problem, test, tensors);
        const auto objective = [&](const Tensors& at) {
            const Expected o = forward(attention, at, of_attention)[0];
            double sum = 0;
            for (std::size_t i = 0; i < o.values.size(); ++i) sum += o.values[i] * tensors[attention_bwd::kDo][i];
            return sum;
        };
        for (const int input : {0, 1, 2}) {
            for (std::size_t i = 0; i < tensors[static_cast<std::size_t>(input)].size(); ++i) {
                constexpr double kStep = 1e-5;
                Tensors above = tensors, below = tensors;
                above[static_cast<std::size_t>(input)][i] += kStep;
                below[static_cast<std::size_t>(input)][i] -= kStep;
                EXPECT_NEAR(gradients[static_cast<std::size_t>(input)].values[i],
                            (objective(above) - objective(below)) / (2 * kStep), 1e-7)
                    << mask << " input " << input << " element " << i;
            }
        }
    }
}

TEST(AttentionBwdReference, RowsWithoutWeightGiveNothing) {
    const Problem problem = parse("1x1x3x8", {{"kv-len", "4"}});
    const OpTest test = test_named(op_named("attention_bwd").tests(problem), "masked");
    Tensors tensors;
    for (std::size_t i = 0; i < problem.tensors.size(); ++i)
        tensors.push_back(filled_tensor(test.fills[i], problem.tensors[i], static_cast<int>(i), 5));
    for (const Expected& output : op_named("attention_bwd").reference_on_host(problem, test, tensors))
        for (const double value : output.values) EXPECT_EQ(value, 0);
}

}  // namespace
}  // namespace autotune
