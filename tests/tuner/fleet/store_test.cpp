#include <gmock/gmock.h>

#include <array>
#include <atomic>
#include <chrono>
#include <set>
#include <thread>

#include "tests/support/postgres/proxy.h"
#include "tests/tuner/fleet/store_bench.h"
#include "tuner/fleet/store/schema.h"

#if __has_include(<libpq-fe.h>)
#include <libpq-fe.h>
#elif __has_include(<postgresql/libpq-fe.h>)
#include <postgresql/libpq-fe.h>
#endif

namespace autotune::fleet::store_test {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;
using testing::UnorderedElementsAre;

const std::string kOne = "00000000-0000-4000-8000-000000000001", kTwo = "00000000-0000-4000-8000-000000000002";
const std::vector<std::string> kHas{kCatalogue};

class Store : public StoreTest {
  protected:
    // An item that a worker of alice claimed.
    Claim claimed(FleetStore& store, const std::string& worker = kOne, const std::string& gpu = "GPU-1") const {
        store.enlist(worker, "host", "0.1.0");
        const std::vector<Claim> claims = store.claim(worker, gpu, kDevice, kHas, {});
        EXPECT_THAT(claims, SizeIs(1));
        return claims.empty() ? Claim{} : claims.front();
    }
    void want(const std::vector<Wanted>& wanted) const { as("carol").want(wanted, kPriorityOfMisses); }
    void pause() const { std::this_thread::sleep_for(std::chrono::milliseconds(250)); }
    // Lets every lease run out.
    void expire() const { sql("UPDATE autotune.lease SET until = now() - interval '1 hour'"); }
    // Makes the server count as running for longer than a lease.
    void has_run_long() const { set("lease_s", 0.2); }
};

TEST_F(Store, AProblemThatIsWantedIsClaimedCompletedAndWon) {
    want({add_of(1), add_of(2, 100)});
    FleetStore alice = as("alice");
    const Claim claim = claimed(alice);
    EXPECT_EQ(claim.shape, "2");  // called more often
    EXPECT_EQ(claim.calls, 100);
    EXPECT_EQ(alice.complete(kOne, claim, line_of(2)), "done");
    EXPECT_EQ(sql("SELECT shape, median_us FROM autotune.winners"), "2|1.5");
    EXPECT_EQ(sql("SELECT count(*) FROM autotune.item"), "1");
    const WantReport again = as("carol").want({add_of(2)}, kPriorityOfMisses);
    EXPECT_EQ(again.known, 1);
}

TEST_F(Store, AskingAgainCountsAndWakesNothing) {
    want({add_of(1)});
    const WantReport again = as("carol").want({add_of(1, 7), add_of(1, 3)}, kPriorityOfMisses);
    EXPECT_EQ(again.raised, 1);
    EXPECT_EQ(sql("SELECT calls FROM autotune.item"), "11");
    sql("UPDATE autotune.item SET state = 'poison'");
    want({add_of(1)});
    EXPECT_EQ(sql("SELECT state FROM autotune.item"), "poison");
    EXPECT_EQ(as("dora").retry(), 1);
    EXPECT_EQ(sql("SELECT state FROM autotune.item"), "ready");
}

TEST_F(Store, AnOperatorsProblemsGoFirst) {
    want({add_of(1, 1'000'000)});
    as("carol").want({add_of(2)}, kPriorityOfOperators);
    FleetStore alice = as("alice");
    EXPECT_EQ(claimed(alice).shape, "2");
}

TEST_F(Store, EightWorkersNeverGetOneItemTwice) {
    std::vector<Wanted> wanted;
    for (int n = 1; n <= 200; ++n) wanted.push_back(add_of(n));
    want(wanted);
    std::mutex mutex;
    std::vector<std::int64_t> ids;
    std::vector<std::thread> threads;
    for (int i = 0; i < 8; ++i) {
        threads.emplace_back([&, i] {
            FleetStore store = as("alice");
            const std::string worker = "00000000-0000-4000-8000-00000000010" + std::to_string(i);
            store.enlist(worker, "host", "0.1.0");
            std::vector<std::int64_t> has;
            while (true) {
                const auto claims = store.claim(worker, "GPU-" + std::to_string(i), kDevice, kHas, has);
                if (claims.empty()) break;
                has.push_back(claims.front().id);
            }
            const std::lock_guard lock(mutex);
            ids.insert(ids.end(), has.begin(), has.end());
        });
    }
    for (std::thread& each : threads) each.join();
    EXPECT_THAT(ids, SizeIs(200));
    EXPECT_THAT(std::set(ids.begin(), ids.end()), SizeIs(200));
}

TEST_F(Store, ARepeatedClaimGivesWhatALostReplyGave) {
    want({add_of(1), add_of(2)});
    FleetStore alice = as("alice");
    const Claim first = claimed(alice);
    EXPECT_EQ(claimed(alice).id, first.id);
    EXPECT_THAT(alice.claim(kOne, "GPU-1", kDevice, kHas, {first.id}), SizeIs(1));
    EXPECT_EQ(alice.complete(kOne, first, line_of(1)), "done");
    EXPECT_EQ(alice.complete(kOne, first, line_of(1)), "known");
    EXPECT_EQ(sql("SELECT count(*) FROM autotune.result"), "1");
}

TEST_F(Store, OnlyTheCatalogueAndDeviceOfAnItemGetIt) {
    want({add_of(1)});
    FleetStore alice = as("alice");
    alice.enlist(kOne, "host", "0.1.0");
    EXPECT_THAT(alice.claim(kOne, "GPU-1", kDevice, {std::string(64, 'b')}, {}), IsEmpty());
    EXPECT_THAT(alice.claim(kOne, "GPU-1", "cc8.0-sm108-l2_40-mem80-bus5120", kHas, {}), IsEmpty());
    EXPECT_THAT(alice.claim(kOne, "GPU-1", kDevice, {std::string(64, 'b'), kCatalogue}, {}), SizeIs(1));
}

TEST_F(Store, ASilentWorkersItemGoesToAnotherAndItsLateResultIsEvidence) {
    has_run_long();
    want({add_of(1)});
    FleetStore alice = as("alice"), bob = as("bob");
    const Claim first = claimed(alice);
    pause();
    EXPECT_THAT(alice.beat(kOne, {first}), IsEmpty());  // nobody has taken the item back yet
    expire();
    EXPECT_EQ(bob.reap(), 1);
    const Claim second = claimed(bob, kTwo, "GPU-2");
    EXPECT_EQ(second.id, first.id);
    EXPECT_GT(second.fence, first.fence);
    EXPECT_THAT(alice.beat(kOne, {first}), ElementsAre(first.id));
    EXPECT_EQ(alice.complete(kOne, first, line_of(1, 1.0)), "late");
    EXPECT_EQ(alice.fail(kOne, first, Loss::failed, ""), "lost");
    EXPECT_EQ(bob.complete(kTwo, second, line_of(1, 2.0)), "done");
    EXPECT_EQ(sql("SELECT median_us FROM autotune.winners"), "2");
    EXPECT_EQ(sql("SELECT count(*) FROM autotune.result"), "2");
}

TEST_F(Store, ALateWorkerClosesAnItemThatNobodyTookSince) {
    has_run_long();
    want({add_of(1)});
    FleetStore alice = as("alice");
    const Claim first = claimed(alice);
    pause();
    expire();
    alice.reap();
    EXPECT_EQ(alice.complete(kOne, first, line_of(1)), "done");
    EXPECT_EQ(sql("SELECT count(*) FROM autotune.item"), "0");
}

TEST_F(Store, LeasesGetATermAfterAStartAndThreeWhenMostAreSilent) {
    std::vector<Wanted> wanted;
    for (int n = 1; n <= 10; ++n) wanted.push_back(add_of(n));
    want(wanted);
    FleetStore alice = as("alice");
    alice.enlist(kOne, "host", "0.1.0");
    std::vector<std::int64_t> has;
    for (int n = 0; n < 10; ++n) has.push_back(alice.claim(kOne, "GPU-1", kDevice, kHas, has).front().id);
    set("lease_s", 1000);
    expire();
    EXPECT_EQ(alice.reap(), 0);  // the server started within the term
    has_run_long();
    pause();
    sql("UPDATE autotune.lease SET until = now() - interval '0.3 s'");
    EXPECT_EQ(alice.reap(), 0);  // that is the network
    sql("UPDATE autotune.lease SET until = now() - interval '2 s'");
    EXPECT_EQ(alice.reap(), 10);
}

TEST_F(Store, TwoGpusPoisonAProblemAndOneNeedsSixLosses) {
    set("retry_s", 0);
    set("sick_losses", 100);
    want({add_of(1)});
    FleetStore alice = as("alice");
    const std::array<const char*, 3> gpus = {"GPU-1", "GPU-1", "GPU-2"};
    for (const char* gpu : gpus) {
        alice.reap();
        alice.fail(kOne, claimed(alice, kOne, gpu), Loss::crashed, "it died");
    }
    EXPECT_EQ(sql("SELECT state, why, cardinality(lost_on) FROM autotune.item"), "poison|crashed: it died|2");
    want({add_of(2)});
    for (int i = 1; i <= 6; ++i) {
        alice.reap();
        EXPECT_EQ(sql("SELECT state FROM autotune.item WHERE shape = '2'"), "ready") << i;
        alice.fail(kOne, claimed(alice), Loss::failed, "every candidate failed");
    }
    EXPECT_EQ(sql("SELECT state FROM autotune.item WHERE shape = '2'"), "poison");
}

TEST_F(Store, EachLossWaitsTwiceAsLong) {
    set("sick_losses", 100);
    want({add_of(1)});
    FleetStore alice = as("alice");
    alice.fail(kOne, claimed(alice), Loss::failed, "");
    EXPECT_THAT(alice.claim(kOne, "GPU-1", kDevice, kHas, {}), IsEmpty());
    EXPECT_EQ(sql("SELECT round(extract(epoch FROM not_before - now()) / 30) FROM autotune.item"), "1");
    sql("UPDATE autotune.item SET not_before = now()");
    alice.reap();
    alice.fail(kOne, claimed(alice), Loss::failed, "");
    EXPECT_EQ(sql("SELECT round(extract(epoch FROM not_before - now()) / 30) FROM autotune.item"), "2");
}

TEST_F(Store, AWorkerThatLosesThreeItemsInARowGetsNoneForAWhile) {
    want({add_of(1), add_of(2), add_of(3), add_of(4)});
    FleetStore alice = as("alice"), bob = as("bob");
    for (int i = 0; i < 3; ++i) alice.fail(kOne, claimed(alice), Loss::failed, "");
    EXPECT_THAT(alice.claim(kOne, "GPU-1", kDevice, kHas, {}), IsEmpty());
    claimed(bob, kTwo, "GPU-2");
    EXPECT_EQ(sql("SELECT count(*) FROM autotune.item WHERE state = 'poison'"), "0");
}

TEST_F(Store, AnItemThatIsGivenBackHasLostNoAttempt) {
    want({add_of(1)});
    FleetStore alice = as("alice");
    for (int i = 0; i < 5; ++i) EXPECT_EQ(alice.fail(kOne, claimed(alice), Loss::released, ""), "ready");
    EXPECT_EQ(sql("SELECT attempts, state FROM autotune.item"), "0|ready");
}

// ---- who may do what ----

TEST_F(Store, RolesMayCallTheirFunctionsAndReadNoTable) {
    want({add_of(1)});
    FleetStore alice = as("alice"), carol = as("carol"), dora = as("dora");
    const Claim claim = claimed(alice);
    const std::string denied = "42501";
    EXPECT_EQ(refusal([&] { alice.want({add_of(1)}, 100); }), denied);
    EXPECT_EQ(refusal([&] { alice.freeze("a", "", {{1, "x"}}); }), denied);
    EXPECT_EQ(refusal([&] { alice.withdraw(1, ""); }), denied);
    EXPECT_EQ(refusal([&] { alice.winners(0, 1); }), denied);
    EXPECT_EQ(refusal([&] { carol.enlist(kTwo, "h", "t"); }), denied);
    EXPECT_EQ(refusal([&] { carol.complete(kOne, claim, line_of(1)); }), denied);
    EXPECT_EQ(refusal([&] { carol.publish("prod", "a", ""); }), denied);
    EXPECT_EQ(refusal([&] { dora.claim(kOne, "GPU-1", kDevice, kHas, {}); }), denied);
    for (FleetStore* store : {&alice, &carol, &dora}) {
        for (const char* text :
             {"SELECT * FROM autotune.item", "UPDATE autotune.winner SET result = 1", "DELETE FROM autotune.label",
              "SELECT autotune.lose(NULL, NULL, '', '')", "SELECT autotune.elect('', '', '', '')",
              "CREATE TABLE autotune.mine(a int)", "SELECT line FROM autotune.result"})
            EXPECT_EQ(refusal([&] { store->connection().query(text); }), denied) << text;
    }
    EXPECT_THAT(message([&] { as("eve"); }),
                HasSubstr("its owner grants it autotune_worker, autotune_client or autotune_curator"));
}

TEST_F(Store, AWorkersNameBelongsToItsRole) {
    want({add_of(1)});
    FleetStore alice = as("alice"), bob = as("bob");
    const Claim claim = claimed(alice);
    EXPECT_EQ(refusal([&] { bob.enlist(kOne, "host", "0.1.0"); }), "AT403");
    EXPECT_EQ(refusal([&] { bob.complete(kOne, claim, line_of(1)); }), "AT403");
    EXPECT_EQ(refusal([&] { bob.beat(kOne, {claim}); }), "AT403");
    EXPECT_EQ(refusal([&] { bob.claim(kTwo, "GPU-2", kDevice, kHas, {}); }), "AT404");
    bob.enlist(kTwo, "host", "0.1.0");
    EXPECT_EQ(refusal([&] { bob.complete(kTwo, claim, line_of(1)); }), "AT403");
    EXPECT_EQ(bob.fail(kTwo, claim, Loss::failed, ""), "lost");
    EXPECT_EQ(sql("SELECT count(*) FROM autotune.result"), "0");
    EXPECT_EQ(sql("SELECT state FROM autotune.item"), "leased");
}

// ---- hostile rows ----

TEST_F(Store, ALineOfAnythingElseIsRefusedAndTheLeaseStays) {
    want({add_of(1)});
    FleetStore alice = as("alice");
    const Claim claim = claimed(alice);
    const auto with = [](const std::string& from, const std::string& to) {
        std::string line = line_of(1);
        const std::size_t at = line.find(from);
        EXPECT_NE(at, std::string::npos) << from;
        return line.replace(at, from.size(), to);
    };
    const std::vector<std::pair<std::string, std::string>> hostile = {
        {line_of(2), "AT409"},
        {with("\"op\":\"add\"", "\"op\":\"gemm\""), "AT409"},
        {with("dtype=f16", "dtype=f32"), "AT409"},
        {with("\"cc_major\":9", "\"cc_major\":8"), "AT409"},
        {with("\"n\":1", "\"m\":7,\"n\":1"), "AT409"},
        {with("\"n\":1", "\"n\":\"1; DROP TABLE autotune.item\""), "AT422"},
        {with("\"n\":1", "\"n\":99999999999999999999"), "AT422"},
        {with("\"extents\":{\"n\":1}", "\"extents\":[1]"), "AT422"},
        {with("\"memory_gib\":140", "\"memory_gib\":\"x\""), "AT422"},
        {with("\"median_us\":1.5", "\"median_us\":0"), "AT422"},
        {with("\"median_us\":1.5", "\"median_us\":-1.5"), "AT422"},
        {with("\"median_us\":1.5", "\"median_us\":\"NaN\""), "AT422"},
        {with("\"median_us\":1.5", "\"median_us\":\"Infinity\""), "AT422"},
        {with("\"median_us\":1.500000", "\"other\":1"), "AT422"},
        {with("43e692f5dc6ad62d", "'; DROP TABLE x; --"), "AT422"},
        {with("\"config\":{\"vec\":8}", "\"config\":[1]"), "AT422"},
        {with("\"config\"", "\"doubt\":\"slow\",\"config\""), "AT422"},
        {with("\"config\"", "\"restricted_to\":\"family=a\",\"config\""), "AT422"},
        {line_of(1) + "\n" + line_of(1), "AT422"},
        {line_of(1).substr(0, 200), "AT422"},
        {"", "AT422"},
        {"null", "AT409"},
        {"[]", "AT409"},
        {"{\"a\":\"\\u0000\"}", "AT422"},
        {std::string(100'000, '['), "AT422"},
        {with("\"config\"", "\"note\":\"" + std::string(std::size_t{1} << 20, 'x') + "\",\"config\""), "AT422"},
    };
    for (const auto& [line, state] : hostile)
        EXPECT_EQ(refusal([&] { alice.complete(kOne, claim, line); }), state) << line.substr(0, 400);
    EXPECT_EQ(sql("SELECT count(*) FROM autotune.result"), "0");
    EXPECT_EQ(alice.complete(kOne, claim, line_of(1)), "done");
}

TEST_F(Store, SqlInAFieldIsText) {
    FleetStore alice = as("alice"), carol = as("carol"), dora = as("dora");
    const std::string hostile = "'; DROP SCHEMA autotune CASCADE; --";
    const WantReport report = carol.want({{hostile, "1", kDevice, kCatalogue, 1},
                                          {"add a=" + hostile, hostile, kDevice, kCatalogue, 1},
                                          {"add", "1", hostile, kCatalogue, 1},
                                          {"add", "1", kDevice, hostile, 1},
                                          {"add", "-1", kDevice, kCatalogue, 1},
                                          {"add", "1x2x3x4x5x6x7x8x9", kDevice, kCatalogue, 1},
                                          {"add \"x\\", "1", kDevice, kCatalogue, 1},
                                          {std::string(600, 'a'), "1", kDevice, kCatalogue, 1}},
                                         100);
    EXPECT_EQ(report.refused, 8);
    alice.enlist(kOne, hostile, hostile);
    EXPECT_THAT(alice.claim(kOne, hostile, hostile, {hostile, "{\"a\",b}"}, {}), IsEmpty());
    want({add_of(1)});
    const Claim claim = claimed(alice, kOne, hostile);
    EXPECT_EQ(alice.fail(kOne, claim, Loss::failed, hostile), "waiting");
    EXPECT_EQ(refusal([&] { dora.freeze(hostile, hostile, {{1, hostile}}); }), "23514");
    EXPECT_EQ(refusal([&] { dora.publish(hostile, hostile, hostile); }), "AT404");
    EXPECT_EQ(dora.freeze("a", hostile, {{1, hostile}, {2, "\"{},\\"}}).rows, 2);
    EXPECT_EQ(refusal([&] { dora.publish(hostile, "a", hostile); }), "23514");
    EXPECT_THAT(carol.label_lines("a", 0, 10).at(1).line, "\"{},\\");
    EXPECT_FALSE(carol.label(hostile));
    EXPECT_EQ(sql("SELECT count(*) FROM autotune.item"), "1");
}

TEST_F(Store, ACallThatAsksForTooMuchIsRefused) {
    FleetStore carol = as("carol");
    set("most_items", 2);
    EXPECT_EQ(carol.want({add_of(1), add_of(2), add_of(3)}, 100).refused, 1);
    EXPECT_EQ(refusal([&] {
                  carol.connection().query(
                      "SELECT * FROM autotune.want((SELECT json_agg('{}'::json) FROM generate_series(1, 1001)), 1)");
              }),
              "AT422");
    EXPECT_EQ(refusal([&] { carol.connection().query("SELECT * FROM autotune.want('{}', 1)"); }), "AT422");
}

// ---- labels ----

TEST_F(Store, ALabelNeverChangesAndAChannelGoesBack) {
    FleetStore dora = as("dora"), carol = as("carol");
    const LabelFacts one = dora.freeze("2026-11-01", "first", {{1, "a"}, {2, "b"}});
    EXPECT_EQ(one.digest, "911169ddaaf146aff539f58c26c489af3b892dff0fe283c1c264c65ae5aa59a2");
    EXPECT_EQ(refusal([&] { dora.freeze("2026-11-01", "", {{1, "c"}}); }), "AT409");
    dora.freeze("2026-12-01", "second", {{3, "c"}});
    EXPECT_EQ(dora.publish("prod", "2026-11-01", ""), "");
    EXPECT_EQ(dora.publish("prod", "2026-12-01", "better"), "2026-11-01");
    EXPECT_EQ(carol.label("prod")->name, "2026-12-01");
    EXPECT_EQ(dora.publish("prod", "2026-11-01", "back"), "2026-12-01");
    EXPECT_EQ(carol.label("prod")->digest, one.digest);
    EXPECT_EQ(sql("SELECT count(*) FROM autotune.channel_step"), "3");
    EXPECT_EQ(refusal([&] { dora.publish("2026-12-01", "2026-11-01", ""); }), "AT409");
    EXPECT_EQ(refusal([&] { dora.freeze("prod", "", {{1, "a"}}); }), "AT409");
    for (const char* text :
         {"UPDATE autotune.label SET rows = 1", "DELETE FROM autotune.label", "UPDATE autotune.label_line SET line = 'x'",
          "DELETE FROM autotune.label_line", "DELETE FROM autotune.result"})
        EXPECT_THROW(sql(text), std::runtime_error) << text;
    EXPECT_EQ(carol.label_lines("2026-11-01", 1, 10).at(0).line, "b");
}

TEST_F(Store, TheNewestVerdictOfAProblemDeviceAndRivalStays) {
    const std::string early = "2026-11-23T18:51:56Z", late = "2026-11-24T18:51:56Z";
    FleetStore carol = as("carol"), dora = as("dora");
    EXPECT_EQ(
        carol.post_verdicts({{"gemm x", "card", "torch 1", 1.5, 2.5, late}, {"gemm y", "card", "torch 1", 1, 1, early}}).added,
        2);
    const VerdictReport again = carol.post_verdicts({{"gemm x", "card", "torch 1", 9, 9, early},
                                                     {"gemm y", "card", "torch 1", 2, 2, late},
                                                     {"gemm y", "card", "torch 2", 3, 3, early}});
    EXPECT_EQ(again.known, 1);
    EXPECT_EQ(again.added, 2);
    const std::vector<PostedVerdict> all = dora.verdicts();
    EXPECT_THAT(all,
                UnorderedElementsAre(
                    AllOf(testing::Field(&PostedVerdict::problem, "gemm x"), testing::Field(&PostedVerdict::in_stream, 1.5),
                          testing::Field(&PostedVerdict::in_graphs, 2.5), testing::Field(&PostedVerdict::measured, late)),
                    AllOf(testing::Field(&PostedVerdict::problem, "gemm y"), testing::Field(&PostedVerdict::in_stream, 2),
                          testing::Field(&PostedVerdict::rival, "torch 1"), testing::Field(&PostedVerdict::measured, late)),
                    AllOf(testing::Field(&PostedVerdict::problem, "gemm y"), testing::Field(&PostedVerdict::rival, "torch 2"))));
    set("most_verdicts", 3);
    const VerdictReport full = carol.post_verdicts(
        {{"gemm z", "card", "torch 1", 1, 1, early}, {"gemm x", "card", "torch 1", 1, 1, "2026-11-25T00:00:00Z"}});
    EXPECT_EQ(full.refused, 1);
    EXPECT_EQ(full.added, 1);
    dora.freeze("a", "", {{1, "x"}, {0, "verdict"}});
    EXPECT_EQ(sql("SELECT rows, verdicts FROM autotune.labels"), "2|1");
    EXPECT_EQ(refusal([&] { as("alice").post_verdicts({{"x", "card", "torch", 1, 1, early}}); }), "42501");
    EXPECT_EQ(refusal([&] { carol.verdicts(); }), "42501");
}

TEST_F(Store, AVerdictThatCannotBeIsRefusedAndTheOthersAreKept) {
    const std::string then = "2026-11-23T18:51:56Z", hostile = "'; DROP SCHEMA autotune CASCADE; --";
    const double infinite = 1e308 * 10;
    FleetStore carol = as("carol");
    const VerdictReport report = carol.post_verdicts({{"good", "card", "torch", 1, 1, then},
                                                      {hostile, hostile, hostile, 1, 1, then},
                                                      {"", "card", "torch", 1, 1, then},
                                                      {std::string(4001, 'x'), "card", "torch", 1, 1, then},
                                                      {"a\nb", "card", "torch", 1, 1, then},
                                                      {"a", std::string(257, 'x'), "torch", 1, 1, then},
                                                      {"a", "card", "", 1, 1, then},
                                                      {"a", "card", "torch", 0, 1, then},
                                                      {"a", "card", "torch", 1, -1, then},
                                                      {"a", "card", "torch", 1e7, 1, then},
                                                      {"a", "card", "torch", infinite, 1, then},
                                                      {"a", "card", "torch", 1, 1, "yesterday"},
                                                      {"a", "card", "torch", 1, 1, "9999-01-01T00:00:00Z"}});
    EXPECT_EQ(report.added, 2);
    EXPECT_EQ(report.refused, 11);
    for (const char* text :
         {"{}", "null", "[1]", R"([{"problem":"a\u0000"}])", R"([{"in_stream":"x"}])", R"([{"in_stream":1e999}])"})
        EXPECT_EQ(refusal([&] { carol.connection().query("SELECT * FROM autotune.post_verdicts($1)", {text}); }), "AT422")
            << text;
    EXPECT_EQ(refusal([&] {
                  carol.connection().query(
                      "SELECT * FROM autotune.post_verdicts((SELECT json_agg('{}'::json) FROM generate_series(1, 1001)))");
              }),
              "AT422");
    EXPECT_EQ(sql("SELECT count(*) FROM autotune.verdict"), "2");
}

TEST_F(Store, AFreezeThatIsCutShortLeavesNothing) {
    {
        FleetStore dora = as("dora");
        dora.connection().query("BEGIN");
        dora.connection().query("SELECT autotune.freeze_begin('a', '')");
        dora.connection().query("SELECT autotune.freeze_lines('a', '{1}', '{x}')");
    }
    EXPECT_FALSE(as("carol").label("a"));
    EXPECT_EQ(as("dora").freeze("a", "", {{1, "x"}}).rows, 1);
}

TEST_F(Store, AWithdrawnResultGivesWayToTheNextBest) {
    FleetStore alice = as("alice"), dora = as("dora");
    std::vector<std::string> lines = {line_of(1, 2.0), line_of(1, 1.0), line_of(1, 3.0)};
    for (std::size_t i = 0; i < lines.size(); ++i) {
        want({add_of(1)});
        if (i > 0)
            sql("INSERT INTO autotune.item(class, shape, device, catalogue, calls, priority) VALUES ('add dtype=f16 "
                "align=16,16,16', '1', '" +
                std::string(kDevice) + "', '" + kCatalogue + "', 1, 1)");
        EXPECT_EQ(alice.complete(kOne, claimed(alice), lines[i]), "done");
    }
    EXPECT_EQ(sql("SELECT median_us FROM autotune.winners"), "1");
    dora.withdraw(2, "wrong");
    EXPECT_EQ(sql("SELECT median_us FROM autotune.winners"), "2");
    dora.withdraw(1, "wrong");
    dora.withdraw(3, "wrong");
    EXPECT_EQ(sql("SELECT count(*) FROM autotune.winners"), "0");
    want({add_of(1)});
    const Claim claim = claimed(alice);
    EXPECT_EQ(refusal([&] { alice.complete(kOne, claim, lines[1]); }), "AT409");
    EXPECT_EQ(alice.complete(kOne, claim, line_of(1, 1.5)), "done");
}

TEST_F(Store, ANewerDriversResultTakesOverThoughItIsSlower) {
    FleetStore alice = as("alice");
    want({add_of(1)});
    alice.complete(kOne, claimed(alice), line_of(1, 1.0));
    sql("INSERT INTO autotune.item(class, shape, device, catalogue, calls, priority) VALUES ('add dtype=f16 align=16,16,16', "
        "'1', '" +
        std::string(kDevice) + "', '" + kCatalogue + "', 1, 1)");
    std::string line = line_of(1, 2.0, "2026-12-01T00:00:00Z");
    line.replace(line.find("\"580\""), 5, "\"590\"");
    alice.complete(kOne, claimed(alice), line);
    EXPECT_EQ(sql("SELECT median_us FROM autotune.winners"), "2");
}

// ---- versions, back-ups ----

TEST_F(Store, AnOlderProgramWorksUntilTheSchemaSaysOtherwise) {
    want({add_of(1)});
    sql("INSERT INTO autotune.schema_step(version, oldest, name, tool) VALUES (8, 1, 'a later step', '9')");
    FleetStore alice = as("alice");
    EXPECT_EQ(alice.complete(kOne, claimed(alice), line_of(1)), "done");
    sql("INSERT INTO autotune.schema_step(version, oldest, name, tool) VALUES (9, 9, 'a step that ends old programs', '9')");
    EXPECT_EQ(message([&] { as("alice"); }),
              "the store has schema 9, which programs of schema 9 and later can use; this autotune is of schema 2: update it");
    EXPECT_THAT(message([&] { FleetStore(options("postgres"), FleetStore::Unchecked{}).migrate("0.1.0"); }),
                HasSubstr("the store has schema 9, newer than schema 2 of this autotune"));
}

TEST_F(Store, AnOlderOrEmptyStoreNamesTheRemedy) {
    sql("DELETE FROM autotune.schema_step");
    EXPECT_EQ(message([&] { as("alice"); }), "the store is empty; its owner runs `autotune fleet migrate --store ADDRESS`");
    sql("INSERT INTO autotune.schema_step(version, oldest, name, tool) VALUES (-1, -1, 'an earlier step', '0')");
    EXPECT_EQ(
        message([&] { as("alice"); }),
        "the store has schema -1, this autotune needs schema 2; the store's owner runs `autotune fleet migrate` of this version");
}

TEST_F(Store, MigratingAgainChangesNothing) {
    want({add_of(1)});
    EXPECT_THAT(FleetStore(options("postgres"), FleetStore::Unchecked{}).migrate("0.1.0"), IsEmpty());
    EXPECT_EQ(sql("SELECT count(*) FROM autotune.item"), "1");
    EXPECT_THAT(migration_text(0), HasSubstr("CREATE SCHEMA autotune"));
}

// A store of the version before, in which a worker of that version holds an item.
TEST_F(Store, AStoreOfSchemaOneIsMigratedUnderItsWorkers) {
    const std::string before = database_;
    database_ = server_->new_database();
    sql("BEGIN;" + schema_steps().front().sql +
        "INSERT INTO autotune.schema_step(version, oldest, name, tool) VALUES (1, 1, 'first', '0.1.0'); COMMIT;"
        "GRANT USAGE ON SCHEMA autotune TO autotune_worker, autotune_client;"
        "GRANT EXECUTE ON FUNCTION autotune.version(), autotune.enlist, autotune.claim, autotune.complete TO autotune_worker;"
        "GRANT EXECUTE ON FUNCTION autotune.version(), autotune.want TO autotune_client;");
    EXPECT_EQ(
        message([&] { as("alice"); }),
        "the store has schema 1, this autotune needs schema 2; the store's owner runs `autotune fleet migrate` of this version");
    FleetStore alice(options("alice"), FleetStore::Unchecked{});  // as a program of schema 1
    FleetStore(options("carol"), FleetStore::Unchecked{}).want({add_of(1), add_of(2)}, kPriorityOfMisses);
    const Claim held = claimed(alice);
    EXPECT_THAT(FleetStore(options("postgres"), FleetStore::Unchecked{}).migrate("0.1.0"), ElementsAre("verdicts of patches"));
    EXPECT_EQ(alice.complete(kOne, held, line_of(1)), "done");
    EXPECT_EQ(claimed(alice).shape, "2");
    EXPECT_EQ(as("carol").post_verdicts({{"x", "card", "torch", 1, 1, "2026-11-23T18:51:56Z"}}).added, 1);
    database_ = before;
}

TEST_F(Store, ARestoredDumpGoesOn) {
    as("carol").post_verdicts({{"x", "card", "torch", 1, 1, "2026-11-23T18:51:56Z"}});
    want({add_of(1), add_of(2), add_of(3)});
    FleetStore alice = as("alice");
    alice.complete(kOne, claimed(alice), line_of(1));
    const Claim before = claimed(alice);  // held over the restore
    as("dora").freeze("a", "", {{1, "x"}});
    as("dora").publish("prod", "a", "");
    const std::string dump = server_->run("pg_dump", {"-d", database_});
    database_ = server_->new_database();
    server_->run("psql", {"-X", "-q", "-v", "ON_ERROR_STOP=1", "-d", database_}, dump);
    FleetStore again = as("alice");
    again.enlist(kOne, "host", "0.1.0");
    EXPECT_EQ(again.complete(kOne, before, line_of(2)), "done");
    EXPECT_EQ(claimed(again, kTwo, "GPU-2").shape, "3");
    EXPECT_EQ(as("carol").label("prod")->name, "a");
    EXPECT_THAT(as("dora").verdicts(), SizeIs(1));
    want({add_of(4)});
    EXPECT_EQ(sql("SELECT count(*) FROM autotune.result"), "2");
}

// ---- a server that is away ----

TEST_F(Store, AnUnreachableServerIsOneSentenceWithinSeconds) {
    const auto begun = std::chrono::steady_clock::now();
    EXPECT_THAT(message([] { FleetStore({.address = "host=/nonexistent dbname=x"}); }),
                HasSubstr("the store cannot be reached: "));
    EXPECT_THAT(message([] { FleetStore({.address = "postgresql://127.0.0.1:1/x"}); }),
                HasSubstr("the store cannot be reached: "));
    EXPECT_THAT(message([] { FleetStore({.address = "nonsense=1"}); }), HasSubstr("the store cannot be reached: "));
    EXPECT_LT(std::chrono::steady_clock::now() - begun, std::chrono::seconds(8));
}

TEST_F(Store, AStalledServerCostsNoMoreThanTheLimit) {
    test::Proxy proxy(server_->socket_path());
    Connection::Options to_proxy{.address = "postgresql://alice@127.0.0.1:" + std::to_string(proxy.port()) + "/" + database_,
                                 .connect_limit = std::chrono::seconds(2),
                                 .query_limit = std::chrono::seconds(1)};
    FleetStore alice(to_proxy);
    alice.enlist(kOne, "host", "0.1.0");
    proxy.stall(true);
    auto begun = std::chrono::steady_clock::now();
    EXPECT_THAT(message([&] { alice.reap(); }),
                HasSubstr("the connection to the store is lost: no answer to SELECT autotune.reap within 1 s"));
    EXPECT_LT(std::chrono::steady_clock::now() - begun, std::chrono::seconds(3));
    EXPECT_THAT(message([&] { alice.reap(); }), HasSubstr("lost"));
    begun = std::chrono::steady_clock::now();
    EXPECT_THAT(message([&] { FleetStore again(to_proxy); }), HasSubstr("the store cannot be reached"));
    EXPECT_LT(std::chrono::steady_clock::now() - begun, std::chrono::seconds(5));
    proxy.stall(false);
    FleetStore again(to_proxy);
    EXPECT_EQ(again.reap(), 0);
    proxy.cut(true);
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    try {
        again.reap();
        ADD_FAILURE() << "a reset is no answer";
    } catch (const StoreError& error) {
        EXPECT_TRUE(error.lost());
    }
}

TEST_F(Store, AReadOnlyServerIsRefusedForWritingAndServesLabels) {
    as("dora").freeze("a", "", {{1, "x"}});
    sql("ALTER DATABASE " + database_ + " SET default_transaction_read_only = on");
    EXPECT_THAT(message([&] { as("alice"); }), HasSubstr("session is read-only"));
    Connection::Options reading = options("carol");
    reading.writes = false;
    EXPECT_EQ(FleetStore(reading).label("a")->rows, 1);
    // The server may also become read-only while a connection is open.
    FleetStore carol(reading);
    try {
        carol.want({add_of(1)}, 100);
        ADD_FAILURE();
    } catch (const StoreError& error) {
        EXPECT_EQ(error.sqlstate(), "25006");
        EXPECT_TRUE(error.lost());  // a new connection may find another server
    }
}

TEST_F(Store, AServerWithoutFreeConnectionsIsALossNotARefusal) {
    sql("ALTER ROLE eve CONNECTION LIMIT 0; GRANT autotune_client TO eve");
    try {
        as("eve");
        ADD_FAILURE();
    } catch (const StoreError& error) {
        EXPECT_TRUE(error.lost());
        EXPECT_THAT(error.what(), HasSubstr("too many connections"));
    }
    sql("ALTER ROLE eve CONNECTION LIMIT -1");
    EXPECT_EQ(as("eve").want({add_of(1)}, 100).added, 1);
    sql("REVOKE autotune_client FROM eve");
}

TEST_F(Store, AKilledServerLosesTheConnectionAndNoAcknowledgedResult) {
    want({add_of(1), add_of(2)});
    FleetStore alice = as("alice");
    alice.complete(kOne, claimed(alice), line_of(1));
    const Claim held = claimed(alice);
    server_->kill();
    EXPECT_THAT(message([&] { alice.beat(kOne, {held}); }), HasSubstr("the connection to the store is lost"));
    server_->start();
    FleetStore again = as("alice");
    EXPECT_EQ(again.complete(kOne, held, line_of(2)), "done");
    EXPECT_EQ(sql("SELECT count(*) FROM autotune.winners"), "2");
}

#ifdef LIBPQ_FE_H
// The program declares libpq's functions itself (libpq_api.h), with numbers for its enums.
static_assert(CONNECTION_OK == 0 && PGRES_EMPTY_QUERY == 0 && PGRES_COMMAND_OK == 1 && PGRES_TUPLES_OK == 2);
static_assert(PG_DIAG_SQLSTATE == 'C' && PG_DIAG_MESSAGE_PRIMARY == 'M' && PG_DIAG_MESSAGE_HINT == 'H');
static_assert(sizeof(Oid) == sizeof(unsigned) && sizeof(ConnStatusType) == sizeof(int) && sizeof(ExecStatusType) == sizeof(int));
static_assert(std::is_same_v<decltype(PQconnectdbParams), PGconn*(const char* const*, const char* const*, int)>);
static_assert(std::is_same_v<decltype(PQsendQueryParams),
                             int(PGconn*, const char*, int, const Oid*, const char* const*, const int*, const int*, int)>);
static_assert(std::is_same_v<decltype(PQresultErrorField), char*(const PGresult*, int)>);
static_assert(std::is_same_v<decltype(PQgetvalue), char*(const PGresult*, int, int)>);
#endif

}  // namespace
}  // namespace autotune::fleet::store_test
