// Tests of the decisions about a side-by-side table: its rows, their order, and which of them go on to the rounds.
#include "tuner/session/bench/bench_entries.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "src/core/error.h"
#include "tests/support/embedded_catalogue.h"
#include "tuner/session/tune/candidates.h"

namespace autotune::tuner::bench_entries_test {
namespace {

using testing::ElementsAre;

BenchEntry surveyed(const std::string& family, double us, int stages = 0) {
    static int distinct = 100;
    const Config config({{"stages", stages > 0 ? stages : ++distinct}});
    BenchEntry entry{.name = family, .candidate = Candidate{family, config}, .must_race = false};
    entry.instance = std::make_shared<jit::Compiled>();
    entry.surveyed = Timing{.median_us = us, .low_us = us, .high_us = us, .min_us = us, .samples = 3};
    return entry;
}

BenchEntry racing(const std::string& name) {
    BenchEntry entry{.name = name, .candidate = Candidate{"gemm/mma", {}}};
    entry.instance = std::make_shared<jit::Compiled>();
    return entry;
}

// Entries of an hgemm on a simulated H200, without a store.
std::vector<BenchEntry> entries_of(const BenchOptions& options, const NamedFilter& wanted,
                                   const std::string& shape = "128x128x64") {
    const Catalogue& catalogue = test::embedded_catalogue();
    const TuneServices services{.catalogue = catalogue,
                                .store = nullptr,
                                .device = *reference_device("sm_90a"),
                                .device_uuid = "",
                                .provenance = {},
                                .workers = {}};
    const Problem problem = catalogue.problem({.op = "hgemm", .shape = shape, .options = {}});
    return bench_entries(problem, options, services, wanted);
}

// The entries of every named config.
std::vector<BenchEntry> named_entries(const NamedFilter& wanted, std::vector<std::string> against = {}) {
    BenchOptions options;
    options.named = true;
    options.against = std::move(against);
    return entries_of(options, wanted);
}

bool all(const Candidate&) {
    return true;
}

TEST(BenchEntries, FamiliesStandFromThePlainestToTheOneThatUsesMost) {
    const Catalogue& catalogue = test::embedded_catalogue();
    int rung = INT_MIN;
    for (const BenchEntry& entry : named_entries(all)) {
        const int next = catalogue.find_family(entry.candidate->family)->complexity_order();
        EXPECT_LE(rung, next) << entry.name;
        rung = next;
    }
}

TEST(Candidates, APinChangesOneParameterOfANamedConfig) {
    const Catalogue& catalogue = test::embedded_catalogue();
    const Problem problem = catalogue.problem({.op = "hgemm", .shape = "8192x8192x8192", .options = {}});
    Choice choice{.families = {"gemm/wgmma"}, .pins = {}, .named = "wgmma_coop_128x256x64"};
    const Candidates plain(catalogue, problem, *reference_device("sm_90a"), choice);
    choice.pins.set("pdl", 0);
    const Candidates pinned(catalogue, problem, *reference_device("sm_90a"), choice);
    ASSERT_EQ(plain.size(), 1U);
    ASSERT_EQ(pinned.size(), 1U);
    Config expected = plain.at(0).config;
    EXPECT_EQ(expected["pdl"], 1);
    expected.set("pdl", 0);
    EXPECT_EQ(pinned.at(0).config, expected);
}

TEST(BenchEntries, RivalsComeLast) {
    const std::vector<BenchEntry> entries = named_entries(all, {"cublas", "cublaslt"});
    EXPECT_EQ(entries.back().name, "cublaslt");
    EXPECT_EQ(entries[entries.size() - 2].name, "cublas");
    EXPECT_FALSE(entries.back().candidate);
}

TEST(BenchEntries, DefaultsStandInForAWinnerThatThereIsNot) {
    BenchOptions options;
    options.winner_only = true;
    EXPECT_THAT(entries_of(options, all), testing::Not(testing::IsEmpty()));
}

TEST(BenchEntries, CandidatesStandBehindTheWinnerWithTheirFamilysDefaultsForWhatTheyDoNotName) {
    BenchOptions options;
    options.winner_only = true;
    options.candidates = {{"gemm/wgmma", Config({{"group", 1}})}, {"gemm/wgmma", Config({{"group", 4}})}};
    const std::vector<BenchEntry> entries = entries_of(options, all, "512x512x512");
    ASSERT_GE(entries.size(), 2U);
    EXPECT_EQ(entries[0].name, "candidate 1");
    EXPECT_EQ(entries[1].name, "candidate 2");
    Config expected = entries[0].candidate->config;
    EXPECT_EQ(expected["group"], 1);
    expected.set("group", 4);
    EXPECT_EQ(entries[1].candidate->config, expected);
    EXPECT_TRUE(entries[1].must_race);
}

TEST(BenchEntries, ACandidateThatIsNotLegalIsRefusedWithTheReason) {
    BenchOptions options;
    options.candidates = {{"gemm/wgmma", Config({{"cluster_m", 4}, {"cluster_n", 4}})}};
    try {
        entries_of(options, all);
        FAIL() << "a cluster of 16 blocks";
    } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::usage);
        EXPECT_THAT(error.what(), testing::HasSubstr("a cluster has more than 8 blocks"));
    }
}

TEST(BenchEntries, TheFilterDecidesWhichNamedConfigsAreMeasured) {
    EXPECT_THAT(named_entries([](const Candidate&) { return false; }, {"cublas"}), testing::SizeIs(1));
}

TEST(BenchEntries, ATableWithoutARowIsRefused) {
    EXPECT_THROW(named_entries([](const Candidate&) { return false; }), Error);
}

TEST(BenchEntries, TheSurveyBeginsWithTheFastestPrediction) {
    const std::vector<BenchEntry> entries = named_entries(all, {"cublas"});
    const std::vector<std::size_t> order = survey_order(entries);
    EXPECT_EQ(order.size(), entries.size() - 1);
    for (std::size_t i = 1; i < order.size(); ++i)
        EXPECT_LE(*entries[order[i - 1]].predicted_us, *entries[order[i]].predicted_us);
}

TEST(BenchEntries, TheFastestWithinReachRaceAndWhoMust) {
    std::vector<BenchEntry> entries = {surveyed("a", 10), surveyed("b", 100), surveyed("c", 11), surveyed("d", 12),
                                       racing("winner")};
    EXPECT_THAT(racers_of(entries, 2), ElementsAre(0, 2, 4));
    EXPECT_THAT(racers_of(entries, 8), ElementsAre(0, 2, 3, 4)) << "ten times as slow needs no interval";
}

// A default that takes forty times as long lets the card rest, so the others would be timed at clocks that they cannot hold.
TEST(BenchEntries, DefaultsOfSeveralFamiliesAreSurveyedAndTheOnlyOneRaces) {
    const auto defaults_of = [](std::vector<std::string> families) {
        BenchOptions options;
        options.choice.families = std::move(families);
        return entries_of(options, all);
    };
    EXPECT_THAT(survey_order(defaults_of({"gemm/simt", "gemm/mma"})), testing::SizeIs(2));
    EXPECT_THAT(survey_order(defaults_of({"gemm/simt"})), testing::IsEmpty());
}

TEST(BenchEntries, WhoFailedDoesNotRace) {
    std::vector<BenchEntry> entries = {surveyed("a", 10), surveyed("b", 11), racing("winner")};
    entries[0].outcome.status = TrialStatus::wrong_result;
    entries[2].instance = nullptr;
    EXPECT_THAT(racers_of(entries, 8), ElementsAre(1));
}

TEST(BenchEntries, RatiosAreToTheWinnerOrElseToTheFirstThatRaced) {
    const std::vector<BenchEntry> entries = {surveyed("a", 10), {.name = "cublas"}, racing("winner")};
    EXPECT_EQ(baseline_of(entries, {0, 1, 2}), 2u);
    EXPECT_EQ(baseline_of(entries, {0, 1}), 0u);
    EXPECT_EQ(baseline_of(entries, {}), std::nullopt);
}

TEST(BenchEntries, TheBestOfEachFamilyIsTheFastestThatWorks) {
    std::vector<BenchEntry> entries = {surveyed("a", 12), surveyed("a", 10), surveyed("a", 11), surveyed("b", 50)};
    entries[1].outcome.status = TrialStatus::crashed;
    EXPECT_THAT(best_of_families(entries, 1), ElementsAre(2, 3));
    EXPECT_THAT(best_of_families(entries, 2), ElementsAre(2, 0, 3));
}

TEST(BenchEntries, AConfigWithTwoNamesCountsOnceAmongTheBest) {
    const std::vector<BenchEntry> entries = {surveyed("a", 10, 2), surveyed("a", 11, 2), surveyed("a", 12, 3)};
    EXPECT_THAT(best_of_families(entries, 2), ElementsAre(0, 2));
}

}  // namespace
}  // namespace autotune::tuner::bench_entries_test
