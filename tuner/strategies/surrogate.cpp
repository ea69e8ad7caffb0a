#include "tuner/strategies/surrogate.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "src/core/error.h"

namespace autotune::tuner {
namespace {

// In units of the process's own variance. Medians of a race repeat to a percent, where spaces span factors.
constexpr double kNoise = 0.01;
constexpr double kLeastRate = 0.03, kMostRate = 6, kTypicalRate = 0.2;
constexpr double kRatePrecision = 0.5;  // of the log-normal prior of a rate around the typical one
constexpr std::array<double, 2> kRateSteps{0.6, 1.67};
constexpr int kLearningSweeps = 4;
// The likelihood is cubic in observations, and rates do not get better by more of them.
constexpr std::size_t kMostLearnedFrom = 80;
constexpr double kLeastVariance = 1e-8;
// Sum of squares assumed before anything is seen, so that equal times do not make the process certain.
constexpr double kVarianceGuess = 0.1;

double factor_of(double rate, int left, int right, int extent) {
    if (left == right) return 1;
    return std::exp(-rate * (0.5 + std::abs(left - right) / static_cast<double>(extent - 1)));
}

double dot(const std::vector<double>& left, const std::vector<double>& right) {
    return std::inner_product(left.begin(), left.end(), right.begin(), 0.0);
}

void add_scaled(std::vector<float>& sum, float scale, const std::vector<float>& terms) {
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += scale * terms[i];
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
    for (const Observation& observation : observations_) append(observation);
    solve_mean();
}

void Surrogate::observe(const Observation& observation) {
    observations_.push_back(observation);
    append(observation);
    solve_mean();
}

void Surrogate::revise(const Observation& observation) {
    const auto last = std::find_if(observations_.rbegin(), observations_.rend(),
                                   [&](const Observation& one) { return one.point == observation.point; });
    check(last != observations_.rend(), "a point that was never observed is revised");
    *last = observation;
    vote(observation, covariance_with_columns(observation.point));
    is_revised_ = true;
}

std::vector<float> Surrogate::covariance_with_columns(std::size_t point) const {
    std::vector<float> result(columns_.size(), 1);
    const auto position = coordinates_.of(point);
    for (std::size_t d = 0; d < position.size(); ++d) {
        const float* factor = &factors_[d][position[d] * static_cast<std::size_t>(coordinates_.extents()[d])];
        const std::uint16_t* other = positions_[d].data();
        for (std::size_t c = 0; c < result.size(); ++c) result[c] *= factor[other[c]];
    }
    return result;
}

// Whether a point works is decided by rules sharper than those of its time: votes weigh the eighth power of the covariance.
void Surrogate::vote(const Observation& observation, const std::vector<float>& covariances) {
    if (observation.kind == Observation::Kind::pending) return;
    const float failed = observation.kind == Observation::Kind::failed ? 1.0f : 0.0f;
    observed_known_ += 1;
    observed_failed_ += static_cast<double>(failed);
    for (std::size_t c = 0; c < covariances.size(); ++c) {
        const float squared = covariances[c] * covariances[c];
        const float weight = squared * squared * squared * squared;
        votes_[c] += weight;
        failed_votes_[c] += failed * weight;
    }
}

// One more row of the Cholesky factor, and its share of every column's sums.
void Surrogate::append(const Observation& observation) {
    const std::size_t n = cholesky_.size();
    std::vector<double> row;
    double variance = 1 + kNoise;
    for (std::size_t i = 0; i < n; ++i) {
        row.push_back(whiten(covariance(observation.point, observations_[i].point), cholesky_[i], row));
        variance -= row[i] * row[i];
    }
    row.push_back(std::sqrt(std::max(variance, kNoise / 2)));
    std::vector<float> white = covariance_with_columns(observation.point);
    vote(observation, white);
    for (std::size_t i = 0; i < n; ++i) add_scaled(white, -static_cast<float>(row[i]), whitened_[i]);
    const float scale = static_cast<float>(1 / row[n]);
    for (std::size_t c = 0; c < white.size(); ++c) {
        white[c] *= scale;
        square_sum_[c] += white[c] * white[c];
    }
    white_value_.push_back(whiten(observation.log_time, row, white_value_));
    white_one_.push_back(whiten(1, row, white_one_));
    white_trend_.push_back(trend_.empty() ? 0 : whiten(static_cast<double>(trend_[observation.point]), row, white_trend_));
    add_scaled(value_sum_, static_cast<float>(white_value_[n]), white);
    add_scaled(one_sum_, static_cast<float>(white_one_[n]), white);
    if (!trend_.empty()) add_scaled(trend_sum_, static_cast<float>(white_trend_[n]), white);
    cholesky_.push_back(std::move(row));
    whitened_.push_back(std::move(white));
}

// Constant mean and slope of the trend by generalised least squares, the slope held near 0 by one pseudo-observation; the scale
// from what is left.
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
        white_value_.push_back(whiten(observations_[i].log_time, cholesky_[i], white_value_));
        add_scaled(value_sum_, static_cast<float>(white_value_[i]), whitened_[i]);
    }
    solve_mean();
}

Belief Surrogate::belief(std::size_t column) {
    if (is_revised_) resum_values();
    double mean = mean_ + static_cast<double>(value_sum_[column]) - mean_ * static_cast<double>(one_sum_[column]);
    if (!trend_.empty()) mean += slope_ * static_cast<double>(trend_[columns_[column]] - trend_sum_[column]);
    // One vote beforehand for the share of failures everywhere.
    const double failure = (static_cast<double>(failed_votes_[column]) + observed_failed_ / (observed_known_ + 1)) /
                           (static_cast<double>(votes_[column]) + 1);
    return {.mean = mean,
            .deviation = scale_ * std::sqrt(std::max(kLeastVariance, 1 - static_cast<double>(square_sum_[column]))),
            .failure = failure};
}

// The best half, and the rest spread evenly from good to bad.
std::vector<std::size_t> Surrogate::most_telling() const {
    std::vector<std::size_t> rows(observations_.size());
    std::iota(rows.begin(), rows.end(), std::size_t{0});
    if (rows.size() <= kMostLearnedFrom) return rows;
    std::stable_sort(rows.begin(), rows.end(), [&](std::size_t left, std::size_t right) {
        return observations_[left].log_time < observations_[right].log_time;
    });
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
        value.push_back(whiten(observations_[observed].log_time, row, value));
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

// Coordinate ascent by fixed steps: coarse, but rates matter to a factor of two, not to a digit.
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
