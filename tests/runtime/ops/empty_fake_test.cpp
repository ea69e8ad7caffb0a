// Extents of zero, with one rule for every op and function: an output without elements is success without a launch, and an empty
// sum is zero. Addresses of empty arrays may be NULL.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <span>

#include "tests/runtime/fake_session.h"

namespace autotune::runtime::empty_fake_test {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// Numbers of one type in device memory.
class Array {
  public:
    Array(Session& session, DType type, const std::vector<float>& values) : type_(type), count_(values.size()) {
        buffer_ = gpu::Buffer(session.driver, count_ * size_bytes(type));
        std::vector<std::byte> bytes(buffer_.bytes());
        for (std::size_t i = 0; i < count_; ++i) {
            const std::uint64_t bits = encode(type, static_cast<double>(values[i]));
            std::memcpy(bytes.data() + i * size_bytes(type), &bits, size_bytes(type));
        }
        buffer_.upload(bytes);
    }
    Array(Session& session, DType type, std::size_t count, float value)
        : Array(session, type, std::vector<float>(count, value)) {}

    void* address() const { return reinterpret_cast<void*>(buffer_.address()); }
    std::vector<float> values() const {
        std::vector<std::byte> bytes(buffer_.bytes());
        buffer_.download(bytes);
        std::vector<float> values;
        for (std::size_t i = 0; i < count_; ++i) {
            std::uint64_t bits = 0;
            std::memcpy(&bits, bytes.data() + i * size_bytes(type_), size_bytes(type_));
            values.push_back(static_cast<float>(decode(type_, bits)));
        }
        return values;
    }

  private:
    DType type_;
    std::size_t count_;
    gpu::Buffer buffer_;
};

std::vector<float> repeated(std::size_t count, float value) {
    return std::vector<float>(count, value);
}

using Scalars = std::vector<float>;
using Addresses = std::vector<const void*>;

// Both ways in which a program runs a described problem: with a plan of its own, and in one call.
void run_both_ways(Session& session, const Handle& handle, const Description& description, const Addresses& addresses,
                   const Scalars& scalars) {
    const autotune_problem problem = description.problem();
    ASSERT_EQ(autotune_supports(handle.get(), &problem), AUTOTUNE_OK) << autotune_last_error(nullptr);
    std::vector<autotune_scalar> values(scalars.size());
    for (std::size_t i = 0; i < scalars.size(); ++i) values[i].value.f32 = scalars[i];
    const autotune_call call = {
        sizeof(autotune_call), addresses.data(), addresses.size(), values.data(), values.size(), nullptr, 0};
    autotune_plan plan = nullptr;
    ASSERT_EQ(autotune_plan_create(handle.get(), &problem, &plan), AUTOTUNE_OK) << autotune_last_error(nullptr);
    EXPECT_EQ(autotune_run(plan, &call, session.stream.handle()), AUTOTUNE_OK) << autotune_last_error(nullptr);
    autotune_plan_destroy(plan);
    EXPECT_EQ(autotune_tuned(handle.get(), &problem, &call, session.stream.handle()), AUTOTUNE_OK)
        << autotune_last_error(nullptr);
    session.stream.synchronize();
}

Description product(std::int64_t batch, std::int64_t m, std::int64_t n, std::int64_t k, const char* beta = "any") {
    Description made("gemm");
    made.tensor("a", AUTOTUNE_F16, {batch, m, k})
        .tensor("b", AUTOTUNE_F16, {batch, k, n})
        .tensor("c", AUTOTUNE_F16, {batch, m, n});
    made.word("beta", beta);
    return made;
}

Description attention(const char* op, std::int64_t batch, std::int64_t heads, std::int64_t queries, std::int64_t keys) {
    Description made(op);
    made.tensor("q", AUTOTUNE_BF16, {batch, heads, queries, 64}).tensor("k", AUTOTUNE_BF16, {batch, heads, keys, 64});
    made.tensor("v", AUTOTUNE_BF16, {batch, heads, keys, 64}).tensor("o", AUTOTUNE_BF16, {batch, heads, queries, 64});
    made.tensor("lse", AUTOTUNE_F32, {batch, heads, queries});
    if (std::string(op) == "attention") return made;
    made.tensor("do", AUTOTUNE_BF16, {batch, heads, queries, 64}).tensor("dq", AUTOTUNE_BF16, {batch, heads, queries, 64});
    made.tensor("dk", AUTOTUNE_BF16, {batch, heads, keys, 64}).tensor("dv", AUTOTUNE_BF16, {batch, heads, keys, 64});
    return made;
}

Description softmax(std::int64_t rows, std::int64_t cols, bool has_lse) {
    Description made("softmax");
    made.tensor("x", AUTOTUNE_F32, {rows, cols}).tensor("y", AUTOTUNE_F32, {rows, cols});
    if (has_lse) made.tensor("lse", AUTOTUNE_F32, {rows});
    return made;
}

// No policy refuses a call that needs neither a compiler nor a launch.
TEST(Empty, OutputsAreSuccessWithoutALaunch) {
    fake_test(
        "",
        [] {
            Session session;
            for (const autotune_on_miss on_miss :
                 {AUTOTUNE_ON_MISS_COMPILE, AUTOTUNE_ON_MISS_LOADED_ONLY, AUTOTUNE_ON_MISS_NOT_PLANNED}) {
                const Handle handle = session.open(on_miss);
                const auto nothing = [&](std::size_t count) { return Addresses(count, nullptr); };
                for (const auto& [batch, m, n, k] :
                     {std::array<std::int64_t, 4>{0, 8, 8, 8}, {2, 0, 8, 8}, {2, 8, 0, 8}, {0, 0, 0, 0}})
                    run_both_ways(session, handle, product(batch, m, n, k), nothing(3), {1, 0});
                Description sum("add");
                sum.tensor("a", AUTOTUNE_F32, {0, 5}).tensor("b", AUTOTUNE_F32, {0, 5}).tensor("c", AUTOTUNE_F32, {0, 5});
                run_both_ways(session, handle, sum, nothing(3), {});
                run_both_ways(session, handle, softmax(0, 100, true), nothing(3), {});
                run_both_ways(session, handle, softmax(100, 0, false), nothing(3), {});
                for (const char* op : {"attention", "attention_bwd"}) {
                    const std::size_t count = op == std::string("attention") ? 5 : 9;
                    run_both_ways(session, handle, attention(op, 0, 2, 8, 8), nothing(count), {1});
                    run_both_ways(session, handle, attention(op, 2, 0, 8, 8), nothing(count), {1});
                    run_both_ways(session, handle, attention(op, 1, 2, 0, 0), nothing(count), {1});
                }
                run_both_ways(session, handle, attention("attention", 1, 2, 0, 8), nothing(5), {1});
            }
        },
        [](const fake::Sandbox& sandbox) {
            EXPECT_EQ(sandbox.count_calls("cuLaunchKernelEx"), 0);
            EXPECT_EQ(sandbox.count_calls("nvrtcCompileProgram"), 0);
        });
}

TEST(Empty, APlanOfNothingSaysSo) {
    fake_test("", [] {
        Session session;
        const Handle handle = session.open();
        const GemmPlan plan(handle, gemm(0, 8, 8));
        EXPECT_STREQ(plan.candidate(), "nothing to compute");
        EXPECT_EQ(plan.workspace_bytes(), 0);
        autotune_plan_facts facts = {};
        facts.struct_size = sizeof(facts);
        ASSERT_EQ(autotune_plan_info(plan.get(), &facts), AUTOTUNE_OK);
        EXPECT_EQ(facts.expected_regret, 0);
        EXPECT_EQ(facts.predicted_us, 0);
        EXPECT_NO_THROW(plan.run({}, session.stream.handle()));
        EXPECT_EQ(handle.warm(gemm(0, 8, 8)), 0);
        EXPECT_EQ(handle.warm(gemm(8, 8, 0)), 1);
    });
}

TEST(Empty, TypedFunctionsTakeEmptyProblemsToo) {
    fake_test("", [] {
        Session session;
        const Handle handle = session.open();
        const float one = 1, zero = 0;
        CUstream_st* const stream = session.stream.handle();
        for (const autotune_gemm_problem& problem : {gemm(0, 8, 8), gemm(8, 0, 8)})
            EXPECT_EQ(autotune_tuned_gemm(handle.get(), &problem, &one, nullptr, nullptr, &zero, nullptr, stream), AUTOTUNE_OK)
                << autotune_last_error(nullptr);
        const autotune_gemm_problem no_depth = gemm(8, 8, 0);
        EXPECT_EQ(autotune_tuned_gemm(handle.get(), &no_depth, &one, nullptr, nullptr, &zero, nullptr, stream),
                  AUTOTUNE_INVALID_ARGUMENT);
        EXPECT_STREQ(autotune_last_error(nullptr), "alpha, a, b, beta and c must not be NULL");
        AttentionProblem none(1, 2, 0, 64);
        EXPECT_EQ(autotune_tuned_attention(handle.get(), &none, 0, nullptr, nullptr, nullptr, nullptr, nullptr, stream),
                  AUTOTUNE_OK)
            << autotune_last_error(nullptr);
        none.batch = 0, none.q_len = 5, none.has_lse = 1;
        EXPECT_EQ(autotune_tuned_attention(handle.get(), &none, 0, nullptr, nullptr, nullptr, nullptr, nullptr, stream),
                  AUTOTUNE_OK)
            << autotune_last_error(nullptr);
        const AttentionGradients gradients;
        EXPECT_EQ(autotune_tuned_attention_bwd(handle.get(), &none, 0, &gradients, stream), AUTOTUNE_OK)
            << autotune_last_error(nullptr);
        AttentionProblem some(1, 2, 5, 64);
        EXPECT_EQ(autotune_tuned_attention_bwd(handle.get(), &some, 0, &gradients, stream), AUTOTUNE_INVALID_ARGUMENT);
        EXPECT_STREQ(autotune_last_error(nullptr), "no address of the gradients' call may be NULL");
        const AddProblem sum(0);
        EXPECT_EQ(autotune_tuned_add(handle.get(), &sum, nullptr, nullptr, nullptr, stream), AUTOTUNE_OK);
    });
}

TEST(Empty, AProductOfNoDepthIsBetaC) {
    fake_test("", [] {
        Session session;
        const Handle handle = session.open();
        for (const float beta : {0.0F, 1.0F, -0.5F}) {
            Array c(session, DType::f16, 2 * 3 * 5, 6);
            autotune_gemm_problem problem = gemm(3, 5, 0);
            problem.batch = 2;
            const GemmPlan plan(handle, problem);
            EXPECT_THAT(plan.candidate(), HasSubstr("common/empty_sum"));
            plan.run({.c = c.address(), .alpha = kNan, .beta = beta}, session.stream.handle());
            session.stream.synchronize();
            EXPECT_EQ(c.values(), repeated(30, 6 * beta));
            tuned_gemm(handle, problem, {.c = c.address(), .beta = beta}, session.stream.handle());
            session.stream.synchronize();
            EXPECT_EQ(c.values(), repeated(30, 6 * beta * beta));
        }
        // C is not read if beta is 0, and gaps between rows stay.
        std::vector<float> values = repeated(3 * 8, kNan);
        Array c(session, DType::f16, values);
        Description strided("gemm");
        strided.tensor("a", AUTOTUNE_F16, {3, 0}).tensor("b", AUTOTUNE_F16, {0, 5}).tensor("c", AUTOTUNE_F16, {3, 5}, {8, 1});
        run_both_ways(session, handle, strided, {nullptr, nullptr, c.address()}, {1, 0});
        values = c.values();
        for (std::size_t i = 0; i < values.size(); ++i) EXPECT_EQ(std::isnan(values[i]), i % 8 >= 5) << i;
        Description no_c = product(1, 3, 5, 0);
        const autotune_problem problem = no_c.problem();
        const void* addresses[] = {nullptr, nullptr, nullptr};
        std::vector<autotune_scalar> scalars(2);
        const autotune_call call = {sizeof(autotune_call), addresses, 3, scalars.data(), 2, nullptr, 0};
        EXPECT_EQ(autotune_tuned(handle.get(), &problem, &call, session.stream.handle()), AUTOTUNE_INVALID_ARGUMENT);
        EXPECT_STREQ(autotune_last_error(nullptr), "c is NULL");
    });
}

TEST(Empty, AProductOfFp8OfNoDepthHasItsEpilogue) {
    fake_test("", [] {
        Session session;
        const Handle handle = session.open();
        Description description("gemm");
        description.tensor("a", AUTOTUNE_E4M3, {4, 0})
            .tensor("b", AUTOTUNE_E4M3, {0, 3}, {1, 16})
            .tensor("c", AUTOTUNE_E4M3, {4, 3});
        description.tensor("bias", AUTOTUNE_BF16, {3}).tensor("scale_d", AUTOTUNE_F32, {1}).tensor("amax_d", AUTOTUNE_F32, {1});
        const Array c(session, DType::e4m3, 12, kNan), bias(session, DType::bf16, {1, -3, 2}), scale(session, DType::f32, {8});
        const Array amax(session, DType::f32, {0.5F});
        run_both_ways(session, handle, description,
                      {nullptr, nullptr, c.address(), nullptr, nullptr, bias.address(), scale.address(), amax.address()}, {1, 0});
        EXPECT_EQ(c.values(), (std::vector<float>{8, -24, 16, 8, -24, 16, 8, -24, 16, 8, -24, 16}));
        EXPECT_EQ(amax.values(), std::vector<float>{3});
    });
}

TEST(Empty, AttentionWithoutKeysIsZeroAndItsSumsAreTheLogarithmOfZero) {
    fake_test("", [] {
        Session session;
        const Handle handle = session.open();
        const Array q(session, DType::bf16, 2 * 3 * 64, kNan), o(session, DType::bf16, 2 * 3 * 64, kNan),
            lse(session, DType::f32, 6, 1);
        run_both_ways(session, handle, attention("attention", 1, 2, 3, 0),
                      {q.address(), nullptr, nullptr, o.address(), lse.address()}, {1});
        EXPECT_EQ(o.values(), repeated(384, 0));
        EXPECT_EQ(lse.values(), repeated(6, -kInfinity));
    });
}

TEST(Empty, GradientsWithoutQueriesOrKeysAreZero) {
    fake_test("", [] {
        Session session;
        const Handle handle = session.open();
        const Array some(session, DType::bf16, 2 * 3 * 64, kNan), lse(session, DType::f32, 6, -kInfinity);
        const Array first(session, DType::bf16, 384, kNan), second(session, DType::bf16, 384, kNan);
        const void* const in = some.address();
        run_both_ways(session, handle, attention("attention_bwd", 1, 2, 3, 0),
                      {in, nullptr, nullptr, in, lse.address(), in, first.address(), nullptr, nullptr}, {1});
        EXPECT_EQ(first.values(), repeated(384, 0));
        const Array third(session, DType::bf16, 384, kNan);
        run_both_ways(session, handle, attention("attention_bwd", 1, 2, 0, 3),
                      {nullptr, in, in, nullptr, nullptr, nullptr, nullptr, second.address(), third.address()}, {1});
        EXPECT_EQ(second.values(), repeated(384, 0));
        EXPECT_EQ(third.values(), repeated(384, 0));
    });
}

TEST(Empty, RowsOfSoftmaxHaveTheLogarithmOfZero) {
    fake_test("", [] {
        Session session;
        const Handle handle = session.open();
        const Array lse(session, DType::f32, 7, 1);
        run_both_ways(session, handle, softmax(7, 0, true), {nullptr, nullptr, lse.address()}, {});
        EXPECT_EQ(lse.values(), repeated(7, -kInfinity));
    });
}

// A call that needs a kernel can be captured once the kernel is loaded; a call that needs none always can.
TEST(Empty, ProblemsCanBeCaptured) {
    fake_test("", [] {
        Session session;
        const Handle handle = session.open();
        const Array c(session, DType::f16, 15, 6);
        const auto call = [&] { tuned_gemm(handle, gemm(3, 5, 0), {.c = c.address(), .beta = 2}, session.stream.handle()); };
        EXPECT_EQ(status_of([&] { session.capture(call); }), AUTOTUNE_NOT_PLANNED);
        const GemmPlan ready(handle, gemm(1, 1, 0));  // the plan has another shape, but the same kernel serves all shapes
        const gpu::Graph graph = session.capture([&] {
            call();
            tuned_gemm(handle, gemm(0, 5, 8), {.b = c.address()}, session.stream.handle());
        });
        EXPECT_EQ(c.values(), repeated(15, 6));
        session.replay(graph);
        EXPECT_EQ(c.values(), repeated(15, 12));
        session.replay(graph);
        EXPECT_EQ(c.values(), repeated(15, 24));
    });
}

TEST(Empty, SumsOfNothingAreReadyWhereNoCallMayWait) {
    fake_test("", [] {
        Session session;
        const Handle handle = session.open(AUTOTUNE_ON_MISS_BACKGROUND);
        const Array c(session, DType::f16, 15, 6);
        tuned_gemm(handle, gemm(3, 5, 0), {.c = c.address(), .beta = 2}, session.stream.handle());
        session.stream.synchronize();
        EXPECT_EQ(c.values(), repeated(15, 12));
    });
}

TEST(Empty, TuneAndBenchSayThatThereIsNothingToMeasure) {
    Sandbox sandbox;
    for (const char* command : {"tune", "bench"}) {
        const auto outcome = sandbox.autotune({command, "--op", "hgemm", "--shape", "64x64x0"});
        EXPECT_EQ(outcome.exit_code, 2) << outcome.err;
        EXPECT_THAT(outcome.err,
                    HasSubstr("shape '64x64x0': K is 0; every extent is at least 1 (the library answers a problem without "
                              "elements itself: there is nothing to tune or to time)"));
    }
}

}  // namespace
}  // namespace autotune::runtime::empty_fake_test
