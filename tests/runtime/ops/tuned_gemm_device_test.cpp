#include <gtest/gtest.h>

#include <atomic>
#include <autotune/autotune.hpp>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "tests/runtime/ops/gemm_data.h"
#include "tests/runtime/sample.h"
#include "tests/support/gpu_gate.h"

namespace autotune::runtime {
namespace {

using test::gemm;
using test::GemmData;

// tuned_gemm() on a real GPU, compared with the host's product of small integers, which is exact.
class TunedGemm : public autotune::test::GpuTest {
  protected:
    // It has no database and uses the test's own cubin cache, so that the result does not depend on earlier tunes.
    Handle open(const char* pin = nullptr) {
        Options options;
        options.database = "";
        options.pin = pin;
        options.cache_folder = cache_.c_str();
        return Handle(options);
    }
    int wrong(const Handle& handle, const autotune_gemm_problem& problem, float alpha = 1, float beta = 0) {
        const gpu::Stream stream(driver());
        const GemmData data(driver(), problem);
        tuned_gemm(handle, problem, {data.a(), data.b(), data.c(), alpha, beta}, stream.handle());
        stream.synchronize();
        return data.wrong(alpha, beta);
    }

  private:
    test::TempFolder folder_;
    std::string cache_ = folder_ / "cubins";
};

TEST_F(TunedGemm, IsRightForEveryLayoutAndOrder) {
    const Handle handle = open();
    for (const autotune_order order : {AUTOTUNE_ROW_MAJOR, AUTOTUNE_COLUMN_MAJOR}) {
        for (int layout = 0; layout < 4; ++layout) {
            autotune_gemm_problem problem = gemm(200, 136, 72);
            problem.order = order;
            problem.trans_a = layout & 1;
            problem.trans_b = layout >> 1;
            EXPECT_EQ(wrong(handle, problem), 0) << "order " << order << " layout " << layout;
        }
    }
}

TEST_F(TunedGemm, IsRightForAwkwardShapes) {
    const Handle handle = open();
    for (const autotune_gemm_problem& problem :
         {gemm(1, 1, 1), gemm(129, 65, 33), gemm(17, 255, 64), gemm(256, 1, 300), gemm(1, 512, 128)})
        EXPECT_EQ(wrong(handle, problem), 0) << problem.m << "x" << problem.n << "x" << problem.k;
}

TEST_F(TunedGemm, IsRightForBf16) {
    const Handle handle = open();
    autotune_gemm_problem problem = gemm(128, 96, 64);
    problem.ab_type = problem.c_type = AUTOTUNE_BF16;
    EXPECT_EQ(wrong(handle, problem), 0);
}

TEST_F(TunedGemm, UsesAlphaAndBeta) {
    const Handle handle = open();
    EXPECT_EQ(wrong(handle, gemm(128, 96, 64), 2, -1), 0);
    EXPECT_EQ(wrong(handle, gemm(128, 96, 64), 1, 0.5F), 0);
}

TEST_F(TunedGemm, UsesLeadingDimensionsAndLeavesTheGaps) {
    const Handle handle = open();
    autotune_gemm_problem problem = gemm(96, 80, 64);
    problem.lda = 72;
    problem.ldb = 104;
    problem.ldc = 99;
    EXPECT_EQ(wrong(handle, problem, 1, 1), 0);
}

TEST_F(TunedGemm, UsesBatchStrides) {
    const Handle handle = open();
    autotune_gemm_problem problem = gemm(64, 72, 40);
    problem.batch = 5;
    problem.stride_a = 64 * 40 + 24;
    problem.stride_c = 64 * 72 + 3;
    EXPECT_EQ(wrong(handle, problem), 0);
}

TEST_F(TunedGemm, CapturesAThousandCalls) {
    const Handle handle = open();
    const gpu::Stream stream(driver());
    const autotune_gemm_problem problem = gemm(128, 128, 128);
    const GemmData data(driver(), problem);
    const auto call = [&](float beta) { tuned_gemm(handle, problem, {data.a(), data.b(), data.c(), 1, beta}, stream.handle()); };
    call(0);
    const gpu::Graph graph = gpu::Graph::capture(driver(), stream, [&] {
        for (int i = 0; i < 1000; ++i) call(0);
    });
    graph.launch(stream.handle());
    graph.launch(stream.handle());
    stream.synchronize();
    EXPECT_EQ(data.wrong(1, 0), 0);
}

TEST_F(TunedGemm, UsesALoadedKernelDuringACapture) {
    const Handle handle = open();
    EXPECT_EQ(wrong(handle, gemm(128, 128, 128)), 0);
    const gpu::Stream stream(driver());
    const autotune_gemm_problem problem = gemm(192, 128, 128);
    const GemmData data(driver(), problem);
    const gpu::Graph graph = gpu::Graph::capture(driver(), stream, [&] {
        tuned_gemm(handle, problem, {data.a(), data.b(), data.c()}, stream.handle());
    });
    graph.launch(stream.handle());
    stream.synchronize();
    EXPECT_EQ(data.wrong(1, 0), 0);
}

TEST_F(TunedGemm, RunsOnTwoStreamsAtOnce) {
    const Handle handle = open("gemm/mma block_k=32 split_k=2");  // uses a workspace
    const gpu::Stream first(driver());
    const gpu::Stream second(driver());
    const autotune_gemm_problem problem = gemm(128, 64, 512);
    const GemmData one(driver(), problem, 1);
    const GemmData two(driver(), problem, 9);
    for (int i = 0; i < 50; ++i) {
        tuned_gemm(handle, problem, {one.a(), one.b(), one.c()}, first.handle());
        tuned_gemm(handle, problem, {two.a(), two.b(), two.c()}, second.handle());
    }
    first.synchronize();
    second.synchronize();
    EXPECT_EQ(one.wrong(1, 0), 0);
    EXPECT_EQ(two.wrong(1, 0), 0);
}

TEST_F(TunedGemm, RunsOnTheDefaultStreams) {
    const Handle handle = open();
    const autotune_gemm_problem problem = gemm(96, 96, 96);
    const GemmData data(driver(), problem);
    for (const std::uintptr_t stream : {0, 1, 2}) {  // NULL, legacy, per thread
        tuned_gemm(handle, problem, {data.a(), data.b(), data.c()}, reinterpret_cast<CUstream_st*>(stream));
        EXPECT_EQ(data.wrong(1, 0), 0) << stream;  // the download waits for the legacy stream and for streams that block on it
    }
}

TEST_F(TunedGemm, IsSharedByThreads) {
    const Handle handle = open();
    const gpu::Context context(driver(), 0);
    std::atomic<int> bad{0};
    std::vector<std::thread> threads;
    for (unsigned t = 0; t < 4; ++t) {
        threads.emplace_back([&, t] {
            context.make_current();
            bad += wrong(handle, gemm(64 + 8 * t, 64, 64));
        });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(bad, 0);
}

TEST_F(TunedGemm, RefusesAMisalignedPointerOfAPlan) {
    const Handle handle = open();
    const autotune_gemm_problem problem = gemm(64, 64, 64);
    const GemmData data(driver(), problem);
    const GemmPlan plan(handle, problem);
    const GemmPlan::Call call{static_cast<const char*>(data.a()) + 2, data.b(), data.c()};
    EXPECT_THROW(plan.run(call, nullptr), StatusError);
}

TEST_F(TunedGemm, LoadsACachedKernelInMillisecondsInASecondHandle) {
    { const GemmPlan plan(open(), gemm(128, 128, 128)); }
    const Handle handle = open();
    const auto start = std::chrono::steady_clock::now();
    const GemmPlan plan(handle, gemm(128, 128, 128));
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::milliseconds(100));
}

}  // namespace
}  // namespace autotune::runtime
