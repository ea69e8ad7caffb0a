#include <dlfcn.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <filesystem>
#include <string>

#include "tests/runtime/fake_session.h"
#include "tests/support/sanitizer.h"

namespace autotune::runtime::exit_fake_test {
namespace {

// Runs the program that ends in the way `how`, at different moments.
void expect_clean_ends(const std::string& how, int wanted = 0) {
    const char* const given = std::getenv("AUTOTUNE_TEST_EXITS");
    const int times = given != nullptr ? std::atoi(given) : autotune::test::kIsSanitized ? 3 : 12;
    // If a process ends during work, the memory that it still has is not a leak.
    const auto with = [](const char* name, const std::string& option) {
        const char* const before = std::getenv(name);
        return std::pair<std::string, std::string>(name, (before == nullptr ? "" : before + std::string(":")) + option);
    };
    fake::RunOptions options;
    options.environment = {with("TSAN_OPTIONS", "report_thread_leaks=0"), with("ASAN_OPTIONS", "detect_leaks=0")};
    // The thread that looks for new winners is running or sleeping.
    options.environment.emplace_back("AUTOTUNE_TEST_LOOK_MS", "");
    for (int seed = 0; seed < times; ++seed) {
        options.environment.back().second = seed % 3 == 0 ? "" : seed % 3 == 1 ? "3" : "20";
        Sandbox sandbox("nvrtc delay_ms=15\n");
        const auto outcome = sandbox.run({AUTOTUNE_EXIT_PROGRAM, how, std::to_string(seed)}, options);
        ASSERT_EQ(outcome.exit_code, wanted) << how << " " << seed << ": " << outcome.err;
        ASSERT_EQ(outcome.err, "") << how << " " << seed;
        if (!autotune::test::kIsSanitized) {
            ASSERT_LT(outcome.wall_s, 4.5) << how << " " << seed << ": exit() waited as long as it may";
        }
    }
}

TEST(ProcessEnd, ByReturningFromMainWhileThreadsWorkIsClean) {
    expect_clean_ends("return");
}
TEST(ProcessEnd, ByReturningFromMainWhileThreadsCompileIsClean) {
    expect_clean_ends("return_compiling");
}
TEST(ProcessEnd, ByExitOnAnotherThreadIsClean) {
    expect_clean_ends("exit_on_thread");
}
TEST(ProcessEnd, ByQuickExitIsClean) {
    expect_clean_ends("quick_exit");
}
TEST(ProcessEnd, WithAStaticHandleIsClean) {
    expect_clean_ends("static_handle");
}
TEST(ProcessEnd, ByExitInTheLogFunctionIsClean) {
    expect_clean_ends("exit_in_log", 7);
}
TEST(ProcessEnd, OfAForkedChildIsClean) {
    expect_clean_ends("fork");
}
TEST(ThreadEnd, ByPthreadExitInTheLogFunctionIsLetThrough) {
    expect_clean_ends("end_thread_in_log");
}
TEST(ThreadEnd, ByPthreadCancelWaitsForTheCall) {
    expect_clean_ends("cancel");
}
TEST(LogFunction, MayDestroyTheHandleThatSpeaks) {
    expect_clean_ends("destroy_in_log");
}

// The library's threads and thread-specific data still exist.
TEST(Dlclose, WithoutDestroyLeavesTheLibraryMapped) {
    fake_test("", [] {
        Session session;
        void* const library = ::dlopen(AUTOTUNE_SHARED_LIBRARY, RTLD_NOW | RTLD_LOCAL);
        ASSERT_NE(library, nullptr) << ::dlerror();
        const auto create = reinterpret_cast<decltype(&autotune_create)>(::dlsym(library, "autotune_create"));
        const auto version = reinterpret_cast<decltype(&autotune_version)>(::dlsym(library, "autotune_version"));
        autotune_options options = {};
        options.struct_size = sizeof(options);
        options.on_miss = AUTOTUNE_ON_MISS_BACKGROUND;
        autotune_handle handle = nullptr;
        ASSERT_EQ(create(&handle, &options), AUTOTUNE_OK);
        ASSERT_EQ(::dlclose(library), 0);
        EXPECT_EQ(version(), AUTOTUNE_VERSION);
    });
}

TEST(Exit, RefusesNewWorkOfOtherThreadsAndSaysSo) {
    fake_test("", [] {
        static Session& session = *new Session;
        static const Handle& handle = *new Handle(session.open());
        std::atexit([] {
            std::thread([] {
                session.context.make_current();
                const autotune_gemm_problem problem = gemm(64, 64, 64);
                autotune_plan plan = nullptr;
                const autotune_status status = autotune_gemm_plan(handle.get(), &problem, &plan);
                const std::string words = autotune_last_error(nullptr);
                const bool is_right =
                    status == AUTOTUNE_NOT_PLANNED &&
                    words == "the process is ending: exit() was called, so no kernel is looked up, compiled or loaded";
                std::printf("%s\n", is_right ? "[  PASSED  ] 1 test." : words.c_str());
            }).join();
            std::fflush(stdout);
            ::_exit(::testing::Test::HasFailure() ? 1 : 0);
        });
        // Our handler was registered before this plan, so it is called before the library's handler.
        const GemmPlan plan(handle, gemm(32, 64, 64));
        std::exit(0);
    });
}

}  // namespace
}  // namespace autotune::runtime::exit_fake_test
