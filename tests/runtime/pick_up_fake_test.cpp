// The library's thread finds winners that are stored while a program runs.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

#include "db/store/store.h"
#include "tests/runtime/fake_session.h"

namespace autotune::runtime::pick_up_fake_test {
namespace {

const fake::RunOptions kLooksOften{.environment = {{"AUTOTUNE_TEST_LOOK_MS", "20"}}};

// Warnings of all threads.
struct Heard {
    std::mutex mutex;
    std::string text;
    static void hear(void* user, autotune_log_level level, const char* message) {
        if (level != AUTOTUNE_LOG_WARNING) return;
        Heard& heard = *static_cast<Heard*>(user);
        const std::lock_guard lock(heard.mutex);
        heard.text += std::string(message) + "\n";
    }
    std::string all() {
        const std::lock_guard lock(mutex);
        return text;
    }
};

Options that_record(autotune_on_miss on_miss = AUTOTUNE_ON_MISS_COMPILE) {
    Options options;
    options.record_misses = 1;
    options.on_miss = on_miss;
    return options;
}
Options that_record(Heard& heard) {
    Options options = that_record();
    options.log = &Heard::hear;
    options.log_user = &heard;
    return options;
}

bool comes_true(const std::function<bool()>& condition, double within_s = 20) {
    const auto begun = std::chrono::steady_clock::now();
    while (std::chrono::steady_clock::now() - begun < std::chrono::duration<double>(within_s)) {
        if (condition()) return true;
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return condition();
}

// Waits long enough for several checks.
void let_it_look() {
    std::this_thread::sleep_for(std::chrono::milliseconds(400));
}

autotune_gemm_problem product(std::int64_t m) {
    autotune_gemm_problem problem = gemm(m, 64, 64);
    problem.beta = AUTOTUNE_BETA_ZERO;
    return problem;
}

autotune_origin origin_of(const Handle& handle, const autotune_gemm_problem& problem) {
    return GemmPlan(handle, problem).origin();
}

// The identity of a plan's kernel. It distinguishes plans, because a plan that was made again has another text.
const char* identity_of(const Handle& handle, const autotune_gemm_problem& problem) {
    autotune_plan plan = nullptr;
    if (autotune_gemm_plan(handle.get(), &problem, &plan) != AUTOTUNE_OK) return nullptr;
    const char* const text = autotune_plan_candidate(plan);
    autotune_plan_destroy(plan);
    return text;
}

std::vector<db::MissRow> misses_of(const Session& session) {
    return db::Store::open({.path = session.database()}).misses();
}

TEST(PickUp, FindsAWinnerThatIsStoredWhileTheProgramRuns) {
    fake_test({"", kLooksOften}, [] {
        Session session;
        Heard heard;
        const Handle handle(that_record(heard));
        const autotune_gemm_problem problem = product(64);
        const GemmData data(session.driver, problem);
        const GemmPlan held(handle, problem);
        ASSERT_EQ(held.origin(), AUTOTUNE_ORIGIN_DEFAULT);
        EXPECT_FALSE(held.is_outdated());
        const gpu::Graph graph = session.capture([&] { run_tuned(session, handle, problem, data); });
        ASSERT_TRUE(comes_true([&] { return !misses_of(session).empty(); })) << "the thread writes the misses";
        session.remember("64x64x64");
        EXPECT_TRUE(comes_true([&] { return origin_of(handle, problem) == AUTOTUNE_ORIGIN_EXACT; }));
        EXPECT_EQ(wrong_when_tuned(handle, problem, data, session.stream), 0);
        EXPECT_EQ(held.origin(), AUTOTUNE_ORIGIN_DEFAULT);
        EXPECT_TRUE(held.is_outdated());
        EXPECT_FALSE(GemmPlan(handle, problem).is_outdated());
        held.run({data.a(), data.b(), data.c()}, session.stream.handle());
        session.replay(graph);
        EXPECT_EQ(data.wrong(1, 0), 0);
        let_it_look();
        EXPECT_TRUE(misses_of(session).empty()) << "a held plan of a tuned problem is no miss";
        EXPECT_EQ(heard.all(), "");
    });
}

TEST(PickUp, FindsTheDatabaseThatTheFirstTuneMakesAndTheOneThatTakesItsPlace) {
    fake_test({"", kLooksOften}, [] {
        Session session;
        const Handle handle(that_record());
        const autotune_gemm_problem problem = product(64), other = product(48);
        ASSERT_EQ(origin_of(handle, problem), AUTOTUNE_ORIGIN_DEFAULT);
        ASSERT_EQ(origin_of(handle, other), AUTOTUNE_ORIGIN_DEFAULT);
        session.remember("64x64x64");
        ASSERT_TRUE(comes_true([&] { return origin_of(handle, problem) == AUTOTUNE_ORIGIN_EXACT; }));
        const std::string moved = session.database() + ".moved";
        {
            const Problem of_other = session.catalogue.problem({"hgemm", "48x64x64", {{"beta", "zero"}}});
            db::Store::open({.path = moved}).put(test::winner_of(session.catalogue, of_other, session.driver->device(0)));
        }
        ASSERT_EQ(::rename(moved.c_str(), session.database().c_str()), 0);
        EXPECT_TRUE(comes_true([&] { return origin_of(handle, other) == AUTOTUNE_ORIGIN_EXACT; }));
        EXPECT_TRUE(comes_true([&] { return origin_of(handle, problem) == AUTOTUNE_ORIGIN_DEFAULT; }));
    });
}

TEST(PickUp, SeesAWinnerReplacedAndRemoved) {
    fake_test({"", kLooksOften}, [] {
        Session session;
        session.remember("64x64x64");
        const Handle handle(that_record());
        const autotune_gemm_problem problem = product(64);
        ASSERT_EQ(origin_of(handle, problem), AUTOTUNE_ORIGIN_EXACT);
        const std::string before = GemmPlan(handle, problem).candidate();
        const Problem known = session.catalogue.problem({"hgemm", "64x64x64", {{"beta", "zero"}}});
        const Device device = session.driver->device(0);
        db::Winner better = test::winner_of(session.catalogue, known, device);
        better.candidate.config = session.catalogue.find_family("gemm/mma")->default_config(known, device);
        better.evidence.finalists.clear();
        better.provenance.date = "2026-11-22T01:30:00Z";
        ASSERT_NE(better.candidate.to_string(), before);
        db::Store::open({.path = session.database()}).put(better);
        EXPECT_TRUE(comes_true([&] { return GemmPlan(handle, problem).candidate() == better.candidate.to_string(); }));
        db::Store::open({.path = session.database()}).remove({});
        EXPECT_TRUE(comes_true([&] { return origin_of(handle, problem) == AUTOTUNE_ORIGIN_DEFAULT; }));
    });
}

TEST(PickUp, LeavesPlansWhoseWinnerIsTheSame) {
    fake_test({"", kLooksOften}, [] {
        Session session;
        session.remember("64x64x64");
        const Handle handle(that_record());
        const autotune_gemm_problem tuned = product(64), missed = product(48), soon = product(32), empty = product(0);
        const std::array<autotune_gemm_problem, 3> staying = {tuned, missed, empty};
        std::array<const char*, 3> before{};
        for (std::size_t i = 0; i < staying.size(); ++i) before[i] = identity_of(handle, staying[i]);
        ASSERT_EQ(origin_of(handle, soon), AUTOTUNE_ORIGIN_DEFAULT);
        // First trials and misses of other problems are stored, then a winner of one problem.
        const Device device = session.driver->device(0);
        const Problem known = session.catalogue.problem({"hgemm", "48x64x64", {{"beta", "zero"}}});
        const db::Winner like = test::winner_of(session.catalogue, known, device);
        StoredTrial trial;
        trial.trial.candidate = like.candidate;
        trial.trial.status = TrialStatus::ok;
        trial.trial.timing = like.timing;
        trial.template_identity = like.template_identity;
        trial.nvrtc = "13.0";
        trial.date = like.provenance.date;
        {
            db::Store store = db::Store::open({.path = session.database()});
            store.record(known, device.identity, trial);
            store.flush();
        }
        let_it_look();
        for (std::size_t i = 0; i < staying.size(); ++i) EXPECT_EQ(identity_of(handle, staying[i]), before[i]) << i;
        session.remember("32x64x64");
        EXPECT_TRUE(comes_true([&] { return origin_of(handle, soon) == AUTOTUNE_ORIGIN_EXACT; }));
        for (std::size_t i = 0; i < staying.size(); ++i) EXPECT_EQ(identity_of(handle, staying[i]), before[i]) << i;
    });
}

TEST(PickUp, CompilesBeforeTheCallThatTakesTheWinner) {
    fake_test({"nvrtc delay_ms=300\n", kLooksOften}, [] {
        Session session;
        const Handle handle(that_record());
        const autotune_gemm_problem problem = product(64);
        const GemmData data(session.driver, problem);
        EXPECT_EQ(wrong_when_tuned(handle, problem, data, session.stream), 0);
        session.remember("64x64x64");
        double longest_s = 0;
        EXPECT_TRUE(comes_true([&] {
            const auto begun = std::chrono::steady_clock::now();
            const bool is_there = origin_of(handle, problem) == AUTOTUNE_ORIGIN_EXACT;
            longest_s = std::max(longest_s, std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count());
            return is_there;
        }));
        EXPECT_LT(longest_s, 0.25) << "a call waited for the compiler";
    });
}

TEST(PickUp, KeepsWhatServesWhereTheWinnerDoesNotCompile) {
    fake_test({"rule on=compile from=2 do=fail message=\"error: no\"\n", kLooksOften}, [] {
        Session session;
        Heard heard;
        const Handle handle(that_record(heard));
        const autotune_gemm_problem problem = product(64);
        const char* const before = identity_of(handle, problem);
        session.remember("64x64x64");
        EXPECT_TRUE(comes_true([&] { return !heard.all().empty(); }));
        EXPECT_THAT(heard.all(), HasSubstr("a new winner is not used: "));
        let_it_look();
        EXPECT_EQ(identity_of(handle, problem), before);
    });
}

TEST(PickUp, WaitsForThePlanFunctionWhereThePolicyAllowsNoOther) {
    fake_test({"", kLooksOften}, [] {
        Session session;
        const autotune_gemm_problem problem = product(64);
        const GemmData data(session.driver, problem);
        for (const autotune_on_miss policy : {AUTOTUNE_ON_MISS_NOT_PLANNED, AUTOTUNE_ON_MISS_LOADED_ONLY}) {
            db::Store::open({.path = session.database()}).remove({});
            const Handle handle(that_record(policy));
            ASSERT_EQ(origin_of(handle, problem), AUTOTUNE_ORIGIN_DEFAULT);
            session.remember("64x64x64");
            let_it_look();
            EXPECT_EQ(wrong_when_tuned(handle, problem, data, session.stream), 0);
            EXPECT_TRUE(comes_true([&] { return origin_of(handle, problem) == AUTOTUNE_ORIGIN_EXACT; })) << policy;
            EXPECT_EQ(wrong_when_tuned(handle, problem, data, session.stream), 0);
        }
    });
}

TEST(PickUp, MakesThePlanOnAThreadUnderThePolicyBackground) {
    fake_test({"nvrtc delay_ms=100\n", kLooksOften}, [] {
        Session session;
        const Handle handle(that_record(AUTOTUNE_ON_MISS_BACKGROUND));
        const autotune_gemm_problem problem = product(64);
        const GemmData data(session.driver, problem);
        run_tuned(session, handle, problem, data);
        ASSERT_EQ(autotune_finish(handle.get()), AUTOTUNE_OK);
        ASSERT_EQ(origin_of(handle, problem), AUTOTUNE_ORIGIN_DEFAULT);
        session.remember("64x64x64");
        let_it_look();
        for (int i = 0; i < 100; ++i) run_tuned(session, handle, problem, data);
        ASSERT_EQ(autotune_finish(handle.get()), AUTOTUNE_OK);
        EXPECT_EQ(origin_of(handle, problem), AUTOTUNE_ORIGIN_EXACT);
        EXPECT_EQ(wrong_when_tuned(handle, problem, data, session.stream), 0);
    });
}

TEST(PickUp, IsOffWithoutRecordedMisses) {
    fake_test({"", kLooksOften}, [] {
        Session session;
        const Handle handle = session.open();
        const autotune_gemm_problem problem = product(64);
        ASSERT_EQ(origin_of(handle, problem), AUTOTUNE_ORIGIN_DEFAULT);
        session.remember("64x64x64");
        let_it_look();
        EXPECT_EQ(origin_of(handle, problem), AUTOTUNE_ORIGIN_DEFAULT);
    });
}

TEST(PickUp, LeavesAPinnedPlan) {
    fake_test({"", kLooksOften}, [] {
        Session session;
        Options options = that_record();
        options.pin = "gemm/mma";
        const Handle handle(options);
        const autotune_gemm_problem problem = product(64);
        const char* const before = identity_of(handle, problem);
        session.remember("64x64x64");
        let_it_look();
        EXPECT_EQ(identity_of(handle, problem), before);
    });
}

// 64 threads launch with one handle while winners come and go, and the library's thread checks every millisecond.
TEST(PickUp, BesideSixtyFourThreads) {
    fake_test(
        {"", {.timeout_s = 100, .environment = {{"AUTOTUNE_TEST_LOOK_MS", "1"}}}},
        [] {
            Session session;
            std::atomic<int> wrong{0};
            std::atomic<bool> is_over{false};
            const Handle handle(that_record());
            std::thread tuner([&] {
                for (int i = 0; !is_over; ++i) {
                    if (i % 5 == 4) db::Store::open({.path = session.database()}).remove({});
                    session.remember(std::to_string(16 + 8 * (i % 4)) + "x64x64");
                }
            });
            on_threads(session, 64, [&](int t) {
                const gpu::Stream stream(session.driver);
                for (int i = 0; i < 12; ++i) {
                    const autotune_gemm_problem problem = product(16 + 8 * ((i + t) % 4));
                    const GemmData data(session.driver, problem, static_cast<unsigned>(t));
                    wrong += wrong_when_tuned(handle, problem, data, stream);
                }
            });
            is_over = true;
            tuner.join();
            EXPECT_EQ(wrong, 0);
        },
        [](const fake::Sandbox& sandbox) { EXPECT_EQ(sandbox.count_calls("BUG"), 0); });
}

TEST(PickUp, GoesOnInTheParentAfterAFork) {
    fake_test({"", kLooksOften}, [] {
        Session session;
        const Handle handle(that_record());
        const autotune_gemm_problem problem = product(64);
        ASSERT_EQ(origin_of(handle, problem), AUTOTUNE_ORIGIN_DEFAULT);
        for (int i = 0; i < 8; ++i) {
            const pid_t child = ::fork();
            if (child == 0) {
                const bool is_refused = autotune_flush_misses(handle.get()) == AUTOTUNE_FORKED;
                autotune_destroy(handle.get());
                ::_exit(is_refused ? 0 : 1);
            }
            int status = -1;
            ASSERT_EQ(::waitpid(child, &status, 0), child);
            EXPECT_EQ(status, 0);
            std::this_thread::sleep_for(std::chrono::milliseconds(7));
        }
        session.remember("64x64x64");
        EXPECT_TRUE(comes_true([&] { return origin_of(handle, problem) == AUTOTUNE_ORIGIN_EXACT; }));
    });
}

TEST(PickUp, GoesOnAfterDlclose) {
    fake_test({"", kLooksOften}, [] {
        Session session;
        void* const library = ::dlopen(AUTOTUNE_SHARED_LIBRARY, RTLD_NOW | RTLD_LOCAL);
        ASSERT_NE(library, nullptr) << ::dlerror();
        const auto create = reinterpret_cast<decltype(&autotune_create)>(::dlsym(library, "autotune_create"));
        const auto plan_of = reinterpret_cast<decltype(&autotune_gemm_plan)>(::dlsym(library, "autotune_gemm_plan"));
        autotune_options options = {};
        options.struct_size = sizeof(options);
        options.read_environment = 1;
        options.record_misses = 1;
        autotune_handle handle = nullptr;
        ASSERT_EQ(create(&handle, &options), AUTOTUNE_OK);
        const autotune_gemm_problem problem = product(64);
        autotune_plan plan = nullptr;
        ASSERT_EQ(plan_of(handle, &problem, &plan), AUTOTUNE_OK);
        ASSERT_EQ(::dlclose(library), 0);
        EXPECT_TRUE(comes_true([&] { return !misses_of(session).empty(); }));
    });
}

}  // namespace
}  // namespace autotune::runtime::pick_up_fake_test
