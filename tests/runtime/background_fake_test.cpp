#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <thread>

#include "db/portfolio.h"
#include "src/runtime/load/instances.h"
#include "src/runtime/process/background.h"
#include "tests/runtime/fake_session.h"
#include "tests/support/interposer/interposer.h"

namespace autotune::runtime::background_fake_test {
namespace {

using Clock = std::chrono::steady_clock;
using test::Listener;
using test::TempFolder;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::Not;

void finish(const Handle& handle) {
    ASSERT_EQ(autotune_finish(handle.get()), AUTOTUNE_OK);
}

TEST(BackgroundWork, IsDoneAndWaitedFor) {
    std::atomic<int> done{0};
    Background background(3);
    for (int i = 0; i < 20; ++i) background.add([&] { ++done; });
    background.add([] { throw std::runtime_error("dropped"); });
    background.wait();
    EXPECT_EQ(done, 20);
}

TEST(BackgroundWork, ThatHasNotBegunIsDroppedAtTheEnd) {
    std::atomic<int> done{0};
    {
        Background background(1);
        for (int i = 0; i < 50; ++i)
            background.add([&] {
                std::this_thread::sleep_for(std::chrono::milliseconds(20));
                ++done;
            });
    }
    EXPECT_LT(done, 50);
}

TEST(BackgroundWork, TakesTheThreadsThatWereStarted) {
    Background background(3);
    background.start();
    const auto threads = [] {
        const std::filesystem::directory_iterator all("/proc/self/task");
        return std::distance(begin(all), end(all));
    };
    const auto before = threads();
    EXPECT_GE(before, 1 + 3);
    for (int i = 0; i < 20; ++i) background.add([] { std::this_thread::sleep_for(std::chrono::milliseconds(1)); });
    EXPECT_EQ(threads(), before);
    background.wait();
}

// Slow steps are done when the handle is made. It loads the general kernels into the caller's context, which otherwise the first
// use of a kernel would do, and starts the threads.
TEST(OnMissBackground, IsMadeReadyBeforeTheFirstCall) {
    fake_test(
        "",
        [] {
            Session session;
            const Handle handle = session.open(AUTOTUNE_ON_MISS_BACKGROUND);
        },
        [](const fake::Sandbox& sandbox) { EXPECT_GE(sandbox.count_calls("cuFuncLoad"), 16); });
}

// The instances of a library whose calls must be short.
struct OfShortCalls {
    Session session;
    Settings settings;
    Log log{settings};
    LoadGate gate{true};
    Instances instances{settings, session.catalogue, session.driver, log, gate};
    Device device = session.driver->device(0);
};

// Other threads may use an instance as soon as it is listed as loaded.
TEST(Instances, AreLoadedIntoTheContextBeforeTheyStandInForOthers) {
    fake_test(
        "",
        [] {
            OfShortCalls of;
            Session& session = of.session;
            Instances& instances = of.instances;
            const Device& device = of.device;
            const Problem problem = session.catalogue.problem({"hgemm", "64x64x64", {}});
            const Family& family = *session.catalogue.find_family("gemm/mma");
            const Candidate candidate{"gemm/mma", family.default_config(problem, device)};
            instances.make({candidate}, problem, device);
            EXPECT_EQ(instances.loaded_for(problem, device, 1).size(), 1);
        },
        [](const fake::Sandbox& sandbox) { EXPECT_GE(sandbox.count_calls("cuFuncLoad"), 1); });
}

// A call that never ends delays each step for the longest allowed time: loading the library, its kernels and what launches need
// of them.
TEST(Instances, AreLoadedInTurnsThatWaitForCalls) {
    fake_test("", [] {
        OfShortCalls of;
        Session& session = of.session;
        Instances& instances = of.instances;
        const Device& device = of.device;
        const Problem problem = session.catalogue.problem({"hgemm", "64x64x64", {}});
        const Candidate candidate{"gemm/mma", session.catalogue.find_family("gemm/mma")->default_config(problem, device)};
        const LoadGate::Call call(of.gate);
        const auto begun = Clock::now();
        instances.make({candidate}, problem, device);
        EXPECT_GE(Clock::now() - begun, 5 * LoadGate::kMostWait);
    });
}

// There are many instances of one family with the same facts, as in a program that loads ever new weight matrices.
TEST(Instances, ThatAreManyTakeNoLongerToRankAndTheOneOfALikeProblemIsAmongThem) {
    if (!autotune::test::kCanCount) GTEST_SKIP() << "a sanitizer counts allocations itself";
    fake_test({"", {.environment = {{"LD_PRELOAD", fake::interposer_library()}}}}, [&] {
        OfShortCalls of;
        Session& session = of.session;
        Instances& instances = of.instances;
        const Device& device = of.device;
        const auto product = [&](const std::string& shape) { return session.catalogue.problem({"hgemm", shape, {}}); };
        const Family& family = *session.catalogue.find_family("gemm/mma");
        const Problem large = product("4096x4096x4096"), small = product("64x64x256");
        const Candidate best{"gemm/mma", family.default_config(large, device)};
        const auto load = [&](const Problem& problem, std::size_t count) {
            for (const Config& config : family.space(problem, device).sample({}, count))
                instances.make({{"gemm/mma", config}}, problem, device);
        };
        const auto allocations = [&] {
            autotune::test::start_counting();
            instances.loaded_for(large, device, 1);
            return autotune::test::stop_counting().allocations;
        };
        load(small, 30);
        const auto loaded = instances.make({best}, large, device);
        const long of_few = allocations();
        load(small, 120);
        EXPECT_LT(allocations(), of_few + of_few / 2);
        const auto ranked = instances.loaded_for(large, device, 1);
        ASSERT_EQ(ranked.size(), 1);
        EXPECT_EQ(ranked.front()->source, loaded->source);
    });
}

// An allocation takes longer than a call may take, so memory is allocated when the handle is made.
TEST(OnMissBackground, AsksForNoScratchInACall) {
    fake_test(
        {"", {.environment = {{"AUTOTUNE_PIN", "gemm/mma block_k=32 split_k=2"}}}},
        [] {
            Session session;
            const Handle handle = session.open(AUTOTUNE_ON_MISS_BACKGROUND);
            const GemmData data(session.driver, gemm(128, 128, 256));
            for (const int m : {32, 64, 128}) {
                run_tuned(session, handle, gemm(m, 128, 256), data);
                finish(handle);
                run_tuned(session, handle, gemm(m, 128, 256), data);
            }
            session.stream.synchronize();
            EXPECT_EQ(data.wrong(1, 0), 0);
        },
        [](const fake::Sandbox& sandbox) {
            EXPECT_EQ(sandbox.count_calls("cuMemAlloc"), 1 + 3);  // scratch, matrices
        });
}

// The driver calls of the first call for a problem.
std::vector<std::string> calls_of_first(Session& session, const Handle& handle, const autotune_gemm_problem& problem,
                                        const void* operand, void* result) {
    autotune::test::start_counting();
    tuned_gemm(handle, problem, {operand, operand, result}, session.stream.handle());
    return autotune::test::stop_counting().driver_calls;
}

// A stand-in loaded for another kind of problem may add parts of K by a second kernel. The second kernel too must be loaded
// before the call, which only looks kernels up and launches them.
TEST(OnMissBackground, LoadsNoCodeInACall) {
    if (!autotune::test::kCanCount) GTEST_SKIP() << "a sanitizer counts allocations itself";
    fake_test({"", {.environment = {{"LD_PRELOAD", fake::interposer_library()}}}}, [&] {
        Session session;
        const Handle handle = session.open(AUTOTUNE_ON_MISS_BACKGROUND);
        const gpu::Buffer data(session.driver, std::size_t{2} * 64 * 8192), result(session.driver, std::size_t{2} * 64 * 64);
        const auto pointer = [](const gpu::Buffer& buffer) { return reinterpret_cast<void*>(buffer.address()); };
        EXPECT_THAT(calls_of_first(session, handle, gemm(64, 64, 8192), pointer(data), pointer(result)),
                    ElementsAre("cuCtxGetCurrent", "cuCtxGetId", "cuCtxGetDevice", "cuStreamIsCapturing", "cuCtxGetCurrent",
                                "cuStreamGetCaptureInfo", "cuLaunchKernelEx", "cuLaunchKernelEx"));
        finish(handle);
    });
}

// Products with a weight matrix whose fastest loaded kernel, that of a plan of `m` rows, copies the matrix and so needs more
// scratch than there is.
struct LargeProducts {
    explicit LargeProducts(int m) {
        const GemmPlan packs(handle, product(m));
        EXPECT_GT(packs.workspace_bytes(), std::size_t{64} << 20) << packs.candidate();
    }
    static autotune_gemm_problem product(int m) { return gemm(m, 8191, 8191); }  // rows of 2 bytes
    std::vector<std::string> calls_of_first(int m) {
        return background_fake_test::calls_of_first(session, handle, product(m), reinterpret_cast<void*>(data.address()),
                                                    reinterpret_cast<void*>(result.address()));
    }

    Session session;
    Handle handle = session.open(AUTOTUNE_ON_MISS_BACKGROUND);
    gpu::Buffer data{session.driver, std::size_t{2} * 8191 * 8191}, result{session.driver, std::size_t{2} * 8191 * 8191};
};

std::ptrdiff_t launches(const std::vector<std::string>& calls) {
    return std::count(calls.begin(), calls.end(), "cuLaunchKernelEx");
}

// Another kernel serves the first call, and the library's thread allocates, so that the next call has room for the fastest.
TEST(OnMissBackground, TakesAStandInForWhichThereIsScratch) {
    if (!autotune::test::kCanCount) GTEST_SKIP() << "a sanitizer counts allocations itself";
    fake_test({"", {.environment = {{"LD_PRELOAD", fake::interposer_library()}}}}, [&] {
        LargeProducts large(130);
        const std::vector<std::string> first = large.calls_of_first(128);
        EXPECT_THAT(first, Not(Contains("cuMemAlloc")));
        EXPECT_EQ(launches(first), 1);
        finish(large.handle);
        const std::vector<std::string> second = large.calls_of_first(126);
        EXPECT_THAT(second, Not(Contains("cuMemAlloc")));
        EXPECT_GT(launches(second), 1) << "copies, and the product";
        finish(large.handle);
    });
}

// A kernel without tensor cores would run for tens of milliseconds.
TEST(OnMissBackground, AsksForScratchWhereAStandInWithoutIsSlowerByFar) {
    if (!autotune::test::kCanCount) GTEST_SKIP() << "a sanitizer counts allocations itself";
    fake_test({"", {.environment = {{"LD_PRELOAD", fake::interposer_library()}}}}, [&] {
        LargeProducts large(8189);
        EXPECT_THAT(large.calls_of_first(8187), Contains("cuMemAlloc"));
        finish(large.handle);
    });
}

// A compiler that takes a second: the first call does not wait for it, and a later one uses its kernel.
TEST(OnMissBackground, ServesAtOnceAndBetterLater) {
    fake_test("rule on=compile reads_c=0 do=hang seconds=1\n", [] {
        Session session;
        session.remember("64x64x64");
        const Handle handle = session.open(AUTOTUNE_ON_MISS_BACKGROUND);
        const autotune_gemm_problem problem = gemm(64, 64, 64);
        const GemmData data(session.driver, problem);
        const auto begun = Clock::now();
        run_tuned(session, handle, problem, data);
        run_tuned(session, handle, problem, data);
        EXPECT_LT(Clock::now() - begun, std::chrono::milliseconds(800));
        session.stream.synchronize();
        EXPECT_EQ(data.wrong(1, 0), 0);
        finish(handle);
        EXPECT_EQ(wrong_when_tuned(handle, problem, data, session.stream), 0);
        autotune_gemm_problem zero = problem;
        zero.beta = AUTOTUNE_BETA_ZERO;
        EXPECT_EQ(GemmPlan(handle, zero).origin(), AUTOTUNE_ORIGIN_EXACT);
    });
}

TEST(OnMissBackground, HasAGeneralKernelForUnalignedAddresses) {
    fake_test("", [] {
        Session session;
        const Handle handle = session.open(AUTOTUNE_ON_MISS_BACKGROUND);
        const autotune_gemm_problem problem = gemm(39, 31, 47);
        const GemmData data(session.driver, problem);
        EXPECT_EQ(wrong_when_tuned(handle, problem, data, session.stream), 0);
        finish(handle);
    });
}

TEST(OnMissBackground, HasAGeneralKernelForEveryLayout) {
    fake_test("", [] {
        Session session;
        const Handle handle = session.open(AUTOTUNE_ON_MISS_BACKGROUND);
        for (const int layout : {0, 1, 2, 3}) {
            autotune_gemm_problem problem = gemm(40 + 8 * layout, 64, 64);
            problem.trans_a = layout / 2;
            problem.trans_b = layout % 2;
            const GemmData data(session.driver, problem);
            EXPECT_EQ(status_of([&] { run_tuned(session, handle, problem, data); }), AUTOTUNE_OK) << layout;
        }
        finish(handle);
    });
}

// No general kernel is for f16 sums.
TEST(OnMissBackground, WithoutALegalKernelIsNotPlannedUntilItsOwnIsThere) {
    fake_test("", [] {
        Session session;
        const Handle handle = session.open(AUTOTUNE_ON_MISS_BACKGROUND);
        autotune_gemm_problem problem = gemm(64, 64, 64);
        problem.accumulator = AUTOTUNE_F16;
        const GemmData data(session.driver, problem);
        const auto run = [&] { return status_of([&] { run_tuned(session, handle, problem, data); }); };
        EXPECT_EQ(run(), AUTOTUNE_NOT_PLANNED);
        EXPECT_THAT(autotune_last_error(handle.get()), HasSubstr("is being compiled"));
        finish(handle);
        EXPECT_EQ(run(), AUTOTUNE_OK);
    });
}

TEST(OnMissBackground, ChangesNothingInAGraph) {
    fake_test(
        "",
        [] {
            Session session;
            session.remember("64x64x64");
            const Handle handle = session.open(AUTOTUNE_ON_MISS_BACKGROUND);
            const autotune_gemm_problem problem = gemm(64, 64, 64);
            const GemmData data(session.driver, problem);
            const gpu::Graph graph = session.capture([&] { run_tuned(session, handle, problem, data); });
            run_tuned(session, handle, problem, data);  // This call asks for the better kernel.
            finish(handle);
            session.replay(graph);
            EXPECT_EQ(data.wrong(1, 0), 0);
        },
        [](const fake::Sandbox& sandbox) { EXPECT_EQ(sandbox.count_calls("BUG"), 0); });
}

TEST(OnMissBackground, KeepsItsStandInWhereTheBetterKernelDoesNotCompile) {
    fake_test("rule on=compile reads_c=0 do=fail message=\"error: no\"\n", [] {
        Session session;
        const Handle handle = session.open(AUTOTUNE_ON_MISS_BACKGROUND);
        const autotune_gemm_problem problem = gemm(64, 64, 64);
        const GemmData data(session.driver, problem);
        for (int i = 0; i < 3; ++i) {
            run_tuned(session, handle, problem, data);
            finish(handle);
        }
        session.stream.synchronize();
        EXPECT_EQ(data.wrong(1, 0), 0);
    });
}

TEST(Refresh, LetsNewPlansFindAWinnerThatWasStoredSince) {
    fake_test("", [] {
        Session session;
        const Handle handle = session.open();
        autotune_gemm_problem problem = gemm(64, 64, 64);
        problem.beta = AUTOTUNE_BETA_ZERO;
        const GemmPlan before(handle, problem);
        EXPECT_EQ(before.origin(), AUTOTUNE_ORIGIN_DEFAULT);
        session.remember("64x64x64");
        EXPECT_EQ(GemmPlan(handle, problem).origin(), AUTOTUNE_ORIGIN_DEFAULT);
        ASSERT_EQ(autotune_refresh(handle.get()), AUTOTUNE_OK);
        EXPECT_EQ(GemmPlan(handle, problem).origin(), AUTOTUNE_ORIGIN_EXACT);
        EXPECT_EQ(before.origin(), AUTOTUNE_ORIGIN_DEFAULT);  // what a caller holds stays
    });
}

TEST(Refresh, MayComeAtAnyTimeFromAnyThread) {
    fake_test("", [] {
        Session session;
        const Handle handle = session.open();
        std::atomic<int> wrong{0};
        on_threads(session, 6, [&](int t) {
            const gpu::Stream stream(session.driver);
            const autotune_gemm_problem problem = gemm(16 + 8 * (t % 2), 32, 32);
            const GemmData data(session.driver, problem);
            for (int i = 0; i < 30; ++i) {
                if (t == 0) wrong += autotune_refresh(handle.get()) == AUTOTUNE_OK ? 0 : 1;
                wrong += wrong_when_tuned(handle, problem, data, stream);
            }
        });
        EXPECT_EQ(wrong, 0);
    });
}

// A plan for any beta includes the winner for beta = 0, which the one-call form would use.
TEST(PlanForAnyBeta, TakesTheWinnerOfBetaZeroByTheCall) {
    fake_test(
        "",
        [] {
            Session session;
            session.remember("64x64x64");
            const Handle handle = session.open();
            const autotune_gemm_problem problem = gemm(64, 64, 64);
            const GemmPlan plan(handle, problem);
            EXPECT_EQ(plan.origin(), AUTOTUNE_ORIGIN_DEFAULT);
            autotune_plan_facts facts = {};
            facts.struct_size = sizeof(facts);
            ASSERT_EQ(autotune_plan_info(plan.get(), &facts), AUTOTUNE_OK);
            EXPECT_EQ(facts.origin_when_zero, AUTOTUNE_ORIGIN_EXACT);
            EXPECT_THAT(facts.candidate_when_zero, HasSubstr("gemm/mma"));
            const gpu::Buffer scratch(session.driver, std::max<std::size_t>(plan.workspace_bytes(), 256));
            for (const float beta : {0.0F, 2.0F, 0.0F, -1.0F}) {
                const GemmData data(session.driver, problem);
                plan.run({data.a(), data.b(), data.c(), 1, beta, reinterpret_cast<void*>(scratch.address()), scratch.bytes()},
                         session.stream.handle());
                session.stream.synchronize();
                EXPECT_EQ(data.wrong(1, beta), 0) << beta;
            }
        },
        [](const fake::Sandbox& sandbox) { EXPECT_EQ(sandbox.count_calls("nvrtcCompileProgram"), 2); });
}

TEST(Warm, LoadsEveryKernelThatServesFewerRows) {
    fake_test("", [] {
        Session session;
        const Handle handle = session.open();
        const autotune_gemm_problem most = gemm(128, 64, 64);
        std::size_t kernels = 0;
        ASSERT_EQ(autotune_gemm_warm(handle.get(), &most, &kernels), AUTOTUNE_OK);
        EXPECT_GE(kernels, 1U);
        for (int m = 1; m <= 128; m += 9) {
            autotune_gemm_problem fewer = gemm(m, 64, 64);
            const GemmPlan plan(handle, fewer);
        }
    });
}

// A portfolio of kernels for the session's device, in a folder that `options` names.
class ShippedPortfolio {
  public:
    ShippedPortfolio(Session& session, const Problem& problem) : folder_(folder_of_files_ / ".") {
        const Device device = session.driver->device(0);
        db::Portfolio portfolio{"gemm", device.arch(), problem.class_key()};
        for (const NamedConfig& each : session.catalogue.find_family("gemm/mma")->space(problem, device).named)
            portfolio.candidates.push_back({"gemm/mma", each.config});
        portfolio.templates["gemm/mma"] = session.catalogue.template_identity(*session.catalogue.find_family("gemm/mma"));
        std::filesystem::create_directory(folder_of_files_ / "portfolio");
        std::ofstream(db::portfolio_path(folder_)) << db::to_json_line(portfolio) << "\n";
    }
    Handle open(Session& session) const {
        Options options;
        options.shipped = folder_.c_str();
        options.log = &Listener::hear;
        options.log_user = &session.listener;
        return Handle(options);
    }

  private:
    TempFolder folder_of_files_;
    std::string folder_;
};

// The first process of a server has compiled kernels, which are in the cubin cache. The best kernel for the first requested rows
// is not among them.
TEST(Warm, LeavesALaterProcessNothingToCompile) {
    fake_test("", [] {
        Session session;
        const ShippedPortfolio shipped(session, session.catalogue.problem({"hgemm", "8192x1144x5136", {{"beta", "any"}}}));
        const autotune_gemm_problem most = gemm(8192, 1144, 5136);
        ASSERT_EQ(autotune_gemm_warm(shipped.open(session).get(), &most, nullptr), AUTOTUNE_OK);
        const int before = session.listener.compiles;
        EXPECT_GE(before, 3);
        for (const int rows : {1392, 1, 400}) {
            const Handle later = shipped.open(session);
            const GemmPlan plan(later, gemm(rows, 1144, 5136));
            EXPECT_EQ(session.listener.compiles, before) << rows;
        }
    });
}

// The other problems get kernels that serve all problems of the range.
TEST(Plan, OfTheFirstRowsOfAWeightHasTheBestForThose) {
    fake_test("", [] {
        Session session;
        const ShippedPortfolio shipped(session, session.catalogue.problem({"hgemm", "8192x1144x5136", {{"beta", "any"}}}));
        const Handle other = shipped.open(session);
        const GemmPlan before(other, gemm(1, 1144, 5136));
        int differ = 0;
        for (const int rows : {392, 648, 840, 1296, 1392, 1544, 1600}) {
            const Handle handle = shipped.open(session);
            const std::string first = GemmPlan(handle, gemm(rows, 1144, 5136)).candidate();
            differ += first == GemmPlan(other, gemm(rows, 1144, 5136)).candidate() ? 0 : 1;
        }
        EXPECT_GT(differ, 0);
    });
}

// warm() tries the next candidate, as a plan does.
TEST(Warm, GoesOnWhereAKernelWillNotCompile) {
    fake_test("rule on=compile nth=1 do=fail message=\"error: no\"\n", [] {
        Session session;
        const Handle handle = session.open();
        const autotune_gemm_problem most = gemm(128, 64, 64);
        std::size_t kernels = 0;
        ASSERT_EQ(autotune_gemm_warm(handle.get(), &most, &kernels), AUTOTUNE_OK) << autotune_last_error(handle.get());
        EXPECT_GE(kernels, 1U);
    });
}

}  // namespace
}  // namespace autotune::runtime::background_fake_test
