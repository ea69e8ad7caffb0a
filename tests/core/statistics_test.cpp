#include "src/core/statistics/statistics.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <vector>

#include "src/core/error.h"
#include "src/core/statistics/random.h"

namespace autotune {
namespace {

std::vector<double> one_to(int n) {
    std::vector<double> samples(static_cast<std::size_t>(n));
    std::iota(samples.begin(), samples.end(), 1.0);
    return samples;
}

std::vector<double> noisy(int n, double centre, double deviation, std::uint64_t seed) {
    Random random(seed);
    std::vector<double> samples;
    for (int i = 0; i < n; ++i) samples.push_back(centre + deviation * random.normal());
    return samples;
}

TEST(Statistics, MedianOfOddAndEvenCounts) {
    EXPECT_DOUBLE_EQ(stats::median(std::vector{3.0, 1.0, 2.0}), 2.0);
    EXPECT_DOUBLE_EQ(stats::median(std::vector{4.0, 1.0, 3.0, 2.0}), 2.5);
    EXPECT_DOUBLE_EQ(stats::median(std::vector{7.0}), 7.0);
}

TEST(Statistics, NoSamplesIsAnInternalError) {
    EXPECT_THROW(stats::median({}), Error);
}

TEST(Statistics, QuantilesInterpolate) {
    const std::vector<double> samples{4, 1, 3, 2};
    EXPECT_DOUBLE_EQ(stats::quantile(samples, 0), 1);
    EXPECT_DOUBLE_EQ(stats::quantile(samples, 1), 4);
    EXPECT_DOUBLE_EQ(stats::quantile(samples, 0.25), 1.75);
}

TEST(Statistics, MadEstimatesTheDeviationOfANormalSample) {
    EXPECT_NEAR(stats::mad(noisy(20'000, 10, 2, 3)), 2.0, 0.05);
}

TEST(Statistics, MadIgnoresAFewHugeOutliers) {
    std::vector<double> samples = noisy(1'000, 10, 2, 3);
    const double before = stats::mad(samples);
    for (int i = 0; i < 50; ++i) samples[static_cast<std::size_t>(i) * 7] = 1e9;
    EXPECT_NEAR(stats::mad(samples), before, 0.25 * before);
}

TEST(Statistics, RelativeSpreadDoesNotDependOnTheUnit) {
    std::vector<double> samples = noisy(101, 100, 3, 5);
    const double spread = stats::relative_spread(samples);
    for (double& sample : samples) sample *= 1000;
    EXPECT_NEAR(stats::relative_spread(samples), spread, 1e-12);
    EXPECT_GT(spread, 0.02);
    EXPECT_LT(spread, 0.07);
}

TEST(Statistics, MedianIntervalUsesTheOrderStatisticsOfTheBinomialTable) {
    // Tables of the sign test give, at 95 %, the 10th and 21st of 30 samples, and the 2nd and 9th of 10.
    const stats::Interval thirty = stats::median_interval(one_to(30));
    EXPECT_DOUBLE_EQ(thirty.low, 10);
    EXPECT_DOUBLE_EQ(thirty.high, 21);
    const stats::Interval ten = stats::median_interval(one_to(10));
    EXPECT_DOUBLE_EQ(ten.low, 2);
    EXPECT_DOUBLE_EQ(ten.high, 9);
}

TEST(Statistics, MedianIntervalOfFewSamplesIsTheirWholeRange) {
    const stats::Interval five = stats::median_interval(one_to(5));
    EXPECT_DOUBLE_EQ(five.low, 1);
    EXPECT_DOUBLE_EQ(five.high, 5);
}

TEST(Statistics, MedianIntervalCoversTheMedianAsOftenAsItSays) {
    int covered = 0;
    for (std::uint64_t seed = 0; seed < 1'000; ++seed) {
        Random random(seed);
        std::vector<double> skewed;
        for (int i = 0; i < 40; ++i) skewed.push_back(std::exp(random.normal()));
        covered += stats::median_interval(skewed).contains(1.0) ? 1 : 0;
    }
    EXPECT_GE(covered, 940);
}

TEST(Statistics, OutliersAreDroppedAndTheRestKeepsItsOrder) {
    EXPECT_EQ(stats::without_outliers(std::vector{10.0, 11.0, 500.0, 9.0, 10.5}), (std::vector{10.0, 11.0, 9.0, 10.5}));
}

TEST(Statistics, NothingIsAnOutlierAmongEqualSamples) {
    EXPECT_EQ(stats::without_outliers(std::vector{5.0, 5.0, 5.0, 6.0}).size(), 4u);
}

TEST(Statistics, PairedRatiosCancelADriftThatBothFeel) {
    std::vector<double> base, slower;
    for (int i = 0; i < 50; ++i) {
        const double clock = 1 + 0.01 * i;
        base.push_back(100 * clock);
        slower.push_back(103 * clock);
    }
    const stats::Estimate ratio = stats::bootstrap_median(stats::paired_ratios(slower, base));
    EXPECT_NEAR(ratio.value, 1.03, 1e-12);
    EXPECT_NEAR(ratio.low, ratio.high, 1e-12);
}

TEST(Statistics, BootstrapIsTheSameForTheSameSeed) {
    const std::vector<double> samples = noisy(30, 1, 0.05, 9);
    const stats::Estimate first = stats::bootstrap_median(samples, {.seed = 4});
    const stats::Estimate again = stats::bootstrap_median(samples, {.seed = 4});
    EXPECT_EQ(first.low, again.low);
    EXPECT_EQ(first.high, again.high);
}

TEST(Statistics, BootstrapIntervalCoversTheMedianAsOftenAsItSays) {
    int covered = 0;
    for (std::uint64_t seed = 0; seed < 400; ++seed) {
        const stats::Estimate estimate = stats::bootstrap_median(noisy(30, 1, 0.02, seed), {.seed = seed});
        covered += estimate.low <= 1 && 1 <= estimate.high ? 1 : 0;
    }
    EXPECT_GE(covered, 368);  // 95 % of 400, less three standard deviations of the count
}

TEST(Statistics, SummaryHoldsMedianIntervalMinimumAndCount) {
    const Timing timing = stats::summarize(one_to(30));
    EXPECT_DOUBLE_EQ(timing.median_us, 15.5);
    EXPECT_DOUBLE_EQ(timing.low_us, 10);
    EXPECT_DOUBLE_EQ(timing.high_us, 21);
    EXPECT_DOUBLE_EQ(timing.min_us, 1);
    EXPECT_EQ(timing.samples, 30);
}

}  // namespace
}  // namespace autotune
