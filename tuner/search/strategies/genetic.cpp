#include <algorithm>

#include "tuner/search/strategies/base.h"
#include "tuner/search/strategies/coordinates.h"
#include "tuner/search/strategies/strategies.h"

namespace autotune::tuner {
namespace {

// Steady-state genetic algorithm: each report may replace the worst of the population, so it never waits for a generation.
class Genetic final : public BaseStrategy {
  public:
    Genetic(const Domain& domain, std::uint64_t seed)
        : BaseStrategy("genetic", domain, seed), coordinates_(domain), index_(coordinates_) {}

  protected:
    std::optional<std::size_t> propose() override {
        if (born_ < kPopulation || population_.size() < 2) {
            ++born_;
            return promising_fresh();
        }
        for (int attempt = 0; attempt < kAttempts; ++attempt) {
            const std::optional<std::size_t> child = index_.find(mate(choose(), choose()));
            if (child && is_fresh(*child)) return child;
        }
        const std::vector<std::size_t> around = domain().neighbours(choose());
        for (const std::size_t neighbour : around) {
            if (is_fresh(neighbour)) return neighbour;
        }
        return promising_fresh();
    }

    void heard(std::size_t point, std::optional<double> time_us) override {
        if (!time_us) return;
        population_.emplace_back(*time_us, point);
        std::sort(population_.begin(), population_.end());
        if (population_.size() > kPopulation) population_.pop_back();
    }

  private:
    static constexpr std::size_t kPopulation = 20;
    static constexpr int kTournament = 3, kAttempts = 50;

    // The best of a few random members. The population is sorted, so the best has the lowest index.
    std::size_t choose() {
        std::size_t best = population_.size();
        for (int i = 0; i < kTournament; ++i) best = std::min(best, random().below(population_.size()));
        return population_[best].second;
    }
    std::vector<std::uint16_t> mate(std::size_t mother, std::size_t father) {
        const auto from_mother = coordinates_.of(mother), from_father = coordinates_.of(father);
        std::vector<std::uint16_t> child;
        for (std::size_t d = 0; d < coordinates_.dimensions(); ++d) {
            child.push_back(random().chance(0.5) ? from_mother[d] : from_father[d]);
            if (!random().chance(1.0 / static_cast<double>(coordinates_.dimensions()))) continue;
            child.back() = static_cast<std::uint16_t>(random().below(static_cast<std::size_t>(coordinates_.extents()[d])));
        }
        return child;
    }

    Coordinates coordinates_;
    PointIndex index_;
    std::vector<std::pair<double, std::size_t>> population_;  // by time
    std::size_t born_ = 0;
};

}  // namespace

std::unique_ptr<Strategy> make_genetic(const Domain& domain, std::uint64_t seed) {
    return std::make_unique<Genetic>(domain, seed);
}

}  // namespace autotune::tuner
