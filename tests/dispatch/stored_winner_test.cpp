#include "src/dispatch/rules/stored_winner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "src/records/evidence_check.h"
#include "tests/support/embedded_catalogue.h"

namespace autotune::stored_winner_test {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Verdict = RowJudgement::Verdict;

// A valid winner of 1024x1024x1024 on an H200, without doubt.
class StoredWinner : public ::testing::Test {
  protected:
    StoredWinner() {
        const Family& family = *catalogue_.find_family("gemm/mma");
        winner_.op = problem_.op;
        winner_.class_key = problem_.class_key();
        winner_.extents = problem_.extents;
        winner_.device = device_.identity;
        winner_.template_identity = catalogue_.template_identity(family);
        winner_.candidate = {"gemm/mma", family.space(problem_, device_).default_config};
        set_median(20);
        winner_.evidence.max_error = 0.5;
    }
    void set_median(double us) {
        winner_.timing = {.median_us = us, .low_us = us * 0.99, .high_us = us * 1.01, .min_us = us * 0.98, .samples = 30};
    }
    std::string unusable() const { return why_unusable(catalogue_, winner_, problem_, device_).value_or(""); }

    const Catalogue& catalogue_ = test::embedded_catalogue();
    TemplateIdentities identities_{catalogue_};
    Device device_ = *reference_device("sm_90a");
    Problem problem_ = catalogue_.problem({"hgemm", "1024x1024x1024", {}});
    Winner winner_;
};

TEST_F(StoredWinner, ThatNothingSpeaksAgainstMayAnswer) {
    EXPECT_THAT(unusable(), IsEmpty());
    EXPECT_FALSE(why_unusable(identities_, winner_));
    const RowJudgement judged = judge(identities_, winner_);
    EXPECT_EQ(judged.verdict, Verdict::take);
    EXPECT_THAT(judged.why, IsEmpty());
}

// Tuner, `verify` and library must use one rule: the tuner once served such a row that the others refused.
TEST_F(StoredWinner, WithAParameterTooManyIsUnusableForEverybody) {
    winner_.candidate.config.set("no_such_parameter", 1);
    EXPECT_THAT(unusable(), HasSubstr("no_such_parameter"));
    EXPECT_EQ(judge(identities_, winner_).verdict, Verdict::unusable);
}

TEST_F(StoredWinner, OfAnotherTextFamilyOrConfigIsUnusable) {
    Winner other = winner_;
    other.template_identity = "0123456789abcdef";
    EXPECT_THAT(why_unusable(identities_, other).value_or(""), HasSubstr("another version of gemm/mma"));
    other = winner_;
    other.candidate.family = "gemm/none";
    EXPECT_THAT(why_unusable(identities_, other).value_or(""), HasSubstr("no family 'gemm/none'"));
    other = winner_;
    other.candidate.config.set("block_m", 7);
    EXPECT_THAT(why_unusable(identities_, other).value_or(""), HasSubstr("block_m"));
    other = winner_;
    other.class_key = "gemm nonsense";
    EXPECT_THAT(why_unusable(identities_, other).value_or(""), HasSubstr("not a problem"));
    other = winner_;
    other.device.cc_major = 99;
    EXPECT_THAT(why_unusable(identities_, other).value_or(""), HasSubstr("not supported"));
}

TEST_F(StoredWinner, InDoubtOrWithImpossibleEvidenceAnswersNothing) {
    winner_.doubt = "it is too fast";
    EXPECT_THAT(unusable(), HasSubstr("in doubt: it is too fast"));
    EXPECT_FALSE(why_illegal(catalogue_, winner_, problem_, device_));
    winner_.doubt = "";
    winner_.evidence.max_error = 5;
    EXPECT_THAT(unusable(), HasSubstr("max_error is 5"));
}

TEST_F(StoredWinner, ImpossibleTimesAreRefused) {
    for (const double us : {1e-6, 0.02, 1.0}) {  // 2.1 GFLOP in 1 us are 2.1 PFLOP/s, twice the peak of an H200
        set_median(us);
        EXPECT_EQ(judge(identities_, winner_).verdict, Verdict::impossible) << us;
    }
}

// The tuner checks its measurements with the same function.
TEST_F(StoredWinner, ATimeAtTheMetersFloorIsNone) {
    EXPECT_EQ(why_unmeasured(0.01).value_or(""), "too short to measure: 0.01 us, and no kernel takes less than 0.05 us");
    EXPECT_TRUE(why_unmeasured(0).has_value());
    EXPECT_TRUE(why_unmeasured(std::numeric_limits<double>::quiet_NaN()).has_value());
    EXPECT_FALSE(why_unmeasured(0.05).has_value());
    EXPECT_TRUE(says_unmeasured(*why_unmeasured(0.01)));
    EXPECT_FALSE(says_unmeasured("its answer is wrong"));
    set_median(0.01);
    EXPECT_EQ(judge(identities_, winner_).why,
              "its median_us is too short to measure: 0.01 us, and no kernel takes less than 0.05 us");
}

TEST_F(StoredWinner, ImplausibleEvidenceIsDoubted) {
    set_median(1.5);  // this is 1.4 PFLOP/s, and the data sheet says 0.99
    EXPECT_EQ(judge(identities_, winner_).verdict, Verdict::take);
    EXPECT_THAT(judge(identities_, winner_).why, HasSubstr("arithmetic rate"));
    set_median(20);
    winner_.timing.samples = 1;
    EXPECT_THAT(judge(identities_, winner_).why, HasSubstr("1 samples"));
    winner_.timing.samples = 30;
    winner_.evidence.max_error.reset();
    EXPECT_THAT(judge(identities_, winner_).why, HasSubstr("no error"));
}

TEST_F(StoredWinner, DataThatExceedsTheCacheComesFromMemory) {
    problem_ = catalogue_.problem({"add", "16384x16384", {{"dtype", "f32"}}});  // 3.2 GB
    const Family& family = *catalogue_.find_family("add/vector");
    winner_.op = problem_.op;
    winner_.class_key = problem_.class_key();
    winner_.extents = problem_.extents;
    winner_.candidate = {"add/vector", family.space(problem_, device_).default_config};
    winner_.template_identity = catalogue_.template_identity(family);
    set_median(750);  // 4.3 TB/s of 4.8
    EXPECT_EQ(judge(identities_, winner_).why, "");
    set_median(300);
    EXPECT_THAT(judge(identities_, winner_).why, HasSubstr("memory rate"));
    set_median(10);
    EXPECT_EQ(judge(identities_, winner_).verdict, Verdict::impossible);
}

TEST_F(StoredWinner, AnIntervalHasToContainItsMedian) {
    EXPECT_FALSE(why_impossible(winner_));
    winner_.timing.low_us = winner_.timing.high_us = winner_.timing.min_us = 0;  // not recorded
    EXPECT_FALSE(why_impossible(winner_));
    winner_.timing.high_us = 19;
    EXPECT_THAT(why_impossible(winner_).value_or(""), HasSubstr("outside its interval"));
}

}  // namespace
}  // namespace autotune::stored_winner_test
