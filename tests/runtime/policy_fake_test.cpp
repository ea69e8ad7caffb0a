#include <dlfcn.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <optional>
#include <thread>

#include "src/core/error.h"
#include "src/gpu/driver/driver.h"
#include "src/runtime/memory/workspaces.h"
#include "tests/runtime/fake_session.h"

namespace autotune::runtime::policy_fake_test {
namespace {

autotune_status tuned_status(Session& session, const Handle& handle, const autotune_gemm_problem& problem) {
    const GemmData data(session.driver, problem);
    return status_of([&] { run_tuned(session, handle, problem, data); });
}

TEST(OnMiss, CompileMakesThePlan) {
    fake_test("", [] {
        Session session;
        EXPECT_EQ(tuned_status(session, session.open(), gemm(64, 64, 64)), AUTOTUNE_OK);
    });
}

TEST(OnMiss, NotPlannedRunsOnlyWhatWasPlanned) {
    fake_test("", [] {
        Session session;
        const Handle handle = session.open(AUTOTUNE_ON_MISS_NOT_PLANNED);
        EXPECT_EQ(tuned_status(session, handle, gemm(64, 64, 64)), AUTOTUNE_NOT_PLANNED);
        EXPECT_THAT(autotune_last_error(handle.get()), HasSubstr("64x64x64"));
        const GemmPlan plan(handle, gemm(64, 64, 64));  // A plan for any beta also serves beta = 0.
        EXPECT_EQ(tuned_status(session, handle, gemm(64, 64, 64)), AUTOTUNE_OK);
        EXPECT_EQ(tuned_status(session, handle, gemm(32, 64, 64)), AUTOTUNE_NOT_PLANNED);
    });
}

TEST(OnMiss, LoadedOnlyRunsALegalKernelThatIsLoaded) {
    fake_test(
        {"", {.environment = {{"AUTOTUNE_PIN", "gemm/mma"}}}},
        [] {
            Session session;
            const Handle handle = session.open(AUTOTUNE_ON_MISS_LOADED_ONLY);
            EXPECT_EQ(tuned_status(session, handle, gemm(64, 64, 64)), AUTOTUNE_NOT_PLANNED);
            const GemmPlan plan(handle, gemm(64, 64, 64));
            const autotune_gemm_problem other = gemm(72, 80, 96);
            const GemmData data(session.driver, other);
            EXPECT_EQ(wrong_when_tuned(handle, other, data, session.stream), 0);
        },
        [](const fake::Sandbox& sandbox) { EXPECT_EQ(sandbox.count_calls("nvrtcCompileProgram"), 1); });
}

TEST(OnMiss, ChoosesByTheAddressesOfTheCall) {
    fake_test("", [] {
        Session session;
        const Handle handle = session.open();
        autotune_gemm_problem problem = gemm(40, 32, 48);
        const GemmData data(session.driver, problem);
        const gpu::Buffer wide(session.driver, 40 * 48 * 2 + 16);
        const void* odd = reinterpret_cast<const void*>(wide.address() + 2);
        EXPECT_EQ(status_of([&] {
                      tuned_gemm(handle, problem, {odd, data.b(), data.c()}, session.stream.handle());
                  }),
                  AUTOTUNE_OK);
    });
}

TEST(OnMiss, RefusesAnAddressThatNoElementCanHave) {
    fake_test("", [] {
        Session session;
        const Handle handle = session.open();
        const autotune_gemm_problem problem = gemm(40, 32, 48);
        const GemmData data(session.driver, problem);
        const void* odd = static_cast<const char*>(data.a()) + 1;
        EXPECT_NE(status_of([&] {
                      tuned_gemm(handle, problem, {odd, data.b(), data.c()}, session.stream.handle());
                  }),
                  AUTOTUNE_OK);
        EXPECT_THAT(autotune_last_error(handle.get()), HasSubstr("align_a"));
    });
}

TEST(OnMiss, RefusesBadProblems) {
    fake_test("", [] {
        Session session;
        const Handle handle = session.open();
        const GemmData data(session.driver, gemm(64, 64, 64));
        for (const auto& bad : {gemm(1, -1, 1), gemm(-1, 4, 4), gemm(std::int64_t{1} << 40, 4, 4)})
            EXPECT_EQ(status_of([&] { run_tuned(session, handle, bad, data); }), AUTOTUNE_INVALID_ARGUMENT);
    });
}

TEST(Capture, OfAThousandTunedCallsReplays) {
    fake_test(
        "",
        [] {
            Session session;
            const Handle handle = session.open();
            const autotune_gemm_problem problem = gemm(24, 16, 16);
            const GemmData data(session.driver, problem);
            run_tuned(session, handle, problem, data);
            const gpu::Graph graph = session.capture([&] {
                for (int i = 0; i < 1000; ++i) run_tuned(session, handle, problem, data);
            });
            session.replay(graph);
            EXPECT_EQ(data.wrong(1, 0), 0);
        },
        [](const fake::Sandbox& sandbox) {
            EXPECT_EQ(sandbox.count_calls("BUG"), 0);
            EXPECT_EQ(sandbox.count_calls("nvrtcCompileProgram"), 1);
        });
}

TEST(Capture, NeverCompiles) {
    fake_test(
        "",
        [] {
            Session session;
            const Handle handle = session.open();
            const autotune_gemm_problem problem = gemm(64, 64, 64);
            const GemmData data(session.driver, problem);
            const gpu::Graph graph = session.capture(
                [&] { EXPECT_EQ(status_of([&] { run_tuned(session, handle, problem, data); }), AUTOTUNE_NOT_PLANNED); });
            EXPECT_THAT(autotune_last_error(handle.get()), HasSubstr("captured"));
        },
        [](const fake::Sandbox& sandbox) { EXPECT_EQ(sandbox.count_calls("nvrtcCompileProgram"), 0); });
}

TEST(Capture, UsesALoadedKernelAndMakesTheRealPlanAfterwards) {
    fake_test("", [] {
        Session session;
        session.remember("96x64x64");
        const Handle handle = session.open();
        ASSERT_EQ(tuned_status(session, handle, gemm(64, 72, 64)), AUTOTUNE_OK);  // some kernel is loaded
        autotune_gemm_problem problem = gemm(96, 64, 64);
        const GemmData data(session.driver, problem);
        const gpu::Graph graph = session.capture([&] { run_tuned(session, handle, problem, data); });
        session.replay(graph);
        EXPECT_EQ(data.wrong(1, 0), 0);
        run_tuned(session, handle, problem, data);
        problem.beta = AUTOTUNE_BETA_ZERO;
        EXPECT_EQ(GemmPlan(handle, problem).origin(), AUTOTUNE_ORIGIN_EXACT);
    });
}

TEST(Capture, OnAnotherThreadIsNotDisturbedByAPlan) {
    fake_test(
        "",
        [] {
            Session session;
            const Handle handle = session.open();
            const autotune_gemm_problem problem = gemm(64, 64, 64);
            const GemmData data(session.driver, problem);
            run_tuned(session, handle, problem, data);
            const gpu::Graph graph = session.capture([&] {
                run_tuned(session, handle, problem, data);
                std::thread([&] {
                    session.context.make_current();
                    autotune_gemm_problem other = gemm(64, 64, 64);
                    other.trans_b = 1;
                    const GemmPlan plan(handle, other);
                }).join();
                run_tuned(session, handle, problem, data);
            });
            session.replay(graph);
            EXPECT_EQ(data.wrong(1, 0), 0);
        },
        [](const fake::Sandbox& sandbox) {
            EXPECT_EQ(sandbox.count_calls("BUG"), 0);
            EXPECT_EQ(sandbox.count_calls("nvrtcCompileProgram"), 2);
        });
}

TEST(Capture, OnAnotherThreadIsNotDisturbedByTheLibrarysOwnThreads) {
    fake_test(
        "",
        [] {
            Session session;
            session.remember("64x64x64");
            const Handle handle = session.open();
            const autotune_gemm_problem problem = gemm(64, 64, 64);
            const GemmData data(session.driver, problem);
            run_tuned(session, handle, problem, data);
            const gpu::Stream stream(session.driver);
            std::optional<Handle> other;
            const gpu::Graph graph = session.capture([&] {
                run_tuned(session, handle, problem, data);
                std::thread([&] {
                    session.context.make_current();
                    // This handle compiles general kernels on threads of its own.
                    other.emplace(session.open(AUTOTUNE_ON_MISS_BACKGROUND));
                    tuned_gemm(*other, problem, {data.a(), data.b(), data.c()}, stream.handle());
                    EXPECT_EQ(autotune_gemm_warm(other->get(), &problem, nullptr), AUTOTUNE_OK);
                    EXPECT_EQ(autotune_finish(other->get()), AUTOTUNE_OK);
                }).join();
                run_tuned(session, handle, problem, data);
            });
            session.replay(graph);
            EXPECT_EQ(data.wrong(1, 0), 0);
        },
        [](const fake::Sandbox& sandbox) { EXPECT_EQ(sandbox.count_calls("BUG"), 0); });
}

TEST(Workspace, IsNotSharedByStreams) {
    fake_test(
        {"", {.environment = {{"AUTOTUNE_PIN", "gemm/mma block_k=32 split_k=2"}}}},
        [] {
            Session session;
            const Handle handle = session.open();
            const autotune_gemm_problem problem = gemm(64, 64, 256);
            const GemmData data(session.driver, problem);
            const gpu::Stream other(session.driver);
            for (int i = 0; i < 3; ++i) {
                run_tuned(session, handle, problem, data);
                tuned_gemm(handle, problem, {data.a(), data.b(), data.c()}, other.handle());
            }
            session.stream.synchronize();
            other.synchronize();
            EXPECT_EQ(data.wrong(1, 0), 0);
        },
        [](const fake::Sandbox& sandbox) {
            EXPECT_EQ(sandbox.count_calls("cuMemAlloc"), 3 + 2);  // three matrices, two workspaces
        });
}

TEST(Workspace, MayBeMadeDuringACapture) {
    fake_test(
        {"", {.environment = {{"AUTOTUNE_PIN", "gemm/mma block_k=32 split_k=2"}}}},
        [] {
            Session session;
            const Handle handle = session.open();
            autotune_gemm_problem problem = gemm(64, 64, 256);
            const GemmData data(session.driver, problem);
            const GemmPlan plan(handle, problem);  // This plan is for any beta. It was made, but never runs on this stream.
            const gpu::Graph graph = session.capture([&] { run_tuned(session, handle, problem, data); });
            session.replay(graph);
            EXPECT_EQ(data.wrong(1, 0), 0);
        },
        [](const fake::Sandbox& sandbox) { EXPECT_EQ(sandbox.count_calls("BUG"), 0); });
}

TEST(Workspace, GrowsAndKeepsWhatAGraphHolds) {
    fake_test(
        {"", {.environment = {{"AUTOTUNE_PIN", "gemm/mma block_k=32 split_k=2"}}}},
        [] {
            Session session;
            const Handle handle = session.open();
            const autotune_gemm_problem small = gemm(64, 64, 256);
            const autotune_gemm_problem large = gemm(128, 128, 256);
            const GemmData small_data(session.driver, small);
            const GemmData large_data(session.driver, large);
            run_tuned(session, handle, small, small_data);
            const gpu::Graph graph = session.capture([&] { run_tuned(session, handle, small, small_data); });
            run_tuned(session, handle, large, large_data);
            session.replay(graph);
            EXPECT_EQ(small_data.wrong(1, 0), 0);
            EXPECT_EQ(large_data.wrong(1, 0), 0);
        },
        [](const fake::Sandbox& sandbox) { EXPECT_EQ(sandbox.count_calls("BUG"), 0); });
}

constexpr const char* kDividesK = "gemm/mma block_k=32 split_k=2";

// Many shapes of one stream share one arena. It has few sizes, because it grows in steps.
TEST(Workspace, IsOneArenaForAllShapesOfAStream) {
    fake_test(
        {"", {.environment = {{"AUTOTUNE_PIN", kDividesK}}}},
        [] {
            Session session;
            const Handle handle = session.open();
            const GemmData data(session.driver, gemm(128, 128, 256));
            for (int m = 128; m > 64; m -= 8) {
                for (int n = 128; n > 64; n -= 8) run_tuned(session, handle, gemm(m, n, 256), data);
            }
            run_tuned(session, handle, gemm(128, 128, 256), data);
            session.stream.synchronize();
            EXPECT_EQ(data.wrong(1, 0), 0);
        },
        [](const fake::Sandbox& sandbox) { EXPECT_LE(sandbox.count_calls("cuMemAlloc"), 3 + 2); });
}

TEST(Workspace, ThatIsReservedServesTheFirstStreamThatWantsIt) {
    fake_test("", [] {
        Session session;
        const std::uint64_t context = gpu::current_context(*session.driver)->id;
        const gpu::Stream other(session.driver);
        Workspaces workspaces(session.driver);
        workspaces.reserve({.context_id = context, .bytes = 1 << 20});
        const std::size_t reserved = workspaces.bytes();
        EXPECT_TRUE(workspaces.holds({context, session.stream.handle(), 1 << 20, 256}));
        EXPECT_FALSE(workspaces.holds({context, session.stream.handle(), 2 << 20, 256}));
        workspaces.get({context, session.stream.handle(), 1 << 20, 256});
        EXPECT_EQ(workspaces.bytes(), reserved);
        workspaces.get({context, other.handle(), 4096, 256});
        EXPECT_GT(workspaces.bytes(), reserved);
    });
}

// The stream has an arena. Reserved memory replaces it when a request is too large for the arena.
TEST(Workspace, GrowsIntoWhatIsReserved) {
    fake_test("", [] {
        Session session;
        const std::uint64_t context = gpu::current_context(*session.driver)->id;
        Workspaces workspaces(session.driver);
        const auto request = [&](std::size_t bytes) { return Workspaces::Request{context, session.stream.handle(), bytes, 256}; };
        const Workspace before = workspaces.get(request(1 << 20));
        workspaces.reserve(request(3 << 19));
        const std::size_t reserved = workspaces.bytes();
        workspaces.reserve(request(3 << 19));
        EXPECT_EQ(workspaces.get(request(4096)).address, before.address) << "as long as that is large enough";
        EXPECT_NE(workspaces.get(request(3 << 19)).address, before.address);
        EXPECT_TRUE(workspaces.holds(request((2 << 20) - 4096))) << "it is twice as large as the one before";
        EXPECT_EQ(workspaces.bytes(), reserved);
    });
}

TEST(Workspace, IsEachGraphsOwn) {
    fake_test(
        {"", {.environment = {{"AUTOTUNE_PIN", kDividesK}}}},
        [] {
            Session session;
            const Handle handle = session.open();
            const autotune_gemm_problem problem = gemm(64, 64, 256);
            const GemmData data(session.driver, problem);
            run_tuned(session, handle, problem, data);
            // A thread of the library frees the arena of a graph that has ended. Until it has, the next capture may take that
            // arena.
            const std::size_t without_graphs = session.context.free_bytes();
            const auto wait_for_arenas = [&] {
                for (int i = 0; i < 5000 && session.context.free_bytes() != without_graphs; ++i)
                    std::this_thread::sleep_for(std::chrono::milliseconds(1));
                EXPECT_EQ(session.context.free_bytes(), without_graphs);
            };
            const auto capture = [&] {
                return session.capture([&] {
                    run_tuned(session, handle, problem, data);
                    run_tuned(session, handle, problem, data);
                });
            };
            {
                const gpu::Graph first = capture(), second = capture();
                first.launch(session.stream.handle());
                second.launch(session.stream.handle());
                session.stream.synchronize();
            }
            wait_for_arenas();
            for (int i = 0; i < 5; ++i) {
                {
                    const gpu::Graph later = capture();
                    later.launch(session.stream.handle());
                    session.stream.synchronize();
                }
                wait_for_arenas();
            }
            EXPECT_EQ(data.wrong(1, 0), 0);
        },
        [](const fake::Sandbox& sandbox) {
            EXPECT_EQ(sandbox.count_calls("BUG"), 0);
            EXPECT_EQ(sandbox.count_calls("cuMemAlloc"), 3 + 1 + 2 + 5);  // matrices, the stream's arena, one for each graph
        });
}

struct BadPin {
    const char *pin, *text;
    autotune_status status;
};
constexpr std::array kBadPins = {
    BadPin{"gemm/none", "pin 'gemm/none': there is no family 'gemm/none'", AUTOTUNE_INVALID_ARGUMENT},
    BadPin{"gemm/mma stages", "pin 'gemm/mma stages': 'stages' is no parameter=value of the family", AUTOTUNE_INVALID_ARGUMENT},
    BadPin{"gemm/mma colour=3", "pin 'gemm/mma colour=3': 'colour=3' is no parameter=value of the family",
           AUTOTUNE_INVALID_ARGUMENT},
    BadPin{"gemm/mma block_m=7", "the pinned config is not legal for ", AUTOTUNE_NO_KERNEL},
    BadPin{"gemm/mma_fp8", "the pinned family gemm/mma_fp8 cannot do ", AUTOTUNE_NO_KERNEL}};

// A pin is read with the first problem: an error in it is that call's status.
TEST(Pins, ThatAreBadAreTheStatusOfTheFirstPlan) {
    for (const BadPin& bad : kBadPins) {
        Sandbox sandbox;
        if (!in_fake_process(sandbox, {.environment = {{"AUTOTUNE_PIN", bad.pin}}})) continue;
        Session session;
        const Handle handle = session.open();
        const autotune_gemm_problem problem = gemm(64, 64, 64);
        autotune_plan plan = nullptr;
        const autotune_status status = autotune_gemm_plan(handle.get(), &problem, &plan);
        EXPECT_EQ(plan, nullptr);
        const std::string text = autotune_last_error(nullptr);
        const char* const pin = std::getenv("AUTOTUNE_PIN");
        const auto* const now =
            std::find_if(kBadPins.begin(), kBadPins.end(), [&](const BadPin& each) { return std::string(each.pin) == pin; });
        EXPECT_EQ(status, now->status) << text;
        EXPECT_THAT(text, HasSubstr(now->text));
        return;
    }
}

// A kernel expects its counters to be zero, and the first call that needs them may be in a capture.
TEST(Workspace, WithCountersMayBeMadeDuringACapture) {
    Sandbox sandbox;
    const std::string pin =
        "gemm/wgmma split_k=2 reduce_kernel=0 block_m=64 block_n=64 block_k=64 consumer_warpgroups=1 pingpong=0 cluster_m=1 "
        "cluster_n=1 "
        "cluster_k=1 raster=0 group=1 stages=12 prefetch_steps=0 prefetch_all=0";
    if (!in_fake_process(sandbox, {.environment = {{"AUTOTUNE_PIN", pin}}})) {
        EXPECT_EQ(sandbox.count_calls("BUG"), 0);
        return;
    }
    Session session;
    const Handle handle = session.open();
    autotune_gemm_problem problem = gemm(64, 64, 1024);
    problem.beta = AUTOTUNE_BETA_ZERO;
    const GemmData data(session.driver, problem);
    const GemmPlan plan(handle, problem);
    std::size_t zero = 0;
    ASSERT_EQ(autotune_plan_workspace_zero(plan.get(), &zero), AUTOTUNE_OK);
    ASSERT_GT(zero, 0U) << plan.candidate();
    const gpu::Graph graph = session.capture([&] { run_tuned(session, handle, problem, data); });
    session.replay(graph);
    EXPECT_EQ(data.wrong(1, 0), 0);
}

// A context besides the device's primary one. It is current after its creation.
class SecondContext {
  public:
    SecondContext() { EXPECT_EQ(entry<int (*)(void**, unsigned, int)>("cuCtxCreate", 3020)(&raw_, 0, 0), 0); }
    ~SecondContext() { EXPECT_EQ(entry<int (*)(void*)>("cuCtxDestroy", 4000)(raw_), 0); }
    SecondContext(const SecondContext&) = delete;
    SecondContext& operator=(const SecondContext&) = delete;

  private:
    template <typename Function>
    static Function entry(const char* name, int version) {
        using Look = int (*)(const char*, void**, int, std::uint64_t, void*);
        const auto look = reinterpret_cast<Look>(::dlsym(::dlopen("libcuda.so.1", RTLD_NOW), "cuGetProcAddress_v2"));
        void* found = nullptr;
        EXPECT_EQ(look(name, &found, version, 0, nullptr), 0);
        return reinterpret_cast<Function>(found);
    }
    void* raw_ = nullptr;
};

TEST(Contexts, OfOneDeviceHaveTheirOwnPlansOfOneKernel) {
    fake_test(
        {"", {.environment = {{"AUTOTUNE_PIN", "gemm/mma"}}}},
        [] {
            Session session;
            const Handle handle = session.open();
            const autotune_gemm_problem problem = gemm(64, 64, 64);
            const auto expect_right_answers = [&] {
                const gpu::Stream stream(session.driver);
                const GemmData data(session.driver, problem);
                for (int turn = 0; turn < 2; ++turn) tuned_gemm(handle, problem, {data.a(), data.b(), data.c()}, stream.handle());
                stream.synchronize();
                EXPECT_EQ(data.wrong(1, 0), 0);
            };
            expect_right_answers();
            const GemmPlan plan(handle, problem);
            const GemmData data(session.driver, problem);
            const auto run_plan = [&] { plan.run({.a = data.a(), .b = data.b(), .c = data.c()}, session.stream.handle()); };
            {
                const SecondContext second;
                expect_right_answers();
                EXPECT_EQ(status_of(run_plan), AUTOTUNE_INVALID_ARGUMENT);
                EXPECT_THAT(autotune_last_error(handle.get()), testing::HasSubstr("another CUDA context"));
            }
            session.context.make_current();
            run_plan();
            session.stream.synchronize();
            EXPECT_EQ(data.wrong(1, 0), 0);
            expect_right_answers();
        },
        [](const fake::Sandbox& sandbox) {
            // These are the plan's kernels: one for the calls' alignment and one for any.
            EXPECT_EQ(sandbox.count_calls("nvrtcCompileProgram"), 2);
            EXPECT_EQ(sandbox.count_calls("cuLibraryLoadData"), 2);
            EXPECT_EQ(sandbox.count_calls("cuFuncLoad"), 2 * 3 + 1) << "all of both into the first, the calls' into the second";
        });
}

TEST(Devices, HaveTheirOwnPlans) {
    fake_test(
        "device name=\"NVIDIA H200\"\ndevice name=\"NVIDIA A100\" cc=8.0 sms=108 l2_mib=40 smem_block=166912\n",
        [] {
            Session session;
            const Handle handle = session.open();
            const autotune_gemm_problem problem = gemm(64, 64, 64);
            {
                const GemmData data(session.driver, problem);
                EXPECT_EQ(wrong_when_tuned(handle, problem, data, session.stream), 0);
            }
            const gpu::Context second(session.driver, 1);
            const gpu::Stream stream(session.driver);
            const GemmData data(session.driver, problem);
            tuned_gemm(handle, problem, {data.a(), data.b(), data.c()}, stream.handle());
            stream.synchronize();
            EXPECT_EQ(data.wrong(1, 0), 0);
        },
        [](const fake::Sandbox& sandbox) {
            EXPECT_GE(sandbox.count_calls("sm_90a"), 1);
            EXPECT_GE(sandbox.count_calls("sm_80"), 1);
        });
}

constexpr const char* kTwoDevices = "device name=\"NVIDIA H200\"\ndevice name=\"NVIDIA H200\"\n";

// Two equal devices, each with a stream and matrices. The first one is current.
struct TwoDevices {
    Session session;
    gpu::Context second{session.driver, 1};
    gpu::Stream other_stream{session.driver};
    autotune_gemm_problem problem = gemm(64, 64, 256);
    std::optional<GemmData> other_data{std::in_place, session.driver, problem};
    Handle handle = session.open();
    std::optional<GemmData> data;

    TwoDevices() {
        session.context.make_current();
        data.emplace(session.driver, problem);
    }
    ~TwoDevices() {
        second.make_current();
        other_data.reset();
        session.context.make_current();
    }
    autotune_status call(const GemmData& of, const gpu::Stream& stream) const {
        return status_of([&] { tuned_gemm(handle, problem, {of.a(), of.b(), of.c()}, stream.handle()); });
    }
    autotune_status run(const GemmPlan& plan, const GemmData& of, const gpu::Stream& stream) const {
        return status_of([&] { plan.run({of.a(), of.b(), of.c()}, stream.handle()); });
    }
    std::string words() const { return autotune_last_error(nullptr); }
};

constexpr const char* kForeignStream =
    "the stream belongs to another CUDA context than the one that is current: to another device, or to a context that was made "
    "beside the device's primary one";

TEST(Devices, OfAnArrayAndOfTheCallMustBeOne) {
    fake_test(
        kTwoDevices,
        [] {
            const TwoDevices of;
            const std::string words =
                "a is memory of device 1, but device 0 is current, which cannot reach it: make the array's device current, or "
                "enable "
                "peer access";
            for (int i = 0; i < 2; ++i) {  // the problem is new in the first turn and known in the second
                EXPECT_EQ(of.call(*of.other_data, of.session.stream), AUTOTUNE_INVALID_ARGUMENT);
                EXPECT_EQ(of.words(), words);
                EXPECT_EQ(of.call(*of.data, of.session.stream), AUTOTUNE_OK);
            }
            const GemmPlan plan(of.handle, of.problem);
            EXPECT_EQ(of.run(plan, *of.other_data, of.session.stream), AUTOTUNE_INVALID_ARGUMENT);
            EXPECT_EQ(of.words(), words);
            EXPECT_EQ(of.run(plan, *of.data, of.session.stream), AUTOTUNE_OK);
            EXPECT_EQ(of.data->wrong(1, 0), 0);
        },
        [](const fake::Sandbox& sandbox) { EXPECT_EQ(sandbox.count_calls("BUG"), 0); });
}

TEST(Devices, OfAPlanAndOfTheCallMustBeOne) {
    fake_test(
        kTwoDevices,
        [] {
            const TwoDevices of;
            const GemmPlan plan(of.handle, of.problem);
            of.second.make_current();
            for (const GemmData* each : {&*of.data, &*of.other_data}) {
                EXPECT_EQ(of.run(plan, *each, of.other_stream), AUTOTUNE_INVALID_ARGUMENT);
                EXPECT_EQ(of.words(), "the plan was made in another CUDA context than the one that is current");
            }
            of.session.context.make_current();
            EXPECT_EQ(of.run(plan, *of.data, of.session.stream), AUTOTUNE_OK);
        },
        [](const fake::Sandbox& sandbox) { EXPECT_EQ(sandbox.count_calls("BUG"), 0); });
}

TEST(Devices, OfAStreamAndOfTheCallMustBeOne) {
    fake_test(
        kTwoDevices,
        [] {
            const TwoDevices of;
            for (int i = 0; i < 2; ++i) {
                EXPECT_EQ(of.call(*of.data, of.other_stream), AUTOTUNE_INVALID_ARGUMENT);
                EXPECT_EQ(of.words(), kForeignStream);
            }
            const GemmPlan plan(of.handle, of.problem);
            EXPECT_EQ(of.run(plan, *of.data, of.other_stream), AUTOTUNE_INVALID_ARGUMENT);
            EXPECT_EQ(of.words(), kForeignStream);
            EXPECT_EQ(of.call(*of.data, of.session.stream), AUTOTUNE_OK);
            EXPECT_EQ(of.data->wrong(1, 0), 0);
        },
        [](const fake::Sandbox& sandbox) { EXPECT_EQ(sandbox.count_calls("BUG"), 0); });
}

// The workspace is made before the launch and must be on the same device.
TEST(Devices, OfAStreamAndOfTheCallMustBeOneWithAWorkspaceToo) {
    fake_test({kTwoDevices, {.environment = {{"AUTOTUNE_PIN", kDividesK}}}}, [] {
        const TwoDevices of;
        for (int i = 0; i < 2; ++i) {
            EXPECT_EQ(of.call(*of.data, of.other_stream), AUTOTUNE_INVALID_ARGUMENT);
            EXPECT_EQ(of.words(), kForeignStream);
        }
        EXPECT_EQ(of.call(*of.data, of.session.stream), AUTOTUNE_OK);
    });
}

// Each thread has a device, and all use one handle.
TEST(Devices, AreServedAtTheSameTime) {
    fake_test(
        kTwoDevices,
        [] {
            const TwoDevices of;
            std::atomic<int> wrong{0};
            std::vector<std::thread> threads;
            for (int t = 0; t < 8; ++t) {
                threads.emplace_back([&, t] {
                    (t % 2 == 0 ? of.session.context : of.second).make_current();
                    const gpu::Stream stream(of.session.driver);
                    const GemmData data(of.session.driver, of.problem);
                    for (int i = 0; i < 20; ++i) wrong += wrong_when_tuned(of.handle, of.problem, data, stream);
                });
            }
            for (std::thread& thread : threads) thread.join();
            EXPECT_EQ(wrong, 0);
        },
        [](const fake::Sandbox& sandbox) { EXPECT_EQ(sandbox.count_calls("BUG"), 0); });
}

}  // namespace
}  // namespace autotune::runtime::policy_fake_test
