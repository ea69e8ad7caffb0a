#include <algorithm>
#include <limits>
#include <unordered_set>

#include "tuner/strategies/base.h"
#include "tuner/strategies/strategies.h"

namespace autotune::tuner {
namespace {

// Local search by first improvement: from a start, try neighbours in random order and move to the first that is faster; with none
// left, start again elsewhere. A start is the best of a handful of points, since a descent from a hopeless one costs far more
// than they do.
class Greedy final : public BaseStrategy {
  public:
    Greedy(const Domain& domain, std::uint64_t seed)
        : BaseStrategy("greedy", domain, seed), starts_left_(kStarts + domain.seeds.size()) {}

  protected:
    std::optional<std::size_t> propose() override {
        if (starts_left_ > 0) {
            --starts_left_;
            return promising_fresh();
        }
        while (!queue_.empty()) {
            const std::size_t point = queue_.back();
            queue_.pop_back();
            if (is_fresh(point)) return point;
        }
        if (pending() > 0) return std::nullopt;
        restart();
        return promising_fresh();
    }

    void heard(std::size_t point, std::optional<double> time_us) override {
        if (!time_us || *time_us >= here_us_) return;
        here_us_ = *time_us;
        queue_ = domain().neighbours(point);
        random().shuffle(std::span(queue_));
    }

  private:
    static constexpr std::size_t kStarts = 4;
    void restart() {
        here_us_ = std::numeric_limits<double>::infinity();
        starts_left_ = kStarts - 1;
    }

    double here_us_ = std::numeric_limits<double>::infinity();
    std::vector<std::size_t> queue_;  // neighbours still to try, last first
    std::size_t starts_left_;
};

}  // namespace

std::unique_ptr<Strategy> make_greedy(const Domain& domain, std::uint64_t seed) {
    return std::make_unique<Greedy>(domain, seed);
}

}  // namespace autotune::tuner
