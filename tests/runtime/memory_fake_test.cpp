#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <functional>
#include <optional>
#include <thread>

#include "db/json_line.h"
#include "db/store.h"
#include "tests/runtime/session.h"
#include "tests/support/fake/in_fake_process.h"
#include "tests/support/interposer/interposer.h"

namespace autotune::runtime {
namespace {

using autotune::test::in_fake_process;
using fake::Sandbox;
using test::gemm;
using test::GemmData;
using test::Session;

// Every allocation from the n-th on fails, for every n of a call: the call ends with AUTOTUNE_OUT_OF_MEMORY and a sentence, or
// does without the memory that it did not get, and what it was called on still works.

fake::RunOptions preloaded(const std::string& pin = "gemm/simt") {
    return {.timeout_s = 110, .environment = {{"LD_PRELOAD", fake::interposer_library()}, {"AUTOTUNE_PIN", pin}}};
}

struct Refusals {
    int out_of_memory = 0;
    int other = 0;          // any failure but AUTOTUNE_OUT_OF_MEMORY
    int without_words = 0;  // no sentence for a failure
};

// Calls `call` with less and less refused, `step` allocations at a time, until it needs no memory that is refused. `prepare`
// makes what one call is made on.
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

void expect_only_out_of_memory(const Refusals& seen, int at_least) {
    EXPECT_GE(seen.out_of_memory, at_least);
    EXPECT_EQ(seen.other, 0);
    EXPECT_EQ(seen.without_words, 0);
    std::printf("%d times out of memory\n", seen.out_of_memory);
}

TEST(OutOfMemory, OfCreateIsAStatus) {
    if (!autotune::test::kCanCount) GTEST_SKIP() << "a sanitizer has an allocator of its own";
    Sandbox sandbox;
    if (!in_fake_process(sandbox, preloaded())) return;
    autotune_handle handle = nullptr;
    expect_only_out_of_memory(refuse_every_allocation([&] {
                                  autotune_destroy(handle);
                                  handle = nullptr;
                                  return [&] { return autotune_create(&handle, nullptr); };
                              }),
                              20);
    autotune_destroy(handle);
}

// Every 23rd allocation: there are thousands.
TEST(OutOfMemory, OfTheFirstPlanIsAStatus) {
    if (!autotune::test::kCanCount) GTEST_SKIP() << "a sanitizer has an allocator of its own";
    Sandbox sandbox;
    if (!in_fake_process(sandbox, preloaded(""))) return;
    Session session;
    session.remember("96x64x64", "any");
    const autotune_gemm_problem problem = gemm(64, 64, 64);
    std::optional<Handle> handle;
    autotune_plan plan = nullptr;
    expect_only_out_of_memory(refuse_every_allocation(
                                  [&] {
                                      autotune_plan_destroy(plan);
                                      handle.emplace(session.open());
                                      return [&] { return autotune_gemm_plan(handle->get(), &problem, &plan); };
                                  },
                                  23),
                              50);
    autotune_plan_destroy(plan);
}

// After each failure the same handle, with memory again, finds the row that it was looking for. Every 31st allocation: tests/db
// refuses each.
TEST(OutOfMemory, OfReadingShippedRowsIsAStatus) {
    if (!autotune::test::kCanCount) GTEST_SKIP() << "a sanitizer has an allocator of its own";
    Sandbox sandbox;
    if (!in_fake_process(sandbox, preloaded(""))) return;
    Session session;
    const test::TempFolder shipped;
    std::ofstream rows(shipped / "rows.jsonl");
    for (const char* shape : {"96x64x64", "64x64x64", "64x96x64"}) {
        const Problem problem = session.catalogue.problem({"hgemm", shape, {{"beta", "any"}}});
        rows << db::to_json_line(test::winner_of(session.catalogue, problem, session.driver->device(0))) << "\n";
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
    expect_only_out_of_memory(refuse_every_allocation(
                                  [&] {
                                      if (handle) expect_shipped();
                                      handle.emplace(options);
                                      return [&] { return autotune_gemm_plan(handle->get(), &problem, &plan); };
                                  },
                                  31),
                              50);
    expect_shipped();
}

TEST(OutOfMemory, OfAPlanLeavesTheHandleUsable) {
    if (!autotune::test::kCanCount) GTEST_SKIP() << "a sanitizer has an allocator of its own";
    Sandbox sandbox;
    if (!in_fake_process(sandbox, preloaded())) {
        EXPECT_EQ(sandbox.count_calls("BUG"), 0);
        return;
    }
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
    EXPECT_EQ(autotune_gemm(plan, &alpha, data.a(), data.b(), &beta, data.c(), nullptr, 0, session.stream.handle()), AUTOTUNE_OK);
    session.stream.synchronize();
    EXPECT_EQ(data.wrong(1, 0), 0);
    autotune_plan_destroy(plan);
}

TEST(OutOfMemory, OfTheOneCallFormIsAStatus) {
    if (!autotune::test::kCanCount) GTEST_SKIP() << "a sanitizer has an allocator of its own";
    Sandbox sandbox;
    if (!in_fake_process(sandbox, preloaded("gemm/mma block_k=32 split_k=2"))) return;
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
}

TEST(OutOfMemory, OfFlushedMissesKeepsThem) {
    if (!autotune::test::kCanCount) GTEST_SKIP() << "a sanitizer has an allocator of its own";
    Sandbox sandbox;
    if (!in_fake_process(sandbox, preloaded(""))) return;
    Session session;
    Options options;
    options.record_misses = 1;
    const Handle handle(options);
    const GemmPlan plan(handle, gemm(64, 64, 64));
    expect_only_out_of_memory(refuse_every_allocation([&] { return [&] { return autotune_flush_misses(handle.get()); }; }, 29),
                              10);
    EXPECT_EQ(db::Store::open({.path = session.database()}).misses().size(), 1U);
}

// The sentence needs memory: the status is of what is wrong, or says that the sentence could not be made.
TEST(OutOfMemory, OfARefusalIsThatRefusalOrOutOfMemory) {
    if (!autotune::test::kCanCount) GTEST_SKIP() << "a sanitizer has an allocator of its own";
    Sandbox sandbox;
    if (!in_fake_process(sandbox, preloaded())) return;
    Session session;
    const Handle handle = session.open();
    const autotune_gemm_problem bad = gemm(-1, 64, 64);
    std::thread([&] {  // one that never failed before: its first failure needs memory too
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
}

}  // namespace
}  // namespace autotune::runtime
