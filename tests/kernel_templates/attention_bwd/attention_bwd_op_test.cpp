#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <map>

#include "kernel_templates/attention_bwd/op/bwd_problem.h"
#include "kernel_templates/harness/fill.h"
#include "src/catalogue/catalogue.h"
#include "src/core/error.h"
#include "tests/support/embedded_catalogue.h"
#include "tests/support/refusal.h"

namespace autotune::attention_bwd_op_test {
namespace {

using test::refusal_of;
using ::testing::HasSubstr;
using Options = std::map<std::string, std::string>;
using Tensors = std::vector<std::vector<double>>;

const Op& op_named(const char* name) {
    const Catalogue& catalogue = test::embedded_catalogue();
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
    EXPECT_THAT(refusal_of([] { parse("1x1x4x264"); }), HasSubstr("d is 264"));
    EXPECT_THAT(refusal_of([] { parse("1x1x2147483648x64"); }), HasSubstr("2147483648"));
    EXPECT_THAT(refusal_of([] { parse("1x1x4x64", {{"mask", "lower"}}); }), HasSubstr("unknown mask 'lower'"));
    EXPECT_THAT(refusal_of([] { parse("1x1x4x64", {{"mask", "window"}, {"left", "-1"}}); }), HasSubstr("left is -1"));
    EXPECT_THAT(refusal_of([] { parse("1x1x4x64", {{"packed", "yes"}}); }), HasSubstr("packed"));
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
    const auto refused = [&](const std::function<void(ProblemDescription&)>& change) {
        ProblemDescription changed = given;
        change(changed);
        return refusal_of([&] { op_named("attention_bwd").described(changed); });
    };
    EXPECT_THAT(refused([](auto& changed) { changed.tensors[6].dims[3].stride = 2; }), HasSubstr("not contiguous"));
    EXPECT_THAT(refused([](auto& changed) { changed.tensors[6].dims[2].extent = 6; }), HasSubstr("an extent of 6"));
    EXPECT_THAT(refused([](auto& changed) { changed.tensors[7].dtype = DType::f16; }), HasSubstr("but q is bf16"));
    given.tensors[3].dims[1].stride = 32;
    EXPECT_THAT(refusal_of([&] { op_named("attention_bwd").described(given); }),
                HasSubstr("tensor dq: its strides let elements overlap"));
}

// A problem, and attention's problem of the same shape.
struct Pair {
    Problem backward, attention;
    explicit Pair(const std::string& shape, Options options) : backward(parse(shape, options)) {
        options["lse"] = "yes";
        attention = op_named("attention").problem({"attention", shape, options});
    }
    // The fills of the typical test, with attention's results for them as o and lse.
    Tensors tensors(const std::function<void(Tensors&)>& change = [](Tensors&) {}) const {
        const OpTest test = test_named(op_named("attention_bwd").tests(backward), "numeric");
        Tensors all;
        for (std::size_t i = 0; i < backward.tensors.size(); ++i)
            all.push_back(filled_tensor(test.fills[i], backward.tensors[i], static_cast<int>(i), 5));
        change(all);
        const std::vector<Expected> outputs = forward(all);
        all[attention_bwd::kO] = outputs[0].values;
        all[attention_bwd::kLse] = outputs[1].values;
        return all;
    }
    std::vector<Expected> forward(const Tensors& tensors) const {
        const OpTest test = test_named(op_named("attention").tests(attention), "numeric");
        return op_named("attention").reference_on_host(attention, test, tensors);
    }
    std::vector<Expected> gradients(const Tensors& tensors) const {
        const OpTest test = test_named(op_named("attention_bwd").tests(backward), "numeric");
        return op_named("attention_bwd").reference_on_host(backward, test, tensors);
    }
};

// The gradients of sum(o * do) are computed by finite differences of attention's results.
TEST(AttentionBwdReference, IsTheDerivativeOfAttention) {
    for (const char* mask : {"none", "causal_bottom_right"}) {
        const Pair pair("1x2x5x8", {{"mask", mask}, {"kv-heads", "1"}, {"kv-len", "4"}, {"dtype", "f32"}});
        const Tensors tensors = pair.tensors();
        const std::vector<Expected> gradients = pair.gradients(tensors);
        const auto objective = [&](const Tensors& at) {
            const Expected o = pair.forward(at)[0];
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

// The weights of a row sum to 1, or there are none. So the gradients of values sum to the gradients of the rows that see a key,
// over all heads that share the values.
TEST(AttentionBwdReference, GradientsOfValuesSumToThoseOfTheOutputs) {
    constexpr std::size_t kQueries = 7, kKeys = 5, kColumns = 8, kEmpty = kQueries - kKeys;
    const Pair pair("1x6x7x8", {{"mask", "causal_bottom_right"}, {"kv-heads", "2"}, {"kv-len", "5"}, {"dtype", "f32"}});
    const Tensors tensors = pair.tensors();
    const Expected d_v = pair.gradients(tensors)[2];
    for (std::size_t kv_head = 0; kv_head < 2; ++kv_head)
        for (std::size_t column = 0; column < kColumns; ++column) {
            double sum = 0, expected = 0;
            for (std::size_t key = 0; key < kKeys; ++key) sum += d_v.values[(kv_head * kKeys + key) * kColumns + column];
            for (std::size_t head = kv_head * 3; head < kv_head * 3 + 3; ++head)
                for (std::size_t row = kEmpty; row < kQueries; ++row)
                    expected += tensors[attention_bwd::kDo][(head * kQueries + row) * kColumns + column];
            EXPECT_NEAR(sum, expected, 1e-6) << "head " << kv_head << " column " << column;
        }
}

// The gradients of a row's scores sum to 0. With equal keys, so do the gradients of queries, and those of keys over all keys.
TEST(AttentionBwdReference, GradientsOfARowsScoresSumToNothing) {
    constexpr std::size_t kKeys = 9, kColumns = 8;
    const Pair pair("1x2x9x8", {{"mask", "causal"}, {"kv-heads", "1"}, {"dtype", "f32"}});
    const Tensors tensors = pair.tensors([](Tensors& all) {
        std::vector<double>& keys = all[attention_bwd::kK];
        for (std::size_t i = kColumns; i < keys.size(); ++i) keys[i] = keys[i - kColumns];
    });
    const std::vector<Expected> gradients = pair.gradients(tensors);
    for (const double value : gradients[0].values) EXPECT_NEAR(value, 0, 1e-6);
    for (std::size_t column = 0; column < kColumns; ++column) {
        double sum = 0;
        for (std::size_t key = 0; key < kKeys; ++key) sum += gradients[1].values[key * kColumns + column];
        EXPECT_NEAR(sum, 0, 1e-6) << "column " << column;
    }
}

TEST(AttentionBwdExcerpts, AreWhatTheWholeSays) {
    for (const char* order : {"bhsd", "bshd"}) {
        const Pair pair("2x6x7x8", {{"mask", "causal"}, {"kv-heads", "2"}, {"kv-len", "5"}, {"dtype", "f32"}, {"order", order}});
        const Tensors tensors = pair.tensors();
        const std::vector<Expected> whole = pair.gradients(tensors);
        const OpTest test = test_named(op_named("attention_bwd").tests(pair.backward), "numeric");
        const std::vector<Subproblem> parts = op_named("attention_bwd").subproblems(pair.backward, 3);
        EXPECT_EQ(parts.size(), 2U);
        for (const Subproblem& part : parts) {
            Tensors moved;
            for (std::size_t i = 0; i < tensors.size(); ++i)
                moved.emplace_back(tensors[i].begin() + part.first[i], tensors[i].end());
            const std::vector<Expected> found = op_named("attention_bwd").reference_on_host(part.problem, test, moved);
            for (const std::size_t output : {0U, 1U, 2U}) {
                const std::size_t tensor = attention_bwd::kDq + output;
                const Tensor &all = pair.backward.tensors[tensor], &of_part = part.problem.tensors[tensor];
                std::map<std::int64_t, double> right;  // by position
                for (std::int64_t i = 0; i < all.elements(); ++i)
                    right[all.offset_of(i)] = whole[output].values[static_cast<std::size_t>(i)];
                for (std::int64_t i = 0; i < of_part.elements(); ++i)
                    ASSERT_EQ(found[output].values[static_cast<std::size_t>(i)], right[part.first[tensor] + of_part.offset_of(i)])
                        << order << " output " << output;
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
}  // namespace autotune::attention_bwd_op_test
