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

// What every strategy needs to keep: which points were given, what they took, which are left. A strategy says which point it
// would try next and hears of each report; seeds go out first, and nothing is given twice.
class BaseStrategy : public Strategy {
  public:
    BaseStrategy(std::string name, const Domain& domain, std::uint64_t seed);

    std::string_view name() const final { return name_; }
    std::vector<std::size_t> ask(std::size_t count) final;
    void report(std::size_t point, std::optional<double> time_us) final;
    bool exhausted() const final { return fresh_.empty(); }
    std::optional<Outlook> outlook() final;

  protected:
    // A fresh point, or nullopt to wait for reports. Asked with none pending, nullopt means a random fresh point.
    // REQUIRES: fresh_count() > 0.
    virtual std::optional<std::size_t> propose() = 0;
    virtual void heard(std::size_t point, std::optional<double> time_us) = 0;
    // Whether the strategy is there to try every point: it has no opinion of the gain before that.
    virtual bool tries_all() const { return false; }
    // Outlook::gain of a strategy that has a model; else nullopt, and it follows from the times reported. REQUIRES: one worked.
    virtual std::optional<double> expected_gain() { return std::nullopt; }

    const Domain& domain() const { return domain_; }
    Random& random() { return random_; }
    std::size_t fresh_count() const { return fresh_.size(); }
    std::size_t pending() const { return pending_; }
    bool is_fresh(std::size_t point) const { return place_[point] != kGone; }
    // REQUIRES: fresh_count() > 0.
    std::size_t random_fresh() { return fresh_[random_.below(fresh_.size())]; }
    std::span<const std::size_t> fresh() const { return fresh_; }
    // The best expected of a random handful where the prior has opinions, else a random fresh point.
    std::size_t promising_fresh();
    // nullopt: failed, pending or never given. Ask is_reported() for the difference.
    std::optional<double> time_us(std::size_t point) const { return times_us_[point]; }
    bool is_reported(std::size_t point) const { return reported_[point]; }

  private:
    static constexpr std::size_t kGone = SIZE_MAX;
    void give(std::size_t point);

    std::string name_;
    Domain domain_;
    Random random_;
    std::deque<std::size_t> seeds_;
    std::vector<std::size_t> fresh_;  // points never given, in no order
    std::vector<std::size_t> place_;  // of a point in fresh_
    std::vector<std::optional<double>> times_us_;
    std::vector<bool> reported_;
    std::size_t pending_ = 0;
    std::vector<double> worked_us_;  // every time reported
};

}  // namespace autotune::tuner
