#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "tests/runtime/fake_session.h"

namespace autotune::runtime::faults_fake_test {
namespace {

using fake::Use;

TEST(Create, WithoutADriverIsNoGpu) {
    fake_test({"", {.driver = Use::none}}, [] {
        autotune_handle handle = nullptr;
        EXPECT_EQ(autotune_create(&handle, nullptr), AUTOTUNE_NO_GPU);
        EXPECT_THAT(autotune_last_error(nullptr), HasSubstr("libcuda"));
    });
}

TEST(Create, WithADriverThatFailsIsNoGpu) {
    fake_test("driver init=999\n", [] { EXPECT_EQ(status_of([] { const Handle handle; }), AUTOTUNE_NO_GPU); });
}

TEST(Create, MakesNoContext) {
    fake_test(
        "", [] { const Handle handle; },
        [](const fake::Sandbox& sandbox) {
            EXPECT_EQ(sandbox.count_calls("cuDevicePrimaryCtxRetain") + sandbox.count_calls("cuCtxCreate"), 0);
        });
}

// All programs of this user share the folder under /tmp, and only the cubin cache uses it. Whether it already has the kernel does
// not matter here.
TEST(Create, IsAllowedToGoWithoutHome) {
    Sandbox sandbox;
    const std::string database = sandbox.folder() / "a.db";
    if (!in_fake_process(
            sandbox, {.environment = {{"HOME", ""}, {"XDG_DATA_HOME", ""}, {"XDG_CACHE_HOME", ""}, {"AUTOTUNE_DB", database}}}))
        return;
    Session session;
    EXPECT_EQ(status_of([&] { GemmPlan(session.open(), gemm(64, 64, 64)); }), AUTOTUNE_OK);
}

TEST(Failure, OfAMissingContextSaysWhatToDo) {
    fake_test("", [] {
        const Handle handle;
        EXPECT_EQ(status_of([&] { GemmPlan(handle, gemm(64, 64, 64)); }), AUTOTUNE_NO_CONTEXT);
        EXPECT_THAT(autotune_last_error(handle.get()), HasSubstr("context"));
    });
}

TEST(Failure, OfAMissingCompilerIsAStatus) {
    fake_test({"", {.environment = {{"AUTOTUNE_NVRTC", "/nowhere/libnvrtc.so"}}}}, [] {
        Session session;
        const Handle handle = session.open();
        EXPECT_EQ(status_of([&] { GemmPlan(handle, gemm(64, 64, 64)); }), AUTOTUNE_COMPILE_FAILED);
        EXPECT_THAT(autotune_last_error(handle.get()), HasSubstr("/nowhere/libnvrtc.so"));
    });
}

TEST(Failure, OfAKernelOnTheDeviceIsAStatusOfTheNextCall) {
    fake_test("rule from=2 do=return code=700\n", [] {
        Session session;
        const Handle handle = session.open();
        const autotune_gemm_problem problem = gemm(64, 64, 64);
        const GemmData data(session.driver, problem);
        run_tuned(session, handle, problem, data);
        const auto again = [&] { run_tuned(session, handle, problem, data); };
        EXPECT_THROW(
            {
                for (int i = 0; i < 3; ++i) again();
            },
            StatusError);
        EXPECT_EQ(status_of(again), AUTOTUNE_DRIVER_ERROR);
        ::_exit(::testing::Test::HasFailure() ? 1 : (std::puts("[  PASSED  ] 1 test."), std::fflush(stdout), 0));
    });
}

TEST(Failure, OfAWorkspaceAllocationIsOutOfMemory) {
    fake_test(
        {"rule on=cuMemAlloc from=4 do=return code=2\n", {.environment = {{"AUTOTUNE_PIN", "gemm/mma block_k=32 split_k=2"}}}},
        [] {
            Session session;
            const Handle handle = session.open();
            const autotune_gemm_problem problem = gemm(64, 64, 256);
            const GemmData data(session.driver, problem);
            EXPECT_EQ(status_of([&] { run_tuned(session, handle, problem, data); }), AUTOTUNE_OUT_OF_MEMORY);
        });
}

TEST(Failure, OfTheWinnersCompileFallsBackWithAWarning) {
    fake_test("rule on=compile nth=1 do=fail message=\"error: no\"\n", [] {
        Session session;
        session.remember("64x64x64");
        const Handle handle = session.open();
        autotune_gemm_problem problem = gemm(64, 64, 64);
        problem.beta = AUTOTUNE_BETA_ZERO;
        EXPECT_EQ(GemmPlan(handle, problem).origin(), AUTOTUNE_ORIGIN_DEFAULT);
        ASSERT_EQ(session.listener.warnings.size(), 1U);
        EXPECT_THAT(session.listener.warnings[0], HasSubstr("gemm/mma"));
    });
}

TEST(Cache, OfCubinsServesAnotherProcessWithoutACompiler) {
    Sandbox sandbox;
    const bool second = std::getenv("AUTOTUNE_TEST_SECOND") != nullptr;
    if (!second && !in_fake_process(sandbox)) {
        EXPECT_TRUE(sandbox.count_calls("nvrtcCompileProgram") == 1);
        in_fake_process(sandbox, {.nvrtc = Use::none, .environment = {{"AUTOTUNE_TEST_SECOND", "1"}}});
        EXPECT_TRUE(sandbox.count_calls("nvrtcCompileProgram") == 1);
        return;
    }
    Session session;
    if (!second) session.remember("64x64x64", "any");
    const GemmPlan plan(session.open(), gemm(64, 64, 64));
    EXPECT_EQ(plan.origin(), AUTOTUNE_ORIGIN_EXACT);
}

TEST(Cache, OfCubinsThatIsBrokenCompilesAgain) {
    Sandbox sandbox;
    const bool second = std::getenv("AUTOTUNE_TEST_SECOND") != nullptr;
    if (!second && !in_fake_process(sandbox)) {
        for (const auto& entry : std::filesystem::recursive_directory_iterator(sandbox.folder()))
            if (entry.path().extension() == ".atcubin") std::filesystem::resize_file(entry.path(), 100);
        in_fake_process(sandbox, {.environment = {{"AUTOTUNE_TEST_SECOND", "1"}}});
        EXPECT_EQ(sandbox.count_calls("nvrtcCompileProgram"), 2);
        return;
    }
    Session session;
    const GemmPlan plan(session.open(), gemm(64, 64, 64));
}

TEST(Cache, OfCubinsThatTheDriverRefusesCompilesAgain) {
    Sandbox sandbox;
    const bool second = std::getenv("AUTOTUNE_TEST_SECOND") != nullptr;
    if (!second && !in_fake_process(sandbox)) {
        sandbox.script("rule on=load nth=1 do=return code=200\n");
        in_fake_process(sandbox, {.environment = {{"AUTOTUNE_TEST_SECOND", "1"}}});
        EXPECT_EQ(sandbox.count_calls("nvrtcCompileProgram"), 2);
        return;
    }
    Session session;
    const GemmPlan plan(session.open(), gemm(64, 64, 64));
    EXPECT_EQ(session.listener.warnings.size(), second ? 1U : 0U);
}

// Limits how many more files the process may open.
class DescriptorLimit {
  public:
    explicit DescriptorLimit(int spare) {
        ::getrlimit(RLIMIT_NOFILE, &before_);
        const int lowest = ::dup(0);
        ::close(lowest);
        rlimit fewer = before_;
        fewer.rlim_cur = static_cast<rlim_t>(lowest + spare);
        ::setrlimit(RLIMIT_NOFILE, &fewer);
    }
    ~DescriptorLimit() { ::setrlimit(RLIMIT_NOFILE, &before_); }
    DescriptorLimit(const DescriptorLimit&) = delete;
    DescriptorLimit& operator=(const DescriptorLimit&) = delete;

  private:
    rlimit before_{};
};

TEST(Descriptors, ThatRunOutAreWhatEveryMessageNames) {
    fake_test("", [] {
        Session session;
        session.remember("64x64x64", "any");
        int heard = 0;
        for (int spare = 0; spare < 8; ++spare) {
            session.listener.warnings.clear();
            std::string failure;
            {
                const DescriptorLimit limit(spare);
                try {
                    const GemmPlan plan(session.open(), gemm(64, 64, 64));
                } catch (const StatusError& error) {
                    failure = error.what();
                }
            }
            if (!failure.empty()) session.listener.warnings.push_back(failure);
            heard += static_cast<int>(session.listener.warnings.size());
            for (const std::string& text : session.listener.warnings)
                EXPECT_THAT(text, HasSubstr("Too many open files")) << spare;
        }
        EXPECT_GE(heard, 3);
    });
}

TEST(Database, ThatIsForeignIsOneWarningAndADefault) {
    fake_test("", [] {
        Session session;
        std::filesystem::create_directories(std::filesystem::path(session.database()).parent_path());
        std::ofstream(session.database()) << std::string(8192, 'z');
        const Handle handle = session.open();
        for (const int m : {32, 64, 96}) EXPECT_EQ(GemmPlan(handle, gemm(m, 64, 64)).origin(), AUTOTUNE_ORIGIN_DEFAULT);
        EXPECT_EQ(session.listener.warnings.size(), 1U);
    });
}

// Folders that nobody can write, not even the superuser: kernels are compiled in every process and misses are not recorded, with
// one warning each. The test sets both places, because the library would replace an unusable HOME by a folder under /tmp, which
// all programs of this user share.
TEST(Places, ThatCannotBeWrittenCostWarningsAlone) {
    fake_test({"", {.environment = {{"AUTOTUNE_DB", "/proc/none/autotune.db"}, {"AUTOTUNE_CACHE_DIR", "/proc/none"}}}}, [] {
        Session session;
        Options options;
        options.record_misses = 1;
        options.log = &test::Listener::hear;
        options.log_user = &session.listener;
        const Handle handle(options);
        const autotune_gemm_problem problem = gemm(64, 64, 64);
        const GemmData data(session.driver, problem);
        for (int i = 0; i < 2; ++i) EXPECT_EQ(status_of([&] { run_tuned(session, handle, problem, data); }), AUTOTUNE_OK);
        session.stream.synchronize();
        EXPECT_EQ(data.wrong(1, 0), 0);
        for (int i = 0; i < 2; ++i) EXPECT_EQ(autotune_flush_misses(handle.get()), AUTOTUNE_OK);
        ASSERT_EQ(session.listener.warnings.size(), 2U);
        EXPECT_THAT(session.listener.warnings[0], HasSubstr("kernels are compiled anew in every process"));
        EXPECT_THAT(session.listener.warnings[1], HasSubstr("misses are not recorded"));
    });
}

}  // namespace
}  // namespace autotune::runtime::faults_fake_test
