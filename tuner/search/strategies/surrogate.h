#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "tuner/search/strategies/coordinates.h"

namespace autotune::tuner {

// A surrogate's prediction for a point: mean and standard deviation of its value (smaller is better).
struct Belief {
    double mean = 0;
    double deviation = 0;
    double failure = 0;  // probability that the point does not work at all, from the results of points near it
};

// `value` of a point that failed, or that is not reported yet, is a guess.
struct Observation {
    enum class Kind : std::uint8_t { worked, failed, pending };
    std::size_t point = 0;
    double value = 0;
    Kind kind = Kind::worked;
};

// A Gaussian process over coordinates (Rasmussen and Williams 2006, chapters 2 and 5). Covariance: a product over dimensions of
// exp(-rate (1/2 + distance)), so that a parameter may act as a category and as a quantity; rates by marginal likelihood.
// Predictions are kept up to date for a set of columns, the points that may be proposed: one more observation costs
// O(observations * columns) multiplications instead of a new fit.
class Surrogate {
  public:
    // `trend`: a value per point that the mean may follow linearly, such as a cost model's prediction; empty: none. REQUIRES:
    // `coordinates` outlives this.
    Surrogate(const Coordinates& coordinates, std::vector<float> trend);

    // Starts again from these observations: learns rates, recomputes the predictions of these columns.
    void fit(std::vector<Observation> observations, std::vector<std::size_t> columns);
    // Adds one observation. REQUIRES: fit() came before.
    void observe(const Observation& observation);
    // Changes the value of a point's last observation, when a measured value replaces a guess.
    void revise(const Observation& observation);

    std::size_t observed() const { return observations_.size(); }
    std::span<const std::size_t> columns() const { return columns_; }
    // Of columns()[column].
    Belief belief(std::size_t column);
    // How much the value of one point tells about another's: 1 for the same point, near 0 for points with little in common.
    double similarity(std::size_t left, std::size_t right) const { return covariance(left, right); }

  private:
    // One sum per column over observations: whitened covariance times a whitened right-hand side.
    using Sums = std::vector<float>;

    void learn_rates();
    std::vector<std::size_t> most_telling() const;
    double log_likelihood(std::span<const std::size_t> rows) const;
    void set_rate(std::size_t dimension, double rate);
    double covariance(std::size_t left, std::size_t right) const;
    void append_row(const Observation& observation);
    void append_columns(std::size_t from);
    void count(const Observation& observation);
    // Votes for the columns from `first` on; there is one covariance for each column.
    void vote(const Observation& observation, std::size_t first, std::span<const float> covariances);
    void covariance_with_columns(std::size_t point, std::size_t first, std::span<float> result) const;
    void resum_values();
    void solve_mean();

    const Coordinates& coordinates_;
    std::vector<float> trend_;
    std::vector<double> rates_;                // by dimension
    std::vector<std::vector<float>> factors_;  // by dimension, the covariance of each pair of positions
    std::vector<std::size_t> columns_;
    std::vector<std::vector<std::uint16_t>> positions_;  // by dimension, the position of each column
    std::vector<Observation> observations_;
    std::vector<std::vector<double>> cholesky_;  // the rows of the lower factor
    std::vector<std::vector<float>> whitened_;   // by observation, the covariance with the columns
    std::vector<double> white_value_, white_one_, white_trend_;
    Sums value_sum_, one_sum_, trend_sum_, square_sum_;
    Sums votes_, failed_votes_;
    double observed_failed_ = 0, observed_known_ = 0;
    double mean_ = 0, slope_ = 0, scale_ = 1;
    bool is_revised_ = false;
};

}  // namespace autotune::tuner
