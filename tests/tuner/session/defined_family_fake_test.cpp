// Tunes a family that is not part of any binary: the coordinator renders it, compile workers compile its text, and the GPU worker
// receives its definition and plans its launches, also after it was killed and restarted.
#include "db/store/store.h"
#include "src/gpu/driver/driver.h"
#include "tests/kernel_templates/defined_family.h"
#include "tests/support/fake/fake_test.h"
#include "tuner/session/tune.h"

namespace autotune::tuner::defined_family_fake_test {
namespace {

using fake::Sandbox;

class Counter : public TuneObserver {
  public:
    void on_trial(const Trial& trial) override { ++(trial.status == TrialStatus::ok ? right : wrong); }
    int right = 0, wrong = 0;
};

// The problem is too long for the scripted driver to compute, which makes the tune quick. It has only a third of the configs.
constexpr const char* kShape = "1048576";
TuneResult tune_defined(Counter& counter, db::Store* store) {
    Catalogue catalogue = Catalogue::embedded();
    catalogue.add(autotune::test::defined_add());
    TuneServices services{catalogue, store, {}, "", {}, {}, nullptr, nullptr};
    const auto driver = gpu::Driver::load();
    services.device = driver->device(0);
    services.device_uuid = driver->uuid(0);
    services.provenance.driver = "test";
    services.provenance.device_name = services.device.identity.name;
    services.workers.binary = fake::autotune_binary();
    services.observer = &counter;
    TuneOptions options;
    options.budget = {.seconds = 30, .trials = 12};
    options.choice.families = {"add/by_value"};
    return tune(catalogue.problem({"hadd", kShape, {}}), options, services);
}

TEST(DefinedFamilyOnFake, IsTunedInWorkerProcessesAndStored) {
    autotune::test::fake_test(
        "",
        [] {
            db::Store store = db::Store::open({.path = ":memory:"});
            Counter counter;
            const TuneResult result = tune_defined(counter, &store);
            EXPECT_TRUE(result.tuned);
            EXPECT_EQ(result.winner.candidate.family, "add/by_value");
            EXPECT_GE(counter.right, 12);
            EXPECT_EQ(counter.wrong, 0);
            EXPECT_EQ(store.find(Catalogue::embedded().problem({"hadd", kShape, {}}), result.winner.device).size(), 1U);
        },
        [](const fake::Sandbox& sandbox) {
            EXPECT_GT(sandbox.count_calls("execute add_by_value_"), 20);
            EXPECT_EQ(sandbox.count_calls("BUG"), 0);
        });
}

TEST(DefinedFamilyOnFake, IsJudgedLikeAnyOther) {
    autotune::test::fake_test("rule symbol=^add_by_value_ threads=256 do=wrong how=element", [] {
        Counter counter;
        const TuneResult result = tune_defined(counter, nullptr);
        EXPECT_GT(counter.wrong, 0);
        EXPECT_NE(result.winner.candidate.config["threads"], 256);
    });
}

TEST(DefinedFamilyOnFake, IsKnownToTheWorkerThatFollowsAKilledOne) {
    autotune::test::fake_test("rule symbol=^add_by_value_ threads=128 do=crash how=kill", [] {
        Counter counter;
        const TuneResult result = tune_defined(counter, nullptr);
        EXPECT_GT(counter.right, 0);
        EXPECT_NE(result.winner.candidate.config["threads"], 128);
    });
}

}  // namespace
}  // namespace autotune::tuner::defined_family_fake_test
