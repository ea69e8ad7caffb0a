// Tests of how much device and host memory the library keeps.
#include <gtest/gtest.h>
#include <malloc.h>

#include <chrono>
#include <thread>

#include "tests/runtime/fake_session.h"
#include "tests/support/sanitizer.h"

namespace autotune::runtime::bounds_fake_test {
namespace {

using Clock = std::chrono::steady_clock;

constexpr const char* kDividesK = "gemm/mma block_k=32 split_k=2";

// Products with scratch memory, each captured once.
struct Captures {
    Session session;
    Handle handle = session.open();
    autotune_gemm_problem problem = gemm(64, 64, 256);
    GemmData data{session.driver, problem};

    gpu::Graph capture() {
        return session.capture([&] { run_tuned(session, handle, problem, data); });
    }
    std::size_t used() const { return std::size_t{143167} * (std::size_t{1} << 20) - session.context.free_bytes(); }
    // Waits for the library's thread.
    bool comes_back_to(std::size_t bytes) const {
        const auto begun = Clock::now();
        while (used() != bytes && Clock::now() - begun < std::chrono::seconds(10))
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
        return used() == bytes;
    }
};

TEST(GraphMemory, IsGivenBackWhenTheGraphsAreGoneWithoutAnotherCall) {
    fake_test(
        {"", {.environment = {{"AUTOTUNE_PIN", kDividesK}}}},
        [] {
            Captures of;
            run_tuned(of.session, of.handle, of.problem, of.data);
            const std::size_t before = of.used();
            std::size_t of_one = 0;
            {
                std::vector<gpu::Graph> graphs;
                for (int i = 0; i < 100; ++i) {
                    graphs.push_back(of.capture());
                    if (i == 0) of_one = of.used() - before;
                }
                EXPECT_GT(of_one, 0U);
                EXPECT_EQ(of.used() - before, 100 * of_one);
                for (const gpu::Graph& each : graphs) of.session.replay(each);
                EXPECT_EQ(of.data.wrong(1, 0), 0);
            }
            EXPECT_TRUE(of.comes_back_to(before)) << of.used() - before << " bytes are kept";
        },
        [](const fake::Sandbox& sandbox) { EXPECT_EQ(sandbox.count_calls("BUG"), 0); });
}

TEST(GraphMemory, IsThatOfOneGraphHoweverManyAreMadeOneAfterTheOther) {
    fake_test({"", {.environment = {{"AUTOTUNE_PIN", kDividesK}}}}, [] {
        Captures of;
        run_tuned(of.session, of.handle, of.problem, of.data);
        const std::size_t before = of.used();
        std::size_t most = 0;
        for (int i = 0; i < 100; ++i) {
            const gpu::Graph graph = of.capture();
            most = std::max(most, of.used() - before);
        }
        EXPECT_LE(most, std::size_t{4} << 20);
        EXPECT_TRUE(of.comes_back_to(before));
    });
}

// The driver reports the graph's end when the handle is gone.
TEST(GraphMemory, OfAGraphThatOutlivesTheHandleIsFreedWithTheHandle) {
    fake_test(
        {"", {.environment = {{"AUTOTUNE_PIN", kDividesK}}}},
        [] {
            std::optional<Captures> of(std::in_place);
            run_tuned(of->session, of->handle, of->problem, of->data);
            std::optional<gpu::Graph> graph(of->capture());
            of->handle = Handle();
            graph.reset();
        },
        [](const fake::Sandbox& sandbox) {
            EXPECT_EQ(sandbox.count_calls("BUG"), 0);
            EXPECT_EQ(sandbox.count_calls("leak"), 0);
        });
}

// A capture on another thread continues while memory is freed.
TEST(GraphMemory, IsGivenBackBesideAnotherCapture) {
    fake_test({"", {.environment = {{"AUTOTUNE_PIN", kDividesK}}}}, [] {
        Captures of;
        run_tuned(of.session, of.handle, of.problem, of.data);
        const std::size_t before = of.used();
        std::optional<gpu::Graph> first(of.capture());
        const gpu::Graph second = of.session.capture([&] {
            first.reset();
            EXPECT_TRUE(of.comes_back_to(before));
            run_tuned(of.session, of.handle, of.problem, of.data);
        });
        of.session.replay(second);
        EXPECT_EQ(of.data.wrong(1, 0), 0);
    });
}

double kept_mib() {
    return static_cast<double>(::mallinfo2().uordblks + ::mallinfo2().hblkhd) / (1 << 20);
}

// One weight matrix, and one call per row count: there are few kernels but many plans.
TEST(HostMemory, OfTwentyThousandProblemsIsBounded) {
    if (autotune::test::kIsSanitized) GTEST_SKIP() << "a sanitizer's allocator says nothing of its use";
    fake_test({"", {.timeout_s = 110}}, [&] {
        Session session;
        const Handle handle = session.open();
        const gpu::Buffer data(session.driver, std::size_t{64} << 20);
        void* const pointer = reinterpret_cast<void*>(data.address());
        void* const result = static_cast<char*>(pointer) + (std::size_t{32} << 20);
        const auto call = [&](int m) {
            // The product is so large that the scripted driver computes nothing.
            autotune_gemm_problem problem = gemm(2100 + m, 136, 72);
            const float one = 1, zero = 0;
            return autotune_tuned_gemm(handle.get(), &problem, &one, pointer, pointer, &zero, result, session.stream.handle());
        };
        for (int m = 0; m < 100; ++m) ASSERT_EQ(call(m), AUTOTUNE_OK);
        const double before = kept_mib();
        for (int m = 100; m < 20'000; ++m) ASSERT_EQ(call(m), AUTOTUNE_OK) << autotune_last_error(handle.get());
        const double grown = kept_mib() - before;
        std::printf("%.1f MiB more than for a hundred problems\n", grown);
        EXPECT_LT(grown, 28);
        for (int m = 0; m < 20; ++m) EXPECT_EQ(call(m), AUTOTUNE_OK);  // what left comes again
    });
}

// The number of bytes that a plan reports is compared with malloc's.
TEST(HostMemory, OfAPlanIsAboutWhatItSays) {
    if (autotune::test::kIsSanitized) GTEST_SKIP() << "a sanitizer's allocator says nothing of its use";
    fake_test("", [&] {
        Session session;
        const Handle handle = session.open(AUTOTUNE_ON_MISS_NOT_PLANNED);  // nothing leaves
        const auto plan = [&](int m) { GemmPlan(handle, gemm(2100 + m, 136, 72)); };
        for (int m = 0; m < 600; ++m) plan(m);
        const double before = kept_mib();
        for (int m = 600; m < 1600; ++m) plan(m);
        const double kib = (kept_mib() - before) * 1024 / 1000;
        std::printf("%.1f KiB a plan\n", kib);
        EXPECT_LT(kib, 16);
        EXPECT_EQ(autotune_tuned_gemm(nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr),
                  AUTOTUNE_INVALID_ARGUMENT);
    });
}

TEST(Refresh, WithoutAChangeKeepsThePlanAndCostsNothing) {
    fake_test("", [] {
        Session session;
        session.remember("64x64x64", "any");
        const Handle handle = session.open();
        const auto refresh_and_plan = [&] {
            ASSERT_EQ(autotune_refresh(handle.get()), AUTOTUNE_OK);
            EXPECT_EQ(GemmPlan(handle, gemm(64, 64, 64)).origin(), AUTOTUNE_ORIGIN_EXACT);
        };
        // A file that was just written may be written again without a new time.
        std::this_thread::sleep_for(std::chrono::milliseconds(150));
        for (int i = 0; i < 10; ++i) refresh_and_plan();
        const double before = kept_mib();
        const auto begun = Clock::now();
        for (int i = 0; i < 1000; ++i) refresh_and_plan();
        const std::chrono::duration<double, std::milli> took = Clock::now() - begun;
        if (autotune::test::kIsSanitized) return;
        EXPECT_LT(took.count(), 1000) << "1 ms each on a busy machine; 42 before";
        EXPECT_LT((kept_mib() - before) * 1024, 64);
    });
}

TEST(Refresh, WithAChangeFreesWhatItReplaces) {
    fake_test("", [] {
        Session session;
        const Handle handle = session.open();
        const auto change_and_plan = [&](int i) {
            session.remember(std::to_string(64 + 8 * (i % 4)) + "x64x64", "any");
            ASSERT_EQ(autotune_refresh(handle.get()), AUTOTUNE_OK);
            const autotune_gemm_problem problem = gemm(64 + 8 * (i % 4), 64, 64);
            EXPECT_EQ(GemmPlan(handle, problem).origin(), AUTOTUNE_ORIGIN_EXACT) << i;
        };
        for (int i = 0; i < 8; ++i) change_and_plan(i);
        const double before = kept_mib();
        for (int i = 0; i < 60; ++i) change_and_plan(i);
        if (autotune::test::kIsSanitized) return;
        EXPECT_LT((kept_mib() - before) * 1024, 128);
    });
}

// Both writes happen within one step of the file system's clock.
TEST(Refresh, SeesAChangeRightAfterAnother) {
    fake_test("", [] {
        Session session;
        session.remember("8x64x64", "any");
        const Handle handle = session.open();
        for (int m = 16; m <= 160; m += 8) {
            EXPECT_NE(GemmPlan(handle, gemm(m, 64, 64)).origin(), AUTOTUNE_ORIGIN_EXACT);
            ASSERT_EQ(autotune_refresh(handle.get()), AUTOTUNE_OK);
            session.remember(std::to_string(m) + "x64x64", "any");
            ASSERT_EQ(autotune_refresh(handle.get()), AUTOTUNE_OK);
            EXPECT_EQ(GemmPlan(handle, gemm(m, 64, 64)).origin(), AUTOTUNE_ORIGIN_EXACT) << m;
        }
    });
}

// The file is replaced by one with another inode.
TEST(Refresh, SeesADatabaseThatWasReplaced) {
    fake_test("", [] {
        Session session;
        session.remember("64x64x64", "any");
        const Handle handle = session.open();
        EXPECT_EQ(GemmPlan(handle, gemm(64, 64, 64)).origin(), AUTOTUNE_ORIGIN_EXACT);
        const std::string other = session.database() + ".other";
        std::filesystem::rename(session.database(), other);
        session.remember("96x64x64", "any");
        ASSERT_EQ(autotune_refresh(handle.get()), AUTOTUNE_OK);
        EXPECT_NE(GemmPlan(handle, gemm(64, 64, 64)).origin(), AUTOTUNE_ORIGIN_EXACT);
        EXPECT_EQ(GemmPlan(handle, gemm(96, 64, 64)).origin(), AUTOTUNE_ORIGIN_EXACT);
    });
}

// Plans that the program made stay, because no other plan may be made.
TEST(OnMiss, NotPlannedKeepsEveryPlan) {
    fake_test("", [] {
        Session session;
        const Handle handle = session.open(AUTOTUNE_ON_MISS_NOT_PLANNED);
        const gpu::Buffer data(session.driver, std::size_t{64} << 20);
        void* const pointer = reinterpret_cast<void*>(data.address());
        void* const result = static_cast<char*>(pointer) + (std::size_t{32} << 20);
        const auto problem = [](int m) { return gemm(2100 + m, 136, 72); };
        for (int m = 0; m < 3000; ++m) GemmPlan(handle, problem(m));
        for (int m = 0; m < 3000; m += 100)
            EXPECT_EQ(status_of([&] {
                          tuned_gemm(handle, problem(m), {pointer, pointer, result}, session.stream.handle());
                      }),
                      AUTOTUNE_OK)
                << m;
    });
}

}  // namespace
}  // namespace autotune::runtime::bounds_fake_test
