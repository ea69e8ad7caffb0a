#include "tuner/search/strategies/base.h"
#include "tuner/search/strategies/strategies.h"
#include "tuner/search/strategies/walk.h"

namespace autotune::tuner {
namespace {

// Local descents with restarts. A start is the best of a few points, because a descent from a bad one costs far more than they
// do.
class Greedy final : public BaseStrategy {
  public:
    Greedy(const Domain& domain, std::uint64_t seed)
        : BaseStrategy("greedy", domain, seed), walk_(this->domain(), random()), starts_left_(kStarts) {}

  protected:
    std::optional<std::size_t> propose() override {
        if (starts_left_ > 0) {
            --starts_left_;
            return promising_fresh();
        }
        const std::optional<std::size_t> next = walk_.next([this](std::size_t point) { return is_fresh(point); });
        if (next) return next;
        if (pending() > 0) return std::nullopt;
        walk_.restart();
        starts_left_ = kStarts - 1;
        return promising_fresh();
    }

    void heard(std::size_t point, std::optional<double> time_us) override { walk_.heard(point, time_us); }

  private:
    static constexpr std::size_t kStarts = 4;

    Walk walk_;
    std::size_t starts_left_;
};

}  // namespace

std::unique_ptr<Strategy> make_greedy(const Domain& domain, std::uint64_t seed) {
    return std::make_unique<Greedy>(domain, seed);
}

}  // namespace autotune::tuner
