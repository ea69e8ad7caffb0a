// Attention and its gradients from a program, through the typed functions and the C++ header.
#include <gtest/gtest.h>

#include <autotune/autotune.hpp>
#include <functional>
#include <string>

#include "tests/runtime/fake_session.h"

namespace autotune::runtime::attention_fake_test {
namespace {

autotune_attention_problem problem_of() {
    autotune_attention_problem problem = {};
    problem.struct_size = sizeof(problem);
    problem.batch = 2, problem.q_heads = 4, problem.kv_heads = 2, problem.q_len = 96, problem.kv_len = 128, problem.d = 64;
    problem.type = AUTOTUNE_BF16;
    problem.mask = AUTOTUNE_MASK_CAUSAL_BOTTOM_RIGHT;
    problem.layout = AUTOTUNE_BSHD;
    return problem;
}

constexpr std::size_t kBytes = 2 * 4 * 128 * 64 * 4;  // more than any of the tensors needs

struct Memory {
    explicit Memory(Session& session)
        : q(session.driver, kBytes),
          k(session.driver, kBytes),
          v(session.driver, kBytes),
          o(session.driver, kBytes),
          lse(session.driver, kBytes),
          d_o(session.driver, kBytes),
          d_q(session.driver, kBytes),
          d_k(session.driver, kBytes),
          d_v(session.driver, kBytes) {}
    gpu::Buffer q, k, v, o, lse, d_o, d_q, d_k, d_v;
};

void* address(const gpu::Buffer& buffer) {
    return reinterpret_cast<void*>(buffer.address());
}

TEST(TypedAttention, APlanRunsByTheGeneralCall) {
    fake_test("", [] {
        Session session;
        const Handle handle = session.open();
        Memory memory(session);
        autotune_attention_problem problem = problem_of();
        problem.has_lse = 1;
        autotune_plan plan = nullptr;
        ASSERT_EQ(autotune_attention_plan(handle.get(), &problem, &plan), AUTOTUNE_OK) << autotune_last_error(nullptr);
        EXPECT_THAT(autotune_plan_candidate(plan), HasSubstr("attention/"));
        std::size_t workspace_bytes = 0;
        ASSERT_EQ(autotune_plan_workspace(plan, &workspace_bytes), AUTOTUNE_OK);
        gpu::Buffer workspace(session.driver, workspace_bytes + 1);
        const void* addresses[] = {address(memory.q), address(memory.k), address(memory.v), address(memory.o),
                                   address(memory.lse)};
        autotune_scalar scale = {};
        scale.type = AUTOTUNE_SCALAR_F32;
        scale.value.f32 = 0.125F;
        autotune_call call = {sizeof(autotune_call), addresses, 5, &scale, 1, address(workspace), workspace_bytes};
        EXPECT_EQ(autotune_run(plan, &call, session.stream.handle()), AUTOTUNE_OK) << autotune_last_error(nullptr);
        autotune_plan_destroy(plan);
    });
}

TEST(TypedAttention, OneCallComputesWithAndWithoutLogarithms) {
    fake_test("", [] {
        Session session;
        const Handle handle = session.open();
        Memory memory(session);
        for (const int has_lse : {0, 1}) {
            autotune_attention_problem problem = problem_of();
            problem.has_lse = has_lse;
            float* const lse = has_lse != 0 ? static_cast<float*>(address(memory.lse)) : nullptr;
            for (int turn = 0; turn < 2; ++turn)
                EXPECT_EQ(autotune_tuned_attention(handle.get(), &problem, 0, address(memory.q), address(memory.k),
                                                   address(memory.v), address(memory.o), lse, session.stream.handle()),
                          AUTOTUNE_OK)
                    << autotune_last_error(nullptr);
        }
    });
}

TEST(TypedAttention, PackedSequencesTakeTheirOffsets) {
    fake_test("", [] {
        Session session;
        const Handle handle = session.open();
        Memory memory(session);
        autotune_attention_problem problem = problem_of();
        problem.batch = 3, problem.total_q = 150, problem.total_kv = 200;
        const auto* const offsets = static_cast<const std::int32_t*>(address(memory.lse));
        const auto run = [&](const std::int32_t* q_offsets) {
            return autotune_tuned_attention_packed(handle.get(), &problem, 0, address(memory.q), address(memory.k),
                                                   address(memory.v), address(memory.o), nullptr, q_offsets, offsets,
                                                   session.stream.handle());
        };
        EXPECT_EQ(run(offsets), AUTOTUNE_OK) << autotune_last_error(nullptr);
        EXPECT_EQ(run(nullptr), AUTOTUNE_INVALID_ARGUMENT);
        EXPECT_THAT(autotune_last_error(nullptr), HasSubstr("q_offsets"));
        EXPECT_EQ(autotune_tuned_attention(handle.get(), &problem, 0, address(memory.q), address(memory.k), address(memory.v),
                                           address(memory.o), nullptr, session.stream.handle()),
                  AUTOTUNE_INVALID_ARGUMENT);
        EXPECT_THAT(autotune_last_error(nullptr), HasSubstr("autotune_tuned_attention_packed"));
        AttentionOperands operands;
        operands.q = address(memory.q), operands.k = address(memory.k), operands.v = address(memory.v),
        operands.o = address(memory.o);
        operands.q_offsets = operands.kv_offsets = offsets;
        EXPECT_NO_THROW(tuned_attention(handle, problem, operands, session.stream.handle()));
        autotune_plan plan = nullptr;
        EXPECT_EQ(autotune_attention_bwd_plan(handle.get(), &problem, &plan), AUTOTUNE_INVALID_ARGUMENT);
        EXPECT_THAT(autotune_last_error(nullptr), HasSubstr("gradients of packed sequences"));
        problem.total_q = 300;
        EXPECT_EQ(run(offsets), AUTOTUNE_INVALID_ARGUMENT);
        EXPECT_THAT(autotune_last_error(nullptr), HasSubstr("3 sequences of at most 96 queries"));
        problem.total_q = 0;
        EXPECT_EQ(run(offsets), AUTOTUNE_INVALID_ARGUMENT);
    });
}

TEST(TypedAttention, GradientsTakeOneCall) {
    fake_test("", [] {
        Session session;
        const Handle handle = session.open();
        Memory memory(session);
        const autotune_attention_problem problem = problem_of();
        autotune_plan plan = nullptr;
        ASSERT_EQ(autotune_attention_bwd_plan(handle.get(), &problem, &plan), AUTOTUNE_OK) << autotune_last_error(nullptr);
        EXPECT_THAT(autotune_plan_candidate(plan), HasSubstr("attention_bwd/"));
        autotune_plan_destroy(plan);
        autotune_attention_gradients call = {};
        call.struct_size = sizeof(call);
        call.q = address(memory.q), call.k = address(memory.k), call.v = address(memory.v), call.o = address(memory.o);
        call.lse = static_cast<const float*>(address(memory.lse)), call.d_o = address(memory.d_o);
        call.d_q = address(memory.d_q), call.d_k = address(memory.d_k);
        EXPECT_EQ(autotune_tuned_attention_bwd(handle.get(), &problem, 0.5F, &call, session.stream.handle()),
                  AUTOTUNE_INVALID_ARGUMENT);
        EXPECT_THAT(autotune_last_error(nullptr), HasSubstr("may be NULL"));
        call.d_v = address(memory.d_v);
        EXPECT_EQ(autotune_tuned_attention_bwd(handle.get(), &problem, 0.5F, &call, session.stream.handle()), AUTOTUNE_OK)
            << autotune_last_error(nullptr);
    });
}

TEST(TypedAttention, RefusesWithTheMembersName) {
    fake_test("", [] {
        Session session;
        const Handle handle = session.open();
        const auto refusal = [&](const std::function<void(autotune_attention_problem&)>& change) {
            autotune_attention_problem problem = problem_of();
            change(problem);
            autotune_plan plan = nullptr;
            EXPECT_EQ(autotune_attention_plan(handle.get(), &problem, &plan), AUTOTUNE_INVALID_ARGUMENT);
            EXPECT_EQ(plan, nullptr);
            return std::string(autotune_last_error(nullptr));
        };
        EXPECT_THAT(refusal([](auto& problem) { problem.struct_size = 3; }), HasSubstr("struct_size"));
        EXPECT_THAT(refusal([](auto& problem) { problem.mask = static_cast<autotune_mask>(9); }), HasSubstr("mask is 9"));
        EXPECT_THAT(refusal([](auto& problem) { problem.layout = static_cast<autotune_layout>(4); }), HasSubstr("layout is 4"));
        EXPECT_THAT(refusal([](auto& problem) { problem.q_heads = 3; }), HasSubstr("3 query heads"));
        EXPECT_THAT(refusal([](auto& problem) { problem.d = 100; }), HasSubstr("d is 100"));
        EXPECT_EQ(refusal([](auto& problem) { problem.batch = -1; }),
                  "an extent is -1; batch, heads, lengths and head sizes are from 0 to 2^31 - 1");
        EXPECT_THAT(refusal([](auto& problem) { problem.q_len = std::int64_t{1} << 31; }), HasSubstr("an extent is 2147483648"));
        EXPECT_THAT(refusal([](auto& problem) { problem.mask = AUTOTUNE_MASK_WINDOW, problem.left = -1; }),
                    HasSubstr("left is -1"));
        EXPECT_THAT(refusal([](auto& problem) { problem.tf32 = 1; }), HasSubstr("tf32 is for f32"));
        EXPECT_THAT(refusal([](auto& problem) { problem.o_strides[0] = 1, problem.o_strides[1] = 1, problem.o_strides[2] = 1; }),
                    HasSubstr("overlap"));
        autotune_attention_problem problem = problem_of();
        int data = 0;
        EXPECT_EQ(autotune_tuned_attention(handle.get(), &problem, 0, &data, &data, &data, nullptr, nullptr, nullptr),
                  AUTOTUNE_INVALID_ARGUMENT);
        problem.has_lse = 1;
        EXPECT_EQ(autotune_tuned_attention(handle.get(), &problem, 0, &data, &data, &data, &data, nullptr, nullptr),
                  AUTOTUNE_INVALID_ARGUMENT);
        EXPECT_THAT(autotune_last_error(nullptr), HasSubstr("lse must be an address"));
    });
}

TEST(TypedAttention, TheHeaderForCppSaysTheSame) {
    fake_test("", [] {
        Session session;
        const Handle handle = session.open();
        Memory memory(session);
        AttentionProblem problem(1, 2, 100, 128);
        EXPECT_EQ(problem.type, AUTOTUNE_BF16);
        autotune_plan plan = nullptr;
        ASSERT_EQ(autotune_attention_plan(handle.get(), &problem, &plan), AUTOTUNE_OK) << autotune_last_error(nullptr);
        autotune_plan_destroy(plan);
        EXPECT_EQ(AttentionGradients().struct_size, sizeof(autotune_attention_gradients));
    });
}

}  // namespace
}  // namespace autotune::runtime::attention_fake_test
