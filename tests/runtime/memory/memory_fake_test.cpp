#include <gtest/gtest.h>

#include <fstream>
#include <functional>
#include <optional>
#include <thread>

#include "db/store/store.h"
#include "src/records/json_line.h"
#include "tests/runtime/fake_session.h"
#include "tests/support/interposer/interposer.h"

namespace autotune::runtime::memory_fake_test {
namespace {

// Every allocation from the n-th on fails, for every n of a call: the call returns AUTOTUNE_OUT_OF_MEMORY with a message, or
// succeeds without the memory, and the object that it was called on still works.

fake::RunOptions preloaded(const std::string& pin = "gemm/simt") {
    return {.timeout_s = 110, .environment = {{"LD_PRELOAD", fake::interposer_library()}, {"AUTOTUNE_PIN", pin}}};
}

struct Refusals {
    int out_of_memory = 0;
    int other = 0;          // failures other than AUTOTUNE_OUT_OF_MEMORY
    int without_words = 0;  // failures without a message
};

// Makes calls with fewer and fewer refusals, `step` allocations at a time, until none is hit. `prepare` makes the object of one
// call.
Refusals refuse_every_allocation(const std::function<std::function<autotune_status()>()>& prepare, long step = 1) {
    Refusals seen;
    for (long n = 0;; n += step) {
        const std::function<autotune_status()> call = prepare();
        autotune::test::fail_from(n);
        const autotune_status status = call();
        const char* const words = autotune_last_error(nullptr);
        const long refused = autotune::test::stop_failing();
        if (status == AUTOTUNE_OUT_OF_MEMORY) ++seen.out_of_memory;
        if (status != AUTOTUNE_OUT_OF_MEMORY && status != AUTOTUNE_OK) ++seen.other;
        if (status != AUTOTUNE_OK && *words == '\0') ++seen.without_words;
        if (refused == 0) {
            EXPECT_EQ(status, AUTOTUNE_OK) << words;
            return seen;
        }
    }
}

// A step with which about `tries` of a call's allocations are refused. Refusing all would take minutes for a call that allocates
// 50,000 times.
long step_for(const std::function<std::function<autotune_status()>()>& prepare, long tries) {
    const std::function<autotune_status()> call = prepare();
    autotune::test::start_counting();
    EXPECT_EQ(call(), AUTOTUNE_OK);
    const long allocations = autotune::test::stop_counting().allocations;
    std::printf("%ld allocations\n", allocations);
    return (allocations / tries) | 1;
}

void expect_only_out_of_memory(const Refusals& seen, int at_least) {
    EXPECT_GE(seen.out_of_memory, at_least);
    EXPECT_EQ(seen.other, 0);
    EXPECT_EQ(seen.without_words, 0);
    std::printf("%d times out of memory\n", seen.out_of_memory);
}

TEST(OutOfMemory, OfCreateIsAStatus) {
    if (!autotune::test::kCanCount) GTEST_SKIP() << "a sanitizer has an allocator of its own";
    fake_test({"", preloaded()}, [&] {
        autotune_handle handle = nullptr;
        expect_only_out_of_memory(refuse_every_allocation([&] {
                                      autotune_destroy(handle);
                                      handle = nullptr;
                                      return [&] { return autotune_create(&handle, nullptr); };
                                  }),
                                  20);
        autotune_destroy(handle);
    });
}

// Only every 23rd allocation is refused, because there are thousands.
TEST(OutOfMemory, OfTheFirstPlanIsAStatus) {
    if (!autotune::test::kCanCount) GTEST_SKIP() << "a sanitizer has an allocator of its own";
    fake_test({"", preloaded("")}, [&] {
        Session session;
        session.remember("96x64x64", "any");
        const autotune_gemm_problem problem = gemm(64, 64, 64);
        std::optional<Handle> handle;
        autotune_plan plan = nullptr;
        const auto prepare = [&] {
            autotune_plan_destroy(plan);
            plan = nullptr;
            handle.emplace(session.open());
            return [&] { return autotune_gemm_plan(handle->get(), &problem, &plan); };
        };
        expect_only_out_of_memory(refuse_every_allocation(prepare, step_for(prepare, 300)), 200);
        autotune_plan_destroy(plan);
    });
}

// After each failure there is memory again, and the same handle finds its row. A test of tests/db refuses each allocation that
// reading a row makes.
TEST(OutOfMemory, OfReadingShippedRowsIsAStatus) {
    if (!autotune::test::kCanCount) GTEST_SKIP() << "a sanitizer has an allocator of its own";
    fake_test({"", preloaded("")}, [&] {
        Session session;
        const test::TempFolder shipped;
        std::ofstream rows(shipped / "rows.jsonl");
        for (const char* shape : {"96x64x64", "64x64x64", "64x96x64"}) {
            const Problem problem = session.catalogue.problem({"hgemm", shape, {{"beta", "any"}}});
            rows << records::to_json_line(test::winner_of(session.catalogue, problem, session.driver->device(0))) << "\n";
        }
        rows.close();
        Options options;
        const std::string folder = shipped / ".";
        options.shipped = folder.c_str();
        const autotune_gemm_problem problem = gemm(64, 64, 64);
        std::optional<Handle> handle;
        autotune_plan plan = nullptr;
        const auto expect_shipped = [&] {
            autotune_plan_destroy(plan);
            plan = nullptr;
            ASSERT_EQ(autotune_gemm_plan(handle->get(), &problem, &plan), AUTOTUNE_OK);
            autotune_plan_facts about = {};
            about.struct_size = sizeof(about);
            ASSERT_EQ(autotune_plan_info(plan, &about), AUTOTUNE_OK);
            ASSERT_EQ(about.origin, AUTOTUNE_ORIGIN_SHIPPED);
            autotune_plan_destroy(plan);
            plan = nullptr;
        };
        const auto prepare = [&] {
            if (handle) expect_shipped();
            handle.emplace(options);
            return [&] { return autotune_gemm_plan(handle->get(), &problem, &plan); };
        };
        expect_only_out_of_memory(refuse_every_allocation(prepare, step_for(prepare, 100)), 50);
        expect_shipped();
    });
}

TEST(OutOfMemory, OfAPlanLeavesTheHandleUsable) {
    if (!autotune::test::kCanCount) GTEST_SKIP() << "a sanitizer has an allocator of its own";
    fake_test(
        {"", preloaded()},
        [&] {
            Session session;
            const Handle handle = session.open();
            const autotune_gemm_problem problem = gemm(64, 64, 64);
            autotune_plan plan = nullptr;
            expect_only_out_of_memory(refuse_every_allocation([&] {
                                          autotune_plan_destroy(plan);
                                          return [&] { return autotune_gemm_plan(handle.get(), &problem, &plan); };
                                      }),
                                      100);
            const GemmData data(session.driver, problem);
            const float alpha = 1, beta = 0;
            EXPECT_EQ(autotune_gemm(plan, &alpha, data.a(), data.b(), &beta, data.c(), nullptr, 0, session.stream.handle()),
                      AUTOTUNE_OK);
            session.stream.synchronize();
            EXPECT_EQ(data.wrong(1, 0), 0);
            autotune_plan_destroy(plan);
        },
        [&](const fake::Sandbox& sandbox) { EXPECT_EQ(sandbox.count_calls("BUG"), 0); });
}

TEST(OutOfMemory, OfTheOneCallFormIsAStatus) {
    if (!autotune::test::kCanCount) GTEST_SKIP() << "a sanitizer has an allocator of its own";
    fake_test({"", preloaded("gemm/mma block_k=32 split_k=2")}, [&] {
        Session session;
        const autotune_gemm_problem problem = gemm(64, 64, 256);
        const GemmData data(session.driver, problem);
        std::optional<Handle> handle;
        const float alpha = 1, beta = 0;
        expect_only_out_of_memory(refuse_every_allocation([&] {
                                      handle.emplace(session.open());
                                      return [&] {
                                          return autotune_tuned_gemm(handle->get(), &problem, &alpha, data.a(), data.b(), &beta,
                                                                     data.c(), session.stream.handle());
                                      };
                                  }),
                                  100);
    });
}

TEST(OutOfMemory, OfABackgroundCallLeavesItsStandInAndTriesAgain) {
    if (!autotune::test::kCanCount) GTEST_SKIP() << "a sanitizer has an allocator of its own";
    fake_test({"", preloaded("")}, [&] {
        Session session;
        const Handle handle = session.open(AUTOTUNE_ON_MISS_BACKGROUND);
        autotune_gemm_problem problem = gemm(8, 64, 64);
        const GemmData data(session.driver, gemm(8192, 64, 64));
        const float alpha = 1, beta = 0;
        const auto call = [&] {
            return autotune_tuned_gemm(handle.get(), &problem, &alpha, data.a(), data.b(), &beta, data.c(),
                                       session.stream.handle());
        };
        expect_only_out_of_memory(refuse_every_allocation([&] {
                                      problem.m += 8;  // each call is the first for its problem
                                      return call;
                                  }),
                                  10);
        for (problem.m = 16; problem.m <= 512; problem.m += 8) ASSERT_EQ(call(), AUTOTUNE_OK);
        ASSERT_EQ(autotune_finish(handle.get()), AUTOTUNE_OK);
        for (problem.m = 16; problem.m <= 512; problem.m += 8) {  // no call waits forever for an instance that no thread makes
            autotune_plan plan = nullptr;
            ASSERT_EQ(autotune_gemm_plan(handle.get(), &problem, &plan), AUTOTUNE_OK);
            autotune_plan_destroy(plan);
        }
    });
}

TEST(OutOfMemory, OfARefreshLeavesTheHandleUsable) {
    if (!autotune::test::kCanCount) GTEST_SKIP() << "a sanitizer has an allocator of its own";
    fake_test({"", preloaded("")}, [&] {
        Session session;
        session.remember("64x64x64", "any");
        const Handle handle = session.open();
        const autotune_gemm_problem problem = gemm(64, 64, 64);
        const auto expect_winner = [&] { EXPECT_EQ(GemmPlan(handle, problem).origin(), AUTOTUNE_ORIGIN_EXACT); };
        expect_winner();
        expect_only_out_of_memory(refuse_every_allocation([&] { return [&] { return autotune_refresh(handle.get()); }; }), 0);
        expect_winner();
    });
}

// Other threads make the kernels. This thread looks up which ones are needed.
TEST(OutOfMemory, OfAWarmIsAStatus) {
    if (!autotune::test::kCanCount) GTEST_SKIP() << "a sanitizer has an allocator of its own";
    fake_test(
        {"", preloaded("")},
        [&] {
            Session session;
            std::optional<Handle> handle;
            const autotune_gemm_problem problem = gemm(3, 64, 64);
            std::size_t kernels = 0;
            const auto prepare = [&] {
                handle.emplace(session.open());  // a handle that has computed nothing yet
                return [&] { return autotune_gemm_warm(handle->get(), &problem, &kernels); };
            };
            expect_only_out_of_memory(refuse_every_allocation(prepare, step_for(prepare, 60)), 40);
            EXPECT_GE(kernels, 1U);
        },
        [&](const fake::Sandbox& sandbox) { EXPECT_EQ(sandbox.count_calls("BUG"), 0); });
}

TEST(OutOfMemory, OfALaunchCannotBe) {
    if (!autotune::test::kCanCount) GTEST_SKIP() << "a sanitizer has an allocator of its own";
    fake_test({"", preloaded()}, [&] {
        Session session;
        const Handle handle = session.open();
        const autotune_gemm_problem problem = gemm(64, 64, 64);
        const GemmData data(session.driver, problem);
        const GemmPlan plan(handle, problem);
        const float alpha = 1, beta = 0;
        const auto launch = [&](const void* a) {
            return autotune_gemm(plan.get(), &alpha, a, data.b(), &beta, data.c(), nullptr, 0, session.stream.handle());
        };
        autotune::test::fail_from(0);
        const autotune_status launched = launch(data.a());
        const autotune_status refused = launch(static_cast<const char*>(data.a()) + 1);
        autotune::test::stop_failing();
        EXPECT_EQ(launched, AUTOTUNE_OK);
        EXPECT_TRUE(refused == AUTOTUNE_MISALIGNED || refused == AUTOTUNE_OUT_OF_MEMORY) << refused;
        session.stream.synchronize();
        EXPECT_EQ(data.wrong(1, 0), 0);
    });
}

TEST(OutOfMemory, OfFlushedMissesKeepsThem) {
    if (!autotune::test::kCanCount) GTEST_SKIP() << "a sanitizer has an allocator of its own";
    fake_test({"", preloaded("")}, [&] {
        Session session;
        Options options;
        options.record_misses = 1;
        const Handle handle(options);
        const GemmPlan plan(handle, gemm(64, 64, 64));
        expect_only_out_of_memory(
            refuse_every_allocation([&] { return [&] { return autotune_flush_misses(handle.get()); }; }, 29), 10);
        EXPECT_EQ(db::Store::open({.path = session.database()}).misses().size(), 1U);
    });
}

// Building the message needs memory: the status is that of the refusal, or reports that the message could not be built.
TEST(OutOfMemory, OfARefusalIsThatRefusalOrOutOfMemory) {
    if (!autotune::test::kCanCount) GTEST_SKIP() << "a sanitizer has an allocator of its own";
    fake_test({"", preloaded()}, [&] {
        Session session;
        const Handle handle = session.open();
        const autotune_gemm_problem bad = gemm(-1, 64, 64);
        std::thread([&] {  // The thread never failed before, so its first failure needs memory, too.
            session.context.make_current();
            autotune_plan plan = nullptr;
            autotune::test::fail_from(0);
            const autotune_status status = autotune_gemm_plan(handle.get(), &bad, &plan);
            const autotune_status refused = autotune_gemm_plan(nullptr, &bad, &plan);
            const char* const words = autotune_last_error(nullptr);
            autotune::test::stop_failing();
            EXPECT_EQ(status, AUTOTUNE_OUT_OF_MEMORY);
            EXPECT_EQ(refused, AUTOTUNE_INVALID_ARGUMENT);
            EXPECT_STREQ(words, "out of memory");
        })
            .join();
    });
}

}  // namespace
}  // namespace autotune::runtime::memory_fake_test
