// For problems whose whole reference is too expensive, parts of it are computed, and the whole is checked as a product of
// integers.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "kernel_templates/harness/fill.h"
#include "kernel_templates/harness/harness.h"
#include "src/catalogue/catalogue.h"
#include "tests/support/embedded_catalogue.h"
#include "tests/support/test_names.h"

namespace autotune::excerpts_test {
namespace {

using Values = std::vector<std::vector<double>>;

Values filled(const Problem& problem, const std::vector<Fill>& fills) {
    Values tensors;
    for (std::size_t i = 0; i < problem.tensors.size(); ++i)
        tensors.push_back(filled_tensor(fills[i], problem.tensors[i], static_cast<int>(i), 42));
    return tensors;
}

const OpTest& exact_of(const std::vector<OpTest>& tests) {
    return test_named(tests, "exact");
}

// The values of the only output of an op.
std::vector<double> answers_of(const Op& op, const Problem& problem, const Values& tensors) {
    return op.reference_on_host(problem, exact_of(op.tests(problem)), tensors).front().values;
}

class Excerpts : public testing::TestWithParam<ProblemRequest> {
  protected:
    const Catalogue& catalogue_ = test::embedded_catalogue();
    Problem problem_ = catalogue_.problem(GetParam());
    const Op& op_ = catalogue_.op_of(problem_);
};

TEST_P(Excerpts, HaveTheAnswersOfTheWhole) {
    const Values tensors = filled(problem_, exact_of(op_.tests(problem_)).fills);
    const TypedMatrix out = matrix_view(problem_.tensors[2]);
    const std::vector<double> whole = answers_of(op_, problem_, tensors);
    const std::vector<Subproblem> parts = op_.subproblems(problem_, 7);
    ASSERT_FALSE(parts.empty());
    for (const Subproblem& part : parts) {
        Values moved;
        for (std::size_t i = 0; i < tensors.size(); ++i) moved.emplace_back(tensors[i].begin() + part.first[i], tensors[i].end());
        const std::vector<double> found = answers_of(op_, part.problem, moved);
        const TypedMatrix of = matrix_view(part.problem.tensors[2]);
        ASSERT_EQ(found.size(), static_cast<std::size_t>(of.rows * of.cols * of.batch));
        for (std::size_t i = 0; i < found.size(); ++i) {
            const auto at = static_cast<std::int64_t>(i);
            const std::int64_t row = part.first[2] / out.ld + at / of.cols % of.rows;
            const std::int64_t col = part.first[2] % out.ld + at % of.cols;
            const std::int64_t batch = at / of.cols / of.rows;
            ASSERT_EQ(found[i], whole[static_cast<std::size_t>((batch * out.rows + row) * out.cols + col)]);
        }
    }
}

TEST_P(Excerpts, TouchTheFirstAndTheLastElement) {
    const TypedMatrix out = matrix_view(problem_.tensors[2]);
    bool first = false, last = false;
    for (const Subproblem& part : op_.subproblems(problem_, 7)) {
        const TypedMatrix of = matrix_view(part.problem.tensors[2]);
        const std::int64_t end = part.first[2] + (of.rows - 1) * of.ld + of.cols;
        first = first || part.first[2] == 0;
        last = last || end == (out.rows - 1) * out.ld + out.cols;
    }
    EXPECT_TRUE(first);
    EXPECT_TRUE(last);
}

TEST_P(Excerpts, CostLittleOfALargeProblem) {
    ProblemRequest large = GetParam();
    large.shape = large.op == "hadd" ? "1073741824" : "16384x16384x8192";
    large.options.erase("batch");
    large.options.erase("ldc");
    const Problem problem = catalogue_.problem(large);
    double flops = 0;
    for (const Subproblem& part : op_.subproblems(problem, 7)) flops += op_.flops(part.problem);
    EXPECT_LT(flops, op_.flops(problem) / 50);
}

INSTANTIATE_TEST_SUITE_P(Ops, Excerpts,
                         testing::Values(ProblemRequest{"hgemm", "70x90x33", {}},
                                         ProblemRequest{"hgemm", "70x90x33", {{"layout", "tn"}, {"beta", "any"}}},
                                         ProblemRequest{"bgemm", "129x40x17", {{"layout", "nt"}, {"batch", "2"}, {"ldc", "48"}}},
                                         ProblemRequest{"hgemm", "5x300x20", {{"layout", "tt"}}},
                                         ProblemRequest{"hadd", "1000003", {}}),
                         test::NamedByParameter());

// ---- Freivalds' check ----

// The device's computation in plain code: out x and left (right x) for one batch.
struct Sides {
    std::vector<std::int64_t> out, product;
};

std::int64_t element(const std::vector<double>& values, const Tensor& tensor, std::int64_t row, std::int64_t col,
                     bool transposed) {
    const TypedMatrix of = matrix_view(tensor);
    return std::llround(values[static_cast<std::size_t>(transposed ? col * of.ld + row : row * of.ld + col)]);
}

Sides sides_of(const Problem& problem, const ProductForm& form, const Values& tensors, const std::vector<double>& out,
               const std::vector<std::int64_t>& weights) {
    const std::int64_t m = problem.extent("m"), n = problem.extent("n"), k = problem.extent("k");
    std::vector<std::int64_t> right(static_cast<std::size_t>(k));
    for (std::int64_t i = 0; i < k; ++i) {
        for (std::int64_t j = 0; j < n; ++j)
            right[static_cast<std::size_t>(i)] +=
                element(tensors[1], problem.tensors[1], i, j, form.right_transposed) * weights[static_cast<std::size_t>(j)];
    }
    Sides sides{std::vector<std::int64_t>(static_cast<std::size_t>(m)), std::vector<std::int64_t>(static_cast<std::size_t>(m))};
    for (std::int64_t row = 0; row < m; ++row) {
        const auto at = static_cast<std::size_t>(row);
        for (std::int64_t i = 0; i < k; ++i)
            sides.product[at] +=
                element(tensors[0], problem.tensors[0], row, i, form.left_transposed) * right[static_cast<std::size_t>(i)];
        sides.product[at] *= form.product_factor;
        for (std::int64_t j = 0; j < n; ++j) {
            const std::int64_t weight = weights[static_cast<std::size_t>(j)];
            sides.out[at] += std::llround(out[static_cast<std::size_t>(row * n + j)]) * weight;
            if (form.out_factor != 0)
                sides.product[at] += form.out_factor * element(tensors[2], problem.tensors[2], row, j, false) * weight;
        }
    }
    return sides;
}

class ProductForms : public testing::TestWithParam<ProblemRequest> {};

TEST_P(ProductForms, AreExactInTheOutputsTypeAndSeeAnyWrongElementWhoseWeightIsNotZero) {
    const Catalogue& catalogue = test::embedded_catalogue();
    const Problem problem = catalogue.problem(GetParam());
    const Op& op = catalogue.op_of(problem);
    const std::optional<ProductForm> form = exact_of(op.tests(problem)).product;
    ASSERT_TRUE(form.has_value());
    const Values tensors = filled(problem, form->fills);
    std::vector<double> out = answers_of(op, problem, tensors);
    for (const double value : out) ASSERT_EQ(value, round_to(problem.tensors[2].dtype, value));
    const std::int64_t n = problem.extent("n");
    std::vector<std::int64_t> weights = freivalds_weights(3, static_cast<std::size_t>(n));
    weights[5] = 0;
    const Sides right = sides_of(problem, *form, tensors, out, weights);
    EXPECT_EQ(right.out, right.product);
    for (const std::int64_t col : {std::int64_t{0}, std::int64_t{5}, n - 1}) {
        out[static_cast<std::size_t>(7 * n + col)] += 1;
        const Sides wrong = sides_of(problem, *form, tensors, out, weights);
        EXPECT_EQ(wrong.out[7] == wrong.product[7], weights[static_cast<std::size_t>(col)] == 0) << col;
        out[static_cast<std::size_t>(7 * n + col)] -= 1;
    }
}

INSTANTIATE_TEST_SUITE_P(Gemm, ProductForms,
                         testing::Values(ProblemRequest{"hgemm", "16x24x4096", {}},
                                         ProblemRequest{
                                             "hgemm", "16x24x1000", {{"layout", "tt"}, {"beta", "2"}, {"alpha", "-1"}}},
                                         ProblemRequest{"hgemm_f16acc", "16x24x2048", {{"layout", "tn"}}},
                                         ProblemRequest{"bgemm", "16x24x4096", {{"layout", "nt"}}}),
                         test::NamedByParameter());

TEST(ProductForm, ThereIsNoneForScalarsThatAreNoIntegers) {
    const Catalogue& catalogue = test::embedded_catalogue();
    const Problem problem = catalogue.problem({"hgemm", "16x16x16", {{"alpha", "0.5"}}});
    EXPECT_FALSE(exact_of(catalogue.op_of(problem).tests(problem)).product.has_value());
}

// A single wrong element is missed by one vector exactly if its weight is 0.
TEST(FreivaldsWeights, AreZeroOnceInSixtyFiveThousand) {
    std::int64_t zeros = 0;
    constexpr std::size_t kCount = std::size_t{1} << 22;
    for (const std::int64_t weight : freivalds_weights(1, kCount)) {
        ASSERT_TRUE(weight >= 0 && weight < kWeights);
        zeros += weight == 0 ? 1 : 0;
    }
    EXPECT_NEAR(static_cast<double>(zeros), 64, 5 * 8);
}

TEST(FreivaldsWeights, DifferFromSeedToSeed) {
    const std::vector<std::int64_t> one = freivalds_weights(1, 1000), other = freivalds_weights(2, 1000);
    std::size_t equal = 0;
    for (std::size_t i = 0; i < one.size(); ++i) equal += one[i] == other[i] ? 1 : 0;
    EXPECT_LT(equal, 5u);
}

}  // namespace
}  // namespace autotune::excerpts_test
