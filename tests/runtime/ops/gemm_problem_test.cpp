#include "src/runtime/ops/gemm_problem.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <tuple>

#include "src/core/error.h"
#include "src/runtime/api/status.h"
#include "tests/support/embedded_catalogue.h"

namespace autotune::runtime {
namespace {

using ::testing::HasSubstr;

const Catalogue& catalogue() {
    return autotune::test::embedded_catalogue();
}

autotune_gemm_problem sample() {
    autotune_gemm_problem problem = {};
    problem.struct_size = sizeof(problem);
    problem.m = 64;
    problem.n = 96;
    problem.k = 128;
    return problem;
}

Problem made(const std::function<void(autotune_gemm_problem&)>& change) {
    autotune_gemm_problem problem = sample();
    change(problem);
    return to_problem(problem, catalogue());
}

std::string refusal(const std::function<void(autotune_gemm_problem&)>& change) {
    try {
        made(change);
    } catch (const Failure& failure) {
        EXPECT_EQ(failure.status(), AUTOTUNE_INVALID_ARGUMENT);
        return failure.what();
    } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::usage);
        return error.what();
    }
    return "";
}

void nothing(autotune_gemm_problem&) {}

TEST(GemmProblem, IsTheProblemThatTheCommandTunes) {
    const Problem ours = made([](auto& p) { p.beta = AUTOTUNE_BETA_ZERO; });
    EXPECT_EQ(ours.key(), catalogue().problem({"hgemm", "64x96x128", {}}).key());
}

// The problem that the op makes from a description of the same tensors.
Problem described(const Problem& problem) {
    ProblemDescription description{.op = problem.op, .tensors = {}, .attributes = {{"order", std::string("row")}}};
    for (std::size_t i = 0; i < problem.tensors.size(); ++i) {
        const Tensor& each = problem.tensors[i];
        description.tensors.push_back(
            {.name = each.name, .dtype = each.dtype, .dims = each.dims, .alignment_bytes = each.alignment_bytes});
        const bool is_transposed = i < 2 && problem.word("layout")[i] == 't';
        if (is_transposed) std::swap(description.tensors.back().dims[1], description.tensors.back().dims[2]);
    }
    for (const char* name : {"acc", "layout", "beta"}) description.attributes.push_back({name, problem.attribute(name)});
    return catalogue().find_op(problem.op)->described(description).problem;
}

void expect_same(const Problem& problem, const Problem& other) {
    EXPECT_EQ(problem.key(), other.key());
    EXPECT_EQ(problem.scalar_bits(), other.scalar_bits());
    ASSERT_EQ(problem.tensors.size(), other.tensors.size());
    for (std::size_t i = 0; i < problem.tensors.size(); ++i) {
        const Tensor &ours = problem.tensors[i], &theirs = other.tensors[i];
        EXPECT_EQ(std::tie(ours.name, ours.dtype, ours.access, ours.dims, ours.alignment_bytes),
                  std::tie(theirs.name, theirs.dtype, theirs.access, theirs.dims, theirs.alignment_bytes))
            << problem.key() << " " << ours.name;
    }
}

TEST(GemmProblem, IsTheOneThatADescriptionGives) {
    for (int i = 0; i < 1 << 7; ++i) {
        const auto bit = [&](int at) { return (i >> at) & 1; };
        for (const std::int64_t m : {1, 65}) {
            const Problem problem = made([&](auto& p) {
                p.m = m, p.n = 31;
                p.trans_a = bit(0), p.trans_b = bit(1);
                p.order = bit(2) ? AUTOTUNE_COLUMN_MAJOR : AUTOTUNE_ROW_MAJOR;
                p.beta = bit(3) ? AUTOTUNE_BETA_ANY : AUTOTUNE_BETA_ZERO;
                p.ab_type = bit(4) ? AUTOTUNE_BF16 : AUTOTUNE_F32;
                if (bit(5)) p.batch = 3, p.stride_a = 40000;
                if (bit(6)) p.lda = 200, p.ldb = 203, p.align_c = 4;
            });
            expect_same(problem, described(problem));
        }
    }
}

TEST(GemmProblem, CTakesTheTypeOfAAndBUnlessItHasItsOwn) {
    EXPECT_EQ(made([](auto& p) { p.ab_type = AUTOTUNE_BF16; }).key(),
              made([](auto& p) { p.ab_type = p.c_type = AUTOTUNE_BF16; }).key());
    EXPECT_EQ(made([](auto& p) { p.accumulator = AUTOTUNE_F32; }).key(), made(nothing).key());
    EXPECT_EQ(made([](auto& p) { p.accumulator = AUTOTUNE_F16; }).key(),
              catalogue().problem({"hgemm_f16acc", "64x96x128", {{"beta", "any"}}}).key());
}

TEST(GemmProblem, OfAnyBetaIsTheCommandsWithAnyBeta) {
    EXPECT_EQ(made(nothing).key(), catalogue().problem({"hgemm", "64x96x128", {{"beta", "any"}}}).key());
}

TEST(GemmProblem, CarriesBf16) {
    const Problem ours = made([](auto& p) { p.ab_type = p.c_type = AUTOTUNE_BF16; });
    EXPECT_EQ(ours.word("a"), "bf16");
}

TEST(GemmProblem, CarriesLayouts) {
    EXPECT_EQ(made([](auto& p) { p.trans_b = 1; }).word("layout"), "nt");
    EXPECT_EQ(made([](auto& p) { p.trans_a = 1; }).word("layout"), "tn");
}

TEST(GemmProblem, OfColumnMajorSwapsTensorsAndExtents) {
    const Problem ours = made([](auto& p) {
        p.order = AUTOTUNE_COLUMN_MAJOR;
        p.lda = 80;   // A is a column-major m x k matrix, whose columns have m elements
        p.ldb = 136;  // B is a column-major k x n matrix, whose columns have k elements
        p.ldc = 72;
    });
    EXPECT_EQ(ours.shape(), "96x64x128");
    EXPECT_EQ(ours.word("layout"), "nn");
    EXPECT_EQ(matrix_view(ours.tensor("a")).ld, 136);
    EXPECT_EQ(matrix_view(ours.tensor("b")).ld, 80);
    EXPECT_EQ(matrix_view(ours.tensor("c")).ld, 72);
}

TEST(GemmProblem, OfColumnMajorSwapsTransposes) {
    const Problem ours = made([](auto& p) {
        p.order = AUTOTUNE_COLUMN_MAJOR;
        p.trans_a = 1;
    });
    EXPECT_EQ(ours.word("layout"), "nt");
}

TEST(GemmProblem, LowersTheAlignmentToThatOfTheLeadingDimension) {
    EXPECT_EQ(made([](auto& p) { p.lda = 130; }).tensor("a").alignment_bytes, 4);
}

TEST(GemmProblem, LowersTheAlignmentToThatOfTheStride) {
    const Problem ours = made([](auto& p) {
        p.batch = 3;
        p.stride_b = 96 * 128 + 4;
    });
    EXPECT_EQ(ours.tensor("b").alignment_bytes, 8);
    EXPECT_EQ(matrix_view(ours.tensor("b")).batch_stride, 96 * 128 + 4);
    EXPECT_EQ(ours.extent("batch"), 3);
}

TEST(GemmProblem, TakesTheDeclaredAlignment) {
    EXPECT_EQ(made([](auto& p) { p.align_c = 4; }).tensor("c").alignment_bytes, 4);
}

TEST(GemmProblem, RefusesNegativeExtentsByName) {
    EXPECT_EQ(refusal([](auto& p) { p.m = -7; }), "m is -7; it must be at least 0");
    EXPECT_EQ(refusal([](auto& p) { p.n = -1; }), "n is -1; it must be at least 0");
    EXPECT_EQ(refusal([](auto& p) { p.k = INT64_MIN; }), "k is -9223372036854775808; it must be at least 0");
    EXPECT_EQ(refusal([](auto& p) { p.m = p.k = 0; }), "");
    EXPECT_THAT(refusal([](auto& p) { p.batch = -2; }), HasSubstr("batch"));
}

TEST(GemmProblem, RefusesExtentsThatOverflow) {
    EXPECT_NE(refusal([](auto& p) { p.m = std::int64_t{1} << 31; }), "");
    EXPECT_NE(refusal([](auto& p) { p.k = INT64_MAX; }), "");
    EXPECT_NE(refusal([](auto& p) { p.m = p.n = p.k = (std::int64_t{1} << 31) - 1; }), "");
}

TEST(GemmProblem, RefusesALeadingDimensionBelowARowByName) {
    EXPECT_THAT(refusal([](auto& p) { p.lda = 127; }), HasSubstr("lda is 127; it must be at least 128"));
    EXPECT_THAT(refusal([](auto& p) { p.ldb = 5; }), HasSubstr("ldb"));
    EXPECT_THAT(refusal([](auto& p) { p.ldc = -1; }), HasSubstr("ldc"));
}

TEST(GemmProblem, RefusesALeadingDimensionOfColumnMajorByTheCallersName) {
    EXPECT_THAT(refusal([](auto& p) { p.order = AUTOTUNE_COLUMN_MAJOR, p.lda = 63; }),
                HasSubstr("lda is 63; it must be at least 64"));
}

TEST(GemmProblem, RefusesBatchesThatOverlap) {
    EXPECT_THAT(refusal([](auto& p) { p.batch = 2, p.stride_c = 100; }), HasSubstr("stride_c"));
}

TEST(GemmProblem, RefusesWordsThatAreNone) {
    EXPECT_THAT(refusal([](auto& p) { p.ab_type = static_cast<autotune_dtype>(77); }), HasSubstr("ab_type"));
    EXPECT_THAT(refusal([](auto& p) { p.order = static_cast<autotune_order>(2); }), HasSubstr("order"));
    EXPECT_THAT(refusal([](auto& p) { p.beta = static_cast<autotune_beta>(-1); }), HasSubstr("beta"));
    EXPECT_THAT(refusal([](auto& p) { p.align_a = 3; }), HasSubstr("align_a"));
    EXPECT_THAT(refusal([](auto& p) { p.align_a = 1; }), HasSubstr("align_a"));
}

TEST(GemmProblem, RefusesTypesThatNoKernelMixes) {
    EXPECT_NE(refusal([](auto& p) { p.c_type = AUTOTUNE_BF16; }), "");
    EXPECT_NE(refusal([](auto& p) { p.ab_type = p.c_type = AUTOTUNE_BF16, p.accumulator = AUTOTUNE_F16; }), "");
}

TEST(ReadProblem, RefusesNullAndAWrongSize) {
    EXPECT_THROW(read_problem(nullptr), Failure);
    autotune_gemm_problem problem = sample();
    problem.struct_size = 0;
    EXPECT_THROW(read_problem(&problem), Failure);
}

TEST(PlanKey, DiffersInEveryMemberThatMayAskForAnotherKernel) {
    const auto key = [](const std::function<void(autotune_gemm_problem&)>& change, std::uint64_t context = 1) {
        autotune_gemm_problem problem = sample();
        change(problem);
        return key_of(problem, context, {16, 16, 16}, AUTOTUNE_BETA_ANY);
    };
    const PlanKey base = key(nothing);
    EXPECT_EQ(key(nothing), base);
    EXPECT_NE(key(nothing, 2), base);
    const std::function<void(autotune_gemm_problem&)> changes[] = {[](auto& p) { p.m = 1; },
                                                                   [](auto& p) { p.n = 1; },
                                                                   [](auto& p) { p.k = 1; },
                                                                   [](auto& p) { p.batch = 2; },
                                                                   [](auto& p) { p.lda = 999; },
                                                                   [](auto& p) { p.ldb = 999; },
                                                                   [](auto& p) { p.ldc = 999; },
                                                                   [](auto& p) { p.stride_a = 9; },
                                                                   [](auto& p) { p.stride_b = 9; },
                                                                   [](auto& p) { p.stride_c = 9; },
                                                                   [](auto& p) { p.trans_a = 1; },
                                                                   [](auto& p) { p.trans_b = 1; },
                                                                   [](auto& p) { p.order = AUTOTUNE_COLUMN_MAJOR; },
                                                                   [](auto& p) { p.ab_type = AUTOTUNE_BF16; },
                                                                   [](auto& p) { p.c_type = AUTOTUNE_BF16; },
                                                                   [](auto& p) { p.accumulator = AUTOTUNE_F16; }};
    for (std::size_t i = 0; i < std::size(changes); ++i) EXPECT_NE(key(changes[i]), base) << "change " << i;
    EXPECT_NE(key_of(sample(), 1, {16, 16, 16}, AUTOTUNE_BETA_ZERO), base);
    EXPECT_NE(key_of(sample(), 1, {8, 16, 16}, AUTOTUNE_BETA_ANY), base);
    EXPECT_NE(key_of(sample(), 1, {16, 16, 8}, AUTOTUNE_BETA_ANY), key_of(sample(), 1, {16, 8, 16}, AUTOTUNE_BETA_ANY));
}

TEST(AlignmentOf, IsThePowerOfTwoUpToSixteen) {
    EXPECT_EQ(alignment_of(reinterpret_cast<const void*>(0x1000)), 16U);
    EXPECT_EQ(alignment_of(reinterpret_cast<const void*>(0x1008)), 8U);
    EXPECT_EQ(alignment_of(reinterpret_cast<const void*>(0x1002)), 2U);
    EXPECT_EQ(alignment_of(reinterpret_cast<const void*>(0x1001)), 1U);
}

// A plan is looked up by its key before its problem is checked.
TEST(PlanKey, OfNumbersThatNoProblemHasIsThatOfNoProblem) {
    const auto key = [](autotune_gemm_problem problem) { return GemmPlanRequest(problem).key(1); };
    autotune_gemm_problem wrong = sample();
    wrong.ab_type = static_cast<autotune_dtype>(256);
    EXPECT_NE(key(wrong), key(sample()));
    wrong = sample();
    wrong.order = static_cast<autotune_order>(-256);
    EXPECT_NE(key(wrong), key(sample()));
    wrong = sample();
    wrong.beta = static_cast<autotune_beta>(2);
    EXPECT_NE(key(wrong), key(sample()));
    wrong = sample();
    wrong.align_a = 16 + 32;
    EXPECT_NE(key(wrong), key(sample()));
}

}  // namespace
}  // namespace autotune::runtime
