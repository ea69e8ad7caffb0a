// A worker's connection and source of problems, on a store that goes away.
#include <gmock/gmock.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <thread>

#include "tests/support/embedded_catalogue.h"
#include "tests/support/postgres/proxy.h"
#include "tests/tuner/fleet/store_bench.h"
#include "tuner/fleet/source/fleet_link.h"
#include "tuner/fleet/source/fleet_source.h"

namespace autotune::fleet::link_test {
namespace {

using std::chrono::milliseconds;
using testing::Contains;
using testing::HasSubstr;

// Far below what any network call would take, and above the pauses of a crowded machine.
constexpr double kMostCall_s = 0.2;

class Link : public StoreTest {
  protected:
    void SetUp() override {
        StoreTest::SetUp();
        if (IsSkipped()) return;
        set("poll_s", 0.05);
    }
    FleetLink::Options link_options(std::string address) const {
        return {.store = {.address = std::move(address),
                          .connect_limit = std::chrono::seconds(1),
                          .query_limit = std::chrono::seconds(1)},
                .host = "host",
                .tool = "0.1.0",
                .lanes = {{"GPU-1", kDevice}},
                .catalogues = {kCatalogue}};
    }
    FleetLink::Options link_options() const { return link_options(server_->address(database_, "alice")); }
    void want(int count) const {
        std::vector<Wanted> wanted;
        for (int n = 1; n <= count; ++n) wanted.push_back(add_of(n));
        as("carol").want(wanted, kPriorityOfMisses);
    }
    static void until(const std::function<bool()>& condition, const char* what) {
        for (int i = 0; i < 600; ++i) {
            if (condition()) return;
            std::this_thread::sleep_for(milliseconds(50));
        }
        FAIL() << what << ": not within 30 s";
    }
    static Claim taken(FleetLink& link) {
        std::optional<Claim> claim;
        until([&] { return (claim = link.take(0)).has_value(); }, "a claim");
        return claim.value_or(Claim{});
    }
    // Longest time of a call of what a worker's own thread calls.
    static double slowest_call_s(FleetLink& link, double for_s) {
        const auto begun = std::chrono::steady_clock::now();
        const auto seconds = [](auto since) {
            return std::chrono::duration<double>(std::chrono::steady_clock::now() - since).count();
        };
        double slowest = 0;
        while (seconds(begun) < for_s) {
            for (const auto& call :
                 std::vector<std::function<void()>>{[&] { link.take(0); }, [&] { link.give_back(0); }, [&] { link.remarks(); }}) {
                const auto at = std::chrono::steady_clock::now();
                call();
                slowest = std::max(slowest, seconds(at));
            }
            std::this_thread::sleep_for(milliseconds(5));
        }
        return slowest;
    }
    std::string done() const { return sql("SELECT count(*) FROM autotune.outcome WHERE what = 'done'"); }
};

TEST_F(Link, NoCallWaitsForAStoreThatStallsOrResets) {
    want(2);
    test::Proxy proxy(server_->socket_path());
    FleetLink link(link_options("postgresql://alice@127.0.0.1:" + std::to_string(proxy.port()) + "/" + database_));
    const Claim first = taken(link);
    proxy.stall(true);
    link.complete(first, line_of(std::stoi(first.shape)));
    EXPECT_LT(slowest_call_s(link, 1.5), kMostCall_s);
    EXPECT_EQ(done(), "0");
    proxy.stall(false);
    until([&] { return done() == "1"; }, "the result after the stall");
    const Claim second = taken(link);
    proxy.cut(true);
    link.complete(second, line_of(std::stoi(second.shape)));
    EXPECT_LT(slowest_call_s(link, 0.5), kMostCall_s);
    EXPECT_EQ(done(), "1");
    proxy.cut(false);
    until([&] { return done() == "2"; }, "the result after the reset");
    EXPECT_EQ(link.close(std::chrono::seconds(1)), 0U);
}

TEST_F(Link, ASilentServerKeepsNoWorkerFromEnding) {
    want(1);
    test::Proxy proxy(server_->socket_path());
    FleetLink link(link_options("postgresql://alice@127.0.0.1:" + std::to_string(proxy.port()) + "/" + database_));
    const Claim claim = taken(link);
    proxy.stall(true);
    link.complete(claim, line_of(1));
    const auto begun = std::chrono::steady_clock::now();
    EXPECT_EQ(link.close(std::chrono::seconds(1)), 1U);  // its winner is in the local database
    EXPECT_LT(std::chrono::steady_clock::now() - begun, std::chrono::seconds(5));
}

// A server whose disk is full says so for some calls, and works for others.
TEST_F(Link, AFullDiskOfTheServerDelaysResultsAndLosesNone) {
    set("lease_s", 4);
    want(2);
    FleetLink link(link_options());
    const Claim first = taken(link);
    sql("CREATE FUNCTION autotune.full_disk() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'could not extend "
        "file: No space left on"
        " device' USING ERRCODE = '53100'; END $$;"
        "CREATE TRIGGER full_disk BEFORE INSERT ON autotune.result FOR EACH ROW EXECUTE FUNCTION autotune.full_disk();");
    link.complete(first, line_of(std::stoi(first.shape)));
    std::vector<std::string> said;
    until(
        [&] {
            for (const std::string& each : link.remarks()) said.push_back(each);
            return !said.empty();
        },
        "a warning");
    EXPECT_THAT(
        said,
        Contains(HasSubstr(
            "the store cannot answer now: could not extend file: No space left on device; work goes on, winners are kept in the "
            "local database and are sent when the store is back")));
    const std::string lease = " FROM autotune.lease WHERE item = " + std::to_string(first.id),
                      before = sql("SELECT until" + lease);
    until([&] { return sql("SELECT until > '" + before + "'" + lease) == "t"; }, "the lease is renewed meanwhile");
    sql("DROP TRIGGER full_disk ON autotune.result");
    until([&] { return done() == "1"; }, "the result");
    EXPECT_EQ(sql("SELECT count(*) FROM autotune.outcome WHERE what <> 'done'"), "0");
    taken(link);
}

// ---- the source of problems ----

class Hears : public tuner::IdleObserver {
  public:
    void on_item(const tuner::SweepItem&, std::int64_t, std::size_t) override {}
    void on_remark(const std::string&) override {}
};

TEST_F(Link, AnItemThatWasClaimedForALaneThatIsOutGoesBack) {
    want(1);
    FleetLink link(link_options());
    const Catalogue& catalogue = autotune::test::embedded_catalogue();
    const Device device = *reference_device("sm_90a");
    const std::vector<tuner::LaneGpu> gpus{{.device = device, .uuid = "GPU-1", .provenance = {}, .note = {}}};
    const tuner::TuneServices services{
        .catalogue = catalogue, .device = device, .device_uuid = "", .provenance = {}, .workers = {}};
    const std::atomic<bool> stop{false};
    Hears hears;
    tuner::FleetSource source(
        link, gpus, services, [](const std::string&, unsigned long long&) { return gpu::CardLoad{}; }, {.idle_s = 0}, &stop,
        hears);
    const std::string class_key;
    const tuner::LaneView lane{0, gpus[0].uuid, gpus[0].device, class_key};
    EXPECT_FALSE(source.take(lane, false));  // asks
    const auto state = [&] { return sql("SELECT state FROM autotune.item"); };
    until([&] { return state() == "leased"; }, "the claim");
    source.lane_out(lane);
    until([&] { return state() == "ready"; }, "the item comes back");
    EXPECT_EQ(sql("SELECT what FROM autotune.outcome"), "released");
}

}  // namespace
}  // namespace autotune::fleet::link_test
