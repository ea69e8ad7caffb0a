// Where the arrays of a call may lie: outputs must not overlap other arrays, judged by elements and not by ranges, unless an op
// works in place; operands may repeat one matrix or row.
#include <gtest/gtest.h>

#include <cstring>
#include <span>

#include "tests/runtime/fake_session.h"

namespace autotune::runtime::overlap_fake_test {
namespace {

using ::testing::AllOf;

// A plan with 1 MiB of memory for its arrays; runs it with arrays at given byte offsets.
class Placed {
  public:
    explicit Placed(const Description& description, std::vector<float> scalars = {}) : scalars_(scalars.size()) {
        for (std::size_t i = 0; i < scalars.size(); ++i) scalars_[i].value.f32 = scalars[i];
        const autotune_problem problem = description.problem();
        EXPECT_EQ(autotune_plan_create(handle_.get(), &problem, &plan_), AUTOTUNE_OK) << autotune_last_error(nullptr);
        std::size_t bytes = 0;
        EXPECT_EQ(autotune_plan_workspace(plan_, &bytes), AUTOTUNE_OK);
        workspace_ = gpu::Buffer(session_.driver, bytes + 256);
        workspace_.fill_bytes(0);
        workspace_bytes_ = bytes;
    }
    ~Placed() { autotune_plan_destroy(plan_); }
    Placed(const Placed&) = delete;

    // Returns "" if the call runs, or else the reason why not. A negative offset means NULL.
    std::string run(const std::vector<std::int64_t>& offsets) {
        std::vector<const void*> addresses;
        for (const std::int64_t offset : offsets)
            addresses.push_back(offset < 0 ? nullptr : reinterpret_cast<const char*>(memory_.address()) + offset);
        const autotune_call call = {sizeof(autotune_call), addresses.data(), addresses.size(),
                                    scalars_.data(),       scalars_.size(),  reinterpret_cast<void*>(workspace_.address()),
                                    workspace_bytes_};
        const autotune_status status = autotune_run(plan_, &call, session_.stream.handle());
        session_.stream.synchronize();
        if (status == AUTOTUNE_OK) return "";
        EXPECT_EQ(status, AUTOTUNE_OVERLAP) << autotune_last_error(nullptr);
        return autotune_last_error(nullptr);
    }

  private:
    Session session_;
    Handle handle_ = session_.open();
    gpu::Buffer memory_{session_.driver, 1 << 20}, workspace_;
    std::size_t workspace_bytes_ = 0;
    std::vector<autotune_scalar> scalars_;
    autotune_plan plan_ = nullptr;
};

constexpr std::int64_t kFar = 1 << 18;

TEST(Overlap, SoftmaxWorksInPlaceOfTheSameLayoutAlone) {
    fake_test("", [] {
        Description same("softmax"), wider("softmax");
        same.tensor("x", AUTOTUNE_F32, {16, 64}, {80, 1})
            .tensor("y", AUTOTUNE_F32, {16, 64}, {80, 1})
            .tensor("lse", AUTOTUNE_F32, {16});
        wider.tensor("x", AUTOTUNE_F32, {16, 64}, {80, 1})
            .tensor("y", AUTOTUNE_F32, {16, 64}, {64, 1})
            .tensor("lse", AUTOTUNE_F32, {16});
        Placed in_place(same);
        EXPECT_EQ(in_place.run({0, 0, kFar}), "");
        EXPECT_EQ(in_place.run({0, 64, kFar}), "y overlaps x; it may be x itself, or must not overlap it");
        EXPECT_EQ(in_place.run({0, kFar, 256}), "");  // the result is in the gap after each row of x, which 16 elements fill
        EXPECT_EQ(
            in_place.run({0, kFar, 252}),
            "lse overlaps x; an output of softmax must not overlap another tensor, unless y is an input of the same layout");
        EXPECT_THAT(in_place.run({0, 0, 0}), HasSubstr("y overlaps lse; "));
        EXPECT_THAT(in_place.run({0, kFar, kFar}), HasSubstr("y overlaps lse; "));
        Placed moved(wider);
        EXPECT_EQ(moved.run({0, 0, kFar}),
                  "y overlaps x; an output of softmax must not overlap another tensor, unless y is an input of the same layout");
        EXPECT_EQ(moved.run({0, kFar, 2 * kFar}), "");
    });
}

TEST(Overlap, AddWorksInPlaceOfEitherInput) {
    fake_test("", [] {
        Description sum("add");
        sum.tensor("a", AUTOTUNE_F32, {1024}).tensor("b", AUTOTUNE_F32, {1024}).tensor("c", AUTOTUNE_F32, {1024});
        Placed placed(sum);
        EXPECT_EQ(placed.run({0, kFar, 0}), "");
        EXPECT_EQ(placed.run({0, kFar, kFar}), "");
        EXPECT_EQ(placed.run({0, 0, 0}), "");
        EXPECT_EQ(placed.run({0, 16, 4096 + 16}), "");
        EXPECT_EQ(placed.run({0, 16, 4096}), "c overlaps b; it may be b itself, or must not overlap it");
        EXPECT_EQ(placed.run({0, kFar, 4080}), "c overlaps a; it may be a itself, or must not overlap it");
    });
}

TEST(Overlap, AProductIsNoneOfItsOperands) {
    fake_test("", [] {
        Description square("gemm");
        square.tensor("a", AUTOTUNE_F16, {32, 32})
            .tensor("b", AUTOTUNE_F16, {32, 32})
            .tensor("c", AUTOTUNE_F16, {32, 32})
            .word("beta", "any");
        Placed placed(square, {1, 1});
        EXPECT_EQ(placed.run({0, 0, 2048}), "");
        EXPECT_EQ(placed.run({0, kFar, 0}), "c overlaps a; an output of gemm must not overlap another tensor");
        EXPECT_EQ(placed.run({0, kFar, kFar}), "c overlaps b; an output of gemm must not overlap another tensor");
        EXPECT_EQ(placed.run({0, kFar, 2032}), "c overlaps a; an output of gemm must not overlap another tensor");
        EXPECT_EQ(placed.run({2048, kFar, 16}), "c overlaps a; an output of gemm must not overlap another tensor");
    });
}

// A, B and C are columns of one matrix with rows of 128 elements.
TEST(Overlap, ArraysThatTakeTurnsInOneMemoryDoNotOverlap) {
    fake_test("", [] {
        Description columns("gemm");
        for (const char* name : {"a", "b", "c"}) columns.tensor(name, AUTOTUNE_F16, {32, 32}, {128, 1});
        Placed placed(columns, {1, 0});
        EXPECT_EQ(placed.run({0, 64, 128}), "");
        EXPECT_EQ(placed.run({0, 64, 112}), "c overlaps b; an output of gemm must not overlap another tensor");
        EXPECT_EQ(placed.run({0, 64, 240}),
                  "c overlaps a; an output of gemm must not overlap another tensor");  // in the next row
    });
}

TEST(Overlap, OutputsOfAttentionLieBesideEachOther) {
    fake_test("", [] {
        // [batch, rows, 3, heads, columns]: gradients of one matrix of queries, keys and values.
        const std::initializer_list<std::int64_t> packed = {16 * 3 * 2 * 64, 64, 3 * 2 * 64, 1}, extents = {1, 2, 16, 64};
        Description backward("attention_bwd"), forward("attention");
        for (const char* name : {"q", "k", "v", "o"}) forward.tensor(name, AUTOTUNE_BF16, extents);
        forward.tensor("lse", AUTOTUNE_F32, {1, 2, 16});
        Placed placed(forward, {1});
        constexpr std::int64_t kBytes = 2 * 16 * 64 * 2;
        EXPECT_EQ(placed.run({0, 0, 0, kBytes, 2 * kBytes}), "");
        EXPECT_EQ(placed.run({0, kFar, kFar, 0, 2 * kFar}),
                  "o overlaps q; an output of attention must not overlap another tensor");
        EXPECT_EQ(placed.run({0, kFar, 2 * kFar, kBytes, 16}),
                  "lse overlaps q; an output of attention must not overlap another tensor");
        EXPECT_EQ(placed.run({0, 0, 0, kFar, kFar + 16}),
                  "o overlaps lse; an output of attention must not overlap another tensor");
        for (const char* name : {"q", "k", "v", "o"}) backward.tensor(name, AUTOTUNE_BF16, extents);
        backward.tensor("lse", AUTOTUNE_F32, {1, 2, 16}).tensor("do", AUTOTUNE_BF16, extents);
        for (const char* name : {"dq", "dk", "dv"}) backward.tensor(name, AUTOTUNE_BF16, extents, packed);
        Placed gradients(backward, {1});
        EXPECT_EQ(gradients.run({0, 0, 0, 0, kBytes, 0, kFar, kFar + 256, kFar + 512}), "");
        EXPECT_EQ(gradients.run({0, 0, 0, 0, kBytes, 0, kFar, kFar + 128, kFar + 512}),
                  "dq overlaps dk; an output of attention_bwd must not overlap another tensor");
        EXPECT_EQ(gradients.run({0, 0, 0, 0, kBytes, 0, kFar, kFar + 256, 0}),
                  "dv overlaps q; an output of attention_bwd must not overlap another tensor");
    });
}

// Numbers from -2 to 2, and the product by definition.
struct Operand {
    std::vector<std::uint16_t> host;
    gpu::Buffer device;

    Operand(Session& session, std::size_t count, unsigned seed) : host(count), device(session.driver, count * 2) {
        for (std::uint16_t& word : host) {
            seed = seed * 1664525U + 1013904223U;
            word = static_cast<std::uint16_t>(encode(DType::f16, static_cast<int>((seed >> 16) % 5) - 2));
        }
        device.upload(std::as_bytes(std::span(host)));
    }
    double at(std::int64_t index) const { return decode(DType::f16, host[static_cast<std::size_t>(index)]); }
    const void* address() const { return reinterpret_cast<const void*>(device.address()); }
};

// The number of wrong elements of C[b, i, j] = sum of A[b, i, l] B[b, l, j], with these strides, on this card.
int wrong_of_batches(Session& session, const std::array<std::int64_t, 3>& a_strides,
                     const std::array<std::int64_t, 3>& b_strides) {
    constexpr std::int64_t batch = 3, m = 24, n = 40, k = 32;
    const auto span = [](const std::array<std::int64_t, 3>& strides, std::int64_t rows, std::int64_t cols) {
        return static_cast<std::size_t>((batch - 1) * strides[0] + (rows - 1) * strides[1] + (cols - 1) * strides[2] + 1);
    };
    // Nothing follows the matrix that a stride of 0 repeats: a kernel that reads on leaves device memory.
    const Operand a(session, span(a_strides, m, k), 1), b(session, span(b_strides, k, n), 2);
    gpu::Buffer c(session.driver, batch * m * n * 2);
    const Handle handle = session.open();
    Description description("gemm");
    description.tensor("a", AUTOTUNE_F16, {batch, m, k}, {a_strides[0], a_strides[1], a_strides[2]});
    description.tensor("b", AUTOTUNE_F16, {batch, k, n}, {b_strides[0], b_strides[1], b_strides[2]});
    description.tensor("c", AUTOTUNE_F16, {batch, m, n});
    tuned(handle, description, {a.address(), b.address(), reinterpret_cast<const void*>(c.address())}, {1, 0},
          session.stream.handle());
    session.stream.synchronize();
    std::vector<std::uint16_t> got(batch * m * n);
    c.download(std::as_writable_bytes(std::span(got)));
    int wrong = 0;
    for (std::int64_t i = 0; i < batch * m * n; ++i) {
        double sum = 0;
        for (std::int64_t l = 0; l < k; ++l)
            sum += a.at(i / n / m * a_strides[0] + i / n % m * a_strides[1] + l * a_strides[2]) *
                   b.at(i / n / m * b_strides[0] + l * b_strides[1] + i % n * b_strides[2]);
        wrong += decode(DType::f16, got[static_cast<std::size_t>(i)]) == sum ? 0 : 1;
    }
    return wrong;
}

TEST(Repeated, MatricesServeAWholeBatch) {
    fake_test("", [] {
        Session session;
        for (const auto& [a, b] : std::vector<std::pair<std::array<std::int64_t, 3>, std::array<std::int64_t, 3>>>{
                 {{24 * 32, 32, 1}, {0, 40, 1}},      // a weight
                 {{24 * 32, 32, 1}, {0, 1, 32}},      // the same, transposed
                 {{24 * 32, 1, 24}, {0, 40, 1}},      // A transposed: no taller product
                 {{24 * 32 + 8, 32, 1}, {0, 40, 1}},  // gaps between batches
                 {{0, 32, 1}, {32 * 40, 40, 1}},      // one A
                 {{0, 32, 1}, {0, 40, 1}},            // one of each
                 {{0, 33, 1}, {0, 41, 1}}})           // these rows are not aligned
            EXPECT_EQ(wrong_of_batches(session, a, b), 0) << a[0] << " " << a[1] << " " << b[0] << " " << b[1];
    });
}

TEST(Repeated, OutputsAreRefused) {
    fake_test("", [] {
        Session session;
        const Handle handle = session.open();
        const auto refusal = [&](const Description& description) -> std::string {
            const autotune_problem problem = description.problem();
            EXPECT_EQ(autotune_supports(handle.get(), &problem), AUTOTUNE_INVALID_ARGUMENT);
            autotune_plan plan = nullptr;
            EXPECT_EQ(autotune_plan_create(handle.get(), &problem, &plan), AUTOTUNE_INVALID_ARGUMENT);
            return autotune_last_error(nullptr);
        };
        Description product("gemm"), rows("softmax"), heads("attention"), sum("add");
        product.tensor("a", AUTOTUNE_F16, {3, 8, 8})
            .tensor("b", AUTOTUNE_F16, {3, 8, 8})
            .tensor("c", AUTOTUNE_F16, {3, 8, 8}, {0, 8, 1});
        EXPECT_EQ(refusal(product),
                  "tensor c repeats one matrix for all of the batch (a stride of 0), but each is written; give 64 or more");
        rows.tensor("x", AUTOTUNE_F16, {8, 64}).tensor("y", AUTOTUNE_F16, {8, 64}, {0, 1});
        EXPECT_EQ(refusal(rows), "tensor y repeats one row (a stride of 0), but each row is written; give 64 or more");
        for (const char* name : {"q", "k", "v"}) heads.tensor(name, AUTOTUNE_F16, {1, 4, 8, 64});
        heads.tensor("o", AUTOTUNE_F16, {1, 4, 8, 64}, {2048, 0, 64, 1});
        EXPECT_EQ(refusal(heads),
                  "tensor o: its strides let elements overlap; give strides that keep batches, heads and rows apart");
        sum.tensor("a", AUTOTUNE_F16, {8, 64}).tensor("b", AUTOTUNE_F16, {8, 64}).tensor("c", AUTOTUNE_F16, {8, 64}, {0, 1});
        EXPECT_THAT(refusal(sum), AllOf(HasSubstr("tensor c"), HasSubstr("contiguous")));
    });
}

TEST(Batches, OfTwoToThe31AndMoreAreRefusedAndNotCut) {
    fake_test("", [] {
        Session session;
        const Handle handle = session.open();
        const gpu::Buffer memory(session.driver, 4096);
        autotune_gemm_problem problem = gemm(1, 1, 1);
        const float one = 1, zero = 0;
        const auto address = reinterpret_cast<void*>(memory.address());
        for (const std::int64_t batch : {std::int64_t{1} << 31, (std::int64_t{1} << 32) + 1, INT64_MAX}) {
            problem.batch = batch;
            const std::string expected = "batch is " + std::to_string(batch) + "; give a whole number from 0 to 2147483647";
            autotune_plan plan = nullptr;
            EXPECT_EQ(autotune_gemm_plan(handle.get(), &problem, &plan), AUTOTUNE_INVALID_ARGUMENT) << batch;
            EXPECT_EQ(autotune_last_error(nullptr), expected);
            EXPECT_EQ(
                autotune_tuned_gemm(handle.get(), &problem, &one, address, address, &zero, address, session.stream.handle()),
                AUTOTUNE_INVALID_ARGUMENT);
            EXPECT_EQ(autotune_last_error(nullptr), expected);
        }
    });
}

// The program was built with a newer or an older header.
TEST(PlanInfo, FillsStructsOfOtherVersions) {
    fake_test("", [] {
        Session session;
        const Handle handle = session.open();
        const GemmPlan plan(handle, gemm(8, 8, 8));
        struct Newer {
            autotune_plan_facts known;
            std::uint64_t unknown[2];
        } facts;
        std::memset(&facts, 0xff, sizeof(facts));
        facts.known.struct_size = sizeof(facts);
        ASSERT_EQ(autotune_plan_info(plan.get(), &facts.known), AUTOTUNE_OK) << autotune_last_error(nullptr);
        EXPECT_EQ(facts.known.struct_size, sizeof(facts));
        EXPECT_STREQ(facts.known.candidate, plan.candidate());
        EXPECT_EQ(facts.unknown[0], 0);
        EXPECT_EQ(facts.unknown[1], 0);
        std::vector<std::size_t> taken;
        for (std::size_t size = 0; size <= sizeof(autotune_plan_facts); ++size) {
            autotune_plan_facts some;
            std::memset(&some, 0xff, sizeof(some));
            some.struct_size = size;
            if (autotune_plan_info(plan.get(), &some) == AUTOTUNE_OK) {
                taken.push_back(size);
                const auto* const bytes = reinterpret_cast<const unsigned char*>(&some);
                for (std::size_t i = size; i < sizeof(some); ++i) EXPECT_EQ(bytes[i], 0xff) << size << " " << i;
            } else {
                EXPECT_STREQ(autotune_last_error(nullptr), "facts.struct_size must be sizeof(autotune_plan_facts)");
            }
        }
        EXPECT_EQ(taken,
                  (std::vector<std::size_t>{offsetof(autotune_plan_facts, recorded_rival_us),
                                            offsetof(autotune_plan_facts, candidate_when_zero), sizeof(autotune_plan_facts)}));
        facts.known.struct_size = 1 << 20;
        EXPECT_EQ(autotune_plan_info(plan.get(), &facts.known), AUTOTUNE_INVALID_ARGUMENT);
    });
}

}  // namespace
}  // namespace autotune::runtime::overlap_fake_test
