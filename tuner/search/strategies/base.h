#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <unordered_set>
#include <vector>

#include "src/core/statistics/random.h"
#include "tuner/search/search.h"

namespace autotune::tuner {

// The state that every strategy needs: which points were given, their times, and which are left. A derived strategy proposes the
// next point and receives each report; seeds are given first, and no point twice.
class BaseStrategy : public Strategy {
  public:
    BaseStrategy(std::string name, const Domain& domain, std::uint64_t seed);

    std::string_view name() const final { return name_; }
    std::vector<std::size_t> ask(std::size_t count) final;
    std::vector<std::size_t> ask_compiled(std::size_t count) final;
    void report(std::size_t point, std::optional<double> time_us) final;
    bool exhausted() const final { return fresh_.empty(); }
    std::optional<Outlook> outlook() final;

  protected:
    // A fresh point, or nullopt to wait for reports. If none is pending, nullopt means a random fresh point. REQUIRES:
    // fresh_count() > 0.
    virtual std::optional<std::size_t> propose() = 0;
    // A fresh point of a known instance that is worth a measurement; nullopt: there is none.
    virtual std::optional<std::size_t> propose_compiled() { return std::nullopt; }
    virtual void heard(std::size_t point, std::optional<double> time_us) = 0;
    // Whether the strategy tries every point; then it predicts no gain before that.
    virtual bool tries_all() const { return false; }
    // Outlook::gain of a strategy with a model; nullopt: it is estimated from the reported times. REQUIRES: one point worked.
    virtual std::optional<double> expected_gain() { return std::nullopt; }

    const Domain& domain() const { return domain_; }
    Random& random() { return random_; }
    std::size_t fresh_count() const { return fresh_.size(); }
    std::size_t pending() const { return pending_; }
    bool is_fresh(std::size_t point) const { return place_[point] != kGone; }
    // REQUIRES: fresh_count() > 0.
    std::size_t random_fresh() { return fresh_[random_.below(fresh_.size())]; }
    std::span<const std::size_t> fresh() const { return fresh_; }
    // If the prior has predictions, the best of a few random fresh points, else one random fresh point.
    std::size_t promising_fresh();
    // nullopt: failed, pending or never given; is_reported() tells which.
    std::optional<double> time_us(std::size_t point) const { return times_us_[point]; }
    bool is_reported(std::size_t point) const { return reported_[point]; }

  private:
    static constexpr std::size_t kGone = SIZE_MAX;
    void give(std::size_t point);

    std::string name_;
    Domain domain_;
    Random random_;
    std::deque<std::size_t> seeds_;
    std::vector<std::size_t> fresh_;  // the points that were never given, in no order
    std::vector<std::size_t> place_;  // the index of a point in fresh_
    std::vector<std::optional<double>> times_us_;
    std::vector<bool> reported_;
    std::size_t pending_ = 0;
    std::vector<double> worked_us_;  // every time reported
};

}  // namespace autotune::tuner
