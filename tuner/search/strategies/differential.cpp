#include <algorithm>
#include <map>

#include "tuner/search/strategies/base.h"
#include "tuner/search/strategies/coordinates.h"
#include "tuner/search/strategies/strategies.h"

namespace autotune::tuner {
namespace {

// Differential evolution (Storn and Price 1997, best/1/bin) over positions as real numbers; a trial vector is rounded to the
// nearest untried point.
class Differential final : public BaseStrategy {
  public:
    Differential(const Domain& domain, std::uint64_t seed)
        : BaseStrategy("differential", domain, seed), coordinates_(domain), index_(coordinates_) {}

  protected:
    std::optional<std::size_t> propose() override {
        if (born_ < kPopulation || population_.size() < 4) {
            ++born_;
            return promising_fresh();
        }
        next_ = (next_ + 1) % population_.size();
        const std::size_t point = index_.nearest(trial_vector(next_), fresh());
        parent_[point] = next_;
        return point;
    }

    void heard(std::size_t point, std::optional<double> time_us) override {
        const auto parent = parent_.find(point);
        if (parent == parent_.end()) {
            if (time_us && population_.size() < kPopulation) population_.emplace_back(*time_us, point);
            return;
        }
        std::pair<double, std::size_t>& target = population_[parent->second];
        if (time_us && *time_us <= target.first) target = {*time_us, point};
        parent_.erase(parent);
    }

  private:
    static constexpr std::size_t kPopulation = 15;
    static constexpr double kWeight = 0.7, kCrossover = 0.7;

    std::vector<double> trial_vector(std::size_t target) {
        const std::size_t best = std::min_element(population_.begin(), population_.end())->second;
        const auto own = coordinates_.of(population_[target].second), base = coordinates_.of(best);
        const auto plus = coordinates_.of(population_[random().below(population_.size())].second);
        const auto minus = coordinates_.of(population_[random().below(population_.size())].second);
        const std::size_t always = coordinates_.dimensions() == 0 ? 0 : random().below(coordinates_.dimensions());
        std::vector<double> trial;
        for (std::size_t d = 0; d < coordinates_.dimensions(); ++d) {
            const bool crossed = d == always || random().chance(kCrossover);
            trial.push_back(crossed ? base[d] + kWeight * (plus[d] - minus[d]) : own[d]);
        }
        return trial;
    }

    Coordinates coordinates_;
    PointIndex index_;
    std::vector<std::pair<double, std::size_t>> population_;
    std::map<std::size_t, std::size_t> parent_;  // by point that is being tried: the member of the population that it may replace
    std::size_t born_ = 0, next_ = 0;
};

}  // namespace

std::unique_ptr<Strategy> make_differential(const Domain& domain, std::uint64_t seed) {
    return std::make_unique<Differential>(domain, seed);
}

}  // namespace autotune::tuner
