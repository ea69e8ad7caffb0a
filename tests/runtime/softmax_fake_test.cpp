// Softmax from a program, through the interface of every op: strides, an output that is left out, a call in place.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/runtime/fake_session.h"

namespace autotune::runtime::softmax_fake_test {
namespace {

autotune_tensor rows(const char* name, std::vector<std::int64_t> extents, autotune_dtype type) {
    autotune_tensor made = {};
    made.struct_size = sizeof(made);
    made.name = name;
    made.type = type;
    made.rank = static_cast<int>(extents.size());
    std::copy(extents.begin(), extents.end(), made.extents);
    return made;
}

struct Softmax {
    std::vector<autotune_tensor> tensors;

    explicit Softmax(bool has_lse) {
        tensors = {rows("x", {4, 8, 1000}, AUTOTUNE_BF16), rows("y", {4, 8, 1000}, AUTOTUNE_BF16)};
        if (has_lse) tensors.push_back(rows("lse", {4, 8}, AUTOTUNE_F32));
    }
    autotune_problem problem() const { return {sizeof(autotune_problem), "softmax", tensors.data(), tensors.size(), nullptr, 0}; }
};

TEST(SoftmaxByDescription, RunsWithAndWithoutItsSecondOutput) {
    Sandbox sandbox;
    if (!in_fake_process(sandbox)) return;
    Session session;
    const Handle handle = session.open();
    gpu::Buffer x(session.driver, 64000), lse(session.driver, 128);
    for (const bool has_lse : {false, true}) {
        const Softmax softmax(has_lse);
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
}

TEST(SoftmaxByDescription, RefusesColumnsWithGaps) {
    Sandbox sandbox;
    if (!in_fake_process(sandbox)) return;
    Session session;
    const Handle handle = session.open();
    Softmax softmax(false);
    const std::int64_t strides[] = {8, 1, 32};
    std::copy(std::begin(strides), std::end(strides), softmax.tensors[0].strides);
    const autotune_problem problem = softmax.problem();
    EXPECT_EQ(autotune_supports(handle.get(), &problem), AUTOTUNE_INVALID_ARGUMENT);
    EXPECT_THAT(autotune_last_error(nullptr), HasSubstr("not contiguous"));
}

}  // namespace
}  // namespace autotune::runtime::softmax_fake_test
