#include "tuner/search/strategies/surrogate.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "src/core/error.h"

namespace autotune::tuner {
namespace {

// In units of the process's own variance. Medians of a race repeat to a percent, while times in a space differ by factors.
constexpr double kNoise = 0.01;
constexpr double kLeastRate = 0.03, kMostRate = 6, kTypicalRate = 0.2;
constexpr double kRatePrecision = 0.5;  // precision of the log-normal prior of a rate around the typical one
constexpr std::array<double, 2> kRateSteps{0.6, 1.67};
constexpr int kLearningSweeps = 4;
// The likelihood is cubic in observations, and more of them do not improve the rates.
constexpr std::size_t kMostLearnedFrom = 80;
constexpr double kLeastVariance = 1e-8;
// Sum of squares assumed in advance, so that equal times do not make the process certain.
constexpr double kVarianceGuess = 0.1;
// Columns processed together: the data of hundreds of observations for them stays in L2 while a fit goes over it row by row.
constexpr std::size_t kBlock = 256;
using Block = std::array<float, kBlock>;

double factor_of(double rate, int left, int right, int extent) {
    if (left == right) return 1;
    return std::exp(-rate * (0.5 + std::abs(left - right) / static_cast<double>(extent - 1)));
}

double dot(const std::vector<double>& left, const std::vector<double>& right) {
    return std::inner_product(left.begin(), left.end(), right.begin(), 0.0);
}

void add_scaled(std::span<float> sum, float scale, const float* terms) {
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += scale * terms[i];
}

// Also compiled for wider vectors; the version is chosen when the program starts. Without fused multiply-adds (avx2 has none), so
// that a search gives the same result on every machine.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__)
#define AUTOTUNE_WIDE_VECTORS __attribute__((target_clones("avx2", "default")))
#else
#define AUTOTUNE_WIDE_VECTORS
#endif

// white -= row[0] * solved[0] + row[1] * solved[1] + ..., without the diagonal that ends the row, in this order; four terms at a
// time, so that `white` is read and written once per four. `white` holds the columns from `first` on, as does each of `solved`.
AUTOTUNE_WIDE_VECTORS
void subtract_projections(std::span<float> white, std::size_t first, const std::vector<double>& row,
                          const std::vector<std::vector<float>>& solved) {
    const std::size_t terms = row.size() - 1, width = white.size();
    std::size_t i = 0;
    for (; i + 4 <= terms; i += 4) {
        const float *a = &solved[i][first], *b = &solved[i + 1][first], *c = &solved[i + 2][first], *d = &solved[i + 3][first];
        const float at_a = static_cast<float>(row[i]), at_b = static_cast<float>(row[i + 1]);
        const float at_c = static_cast<float>(row[i + 2]), at_d = static_cast<float>(row[i + 3]);
        for (std::size_t k = 0; k < width; ++k) white[k] = white[k] - at_a * a[k] - at_b * b[k] - at_c * c[k] - at_d * d[k];
    }
    for (; i < terms; ++i) {
        const float scale = static_cast<float>(row[i]);
        const float* one = &solved[i][first];
        for (std::size_t k = 0; k < width; ++k) white[k] -= scale * one[k];
    }
}

// Next entry of the solution of lower * x = b.
double whiten(double value, const std::vector<double>& lower_row, const std::vector<double>& solved) {
    for (std::size_t i = 0; i < solved.size(); ++i) value -= lower_row[i] * solved[i];
    return value / lower_row[solved.size()];
}

}  // namespace

Surrogate::Surrogate(const Coordinates& coordinates, std::vector<float> trend)
    : coordinates_(coordinates), trend_(std::move(trend)), rates_(coordinates.dimensions()), factors_(coordinates.dimensions()) {
    for (std::size_t d = 0; d < rates_.size(); ++d) set_rate(d, kTypicalRate);
}

void Surrogate::set_rate(std::size_t dimension, double rate) {
    const int extent = coordinates_.extents()[dimension];
    rates_[dimension] = rate;
    factors_[dimension].clear();
    for (int i = 0; i < extent; ++i) {
        for (int j = 0; j < extent; ++j) factors_[dimension].push_back(static_cast<float>(factor_of(rate, i, j, extent)));
    }
}

double Surrogate::covariance(std::size_t left, std::size_t right) const {
    const auto a = coordinates_.of(left), b = coordinates_.of(right);
    float product = 1;
    for (std::size_t d = 0; d < a.size(); ++d) {
        product *= factors_[d][a[d] * static_cast<std::size_t>(coordinates_.extents()[d]) + b[d]];
    }
    return static_cast<double>(product);
}

void Surrogate::fit(std::vector<Observation> observations, std::vector<std::size_t> columns) {
    observations_ = std::move(observations);
    learn_rates();
    columns_ = std::move(columns);
    positions_.assign(coordinates_.dimensions(), std::vector<std::uint16_t>(columns_.size()));
    for (std::size_t c = 0; c < columns_.size(); ++c) {
        const auto position = coordinates_.of(columns_[c]);
        for (std::size_t d = 0; d < position.size(); ++d) positions_[d][c] = position[d];
    }
    for (Sums* sums : {&value_sum_, &one_sum_, &trend_sum_, &square_sum_, &votes_, &failed_votes_})
        sums->assign(columns_.size(), 0);
    for (std::vector<double>* white : {&white_value_, &white_one_, &white_trend_}) white->clear();
    cholesky_.clear();
    whitened_.clear();
    observed_failed_ = observed_known_ = 0;
    is_revised_ = false;
    for (const Observation& observation : observations_) append_row(observation);
    append_columns(0);
    solve_mean();
}

void Surrogate::observe(const Observation& observation) {
    observations_.push_back(observation);
    append_row(observation);
    append_columns(cholesky_.size() - 1);
    solve_mean();
}

void Surrogate::revise(const Observation& observation) {
    const auto last = std::find_if(observations_.rbegin(), observations_.rend(),
                                   [&](const Observation& one) { return one.point == observation.point; });
    check(last != observations_.rend(), "a point that was never observed is revised");
    *last = observation;
    count(observation);
    Block block;
    for (std::size_t first = 0; first < columns_.size(); first += kBlock) {
        const std::span<float> covariances = std::span(block).first(std::min(kBlock, columns_.size() - first));
        covariance_with_columns(observation.point, first, covariances);
        vote(observation, first, covariances);
    }
    is_revised_ = true;
}

void Surrogate::covariance_with_columns(std::size_t point, std::size_t first, std::span<float> result) const {
    std::fill(result.begin(), result.end(), 1.0f);
    const auto position = coordinates_.of(point);
    for (std::size_t d = 0; d < position.size(); ++d) {
        const float* factor = &factors_[d][position[d] * static_cast<std::size_t>(coordinates_.extents()[d])];
        const std::uint16_t* other = &positions_[d][first];
        for (std::size_t c = 0; c < result.size(); ++c) result[c] *= factor[other[c]];
    }
}

void Surrogate::count(const Observation& observation) {
    if (observation.kind == Observation::Kind::pending) return;
    observed_known_ += 1;
    if (observation.kind == Observation::Kind::failed) observed_failed_ += 1;
}

// Rules for failure are sharper than those for time, so votes are weighted by the eighth power of the covariance.
void Surrogate::vote(const Observation& observation, std::size_t first, std::span<const float> covariances) {
    if (observation.kind == Observation::Kind::pending) return;
    const float failed = observation.kind == Observation::Kind::failed ? 1.0f : 0.0f;
    float *votes = &votes_[first], *failed_votes = &failed_votes_[first];
    for (std::size_t c = 0; c < covariances.size(); ++c) {
        const float squared = covariances[c] * covariances[c];
        const float weight = squared * squared * squared * squared;
        votes[c] += weight;
        failed_votes[c] += failed * weight;
    }
}

// Adds a row to the Cholesky factor and to the whitened right-hand sides.
void Surrogate::append_row(const Observation& observation) {
    const std::size_t n = cholesky_.size();
    std::vector<double> row;
    double variance = 1 + kNoise;
    for (std::size_t i = 0; i < n; ++i) {
        row.push_back(whiten(covariance(observation.point, observations_[i].point), cholesky_[i], row));
        variance -= row[i] * row[i];
    }
    row.push_back(std::sqrt(std::max(variance, kNoise / 2)));
    white_value_.push_back(whiten(observation.value, row, white_value_));
    white_one_.push_back(whiten(1, row, white_one_));
    white_trend_.push_back(trend_.empty() ? 0 : whiten(static_cast<double>(trend_[observation.point]), row, white_trend_));
    cholesky_.push_back(std::move(row));
    count(observation);
}

// Adds the rows from `from` on to every column's sums, block by block of columns.
void Surrogate::append_columns(std::size_t from) {
    const std::size_t rows = cholesky_.size();
    while (whitened_.size() < rows) whitened_.emplace_back(columns_.size());
    Block block;
    for (std::size_t first = 0; first < columns_.size(); first += kBlock) {
        const std::size_t width = std::min(kBlock, columns_.size() - first);
        const std::span<float> white = std::span(block).first(width);
        for (std::size_t n = from; n < rows; ++n) {
            covariance_with_columns(observations_[n].point, first, white);
            vote(observations_[n], first, white);
            subtract_projections(white, first, cholesky_[n], whitened_);
            const float scale = static_cast<float>(1 / cholesky_[n][n]);
            float* squares = &square_sum_[first];
            for (std::size_t c = 0; c < width; ++c) {
                white[c] *= scale;
                squares[c] += white[c] * white[c];
            }
            std::copy(white.begin(), white.end(), &whitened_[n][first]);
            add_scaled(std::span(value_sum_).subspan(first, width), static_cast<float>(white_value_[n]), white.data());
            add_scaled(std::span(one_sum_).subspan(first, width), static_cast<float>(white_one_[n]), white.data());
            if (!trend_.empty())
                add_scaled(std::span(trend_sum_).subspan(first, width), static_cast<float>(white_trend_[n]), white.data());
        }
    }
}

// Constant mean and slope of the trend by generalised least squares; one pseudo-observation keeps the slope near 0. The scale
// comes from the residuals.
void Surrogate::solve_mean() {
    const double ones = dot(white_one_, white_one_), cross = dot(white_one_, white_trend_);
    const double values = dot(white_one_, white_value_);
    slope_ = 0;
    if (!trend_.empty()) {
        const double trends = dot(white_trend_, white_trend_) + 1;
        slope_ = std::max(0.0, (ones * dot(white_trend_, white_value_) - cross * values) / (ones * trends - cross * cross));
    }
    mean_ = (values - slope_ * cross) / ones;
    double squares = kVarianceGuess;
    for (std::size_t i = 0; i < white_value_.size(); ++i) {
        const double left = white_value_[i] - mean_ * white_one_[i] - slope_ * white_trend_[i];
        squares += left * left;
    }
    scale_ = std::sqrt(squares / static_cast<double>(white_value_.size() + 1));
}

void Surrogate::resum_values() {
    is_revised_ = false;
    std::fill(value_sum_.begin(), value_sum_.end(), 0.0f);
    white_value_.clear();
    for (std::size_t i = 0; i < observations_.size(); ++i) {
        white_value_.push_back(whiten(observations_[i].value, cholesky_[i], white_value_));
        add_scaled(value_sum_, static_cast<float>(white_value_[i]), whitened_[i].data());
    }
    solve_mean();
}

Belief Surrogate::belief(std::size_t column) {
    if (is_revised_) resum_values();
    double mean = mean_ + static_cast<double>(value_sum_[column]) - mean_ * static_cast<double>(one_sum_[column]);
    if (!trend_.empty()) mean += slope_ * static_cast<double>(trend_[columns_[column]] - trend_sum_[column]);
    // The prior counts as one vote for the overall share of failures.
    const double failure = (static_cast<double>(failed_votes_[column]) + observed_failed_ / (observed_known_ + 1)) /
                           (static_cast<double>(votes_[column]) + 1);
    return {.mean = mean,
            .deviation = scale_ * std::sqrt(std::max(kLeastVariance, 1 - static_cast<double>(square_sum_[column]))),
            .failure = failure};
}

// The best half, and an even selection of the rest from good to bad.
std::vector<std::size_t> Surrogate::most_telling() const {
    std::vector<std::size_t> rows(observations_.size());
    std::iota(rows.begin(), rows.end(), std::size_t{0});
    if (rows.size() <= kMostLearnedFrom) return rows;
    std::stable_sort(rows.begin(), rows.end(),
                     [&](std::size_t left, std::size_t right) { return observations_[left].value < observations_[right].value; });
    const std::size_t half = kMostLearnedFrom / 2;
    std::vector<std::size_t> chosen(rows.begin(), rows.begin() + static_cast<std::ptrdiff_t>(half));
    for (std::size_t i = 0; i < half; ++i) chosen.push_back(rows[half + i * (rows.size() - half) / half]);
    return chosen;
}

double Surrogate::log_likelihood(std::span<const std::size_t> rows) const {
    std::vector<std::vector<double>> lower;
    std::vector<double> value, one;
    double log_determinant = 0;
    for (const std::size_t observed : rows) {
        std::vector<double> row;
        double variance = 1 + kNoise;
        for (std::size_t i = 0; i < lower.size(); ++i) {
            row.push_back(whiten(covariance(observations_[observed].point, observations_[rows[i]].point), lower[i], row));
            variance -= row[i] * row[i];
        }
        row.push_back(std::sqrt(std::max(variance, kNoise / 2)));
        log_determinant += std::log(row.back());
        value.push_back(whiten(observations_[observed].value, row, value));
        one.push_back(whiten(1, row, one));
        lower.push_back(std::move(row));
    }
    const double mean = dot(one, value) / dot(one, one);
    const double squares = kVarianceGuess + dot(value, value) - mean * dot(one, value);
    double prior = 0;
    for (const double rate : rates_) prior -= kRatePrecision / 2 * std::pow(std::log(rate / kTypicalRate), 2);
    const double n = static_cast<double>(rows.size());
    return prior - log_determinant - n / 2 * std::log(squares / n);
}

// Coordinate ascent by fixed steps: coarse, because rates matter only to a factor of two.
void Surrogate::learn_rates() {
    const std::vector<std::size_t> rows = most_telling();
    double best = log_likelihood(rows);
    for (int sweep = 0; sweep < kLearningSweeps; ++sweep) {
        for (std::size_t d = 0; d < rates_.size(); ++d) {
            const double before = rates_[d];
            for (const double step : kRateSteps) {
                set_rate(d, std::clamp(before * step, kLeastRate, kMostRate));
                const double likelihood = log_likelihood(rows);
                if (likelihood > best) {
                    best = likelihood;
                    break;
                }
                set_rate(d, before);
            }
        }
    }
}

}  // namespace autotune::tuner
