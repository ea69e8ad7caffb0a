#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <set>
#include <stdexcept>
#include <thread>

#include "db/store/store.h"
#include "tests/runtime/fake_session.h"
#include "tests/support/sanitizer.h"

namespace autotune::runtime::threads_fake_test {
namespace {

using ::testing::StartsWith;

autotune_gemm_problem with_layout(int layout) {
    autotune_gemm_problem problem = gemm(64, 64, 64);
    problem.trans_a = layout & 1;
    problem.trans_b = layout >> 1 & 1;
    problem.ab_type = problem.c_type = (layout & 4) != 0 ? AUTOTUNE_BF16 : AUTOTUNE_F16;
    return problem;
}

TEST(Threads, CompileDifferentKernelsAtTheSameTime) {
    fake_test(
        "nvrtc delay_ms=1000\n",
        [] {
            Session session;
            const Handle handle = session.open();
            const auto start = std::chrono::steady_clock::now();
            on_threads(session, 8, [&](int i) { const GemmPlan plan(handle, with_layout(i)); });
            EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(6));  // 8 s one after the other
        },
        [](const fake::Sandbox& sandbox) { EXPECT_EQ(sandbox.count_calls("nvrtcCompileProgram"), 8); });
}

// Counts the kernels that are being compiled.
struct Compiles {
    std::atomic<int> begun{0};
    static void hear(void* user, autotune_log_level, const char* message) {
        if (std::strncmp(message, "compiling ", 10) == 0) ++static_cast<Compiles*>(user)->begun;
    }
};

TEST(Threads, DoNotWaitForAnothersOtherKernel) {
    fake_test("rule on=compile trans_b=1 do=hang seconds=20\n", [] {
        Session session;
        Compiles compiles;
        Options options;
        options.log = &Compiles::hear;
        options.log_user = &compiles;
        const Handle handle(options);
        std::atomic<bool> slow_is_done{false};
        std::thread slow([&] {
            session.context.make_current();
            const GemmPlan plan(handle, with_layout(2));
            slow_is_done = true;
        });
        while (compiles.begun == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
        on_threads(session, 12, [&](int i) {
            autotune_gemm_problem problem = with_layout(i & 1);
            problem.m += 8 * i;
            const GemmPlan plan(handle, problem);
            const GemmPlan same(handle, problem);
        });
        EXPECT_FALSE(slow_is_done);
        slow.join();
    });
}

// A stored winner for each of `count` problems, each with a different kernel.
std::vector<autotune_gemm_problem> remember_different_kernels(Session& session, std::size_t count) {
    const Device device = session.driver->device(0);
    const Family& family = *session.catalogue.find_family("gemm/mma");
    std::vector<autotune_gemm_problem> problems;
    std::vector<db::Winner> winners;
    std::set<std::string> kernels;
    const auto shape = [&](std::size_t at) { return std::to_string(64 + 8 * at) + "x64x64"; };
    const Problem first = session.catalogue.problem({"hgemm", shape(0), {{"beta", "zero"}}});
    const SearchSpace space = family.space(first, device);
    for (const Config& config : space.enumerate({}, 20'000)) {
        if (winners.size() == count) break;
        if (!kernels.insert(space.compile_part(config).to_string()).second) continue;
        const Problem problem = session.catalogue.problem({"hgemm", shape(problems.size()), {{"beta", "zero"}}});
        winners.push_back(test::winner_of(session.catalogue, problem, device));
        winners.back().candidate.config = config;
        winners.back().evidence.finalists.clear();
        problems.push_back(gemm(problem.extents[0].value, 64, 64));
        problems.back().beta = AUTOTUNE_BETA_ZERO;
    }
    db::Store::open({.path = session.database()}).put_all(winners);
    return problems;
}

// 12 threads make 400 first calls with as many kernels, with a cold cache. 12 s of compiling take about a second if no thread
// waits for another's kernel, and 12 s if a lock is held during compilation. A quarter of that separates the two cases even on a
// busy machine.
TEST(Threads, ShareFourHundredFirstCalls) {
    constexpr int kCalls = 400, kThreads = 12;
    fake_test(
        "nvrtc delay_ms=30\n",
        [&] {
            Session session;
            const std::vector<autotune_gemm_problem> problems = remember_different_kernels(session, kCalls);
            ASSERT_EQ(problems.size(), static_cast<std::size_t>(kCalls));
            const Handle handle = session.open();
            std::atomic<std::size_t> next{0};
            std::atomic<int> found{0};
            const auto start = std::chrono::steady_clock::now();
            on_threads(session, kThreads, [&](int) {
                for (std::size_t i = next++; i < problems.size(); i = next++)
                    found += GemmPlan(handle, problems[i]).origin() == AUTOTUNE_ORIGIN_EXACT ? 1 : 0;
            });
            const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
            std::printf("%.2f s\n", took.count());
            EXPECT_EQ(found, kCalls);
            if (!autotune::test::kIsSanitized) {
                EXPECT_LT(took.count(), 3);
            }
        },
        [&](const fake::Sandbox& sandbox) {
            EXPECT_EQ(sandbox.count_calls("nvrtcCompileProgram"), kCalls);
            EXPECT_EQ(sandbox.count_calls("cuLibraryLoadData"), kCalls);
        });
}

TEST(Threads, SixtyFourUseOneHandle) {
    fake_test(
        "",
        [] {
            Session session;
            const Handle handle = session.open(AUTOTUNE_ON_MISS_BACKGROUND);
            std::atomic<int> wrong{0};
            on_threads(session, 64, [&](int i) {
                const gpu::Stream stream(session.driver);
                for (int round = 0; round < 4; ++round) {
                    const autotune_gemm_problem problem = gemm(16 + 8 * ((i + round) % 5), 32, 32);
                    const test::GemmData data(session.driver, problem);
                    wrong += wrong_when_tuned(handle, problem, data, stream);
                }
            });
            EXPECT_EQ(autotune_finish(handle.get()), AUTOTUNE_OK);
            EXPECT_EQ(wrong, 0);
        },
        [](const fake::Sandbox& sandbox) { EXPECT_EQ(sandbox.count_calls("BUG"), 0); });
}

TEST(Threads, CompileAKernelOnceThatDifferentProblemsNeed) {
    fake_test(
        {"nvrtc delay_ms=300\n", {.environment = {{"AUTOTUNE_PIN", "gemm/simt"}}}},
        [] {
            Session session;
            const Handle handle = session.open();
            on_threads(session, 6, [&](int i) { const GemmPlan plan(handle, gemm(64 + 8 * i, 64, 64)); });
        },
        [](const fake::Sandbox& sandbox) {
            EXPECT_EQ(sandbox.count_calls("nvrtcCompileProgram"), 1);
            EXPECT_EQ(sandbox.count_calls("cuLibraryLoadData"), 1);
        });
}

TEST(Threads, ShareTheFailureOfTheKernelThatTheyNeed) {
    fake_test(
        {"nvrtc delay_ms=300\nrule on=compile do=fail message=\"error: no\"\n", {.environment = {{"AUTOTUNE_PIN", "gemm/simt"}}}},
        [] {
            Session session;
            const Handle handle = session.open();
            std::atomic<int> failed{0};
            on_threads(session, 4, [&](int) {
                failed += status_of([&] { GemmPlan(handle, gemm(64, 64, 64)); }) == AUTOTUNE_COMPILE_FAILED ? 1 : 0;
            });
            EXPECT_EQ(failed, 4);
        });
}

TEST(Failure, OfACallIsThatOfThisCallInTheWrapper) {
    fake_test("", [] {
        Session session;
        const Handle handle = session.open();
        std::atomic<int> foreign{0};
        on_threads(session, 2, [&](int i) {
            for (int round = 0; round < 5000; ++round) {
                try {
                    const GemmPlan plan(handle, i == 0 ? gemm(-1, 64, 64) : gemm(64, -1, 64));
                } catch (const StatusError& error) {
                    foreign += error.what()[0] == "mn"[i] ? 0 : 1;
                }
            }
        });
        EXPECT_EQ(foreign, 0);
    });
}

TEST(Destroyed, HandlesAndPlansAreRefusedAndNotFreedTwice) {
    fake_test("", [] {
        Session session;
        autotune_handle handle = nullptr;
        ASSERT_EQ(autotune_create(&handle, nullptr), AUTOTUNE_OK);
        const autotune_gemm_problem problem = gemm(64, 64, 64);
        const GemmData data(session.driver, problem);
        autotune_plan plan = nullptr;
        ASSERT_EQ(autotune_gemm_plan(handle, &problem, &plan), AUTOTUNE_OK);
        const float one = 1, zero = 0;
        const auto run = [&] {
            return autotune_gemm(plan, &one, data.a(), data.b(), &zero, data.c(), nullptr, 0, session.stream.handle());
        };
        autotune_destroy(handle);
        EXPECT_EQ(run(), AUTOTUNE_OK) << "a plan outlives its handle";
        const std::string of_handle = "the handle was destroyed before this call",
                          of_plan = "the plan was destroyed before this call";
        autotune_plan other = nullptr;
        EXPECT_EQ(autotune_gemm_plan(handle, &problem, &other), AUTOTUNE_INVALID_ARGUMENT);
        EXPECT_EQ(autotune_last_error(nullptr), of_handle);
        EXPECT_EQ(autotune_refresh(handle), AUTOTUNE_INVALID_ARGUMENT);
        EXPECT_EQ(autotune_last_error(handle), of_handle);
        autotune_destroy(handle);
        autotune_plan_destroy(plan);
        EXPECT_EQ(run(), AUTOTUNE_INVALID_ARGUMENT);
        EXPECT_EQ(autotune_last_error(nullptr), of_plan);
        std::size_t bytes = 0;
        EXPECT_EQ(autotune_plan_workspace(plan, &bytes), AUTOTUNE_INVALID_ARGUMENT);
        EXPECT_STREQ(autotune_plan_candidate(plan), "");
        autotune_plan_destroy(plan);
        autotune_refresh(nullptr);
        autotune_plan_destroy(plan);
        EXPECT_EQ(autotune_last_error(nullptr), of_plan);
    });
}

// A log function that uses the handle that calls it.
struct Caller {
    autotune_handle handle = nullptr;
    int heard = 0;
    int plans = 0;
    static void hear(void* user, autotune_log_level, const char*) {
        auto& self = *static_cast<Caller*>(user);
        ++self.heard;
        if (self.handle == nullptr) return;
        autotune_plan plan = nullptr;
        const autotune_gemm_problem problem = gemm(64, 64, 64);
        if (autotune_gemm_plan(self.handle, &problem, &plan) == AUTOTUNE_OK) ++self.plans;
        autotune_plan_destroy(plan);
        EXPECT_EQ(autotune_flush_misses(self.handle), AUTOTUNE_OK);
    }
};

TEST(LogFunction, MayUseTheHandleThatSpeaks) {
    fake_test("", [] {
        Session session;
        std::filesystem::create_directories(std::filesystem::path(session.database()).parent_path());
        // The database is invalid, which gives a warning in a look-up and in a flush.
        std::ofstream(session.database()) << std::string(8192, 'z');
        Caller caller;
        Options options;
        options.record_misses = 1;
        options.log = &Caller::hear;
        options.log_user = &caller;
        const Handle handle(options);
        caller.handle = handle.get();
        EXPECT_EQ(status_of([&] { GemmPlan(handle, gemm(64, 64, 64)); }), AUTOTUNE_OK);
        EXPECT_EQ(autotune_flush_misses(handle.get()), AUTOTUNE_OK);
        EXPECT_GE(caller.heard, 2);  // one message says that the database cannot be read, one that it cannot be written
        EXPECT_EQ(caller.plans, caller.heard);
        caller.handle = nullptr;
    });
}

TEST(LogFunction, OnTwoThreadsMayAskForWhatTheOtherMakes) {
    fake_test("nvrtc delay_ms=200\n", [] {
        struct Crossing {
            autotune_handle handle = nullptr;
            static void hear(void* user, autotune_log_level, const char*) {
                for (const int layout : {0, 2}) {
                    autotune_plan plan = nullptr;
                    const autotune_gemm_problem problem = with_layout(layout);
                    EXPECT_EQ(autotune_gemm_plan(static_cast<Crossing*>(user)->handle, &problem, &plan), AUTOTUNE_OK);
                    autotune_plan_destroy(plan);
                }
            }
        } crossing;
        Session session;
        Options options;
        options.log = &Crossing::hear;
        options.log_user = &crossing;
        const Handle handle(options);
        crossing.handle = handle.get();
        on_threads(session, 2, [&](int i) { const GemmPlan plan(handle, with_layout(2 * i)); });
    });
}

TEST(LogFunction, ThatThrowsDoesNoHarm) {
    fake_test("", [] {
        Session session;
        int thrown = 0;
        Options options;
        options.record_misses = 1;
        options.database = "/proc/no/such/folder/autotune.db";  // so that autotune_destroy() cannot write the misses
        options.log_user = &thrown;
        options.log = [](void* user, autotune_log_level, const char*) {
            ++*static_cast<int*>(user);
            throw std::runtime_error("no ears");
        };
        {
            const Handle handle(options);
            EXPECT_EQ(status_of([&] { GemmPlan(handle, gemm(64, 64, 64)); }), AUTOTUNE_OK);
        }
        EXPECT_GE(thrown, 3);  // NVRTC, a kernel, the misses
    });
}

}  // namespace
}  // namespace autotune::runtime::threads_fake_test
