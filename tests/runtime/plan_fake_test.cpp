#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <thread>

#include "tests/runtime/fake_session.h"
#include "tests/support/interposer/interposer.h"

namespace autotune::runtime::plan_fake_test {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// A plan with what it needs to run on a stream.
struct Ready {
    explicit Ready(autotune_gemm_problem problem) : data(session.driver, problem), plan(handle, problem), workspace(scratch()) {}
    gpu::Buffer scratch() { return {session.driver, std::max<std::size_t>(plan.workspace_bytes(), 256)}; }
    GemmPlan::Call call() const {
        return {data.a(), data.b(), data.c(), 1, 0, reinterpret_cast<void*>(workspace.address()), workspace.bytes()};
    }
    autotune_status run(const GemmPlan::Call& with) const {
        return status_of([&] { plan.run(with, session.stream.handle()); });
    }

    void expect_right(const GemmPlan::Call& with) const {
        ASSERT_EQ(run(with), AUTOTUNE_OK);
        session.stream.synchronize();
        EXPECT_EQ(data.wrong(with.alpha, with.beta), 0);
    }

    Session session;
    Handle handle = session.open();
    GemmData data;
    GemmPlan plan;
    gpu::Buffer workspace;
};

TEST(Plan, ComputesTheProduct) {
    fake_test("", [] {
        Ready ready(gemm(48, 40, 64));
        ready.expect_right(ready.call());
    });
}

TEST(Plan, UsesAlphaAndBeta) {
    fake_test("", [] {
        Ready ready(gemm(48, 40, 64));
        GemmPlan::Call call = ready.call();
        call.alpha = 2;
        call.beta = -1;
        ready.expect_right(call);
    });
}

TEST(Plan, ComputesColumnMajorWithTransposesAndLeadingDimensions) {
    fake_test("", [] {
        for (const int trans_a : {0, 1}) {
            for (const int trans_b : {0, 1}) {
                autotune_gemm_problem problem = gemm(48, 40, 24);
                problem.order = AUTOTUNE_COLUMN_MAJOR;
                problem.trans_a = trans_a;
                problem.trans_b = trans_b;
                problem.lda = 56;
                problem.ldb = 64;
                problem.ldc = 72;
                Ready ready(problem);
                ASSERT_EQ(ready.run(ready.call()), AUTOTUNE_OK);
                ready.session.stream.synchronize();
                EXPECT_EQ(ready.data.wrong(1, 0), 0) << trans_a << trans_b;
            }
        }
    });
}

TEST(Plan, ComputesStridedBatches) {
    fake_test("", [] {
        autotune_gemm_problem problem = gemm(24, 32, 40);
        problem.batch = 3;
        problem.stride_a = 24 * 40 + 8;
        problem.stride_c = 24 * 32 + 16;
        Ready ready(problem);
        ready.expect_right(ready.call());
    });
}

TEST(Plan, SaysItsOriginAndCandidate) {
    fake_test("", [] {
        Session session;
        session.remember("64x64x64", "any");
        const Handle handle = session.open();
        const GemmPlan exact(handle, gemm(64, 64, 64));
        EXPECT_EQ(exact.origin(), AUTOTUNE_ORIGIN_EXACT);
        EXPECT_THAT(exact.candidate(), HasSubstr("gemm/mma "));
        autotune_gemm_problem other = gemm(64, 64, 64);
        other.trans_b = 1;
        EXPECT_EQ(GemmPlan(handle, other).origin(), AUTOTUNE_ORIGIN_DEFAULT);
    });
}

// The tuner would not measure a kernel that spills a kilobyte. So the library uses such a kernel only if it was tuned or nothing
// else is left.
TEST(Plan, IsOfAnotherKernelWhereTheFirstSpills) {
    fake_test(
        "rule on=compile nth=1 do=report spill=1000\n",
        [] {
            Ready ready(gemm(48, 40, 64));
            EXPECT_THAT(ready.session.listener.warnings, IsEmpty());
            ready.expect_right(ready.call());
        },
        [](const fake::Sandbox& sandbox) { EXPECT_EQ(sandbox.count_calls("nvrtcCompileProgram"), 2); });
}

TEST(Plan, IsOfAKernelThatSpillsWhereAllDo) {
    fake_test("rule on=compile do=report spill=1000\n", [] {
        Ready ready(gemm(48, 40, 64));
        ready.expect_right(ready.call());
    });
}

void expect_family_where_wgmma_spills(const char* bytes, const char* family) {
    Sandbox sandbox;
    sandbox.script(std::string("rule symbol=^gemm_wgmma on=compile do=report spill=") + bytes + "\n");
    if (!in_fake_process(sandbox)) return;
    Session session;
    EXPECT_THAT(GemmPlan(session.open(), gemm(4096, 4096, 4096)).candidate(), HasSubstr(family));
}

// Eighty spilled bytes cost less than a kernel without wgmma.
TEST(Plan, IsOfAKernelThatSpillsALittleWhereOthersAreSlower) {
    expect_family_where_wgmma_spills("80", "gemm/wgmma");
}

TEST(Plan, IsOfAnotherFamilyWhereTheFastestSpillsALot) {
    expect_family_where_wgmma_spills("4000", "gemm/mma ");
}

TEST(Plan, IsOfTheWinnerAlsoIfItSpills) {
    fake_test(
        "rule on=compile do=report spill=1000\n",
        [] {
            Session session;
            session.remember("48x40x64");
            autotune_gemm_problem problem = gemm(48, 40, 64);
            problem.beta = AUTOTUNE_BETA_ZERO;
            const GemmPlan plan(session.open(), problem);
            EXPECT_EQ(plan.origin(), AUTOTUNE_ORIGIN_EXACT);
        },
        [](const fake::Sandbox& sandbox) { EXPECT_EQ(sandbox.count_calls("nvrtcCompileProgram"), 1); });
}

TEST(Plan, RefusesNullPointersByName) {
    fake_test("", [] {
        Ready ready(gemm(64, 64, 64));
        const float one = 1;
        const GemmPlan::Call good = ready.call();
        const auto call = [&](const float* alpha, const void* a, const void* b, const float* beta, void* c) {
            return autotune_gemm(ready.plan.get(), alpha, a, b, beta, c, good.workspace, good.workspace_bytes, nullptr);
        };
        EXPECT_EQ(call(nullptr, good.a, good.b, &one, good.c), AUTOTUNE_INVALID_ARGUMENT);
        EXPECT_THAT(autotune_last_error(ready.handle.get()), HasSubstr("alpha is NULL"));
        EXPECT_EQ(call(&one, nullptr, good.b, &one, good.c), AUTOTUNE_INVALID_ARGUMENT);
        EXPECT_THAT(autotune_last_error(ready.handle.get()), HasSubstr("a is NULL"));
        EXPECT_EQ(call(&one, good.a, nullptr, &one, good.c), AUTOTUNE_INVALID_ARGUMENT);
        EXPECT_EQ(call(&one, good.a, good.b, nullptr, good.c), AUTOTUNE_INVALID_ARGUMENT);
        EXPECT_EQ(call(&one, good.a, good.b, &one, nullptr), AUTOTUNE_INVALID_ARGUMENT);
        EXPECT_THAT(autotune_last_error(ready.handle.get()), HasSubstr("c is NULL"));
    });
}

TEST(Plan, RefusesAMisalignedPointerByName) {
    fake_test("", [] {
        Ready ready(gemm(64, 64, 64));
        GemmPlan::Call call = ready.call();
        call.b = static_cast<const char*>(call.b) + 2;
        EXPECT_EQ(ready.run(call), AUTOTUNE_MISALIGNED);
        EXPECT_THAT(autotune_last_error(ready.handle.get()), HasSubstr("align_b"));
    });
}

TEST(Plan, OfColumnMajorNamesTheCallersMisalignedPointer) {
    fake_test({"", {.environment = {{"AUTOTUNE_PIN", "gemm/simt"}}}}, [] {  // this kernel does not read beyond the shifted array
        autotune_gemm_problem problem = gemm(64, 64, 64);
        problem.order = AUTOTUNE_COLUMN_MAJOR;
        problem.align_a = 2;
        Ready ready(problem);
        GemmPlan::Call call = ready.call();
        call.a = static_cast<const char*>(call.a) + 2;
        EXPECT_EQ(ready.run(call), AUTOTUNE_OK);
        call.b = static_cast<const char*>(call.b) + 2;
        EXPECT_EQ(ready.run(call), AUTOTUNE_MISALIGNED);
        EXPECT_THAT(autotune_last_error(ready.handle.get()), HasSubstr("align_b"));
    });
}

TEST(Plan, ForBetaZeroRefusesAnotherBeta) {
    fake_test("", [] {
        autotune_gemm_problem problem = gemm(64, 64, 64);
        problem.beta = AUTOTUNE_BETA_ZERO;
        Ready ready(problem);
        GemmPlan::Call call = ready.call();
        call.beta = 0.5F;
        EXPECT_EQ(ready.run(call), AUTOTUNE_INVALID_ARGUMENT);
    });
}

TEST(Plan, RefusesAWorkspaceThatIsTooSmall) {
    fake_test({"", {.environment = {{"AUTOTUNE_PIN", "gemm/mma block_k=32 split_k=2"}}}}, [] {
        Ready ready(gemm(64, 64, 256));
        ASSERT_GT(ready.plan.workspace_bytes(), 0U);
        GemmPlan::Call call = ready.call();
        call.workspace_bytes = ready.plan.workspace_bytes() - 1;
        EXPECT_EQ(ready.run(call), AUTOTUNE_WORKSPACE_TOO_SMALL);
        call.workspace = nullptr;
        EXPECT_EQ(ready.run(call), AUTOTUNE_WORKSPACE_TOO_SMALL);
        call = ready.call();
        call.workspace = static_cast<char*>(call.workspace) + 16;
        EXPECT_EQ(ready.run(call), AUTOTUNE_MISALIGNED);
        EXPECT_EQ(ready.run(ready.call()), AUTOTUNE_OK);
    });
}

TEST(Plan, OutlivesItsHandle) {
    fake_test("", [] {
        Session session;
        auto handle = std::make_unique<Handle>(session.open());
        const autotune_gemm_problem problem = gemm(32, 32, 32);
        const GemmData data(session.driver, problem);
        const GemmPlan plan(*handle, problem);
        const gpu::Buffer scratch(session.driver, std::max<std::size_t>(plan.workspace_bytes(), 256));
        handle.reset();
        plan.run({data.a(), data.b(), data.c(), 1, 0, reinterpret_cast<void*>(scratch.address()), scratch.bytes()},
                 session.stream.handle());
        session.stream.synchronize();
        EXPECT_EQ(data.wrong(1, 0), 0);
    });
}

// Runs a plan twice and counts the second run's calls of the system.
void expect_nothing_but_the_launch() {
    if (!autotune::test::kCanCount) GTEST_SKIP() << "a sanitizer counts allocations itself";
    Sandbox sandbox;
    if (!in_fake_process(sandbox, {.environment = {{"LD_PRELOAD", fake::interposer_library()}, {"AUTOTUNE_PIN", "gemm/mma"}}}))
        return;
    Ready ready(gemm(64, 64, 64));
    const GemmPlan::Call call = ready.call();
    ASSERT_EQ(ready.run(call), AUTOTUNE_OK);
    autotune::test::start_counting();
    const autotune_status status = autotune_gemm(ready.plan.get(), &call.alpha, call.a, call.b, &call.beta, call.c,
                                                 call.workspace, call.workspace_bytes, ready.session.stream.handle());
    const auto counts = autotune::test::stop_counting();
    EXPECT_EQ(status, AUTOTUNE_OK);
    EXPECT_THAT(counts.driver_calls, ElementsAre("cuLaunchKernelEx"));
    EXPECT_EQ(counts.allocations + counts.frees + counts.opens + counts.maps + counts.ioctls, 0);
}

TEST(Plan, RunsByTheLaunchAndNothingElse) {
    if (!autotune::test::kCanCount) GTEST_SKIP() << "a sanitizer counts allocations itself";
    fake_test({"", {.environment = {{"LD_PRELOAD", fake::interposer_library()}, {"AUTOTUNE_PIN", "gemm/mma"}}}},
              [&] { expect_nothing_but_the_launch(); });
}

TEST(Plan, WithTensorMapsRunsByTheLaunchAndNothingElse) {
    if (!autotune::test::kCanCount) GTEST_SKIP() << "a sanitizer counts allocations itself";
    fake_test({"", {.environment = {{"LD_PRELOAD", fake::interposer_library()}, {"AUTOTUNE_PIN", "gemm/wgmma"}}}},
              [&] { expect_nothing_but_the_launch(); });
}

// The shape is new but its kernel is loaded. Facts from the driver about a kernel are stored with the instance, not with each
// plan.
TEST(Plan, OfALoadedKernelAsksTheDriverForTheContextAlone) {
    if (!autotune::test::kCanCount) GTEST_SKIP() << "a sanitizer counts allocations itself";
    fake_test(
        {"", {.environment = {{"LD_PRELOAD", fake::interposer_library()}, {"AUTOTUNE_PIN", "gemm/mma block_k=32 split_k=2"}}}},
        [&] {
            Session session;
            const Handle handle = session.open();
            const GemmPlan first(handle, gemm(64, 64, 256));
            for (const int m : {128, 192}) {
                autotune::test::start_counting();
                const GemmPlan plan(handle, gemm(m, 64, 256));
                EXPECT_THAT(autotune::test::stop_counting().driver_calls,
                            ElementsAre("cuCtxGetCurrent", "cuCtxGetId", "cuCtxGetDevice"));
            }
        });
}

TEST(Plan, ByTheOneCallFormAsksForTheContextAndLaunches) {
    if (!autotune::test::kCanCount) GTEST_SKIP() << "a sanitizer counts allocations itself";
    fake_test({"", {.environment = {{"LD_PRELOAD", fake::interposer_library()}, {"AUTOTUNE_PIN", "gemm/mma"}}}}, [&] {
        Session session;
        const Handle handle = session.open();
        const autotune_gemm_problem problem = gemm(64, 64, 64);
        const GemmData data(session.driver, problem);
        run_tuned(session, handle, problem, data);
        autotune::test::start_counting();
        run_tuned(session, handle, problem, data);
        const auto counts = autotune::test::stop_counting();
        EXPECT_THAT(counts.driver_calls, ElementsAre("cuCtxGetCurrent", "cuCtxGetId", "cuLaunchKernelEx"));
        EXPECT_EQ(counts.allocations + counts.frees + counts.opens + counts.maps + counts.ioctls, 0);
    });
}

TEST(Plan, OfTheParentIsRefusedInAForkedChild) {
    fake_test("", [] {
        Ready ready(gemm(64, 64, 64));
        const pid_t child = ::fork();
        if (child == 0) {
            const bool plan_refused = ready.run(ready.call()) == AUTOTUNE_FORKED;
            autotune_plan other = nullptr;
            const autotune_gemm_problem problem = gemm(32, 32, 32);
            const bool handle_refused = autotune_gemm_plan(ready.handle.get(), &problem, &other) == AUTOTUNE_FORKED;
            const bool says_so = std::string(autotune_last_error(ready.handle.get())).find("fork") != std::string::npos;
            autotune_destroy(ready.handle.get());  // In the child this leaves the parent's objects alone.
            ::_exit(plan_refused && handle_refused && says_so ? 0 : 1);
        }
        int status = -1;
        ASSERT_EQ(::waitpid(child, &status, 0), child);
        EXPECT_EQ(status, 0);
        EXPECT_EQ(ready.run(ready.call()), AUTOTUNE_OK);
    });
}

// Forked while the library's own threads are working: the child has neither those threads nor the locks that they hold.
TEST(Handle, OfTheParentIsRefusedByEveryCallOfAForkedChild) {
    fake_test("rule on=compile reads_c=0 do=hang seconds=1\n", [] {
        Session session;
        session.remember("64x64x64");
        const Handle handle = session.open(AUTOTUNE_ON_MISS_BACKGROUND);
        const autotune_gemm_problem problem = gemm(64, 64, 64);
        const GemmData data(session.driver, problem);
        run_tuned(session, handle, problem, data);
        const pid_t child = ::fork();
        if (child == 0) {
            const float alpha = 1, beta = 0;
            int refused = 0;
            for (const autotune_status status :
                 {autotune_tuned_gemm(handle.get(), &problem, &alpha, data.a(), data.b(), &beta, data.c(), nullptr),
                  autotune_gemm_warm(handle.get(), &problem, nullptr), autotune_refresh(handle.get()),
                  autotune_finish(handle.get()), autotune_flush_misses(handle.get())})
                refused += status == AUTOTUNE_FORKED ? 1 : 0;
            autotune_destroy(handle.get());
            ::_exit(refused);
        }
        int status = -1;
        ASSERT_EQ(::waitpid(child, &status, 0), child);
        EXPECT_EQ(WEXITSTATUS(status), 5);
        ASSERT_EQ(autotune_finish(handle.get()), AUTOTUNE_OK);
        EXPECT_EQ(wrong_when_tuned(handle, problem, data, session.stream), 0);
    });
}

TEST(Plan, IsSharedByManyThreads) {
    fake_test("", [] {
        Session session;
        const Handle handle = session.open();
        std::atomic<int> wrong{0};
        on_threads(session, 8, [&](int t) {
            const gpu::Stream stream(session.driver);
            for (int i = 0; i < 6; ++i) {
                const autotune_gemm_problem problem = gemm(16 + 8 * (i % 3), 32, 32);
                const GemmData data(session.driver, problem, static_cast<unsigned>(t));
                wrong += wrong_when_tuned(handle, problem, data, stream);
            }
        });
        EXPECT_EQ(wrong, 0);
    });
}

TEST(Plan, IsCompiledOnceForManyThreads) {
    fake_test(
        "",
        [] {
            Session session;
            const Handle handle = session.open();
            on_threads(session, 4, [&](int) { const GemmPlan plan(handle, gemm(64, 64, 64)); });
        },
        [](const fake::Sandbox& sandbox) { EXPECT_EQ(sandbox.count_calls("nvrtcCompileProgram"), 1); });
}

}  // namespace
}  // namespace autotune::runtime::plan_fake_test
