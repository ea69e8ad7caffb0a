// A tune's use of earlier ones: seeds, known failures, known times.
#include "tuner/session/tune/earlier_runs.h"

#include <gmock/gmock.h>

#include <algorithm>

#include "tests/support/embedded_catalogue.h"
#include "tests/support/memory_store.h"

namespace autotune::tuner::earlier_runs_test {
namespace {

using testing::Optional;

const std::string kMethod = "stream-2 l2=cold data=normal";

class EarlierRunsTest : public testing::Test {
  protected:
    // A space of a few dozen points.
    EarlierRunsTest() {
        services_.store = &store_;
        services_.provenance.nvrtc = "13.0";
    }

    db::StoredTrial stored(std::size_t point, TrialStatus status, double time_us = 0, const std::string& nvrtc = "13.0",
                           const std::string& method = kMethod) const {
        db::StoredTrial made;
        made.trial.candidate = candidates_.at(point);
        made.trial.status = status;
        if (status == TrialStatus::ok) made.trial.timing = Timing{.median_us = time_us};
        made.template_identity = candidates_.part_of(point).template_identity;
        made.nvrtc = nvrtc;
        made.method = method;
        return made;
    }
    void keep(const db::StoredTrial& trial) {
        store_.record(problem_, services_.device.identity, trial);
        store_.flush();
    }
    EarlierRuns read() const { return {problem_, candidates_, services_}; }

    const Catalogue& catalogue_ = test::embedded_catalogue();
    const Problem problem_ = catalogue_.problem({"hgemm", "256x256x256", {}});
    TuneServices services_{
        .catalogue = catalogue_, .device = *reference_device("sm_90a"), .device_uuid = "", .provenance = {}, .workers = {}};
    const Candidates candidates_{
        catalogue_, problem_, services_.device, {.families = {"gemm/simt"}, .pins = {{"block_k", 16}, {"vec", 4}}, .named = {}}};
    test::MemoryStore store_;
    const EarlierRuns::Today today_{"13.0", kMethod, false};
};

// Corrections of another class of the same family are used until corrections of the problem's own class are known.
TEST_F(EarlierRunsTest, CorrectionsAreOfTheClassElseOfTheOneThatIsKnownBest) {
    const auto correction = [&](const std::string& class_key, int problems, const std::string& nvrtc = "13.0") {
        return CostCorrection{.device_key = services_.device.identity.key(),
                              .family = "gemm/simt",
                              .template_identity = candidates_.part_of(0).template_identity,
                              .nvrtc = nvrtc,
                              .class_key = class_key,
                              .problems = problems};
    };
    const auto nearest = [&] {
        std::vector<std::string> classes;
        for (const CostCorrection& one : nearest_corrections(problem_, services_, "13.0")) classes.push_back(one.class_key);
        return classes;
    };
    EXPECT_THAT(nearest(), testing::IsEmpty());
    store_.put_corrections(std::vector{correction("few", 2), correction("most", 5), correction("older NVRTC", 9, "12.4")});
    EXPECT_THAT(nearest(), testing::ElementsAre("most"));
    store_.put_corrections(std::vector{correction(problem_.class_key(), 1)});
    EXPECT_THAT(nearest(), testing::ElementsAre(problem_.class_key()));
}

TEST_F(EarlierRunsTest, WithoutAStoreNothingIsKnown) {
    services_.store = nullptr;
    const EarlierRuns runs = read();
    EXPECT_EQ(runs.previous(), std::nullopt);
    EXPECT_TRUE(runs.seeds().empty());
    EXPECT_EQ(runs.known(0, today_), std::nullopt);
}

TEST_F(EarlierRunsTest, AFailureIsNotTriedAgain) {
    keep(stored(2, TrialStatus::wrong_result));
    const auto known = read().known(2, today_);
    ASSERT_TRUE(known.has_value());
    EXPECT_EQ(known->time_us, std::nullopt);
    EXPECT_EQ(read().known(3, today_), std::nullopt) << "it was never tried";
}

// The rows are of builds that stored failures caused by a busy machine.
TEST_F(EarlierRunsTest, WhatTheMachineDidIsTriedAgain) {
    struct Row {
        TrialStatus status;
        const char* detail;
    };
    const std::vector<Row> rows = {{TrialStatus::compile_failed, "compiling took longer than 30 s"},
                                   {TrialStatus::compile_failed, "the compiler process was ended by signal 9 (Killed)"},
                                   {TrialStatus::compile_failed, "the compiler process exited with 1"},
                                   {TrialStatus::timed_out, "stage launch did not end in 2 s"},
                                   {TrialStatus::out_of_memory, "cuMemAlloc failed: CUDA_ERROR_OUT_OF_MEMORY (2)"},
                                   {TrialStatus::crashed, "the GPU worker was ended by signal 9 (Killed) during launch"},
                                   {TrialStatus::crashed, "the tuner ended twice while it was running"},
                                   {TrialStatus::crashed, "std::bad_alloc"}};
    for (const Row& row : rows) {
        db::StoredTrial old = stored(2, row.status);
        old.trial.detail = row.detail;
        keep(old);
        EXPECT_EQ(read().known(2, today_), std::nullopt) << row.detail;
    }
    const std::vector<Row> facts = {
        {TrialStatus::timed_out, "stage launch did not end in 2 s of its own time"},
        {TrialStatus::compile_failed, "compiling took more than 30 s of processor time"},
        {TrialStatus::compile_failed, "the compiler process was ended by signal 11 (Segmentation fault), twice"},
        {TrialStatus::compile_failed, "NVRTC refused gemm_simt_0 for sm_90a: error: static assertion failed"},
        {TrialStatus::crashed, "the GPU worker was ended by signal 11 (Segmentation fault) during launch"},
        {TrialStatus::crashed, "cuStreamSynchronize failed: CUDA_ERROR_ILLEGAL_ADDRESS (700) during launch"}};
    for (const Row& row : facts) {
        db::StoredTrial old = stored(2, row.status);
        old.trial.detail = row.detail;
        keep(old);
        EXPECT_TRUE(read().known(2, today_).has_value()) << row.detail;
    }
}

TEST_F(EarlierRunsTest, AFailureCountsWhateverTheMethodWas) {
    keep(stored(2, TrialStatus::crashed, 0, "13.0", "another method"));
    EXPECT_TRUE(read().known(2, today_).has_value());
    EXPECT_TRUE(read().known(2, {"13.0", kMethod, true}).has_value()) << "times are taken again, failures are not";
}

TEST_F(EarlierRunsTest, WhatAnotherCompilerMadeIsTriedAgain) {
    keep(stored(2, TrialStatus::compile_failed, 0, "12.8"));
    EXPECT_EQ(read().known(2, today_), std::nullopt);
}

TEST_F(EarlierRunsTest, TheFastestAreMeasuredAgainAndBeginTheSearch) {
    ASSERT_GE(candidates_.size(), 20U);
    for (std::size_t point = 0; point < 20; ++point) keep(stored(point, TrialStatus::ok, 100.0 - static_cast<double>(point)));
    const EarlierRuns runs = read();
    ASSERT_EQ(runs.seeds().size(), 16U);
    EXPECT_EQ(runs.seeds().front(), 19U) << "the fastest first";
    EXPECT_EQ(runs.known(19, today_), std::nullopt);
    const auto slow = runs.known(0, today_);
    ASSERT_TRUE(slow.has_value());
    EXPECT_THAT(slow->time_us, Optional(100.0));
}

TEST_F(EarlierRunsTest, TimesOfAnotherMethodDoNotCount) {
    for (std::size_t point = 0; point < 20; ++point) {
        keep(stored(point, TrialStatus::ok, 100.0 - static_cast<double>(point), "13.0", "another method"));
    }
    EXPECT_EQ(read().known(0, today_), std::nullopt);
}

TEST_F(EarlierRunsTest, TimesDoNotCountWhereTheyAreToBeTakenAgain) {
    for (std::size_t point = 0; point < 20; ++point) keep(stored(point, TrialStatus::ok, 100.0 - static_cast<double>(point)));
    EXPECT_EQ(read().known(0, {"13.0", kMethod, true}), std::nullopt);
}

TEST_F(EarlierRunsTest, TrialsOfAnotherTextOfTheTemplateAreForgotten) {
    db::StoredTrial old = stored(2, TrialStatus::wrong_result);
    old.template_identity = "0123456789abcdef";
    keep(old);
    EXPECT_EQ(read().known(2, today_), std::nullopt);
}

TEST_F(EarlierRunsTest, WhatTheJournalKeptCountsAtOnce) {
    EarlierRuns runs;
    runs.add(4, stored(4, TrialStatus::crashed));
    EXPECT_TRUE(runs.known(4, today_).has_value());
}

}  // namespace
}  // namespace autotune::tuner::earlier_runs_test
