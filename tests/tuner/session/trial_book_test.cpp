// Trials of a tune by point: counts, the best, and a trial that was right and then turned out wrong.
#include "tuner/session/tune/trial_book.h"

#include <gmock/gmock.h>

#include <vector>

namespace autotune::tuner::trial_book_test {
namespace {

using testing::ElementsAre;
using testing::Optional;
using testing::Pair;

Trial right() {
    Trial trial;
    trial.candidate = {"op/family", {{"block_m", 64}}};
    return trial;
}

Trial failed(TrialStatus status) {
    Trial trial = right();
    trial.status = status;
    return trial;
}

// Adds a candidate that was measured through both rungs, so that it may go on to the final rounds.
std::optional<double> add_timed(TrialBook& book, std::size_t point, double time_us) {
    for (int i = 0; i < 10 && book.rungs().next(point); ++i) {
        const Measurement wanted = *book.rungs().next(point);
        const auto count = static_cast<std::size_t>(std::max<double>(wanted.samples, wanted.time_us / time_us) + 1);
        book.rungs().report(point, std::vector<double>(count, time_us));
    }
    return book.add(point, right());
}

TEST(TrialBook, KnowsTheBest) {
    TrialBook book({});
    EXPECT_EQ(book.best_us(), std::nullopt);
    EXPECT_THAT(add_timed(book, 3, 20), Optional(20.0));
    add_timed(book, 5, 10);
    add_timed(book, 7, 15);
    EXPECT_THAT(book.best_us(), Optional(10.0));
    EXPECT_EQ(book.best_point(), 5U);
    EXPECT_EQ(book.tried(), 3);
    EXPECT_EQ(book.failed(), 0);
}

TEST(TrialBook, WhatIsBetterByNoiseAloneIsNotBetter) {
    TrialBook book({});
    add_timed(book, 0, 100);
    EXPECT_EQ(book.since_better(), 0);
    add_timed(book, 1, 99.8);
    EXPECT_EQ(book.since_better(), 1);
    EXPECT_EQ(book.best_point(), 1U) << "it is the best all the same";
    add_timed(book, 2, 90);
    EXPECT_EQ(book.since_better(), 0);
}

TEST(TrialBook, APointThatWasTriedOnlyForLackOfWorkSaysNothingAboutProgress) {
    TrialBook book({});
    add_timed(book, 0, 100);
    book.add(1, failed(TrialStatus::crashed), false);
    EXPECT_EQ(book.tried(), 2);
    EXPECT_EQ(book.since_better(), 0);
    book.add(2, failed(TrialStatus::crashed));
    EXPECT_EQ(book.since_better(), 1);
}

TEST(TrialBook, CountsFailuresByStatus) {
    TrialBook book({});
    EXPECT_EQ(book.add(1, failed(TrialStatus::wrong_result)), std::nullopt);
    book.add(2, failed(TrialStatus::crashed));
    book.add(3, failed(TrialStatus::wrong_result));
    add_timed(book, 4, 10);
    EXPECT_EQ(book.tried(), 4);
    EXPECT_EQ(book.failed(), 3);
    EXPECT_THAT(book.failures(), ElementsAre(Pair("crashed", 1), Pair("wrong_result", 2)));
    EXPECT_FALSE(book.is_right(1));
    EXPECT_TRUE(book.is_right(4));
    EXPECT_FALSE(book.is_right(99));
}

TEST(TrialBook, WhoIsChargedLosesToTheNextBest) {
    TrialBook book({});
    add_timed(book, 0, 10);
    add_timed(book, 1, 12);
    add_timed(book, 2, 14);
    const Trial& charged = book.charge(0, TrialStatus::crashed, "the worker died of it");
    EXPECT_EQ(charged.status, TrialStatus::crashed);
    EXPECT_EQ(charged.detail, "the worker died of it");
    EXPECT_EQ(charged.timing, std::nullopt);
    EXPECT_THAT(book.best_us(), Optional(12.0));
    EXPECT_EQ(book.best_point(), 1U);
    EXPECT_THAT(book.rungs().finalists(), testing::Not(testing::Contains(0U)));
    EXPECT_EQ(book.tried(), 4) << "it is a trial more";
    EXPECT_EQ(book.failed(), 1);
}

TEST(TrialBook, ChargingAnotherThanTheBestLeavesTheBest) {
    TrialBook book({});
    add_timed(book, 0, 10);
    add_timed(book, 1, 12);
    book.charge(1, TrialStatus::wrong_result, "");
    EXPECT_EQ(book.best_point(), 0U);
    EXPECT_THAT(book.best_us(), Optional(10.0));
}

TEST(TrialBook, WhereNobodyIsLeftNothingIsBest) {
    TrialBook book({});
    add_timed(book, 0, 10);
    book.charge(0, TrialStatus::timed_out, "");
    EXPECT_EQ(book.best_us(), std::nullopt);
}

}  // namespace
}  // namespace autotune::tuner::trial_book_test
