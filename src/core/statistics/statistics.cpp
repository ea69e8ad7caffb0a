#include "src/core/statistics/statistics.h"

#include <algorithm>
#include <cmath>

#include "src/core/error.h"
#include "src/core/statistics/random.h"

namespace autotune::stats {
namespace {

std::vector<double> sorted(std::span<const double> samples) {
    check(!samples.empty(), "statistics of no samples");
    std::vector<double> result(samples.begin(), samples.end());
    std::sort(result.begin(), result.end());
    return result;
}

double quantile_of_sorted(std::span<const double> sorted_samples, double q) {
    const double position = q * static_cast<double>(sorted_samples.size() - 1);
    const auto below = static_cast<std::size_t>(position);
    const std::size_t above = std::min(below + 1, sorted_samples.size() - 1);
    const double weight = position - static_cast<double>(below);
    return sorted_samples[below] * (1 - weight) + sorted_samples[above] * weight;
}

// Reorders its argument.
double median_in_place(std::vector<double>& samples) {
    const auto middle = samples.begin() + static_cast<std::ptrdiff_t>(samples.size() / 2);
    std::nth_element(samples.begin(), middle, samples.end());
    if (samples.size() % 2 == 1) return *middle;
    return (*std::max_element(samples.begin(), middle) + *middle) / 2;
}

// The median of as many draws with replacement as there are samples. It counts how often each rank is drawn and goes through the
// ranks to the middle. Final rounds call this thousands of times, and copying and selecting would take ten times as long.
double median_of_resample(std::span<const double> ordered, Random& random) {
    const std::size_t n = ordered.size();
    std::vector<std::uint32_t> drawn(n, 0);
    for (std::size_t i = 0; i < n; ++i) ++drawn[random.below(n)];
    std::size_t seen = 0, rank = 0;
    while (seen + drawn[rank] <= (n - 1) / 2) seen += drawn[rank++];
    const double lower = ordered[rank];
    while (seen + drawn[rank] <= n / 2) seen += drawn[rank++];
    return (lower + ordered[rank]) / 2;
}

// Largest k >= 0 for which P(fewer than k of n fair coins show heads) <= tail. The k-th smallest sample is then a lower bound of
// the median.
std::size_t order_of_lower_bound(std::size_t n, double tail) {
    const double trials = static_cast<double>(n);
    double below = 0;
    for (std::size_t heads = 0; heads <= n / 2; ++heads) {
        const double count = static_cast<double>(heads);
        below += std::exp(std::lgamma(trials + 1) - std::lgamma(count + 1) - std::lgamma(trials - count + 1) -
                          trials * std::numbers::ln2);
        if (below > tail) return heads;
    }
    return n / 2;
}

}  // namespace

double median(std::span<const double> samples) {
    check(!samples.empty(), "median of no samples");
    std::vector<double> copy(samples.begin(), samples.end());
    return median_in_place(copy);
}

double quantile(std::span<const double> samples, double q) {
    check(q >= 0 && q <= 1, "quantile outside [0, 1]");
    return quantile_of_sorted(sorted(samples), q);
}

double mad(std::span<const double> samples) {
    const double centre = median(samples);
    std::vector<double> deviations;
    deviations.reserve(samples.size());
    for (const double sample : samples) deviations.push_back(std::abs(sample - centre));
    return 1.4826 * median_in_place(deviations);
}

double relative_spread(std::span<const double> samples) {
    const std::vector<double> ordered = sorted(samples);
    const double centre = quantile_of_sorted(ordered, 0.5);
    if (centre == 0) return 0;
    return (quantile_of_sorted(ordered, 0.75) - quantile_of_sorted(ordered, 0.25)) / std::abs(centre);
}

Interval median_interval(std::span<const double> samples, double confidence) {
    check(confidence > 0 && confidence < 1, "confidence outside (0, 1)");
    const std::vector<double> ordered = sorted(samples);
    const std::size_t order = std::max<std::size_t>(1, order_of_lower_bound(ordered.size(), (1 - confidence) / 2));
    return {.low = ordered[order - 1], .high = ordered[ordered.size() - order]};
}

std::vector<double> without_outliers(std::span<const double> samples, double cutoff) {
    const double centre = median(samples);
    const double reach = cutoff * mad(samples);
    if (reach == 0) return {samples.begin(), samples.end()};
    std::vector<double> kept;
    for (const double sample : samples) {
        if (std::abs(sample - centre) <= reach) kept.push_back(sample);
    }
    return kept;
}

std::vector<double> paired_ratios(std::span<const double> numerator, std::span<const double> denominator) {
    check(numerator.size() == denominator.size(), "paired ratios of unequal lengths");
    std::vector<double> ratios;
    ratios.reserve(numerator.size());
    for (std::size_t i = 0; i < numerator.size(); ++i) {
        check(denominator[i] > 0, "paired ratio over a time that is not positive");
        ratios.push_back(numerator[i] / denominator[i]);
    }
    return ratios;
}

Estimate bootstrap_median(std::span<const double> samples, const BootstrapOptions& options) {
    check(options.resamples > 0, "bootstrap without resamples");
    const std::vector<double> ordered = sorted(samples);
    Random random(options.seed);
    std::vector<double> medians;
    medians.reserve(static_cast<std::size_t>(options.resamples));
    for (int i = 0; i < options.resamples; ++i) medians.push_back(median_of_resample(ordered, random));
    std::sort(medians.begin(), medians.end());
    const double tail = (1 - options.confidence) / 2;
    return {.value = quantile_of_sorted(ordered, 0.5),
            .low = quantile_of_sorted(medians, tail),
            .high = quantile_of_sorted(medians, 1 - tail)};
}

Timing summarize(std::span<const double> samples_us) {
    const Interval interval = median_interval(samples_us);
    return {.median_us = median(samples_us),
            .low_us = interval.low,
            .high_us = interval.high,
            .min_us = *std::min_element(samples_us.begin(), samples_us.end()),
            .samples = static_cast<int>(samples_us.size())};
}

}  // namespace autotune::stats
