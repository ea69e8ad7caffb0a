#include <gmock/gmock.h>

#include "db/store/store.h"
#include "tests/db/sample.h"
#include "tests/support/memory_store.h"

namespace autotune::db {
namespace {

using namespace test;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

// These tests run for every implementation of the interface.
using MakeStore = std::unique_ptr<WinnerStore> (*)();
class AnyStore : public ::testing::TestWithParam<std::pair<const char*, MakeStore>> {
  protected:
    std::unique_ptr<WinnerStore> store_ = GetParam().second();
};
INSTANTIATE_TEST_SUITE_P(
    Is, AnyStore,
    ::testing::Values(std::pair<const char*, MakeStore>{"Sqlite", [] { return open_store({.path = ":memory:"}); }},
                      std::pair<const char*, MakeStore>{
                          "Memory",
                          []() -> std::unique_ptr<WinnerStore> { return std::make_unique<autotune::test::MemoryStore>(); }}),
    [](const auto& parameter) { return std::string(parameter.param.first); });

TEST_P(AnyStore, FindsNothingInANewDatabase) {
    const WinnerStore& store = *store_;
    EXPECT_THAT(store.find(sample_problem(), sample_device()), IsEmpty());
}

TEST_P(AnyStore, GivesBackEveryFieldOfAWinner) {
    WinnerStore& store = *store_;
    const Winner put = sample_winner();
    store.put(put);
    const std::vector<Winner> found = store.find(sample_problem(), sample_device());
    ASSERT_THAT(found, SizeIs(1));
    EXPECT_EQ(records::to_json_line(found[0]), records::to_json_line(put));  // the line contains every field
    EXPECT_EQ(found[0].device.name, "NVIDIA H200");
    EXPECT_FALSE(found[0].shipped);
}

TEST_P(AnyStore, KeepsUnknownConditionsUnknown) {
    WinnerStore& store = *store_;
    Winner put = sample_winner();
    put.evidence.conditions = {};
    put.evidence.max_error = put.evidence.accumulation_error = std::nullopt;
    store.put(put);
    const Winner found = store.find(sample_problem(), sample_device()).at(0);
    EXPECT_EQ(found.evidence.conditions.sm_clock_mhz, std::nullopt);
    EXPECT_EQ(found.evidence.conditions.throttle_reasons, std::nullopt);
    EXPECT_EQ(found.evidence.max_error, std::nullopt);
    EXPECT_EQ(found.evidence.accumulation_error, std::nullopt);
}

// ---- what was learned ----

CostCorrection sample_correction(const std::string& family = "gemm/wgmma", const std::string& nvrtc = "13.0") {
    return {.device_key = sample_device().key(),
            .family = family,
            .template_identity = "3f2a00ff",
            .nvrtc = nvrtc,
            .class_key = sample_problem().class_key(),
            .problems = 3,
            .trials = 75,
            .deviation = 0.0625,
            .effects = {{"", 0, -0.125, 31}, {"block_m", 128, 0.5, 12}},
            .date = "2026-11-28T18:00:00Z"};
}

TEST_P(AnyStore, GivesBackACorrectionOfACostModel) {
    const CostCorrection put = sample_correction();
    store_->put_corrections({&put, 1});
    const auto found = store_->corrections(put.device_key, put.class_key);
    ASSERT_THAT(found, SizeIs(1));
    EXPECT_EQ(found[0].family, "gemm/wgmma");
    EXPECT_EQ(found[0].template_identity, "3f2a00ff");
    EXPECT_EQ(found[0].nvrtc, "13.0");
    EXPECT_EQ(found[0].problems, 3);
    EXPECT_EQ(found[0].trials, 75);
    EXPECT_EQ(found[0].deviation, 0.0625);
    EXPECT_EQ(found[0].effects, put.effects);
    EXPECT_EQ(found[0].date, "2026-11-28T18:00:00Z");
}

TEST_P(AnyStore, KeepsOneCorrectionForEachCardFamilyClassTemplateAndNvrtc) {
    const CostCorrection put = sample_correction();
    CostCorrection newer = put;
    newer.problems = 4;
    const std::vector<CostCorrection> others = {put, newer, sample_correction("gemm/mma"),
                                                sample_correction("gemm/wgmma", "12.8")};
    store_->put_corrections(others);
    const auto found = store_->corrections(put.device_key, "");
    ASSERT_THAT(found, SizeIs(3));
    EXPECT_EQ(found[0].family, "gemm/mma");
    EXPECT_EQ(found[1].nvrtc, "12.8");
    EXPECT_EQ(found[2].problems, 4) << "the later one took the place of the other";
    EXPECT_THAT(store_->corrections(put.device_key, "gemm of another class"), IsEmpty());
    EXPECT_THAT(store_->corrections("another card", put.class_key), IsEmpty());
}

TEST_P(AnyStore, TakesNoCorrectionThatIsNotValid) {
    CostCorrection wrong = sample_correction();
    wrong.effects[0].effect = 4;
    EXPECT_THROW(store_->put_corrections({&wrong, 1}), DatabaseError);
    EXPECT_THAT(store_->corrections(wrong.device_key, ""), IsEmpty());
}

TEST_P(AnyStore, NeverMatchesAnotherDevice) {
    WinnerStore& store = *store_;
    store.put(sample_winner());
    EXPECT_THAT(store.find(sample_problem(), other_device()), IsEmpty());
}

TEST_P(AnyStore, IgnoresTheDeviceNameWhenMatching) {
    WinnerStore& store = *store_;
    store.put(sample_winner());
    DeviceIdentity renamed = sample_device();
    renamed.name = "NVIDIA H200 NVL";
    EXPECT_THAT(store.find(sample_problem(), renamed), SizeIs(1));
}

TEST_P(AnyStore, NeverMatchesAnotherClass) {
    WinnerStore& store = *store_;
    store.put(sample_winner());
    Problem other = sample_problem();
    other.attributes[4].value = "nt";
    EXPECT_THAT(store.find(other, sample_device()), IsEmpty());
}

TEST_P(AnyStore, ReplacesTheWinnerOfTheSameTemplateAndItsEvidence) {
    WinnerStore& store = *store_;
    store.put(sample_winner(sample_problem(), 100));
    Winner better = sample_winner(sample_problem(), 90);
    better.evidence.finalists.resize(1);
    store.put(better);
    const auto found = store.find(sample_problem(), sample_device());
    ASSERT_THAT(found, SizeIs(1));
    EXPECT_EQ(found[0].timing.median_us, 90);
    EXPECT_THAT(found[0].evidence.finalists, SizeIs(1));
    EXPECT_EQ(store.verify_integrity(), "");
}

TEST_P(AnyStore, KeepsWinnersOfDifferentTemplatesNewestFirst) {
    WinnerStore& store = *store_;
    store.put(sample_winner());
    Winner newer = sample_winner();
    newer.template_identity = "another";
    store.put(newer);
    const auto found = store.find(sample_problem(), sample_device());
    ASSERT_THAT(found, SizeIs(2));
    EXPECT_EQ(found[0].template_identity, "another");
}

TEST_P(AnyStore, StoresNothingOfAWinnerThatIsOutOfRange) {
    WinnerStore& store = *store_;
    Winner bad = sample_winner();
    bad.extents[0].value = -1;
    EXPECT_THAT(database_error_of([&] { store.put(bad); }), HasSubstr("extent m is -1"));
    EXPECT_EQ(store.count({}), 0);
}

TEST_P(AnyStore, PutsAllOrNone) {
    WinnerStore& store = *store_;
    std::vector<Winner> winners = {sample_winner(sample_problem(1)), sample_winner(sample_problem(2))};
    winners[1].timing.median_us = 0;
    EXPECT_NE(database_error_of([&] { store.put_all(winners); }), "");
    EXPECT_EQ(store.count({}), 0);
}

TEST_P(AnyStore, CleansTextsOfControlCharacters) {
    WinnerStore& store = *store_;
    Winner winner = sample_winner();
    winner.provenance.device_name = "GPU\x1b[31m\nname \xff";
    store.put(winner);
    EXPECT_EQ(store.find(sample_problem(), sample_device()).at(0).provenance.device_name, "GPU [31m name  ");
}

TEST_P(AnyStore, OrdersNearWinnersByLogDistance) {
    WinnerStore& store = *store_;
    for (const std::int64_t m : {256, 8192, 4096, 3000}) store.put(sample_winner(sample_problem(m)));
    const auto found = store.near(sample_problem(4096), sample_device(), 2);
    ASSERT_THAT(found, SizeIs(2));
    EXPECT_EQ(found[0].extents[0].value, 3000);  // |log(3000/4096)| = 0.31
    EXPECT_EQ(found[1].extents[0].value, 8192);  // 0.69
}

TEST_P(AnyStore, NearStaysOnItsDeviceAndInItsClass) {
    WinnerStore& store = *store_;
    Winner elsewhere = sample_winner(sample_problem(1024));
    elsewhere.device = other_device();
    store.put(elsewhere);
    Problem other_class = sample_problem(1024);
    other_class.attributes[0].value = "bf16";
    store.put(sample_winner(other_class));
    EXPECT_THAT(store.near(sample_problem(), sample_device(), 10), IsEmpty());
}

TEST_P(AnyStore, ListsNewestFirstUpToTheLimit) {
    WinnerStore& store = *store_;
    for (std::int64_t m = 1; m <= 5; ++m) store.put(sample_winner(sample_problem(m)));
    const auto rows = store.list({.limit = 2});
    ASSERT_THAT(rows, SizeIs(2));
    EXPECT_EQ(rows[0].extents[0].value, 5);
    EXPECT_EQ(rows[1].extents[0].value, 4);
    EXPECT_THAT(rows[0].evidence.finalists, IsEmpty());
    EXPECT_EQ(rows[0].evidence.rounds, 30);
}

TEST_P(AnyStore, FiltersByOpClassDeviceAndExtents) {
    WinnerStore& store = *store_;
    for (std::int64_t m = 1; m <= 3; ++m) store.put(sample_winner(sample_problem(m)));
    Winner elsewhere = sample_winner(sample_problem(2));
    elsewhere.device = other_device();
    store.put(elsewhere);
    EXPECT_EQ(store.count({}), 4);
    EXPECT_EQ(store.count({.op = "gemm"}), 4);
    EXPECT_EQ(store.count({.op = "add"}), 0);
    EXPECT_EQ(store.count({.class_key = sample_problem().class_key()}), 4);
    EXPECT_EQ(store.count({.device_key = other_device().key()}), 1);
    EXPECT_EQ(store.count({.op = "gemm", .extents = sample_problem(2).extents}), 2);
    EXPECT_THAT(store.list({.device_key = sample_device().key(), .extents = sample_problem(2).extents}), SizeIs(1));
}

TEST_P(AnyStore, HandsOverRowsWithFinalistsUntilToldToStop) {
    WinnerStore& store = *store_;
    for (std::int64_t m = 1; m <= 5; ++m) store.put(sample_winner(sample_problem(m)));
    int seen = 0;
    store.for_each({}, [&](const Winner& winner) {
        EXPECT_THAT(winner.evidence.finalists, SizeIs(2));
        return ++seen < 3;
    });
    EXPECT_EQ(seen, 3);
}

TEST_P(AnyStore, RemovesWhatMatchesAndItsTrials) {
    WinnerStore& store = *store_;
    store.put(sample_winner(sample_problem(1)));
    store.put(sample_winner(sample_problem(2)));
    store.record(sample_problem(1), sample_device(), sample_trial(3));
    store.record(sample_problem(2), sample_device(), sample_trial(3));
    EXPECT_EQ(store.remove({.extents = sample_problem(1).extents}), 1);
    EXPECT_EQ(store.count({}), 1);
    EXPECT_THAT(store.trials(sample_problem(1), sample_device()), IsEmpty());
    EXPECT_THAT(store.trials(sample_problem(2), sample_device()), SizeIs(1));
    EXPECT_EQ(store.verify_integrity(), "");
}

TEST_P(AnyStore, RemembersTrialsOfEveryOutcome) {
    WinnerStore& store = *store_;
    const std::vector<TrialStatus> outcomes = {
        TrialStatus::ok,           TrialStatus::compile_failed, TrialStatus::rejected, TrialStatus::launch_refused,
        TrialStatus::wrong_result, TrialStatus::timed_out,      TrialStatus::crashed,  TrialStatus::out_of_memory};
    for (std::size_t at = 0; at < outcomes.size(); ++at) {
        store.record(sample_problem(), sample_device(), sample_trial(static_cast<std::int64_t>(at), outcomes[at]));
    }
    const auto trials = store.trials(sample_problem(), sample_device());
    ASSERT_THAT(trials, SizeIs(outcomes.size()));
    for (std::size_t at = 0; at < outcomes.size(); ++at) {
        EXPECT_EQ(trials[at].trial.status, outcomes[at]);
        EXPECT_EQ(trials[at].trial.timing.has_value(), outcomes[at] == TrialStatus::ok);
        EXPECT_EQ(trials[at].trial.candidate, sample_candidate(static_cast<std::int64_t>(at)));
        EXPECT_EQ(trials[at].nvrtc, "13.0");
        EXPECT_EQ(trials[at].method, "stream-2 l2=cold data=normal");
    }
}

TEST_P(AnyStore, ALaterTrialOfACandidateReplacesTheEarlier) {
    WinnerStore& store = *store_;
    store.record(sample_problem(), sample_device(), sample_trial(3, TrialStatus::crashed));
    store.record(sample_problem(), sample_device(), sample_trial(3, TrialStatus::ok));
    const auto trials = store.trials(sample_problem(), sample_device());
    ASSERT_THAT(trials, SizeIs(1));
    EXPECT_EQ(trials[0].trial.status, TrialStatus::ok);
}

TEST_P(AnyStore, KeepsALongCompilersLogShort) {
    WinnerStore& store = *store_;
    StoredTrial trial = sample_trial(3, TrialStatus::compile_failed);
    trial.trial.detail = std::string(100'000, 'x');
    store.record(sample_problem(), sample_device(), trial);
    EXPECT_THAT(store.trials(sample_problem(), sample_device()).at(0).trial.detail, SizeIs(4000));
}

// Both rows belong to one family and template: neither search replaces the other's winner.
TEST_P(AnyStore, KeepsTheWinnerOfANarrowedSearchBesideThatOfTheWhole) {
    WinnerStore& store = *store_;
    const Winner whole = sample_winner();
    Winner narrowed = whole;
    narrowed.restricted_to = "family=gemm/mma stages=3";
    narrowed.timing.median_us = 2 * whole.timing.median_us;
    store.put(whole);
    store.put(narrowed);
    narrowed.timing.median_us *= 2;
    store.put(narrowed);
    const auto rows = store.find(sample_problem(), sample_device());
    ASSERT_THAT(rows, SizeIs(2));
    EXPECT_EQ(rows[0].restricted_to, narrowed.restricted_to);
    EXPECT_EQ(rows[0].timing.median_us, narrowed.timing.median_us);
    EXPECT_EQ(rows[1].restricted_to, "");
    EXPECT_EQ(rows[1].timing.median_us, whole.timing.median_us);
    EXPECT_EQ(store.same_key(narrowed)->restricted_to, narrowed.restricted_to);
    EXPECT_EQ(store.same_key(whole)->restricted_to, "");
}

TEST_P(AnyStore, CountsMisses) {
    WinnerStore& store = *store_;
    store.record_misses(
        std::vector<Miss>{{sample_problem(7), sample_device(), "near"}, {sample_problem(8), sample_device(), "near"}});
    store.record_misses(std::vector<Miss>{{sample_problem(8), sample_device(), "portfolio", 40}});
    const auto misses = store.misses();
    ASSERT_THAT(misses, SizeIs(2));
    EXPECT_EQ(misses[0].count, 41);
    EXPECT_EQ(misses[0].origin, "portfolio");  // the latest
    EXPECT_EQ(misses[1].origin, "near");
    EXPECT_EQ(misses[0].shape, sample_problem(8).shape());
    EXPECT_EQ(misses[0].problem_key, sample_problem(8).key());
    EXPECT_EQ(misses[0].device_key, sample_device().key());
}

}  // namespace
}  // namespace autotune::db
