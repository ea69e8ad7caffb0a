#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "db/store/store.h"
#include "tests/runtime/fake_session.h"

namespace autotune::runtime::misses_fake_test {
namespace {

Options that_record(Session& session) {
    Options options;
    options.record_misses = 1;
    options.log = &test::Listener::hear;
    options.log_user = &session.listener;
    return options;
}

std::vector<db::MissRow> misses_of(const Session& session) {
    return db::Store::open({.path = session.database()}).misses();
}

TEST(Misses, AreRecordedForALaterSweep) {
    fake_test("", [] {
        Session session;
        {
            const Handle handle(that_record(session));
            const GemmPlan plan(handle, gemm(64, 64, 64));
            const GemmPlan same(handle, gemm(64, 64, 64));
        }
        const auto misses = misses_of(session);
        ASSERT_EQ(misses.size(), 1U);
        EXPECT_EQ(misses[0].shape, "64x64x64");
        EXPECT_EQ(misses[0].count, 1);
        EXPECT_EQ(misses[0].origin, "default");
        EXPECT_NE(misses[0].date, "");
    });
}

TEST(Misses, CountLaunchesOfThePlanAndOfTheOneCallForm) {
    fake_test("", [] {
        Session session;
        const Handle handle(that_record(session));
        const autotune_gemm_problem problem = gemm(64, 64, 64);
        const GemmData data(session.driver, problem);
        const GemmPlan plan(handle, problem);
        for (int i = 0; i < 3; ++i) run_tuned(session, handle, problem, data);
        const gpu::Buffer scratch(session.driver, std::max<std::size_t>(plan.workspace_bytes(), 256));
        for (int i = 0; i < 4; ++i)
            plan.run({data.a(), data.b(), data.c(), 1, 0, reinterpret_cast<void*>(scratch.address()), scratch.bytes()},
                     session.stream.handle());
        session.stream.synchronize();
        ASSERT_EQ(autotune_flush_misses(handle.get()), AUTOTUNE_OK);
        const auto misses = misses_of(session);  // one for any beta, and one for the calls' beta = 0
        ASSERT_EQ(misses.size(), 2U);
        EXPECT_EQ(misses[0].count, 1 + 4);
        EXPECT_EQ(misses[1].count, 1 + 3);
    });
}

TEST(Misses, SayThatAFallbackServed) {
    fake_test("rule on=compile nth=1 do=fail message=\"error: no\"\n", [] {
        Session session;
        const Handle handle(that_record(session));
        const GemmPlan plan(handle, gemm(64, 64, 64));
        ASSERT_EQ(autotune_flush_misses(handle.get()), AUTOTUNE_OK);
        EXPECT_EQ(misses_of(session).at(0).origin, "fallback");
    });
}

TEST(Misses, OfCallsWithAWinnerForBetaZeroAreNone) {
    fake_test("", [] {
        Session session;
        session.remember("64x64x64");
        const Handle handle(that_record(session));
        const autotune_gemm_problem problem = gemm(64, 64, 64);  // The problem is for any beta, and its calls pass beta = 0.
        const GemmData data(session.driver, problem);
        const GemmPlan plan(handle, problem);
        for (int i = 0; i < 5; ++i) run_tuned(session, handle, problem, data);
        session.stream.synchronize();
        ASSERT_EQ(autotune_flush_misses(handle.get()), AUTOTUNE_OK);
        EXPECT_EQ(misses_of(session).at(0).count, 1);  // the plan
    });
}

// The whole way: a program meets untuned problems, a sweep tunes them, and the program finds the winners.
TEST(Misses, AreSweptMostCalledFirstAndFoundAfterARefresh) {
    if (fake::autotune_binary().empty()) GTEST_SKIP() << "this build has no autotune command";
    Sandbox sandbox;
    if (!in_fake_process(sandbox, {.timeout_s = 110})) return;
    Session session;
    const Handle handle(that_record(session));
    const autotune_gemm_problem rare = gemm(48, 64, 64), frequent = gemm(64, 64, 64);
    const GemmData data(session.driver, frequent);
    const auto origin = [&](const autotune_gemm_problem& problem) { return GemmPlan(handle, problem).origin(); };
    EXPECT_EQ(origin(rare), AUTOTUNE_ORIGIN_DEFAULT);
    for (int i = 0; i < 5; ++i) run_tuned(session, handle, frequent, data);
    ASSERT_EQ(autotune_flush_misses(handle.get()), AUTOTUNE_OK);
    const std::string out = sandbox.folder() / "sweep.json";
    const std::string sweep = "'" + fake::autotune_binary() + "' sweep --misses --budget 20s,3t --json > '" + out + "'";
    ASSERT_EQ(std::system(sweep.c_str()), 0);
    std::ostringstream said;
    said << std::ifstream(out).rdbuf();
    EXPECT_NE(said.str().find("48x64x64"), std::string::npos);
    EXPECT_LT(said.str().find("64x64x64"), said.str().find("48x64x64")) << said.str();
    EXPECT_EQ(origin(rare), AUTOTUNE_ORIGIN_DEFAULT);  // earlier plans stay until the program calls refresh
    ASSERT_EQ(autotune_refresh(handle.get()), AUTOTUNE_OK);
    EXPECT_EQ(origin(rare), AUTOTUNE_ORIGIN_EXACT);
    for (int i = 0; i < 5; ++i) EXPECT_EQ(wrong_when_tuned(handle, frequent, data, session.stream), 0);
    ASSERT_EQ(autotune_flush_misses(handle.get()), AUTOTUNE_OK);
    // A tune deletes the miss of its problem; since then only the older plan was recorded.
    for (const db::MissRow& miss : misses_of(session)) EXPECT_EQ(miss.shape, "48x64x64");
    ASSERT_EQ(std::system(sweep.c_str()), 0);
    EXPECT_TRUE(misses_of(session).empty());
}

}  // namespace
}  // namespace autotune::runtime::misses_fake_test
