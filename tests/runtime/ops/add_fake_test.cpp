#include <gtest/gtest.h>

#include "db/store/store.h"
#include "tests/runtime/fake_session.h"
#include "tests/runtime/ops/add_data.h"
#include "tests/support/interposer/interposer.h"

namespace autotune::runtime::add_fake_test {
namespace {

using test::add;
using test::AddData;
using ::testing::ElementsAre;

// A plan with its data and a stream.
struct Ready {
    explicit Ready(const autotune_add_problem& problem) : data(session.driver, problem), plan(handle, problem) {}
    autotune_status run(const void* a, const void* b, void* c) const {
        return status_of([&] { plan.run(a, b, c, session.stream.handle()); });
    }
    int wrong_after(std::size_t array) const {
        session.stream.synchronize();
        return data.wrong(array);
    }

    Session session;
    Handle handle = session.open();
    AddData data;
    AddPlan plan;
};

void* moved(void* address, std::ptrdiff_t bytes) {
    return static_cast<char*>(address) + bytes;
}

TEST(AddPlan, AddsEveryTypeWithInfinitiesAndNans) {
    fake_test("", [] {
        for (const autotune_dtype type : {AUTOTUNE_F32, AUTOTUNE_F16, AUTOTUNE_BF16}) {
            const Ready ready(add(1003, type));
            EXPECT_EQ(ready.run(ready.data.a(), ready.data.b(), ready.data.c()), AUTOTUNE_OK);
            EXPECT_EQ(ready.wrong_after(2), 0) << type;
        }
    });
}

TEST(AddPlan, AddsInPlaceOfEitherInput) {
    fake_test("", [] {
        for (const std::size_t target : {0, 1}) {
            const Ready ready(add(1003));
            void* const inputs[] = {ready.data.a(), ready.data.b()};
            EXPECT_EQ(ready.run(inputs[0], inputs[1], inputs[target]), AUTOTUNE_OK);
            EXPECT_EQ(ready.wrong_after(target), 0);
        }
    });
}

TEST(AddPlan, RefusesAnOutputThatLiesPartlyOverAnInput) {
    fake_test("", [] {
        const Ready ready(add(1024));
        void* const a = ready.data.a();
        void* const b = ready.data.b();
        for (const std::ptrdiff_t bytes : {16, 4080, -16, -4080}) {
            EXPECT_EQ(ready.run(a, b, moved(a, bytes)), AUTOTUNE_OVERLAP) << bytes;
            EXPECT_EQ(ready.run(a, b, moved(b, bytes)), AUTOTUNE_OVERLAP) << bytes;
            EXPECT_STREQ(autotune_last_error(ready.handle.get()), "c overlaps b; it may be b itself, or must not overlap it");
        }
        EXPECT_STREQ(autotune_status_string(AUTOTUNE_OVERLAP), "an output overlaps another array");
    });
}

TEST(AddPlan, AllowsAnOutputRightBesideAnInputAndInputsThatOverlap) {
    fake_test("", [] {
        Session session;
        const Handle handle = session.open();
        const AddPlan plan(handle, add(1024));
        const gpu::Buffer memory(session.driver, 3 * 4096);
        char* const base = reinterpret_cast<char*>(memory.address());
        EXPECT_EQ(status_of([&] { plan.run(base, base + 16, base + 8192, session.stream.handle()); }), AUTOTUNE_OK);
        EXPECT_EQ(status_of([&] { plan.run(base, base, base + 4096, session.stream.handle()); }), AUTOTUNE_OK);
    });
}

TEST(AddPlan, RefusesNullAndMisalignedPointersByName) {
    fake_test("", [] {
        const Ready ready(add(1024));
        EXPECT_EQ(ready.run(ready.data.a(), nullptr, ready.data.c()), AUTOTUNE_INVALID_ARGUMENT);
        EXPECT_THAT(autotune_last_error(ready.handle.get()), HasSubstr("b is NULL"));
        EXPECT_EQ(ready.run(moved(ready.data.a(), 4), ready.data.b(), ready.data.c()), AUTOTUNE_MISALIGNED);
        EXPECT_THAT(autotune_last_error(ready.handle.get()), HasSubstr("align_a"));
    });
}

TEST(AddPlan, OfNothingLaunchesNothing) {
    fake_test(
        "",
        [] {
            Session session;
            const Handle handle = session.open();
            const AddPlan plan(handle, add(0));
            EXPECT_EQ(status_of([&] { plan.run(nullptr, nullptr, nullptr, session.stream.handle()); }), AUTOTUNE_OK);
            EXPECT_EQ(status_of([&] { tuned_add(handle, AddProblem(0), {}, session.stream.handle()); }), AUTOTUNE_OK);
        },
        [](const fake::Sandbox& sandbox) { EXPECT_EQ(sandbox.count_calls("cuLaunchKernelEx"), 0); });
}

TEST(AddPlan, IsMadeForTheLongestArraysThereAre) {
    fake_test("", [] {
        Session session;
        const Handle handle = session.open();
        EXPECT_EQ(AddPlan(handle, add(std::int64_t{1} << 40, AUTOTUNE_F16)).origin(), AUTOTUNE_ORIGIN_DEFAULT);
        EXPECT_EQ(status_of([&] { AddPlan(handle, add((std::int64_t{1} << 40) + 1)); }), AUTOTUNE_INVALID_ARGUMENT);
    });
}

TEST(AddPlan, AWinnerOfAnotherLengthServesThisOneInFull) {
    fake_test("", [] {
        Ready ready(add(100003));
        const Problem tuned = ready.session.catalogue.problem({"sadd", "4096", {}});
        const Device device = ready.session.driver->device(0);
        db::Winner winner =
            test::winner_of(ready.session.catalogue, ready.session.catalogue.problem({"hgemm", "64x64x64", {}}), device);
        winner.op = tuned.op;
        winner.class_key = tuned.class_key();
        winner.extents = tuned.extents;
        winner.candidate = test::likely_candidate(ready.session.catalogue, tuned, device);
        winner.template_identity =
            ready.session.catalogue.template_identity(*ready.session.catalogue.find_family(winner.candidate.family));
        winner.evidence.finalists.clear();
        db::Store::open({.path = ready.session.database()}).put(winner);

        const Handle handle = ready.session.open();
        EXPECT_EQ(AddPlan(handle, add(4096)).origin(), AUTOTUNE_ORIGIN_EXACT);
        const AddPlan near(handle, add(100003));
        EXPECT_EQ(near.origin(), AUTOTUNE_ORIGIN_NEAR);
        near.run(ready.data.a(), ready.data.b(), ready.data.c(), ready.session.stream.handle());
        EXPECT_EQ(ready.wrong_after(2), 0);
    });
}

TEST(AddPlan, AndAGemmPlanAreNotMixedUp) {
    fake_test("", [] {
        const Ready ready(add(1024));
        const GemmPlan gemm(ready.handle, test::gemm(64, 64, 64));
        const AddData& data = ready.data;
        EXPECT_EQ(autotune_add(gemm.get(), data.a(), data.b(), data.c(), nullptr), AUTOTUNE_INVALID_ARGUMENT);
        EXPECT_THAT(autotune_last_error(ready.handle.get()), HasSubstr("a plan of op gemm"));
        const float one = 1;
        EXPECT_EQ(autotune_gemm(ready.plan.get(), &one, data.a(), data.b(), &one, data.c(), nullptr, 0, nullptr),
                  AUTOTUNE_INVALID_ARGUMENT);
    });
}

TEST(AddPlan, OfAnotherOpThanThePinTakesItsOwnWinner) {
    fake_test({"", {.environment = {{"AUTOTUNE_PIN", "gemm/mma"}}}}, [] {
        const Ready ready(add(1024));
        EXPECT_EQ(ready.plan.origin(), AUTOTUNE_ORIGIN_DEFAULT);
    });
}

TEST(AddPlan, RunsByTheLaunchAndNothingElse) {
    if (!autotune::test::kCanCount) GTEST_SKIP() << "a sanitizer counts allocations itself";
    fake_test({"", {.environment = {{"LD_PRELOAD", fake::interposer_library()}}}}, [&] {
        const Ready ready(add(1024));
        const AddData& data = ready.data;
        ASSERT_EQ(ready.run(data.a(), data.b(), data.c()), AUTOTUNE_OK);
        autotune::test::start_counting();
        const autotune_status status =
            autotune_add(ready.plan.get(), data.a(), data.b(), data.c(), ready.session.stream.handle());
        const auto counts = autotune::test::stop_counting();
        EXPECT_EQ(status, AUTOTUNE_OK);
        EXPECT_THAT(counts.driver_calls, ElementsAre("cuLaunchKernelEx"));
        EXPECT_EQ(counts.allocations + counts.frees + counts.opens + counts.maps + counts.ioctls, 0);
    });
}

TEST(TunedAdd, TakesAlignmentsFromTheCall) {
    fake_test("", [] {
        Session session;
        const Handle handle = session.open();
        for (const std::size_t offset : {0, 1, 3}) {
            const autotune_add_problem problem = add(777, AUTOTUNE_F16);
            const AddData data(session.driver, problem, offset);
            tuned_add(handle, problem, {data.a(), data.b(), data.c()}, session.stream.handle());
            session.stream.synchronize();
            EXPECT_EQ(data.wrong(), 0) << offset;
        }
    });
}

TEST(TunedAdd, IsCapturedOncePlannedAndRefusesToCompileInACapture) {
    fake_test("", [] {
        Session session;
        const Handle handle = session.open();
        const autotune_add_problem problem = add(500);
        const AddData data(session.driver, problem);
        const auto call = [&] { tuned_add(handle, problem, {data.a(), data.b(), data.c()}, session.stream.handle()); };
        EXPECT_EQ(status_of([&] { session.capture(call); }), AUTOTUNE_NOT_PLANNED);
        const AddPlan plan(handle, problem);
        const gpu::Graph graph = session.capture(call);
        session.replay(graph);
        EXPECT_EQ(data.wrong(), 0);
    });
}

// A loaded gemm kernel must not even be considered for an add.
TEST(TunedAdd, TakesALoadedKernelOfItsOwnOpAlone) {
    fake_test("", [] {
        Session session;
        const Handle handle = session.open(AUTOTUNE_ON_MISS_LOADED_ONLY);
        const GemmPlan gemm(handle, test::gemm(64, 64, 64));
        const autotune_add_problem problem = add(500);
        const AddData data(session.driver, problem);
        const auto call = [&] { tuned_add(handle, problem, {data.a(), data.b(), data.c()}, session.stream.handle()); };
        EXPECT_EQ(status_of(call), AUTOTUNE_NOT_PLANNED);
        const AddPlan other(handle, add(300));
        EXPECT_EQ(status_of(call), AUTOTUNE_OK);
        session.stream.synchronize();
        EXPECT_EQ(data.wrong(), 0);
    });
}

}  // namespace
}  // namespace autotune::runtime::add_fake_test
