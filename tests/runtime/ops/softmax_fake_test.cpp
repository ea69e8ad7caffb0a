// Softmax from a program, through the interface for every op: strides, an omitted output, a call in place.
#include <gtest/gtest.h>

#include <initializer_list>

#include "tests/runtime/fake_session.h"

namespace autotune::runtime::softmax_fake_test {
namespace {

Description softmax_of(bool has_lse, std::initializer_list<std::int64_t> strides_of_x = {}) {
    Description softmax("softmax");
    softmax.tensor("x", AUTOTUNE_BF16, {4, 8, 1000}, strides_of_x).tensor("y", AUTOTUNE_BF16, {4, 8, 1000});
    if (has_lse) softmax.tensor("lse", AUTOTUNE_F32, {4, 8});
    return softmax;
}

TEST(SoftmaxByDescription, RunsWithAndWithoutItsSecondOutput) {
    fake_test("", [] {
        Session session;
        const Handle handle = session.open();
        gpu::Buffer x(session.driver, 64000), lse(session.driver, 128);
        for (const bool has_lse : {false, true}) {
            const Description softmax = softmax_of(has_lse);
            const autotune_problem problem = softmax.problem();
            ASSERT_EQ(autotune_supports(handle.get(), &problem), AUTOTUNE_OK) << autotune_last_error(nullptr);
            autotune_plan plan = nullptr;
            ASSERT_EQ(autotune_plan_create(handle.get(), &problem, &plan), AUTOTUNE_OK) << autotune_last_error(nullptr);
            EXPECT_THAT(autotune_plan_candidate(plan), HasSubstr("softmax/"));
            const auto address = [](const gpu::Buffer& buffer) { return reinterpret_cast<const void*>(buffer.address()); };
            const void* addresses[] = {address(x), address(x), has_lse ? address(lse) : nullptr};
            autotune_call call = {sizeof(autotune_call), addresses, 3, nullptr, 0, nullptr, 0};
            EXPECT_EQ(autotune_run(plan, &call, session.stream.handle()), AUTOTUNE_OK) << autotune_last_error(nullptr);
            autotune_plan_destroy(plan);
        }
    });
}

TEST(SoftmaxByDescription, RefusesColumnsWithGaps) {
    fake_test("", [] {
        Session session;
        const Handle handle = session.open();
        const Description softmax = softmax_of(false, {8, 1, 32});
        const autotune_problem problem = softmax.problem();
        EXPECT_EQ(autotune_supports(handle.get(), &problem), AUTOTUNE_INVALID_ARGUMENT);
        EXPECT_THAT(autotune_last_error(nullptr), HasSubstr("not contiguous"));
    });
}

}  // namespace
}  // namespace autotune::runtime::softmax_fake_test
