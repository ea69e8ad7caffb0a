#pragma once

#include <cstddef>
#include <functional>
#include <limits>
#include <optional>
#include <span>
#include <vector>

#include "src/core/statistics/random.h"
#include "tuner/search/search.h"

namespace autotune::tuner {

// A descent by first improvement: visits the neighbours of its position in random order and moves to the first that is faster. It
// has no position until a time is reported.
class Walk {
  public:
    Walk(const Domain& domain, Random& random) : domain_(domain), random_(random) {}

    // The next untried neighbour; nullopt at a local optimum.
    std::optional<std::size_t> next(const std::function<bool(std::size_t)>& is_fresh) {
        while (!queue_.empty()) {
            const std::size_t point = queue_.back();
            queue_.pop_back();
            if (is_fresh(point)) return point;
        }
        return std::nullopt;
    }
    void heard(std::size_t point, std::optional<double> time_us) {
        if (!time_us || *time_us >= here_us_) return;
        here_us_ = *time_us;
        queue_ = domain_.neighbours(point);
        random_.shuffle(std::span(queue_));
    }
    // Restarts without a position.
    void restart() {
        here_us_ = std::numeric_limits<double>::infinity();
        queue_.clear();
    }

  private:
    const Domain& domain_;
    Random& random_;
    double here_us_ = std::numeric_limits<double>::infinity();
    std::vector<std::size_t> queue_;  // the neighbours that are still to be tried, last first
};

}  // namespace autotune::tuner
