#include <algorithm>
#include <limits>

#include "tuner/search/strategies/base.h"
#include "tuner/search/strategies/strategies.h"

namespace autotune::tuner {
namespace {

// Every point once, by prior; in the domain's order without a prior.
class Exhaustive final : public BaseStrategy {
  public:
    Exhaustive(const Domain& domain, std::uint64_t seed) : BaseStrategy("exhaustive", domain, seed) {
        std::vector<std::pair<double, std::size_t>> ranked;
        for (std::size_t point = 0; point < domain.size; ++point) {
            ranked.emplace_back(domain.prior(point).value_or(std::numeric_limits<double>::infinity()), point);
        }
        std::sort(ranked.begin(), ranked.end());
        for (const auto& [prior, point] : ranked) order_.push_back(point);
    }

  protected:
    std::optional<std::size_t> propose() override {
        while (!is_fresh(order_[next_])) ++next_;
        return order_[next_];
    }
    void heard(std::size_t, std::optional<double>) override {}
    bool tries_all() const override { return true; }

  private:
    std::vector<std::size_t> order_;
    std::size_t next_ = 0;
};

class RandomOrder final : public BaseStrategy {
  public:
    RandomOrder(const Domain& domain, std::uint64_t seed) : BaseStrategy("random", domain, seed) {}

  protected:
    std::optional<std::size_t> propose() override { return random_fresh(); }
    void heard(std::size_t, std::optional<double>) override {}
};

}  // namespace

std::unique_ptr<Strategy> make_exhaustive(const Domain& domain, std::uint64_t seed) {
    return std::make_unique<Exhaustive>(domain, seed);
}

std::unique_ptr<Strategy> make_random(const Domain& domain, std::uint64_t seed) {
    return std::make_unique<RandomOrder>(domain, seed);
}

}  // namespace autotune::tuner
