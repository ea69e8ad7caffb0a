#include "src/runtime/ops/add_problem.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "src/core/error.h"
#include "src/runtime/api/status.h"
#include "src/runtime/ops/gemm_problem.h"
#include "tests/runtime/ops/add_data.h"
#include "tests/runtime/ops/gemm_data.h"
#include "tests/support/embedded_catalogue.h"

namespace autotune::runtime {
namespace {

using test::add;
using ::testing::HasSubstr;

constexpr std::int64_t kLongest = std::int64_t{1} << 40;

std::string key_of_problem(const autotune_add_problem& problem) {
    const Catalogue& catalogue = autotune::test::embedded_catalogue();
    return AddPlanRequest(problem).problem(catalogue).key();
}

std::string refusal(const autotune_add_problem& problem) {
    try {
        key_of_problem(problem);
    } catch (const Failure& failure) {
        EXPECT_EQ(failure.status(), AUTOTUNE_INVALID_ARGUMENT);
        return failure.what();
    }
    return "";
}

TEST(AddProblem, IsTheProblemThatTheCommandTunes) {
    EXPECT_EQ(key_of_problem(add(1048576)), "add dtype=f32 align=16,16,16 1048576");
    EXPECT_EQ(key_of_problem(add(7, AUTOTUNE_BF16)), "add dtype=bf16 align=16,16,16 7");
    EXPECT_EQ(key_of_problem(add(7, AUTOTUNE_DTYPE_DEFAULT)), key_of_problem(add(7, AUTOTUNE_F32)));
}

TEST(AddProblem, TakesLengthsFromNothingToTwoToTheForty) {
    EXPECT_EQ(key_of_problem(add(0)), "add dtype=f32 align=16,16,16 0");
    EXPECT_EQ(key_of_problem(add(kLongest, AUTOTUNE_F16)), "add dtype=f16 align=16,16,16 1099511627776");
    EXPECT_THAT(refusal(add(-1)), HasSubstr("length is -1"));
    EXPECT_THAT(refusal(add(kLongest + 1)), HasSubstr("2^40"));
    EXPECT_THAT(refusal(add(INT64_MAX)), HasSubstr("2^40"));
}

TEST(AddProblem, AlignmentsAreChecked) {
    autotune_add_problem problem = add(8, AUTOTUNE_F16);
    problem.align_b = 2;
    EXPECT_EQ(key_of_problem(problem), "add dtype=f16 align=16,2,16 8");
    problem.align_b = 3;
    EXPECT_THAT(refusal(problem), HasSubstr("align_b is 3"));
    problem = add(8);
    problem.align_c = 2;
    EXPECT_THAT(refusal(problem), HasSubstr("align_c is smaller than an element"));
}

TEST(AddProblem, AWrongTypeIsNamed) {
    EXPECT_THAT(refusal(add(8, static_cast<autotune_dtype>(99))), HasSubstr("type is 99"));
}

// Users' kernels have such types; no op here accepts them.
TEST(AddProblem, TypesOfUsersKernelsAreRefusedByTheOps) {
    const Catalogue& catalogue = autotune::test::embedded_catalogue();
    for (int type = AUTOTUNE_F64; type <= AUTOTUNE_U64; ++type) {
        if (type == AUTOTUNE_E4M3 || type == AUTOTUNE_E5M2) continue;
        EXPECT_THROW(key_of_problem(add(8, static_cast<autotune_dtype>(type))), Error) << type;
        autotune_gemm_problem product = test::gemm(8, 8, 8);
        product.ab_type = product.c_type = static_cast<autotune_dtype>(type);
        EXPECT_THROW(GemmPlanRequest(product).problem(catalogue), Error) << type;
    }
}

TEST(AddProblem, IsVersionedByItsSize) {
    autotune_add_problem problem = add(8);
    problem.struct_size = 0;
    EXPECT_THROW(read_problem(&problem), Failure);
    EXPECT_THROW(read_problem(static_cast<const autotune_add_problem*>(nullptr)), Failure);
}

TEST(AddProblem, KeysDifferWhereAnotherKernelMayServe) {
    const autotune_add_problem base = add(4096);
    const autotune_add_problem longer = add(4097), half = add(4096, AUTOTUNE_F16);
    autotune_add_problem unaligned = base;
    unaligned.align_a = 4;
    const PlanKey key = AddPlanRequest(base).key(1);
    EXPECT_EQ(AddPlanRequest(base).key(1), key);
    EXPECT_NE(AddPlanRequest(base).key(2), key);
    EXPECT_NE(AddPlanRequest(longer).key(1), key);
    EXPECT_NE(AddPlanRequest(half).key(1), key);
    EXPECT_NE(AddPlanRequest(unaligned).key(1), key);
}

TEST(AddProblem, KeysAreNeverThoseOfAGemm) {
    autotune_gemm_problem gemm = test::gemm(4096, 0, 0);
    gemm.batch = 0;
    const autotune_add_problem problem = add(4096);
    EXPECT_NE(AddPlanRequest(problem).key(1), GemmPlanRequest(gemm).key(1));
}

}  // namespace
}  // namespace autotune::runtime
