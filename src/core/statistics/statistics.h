#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "src/core/statistics/trial.h"

// Robust statistics of timing samples. Everything is built on medians: one clock drop or one foreign kernel among 30 samples must
// not change the answer. REQUIRES everywhere: samples are finite, and there is at least one if the answer needs one (throws
// Error{internal} otherwise).
namespace autotune::stats {

struct Interval {
    double low = 0;
    double high = 0;
    bool contains(double value) const { return low <= value && value <= high; }
};

double median(std::span<const double> samples);

// Interpolates linearly between order statistics (Hyndman and Fan's type 7). REQUIRES: 0 <= q <= 1.
double quantile(std::span<const double> samples, double q);

// Median absolute deviation from the median, times 1.4826: the standard deviation of a normal sample.
double mad(std::span<const double> samples);

// Interquartile range over the median: the relative noise of a set of times. 0 for a median of 0.
double relative_spread(std::span<const double> samples);

// An interval that contains the median of the population with a probability of at least `confidence`, whatever its distribution:
// a pair of order statistics from the binomial(n, 1/2). Fewer than 6 samples cannot give 95 %: then minimum and maximum.
Interval median_interval(std::span<const double> samples, double confidence = 0.95);

// The samples within `cutoff` robust deviations of the median, in their order; all of them if the deviation is 0. At least half
// are kept.
std::vector<double> without_outliers(std::span<const double> samples, double cutoff = 5);

// numerator[i] / denominator[i]. REQUIRES: equal lengths, positive denominators.
std::vector<double> paired_ratios(std::span<const double> numerator, std::span<const double> denominator);

struct BootstrapOptions {
    double confidence = 0.95;
    int resamples = 1000;
    std::uint64_t seed = 1;
};

struct Estimate {
    double value = 0;
    double low = 0;
    double high = 0;
};

// Median of the samples with its percentile bootstrap interval. The same seed gives the same interval.
Estimate bootstrap_median(std::span<const double> samples, const BootstrapOptions& options = {});

// Median, 95 % interval, minimum and count of times in microseconds.
Timing summarize(std::span<const double> samples_us);

}  // namespace autotune::stats
