#include <cmath>

#include "tuner/search/strategies/base.h"
#include "tuner/search/strategies/strategies.h"

namespace autotune::tuner {
namespace {

// Simulated annealing on the logarithm of time: a step to a point that is e^T times slower is taken with probability 1/e.
// Restarts elsewhere when it has cooled down.
class Annealing final : public BaseStrategy {
  public:
    Annealing(const Domain& domain, std::uint64_t seed) : BaseStrategy("annealing", domain, seed) {}

  protected:
    std::optional<std::size_t> propose() override {
        if (temperature_ < kCold) restart();
        for (int step = 0; here_ && step < kStepsOverKnownGround; ++step) {
            const std::vector<std::size_t> around = domain().neighbours(*here_);
            if (around.empty()) break;
            const std::size_t next = around[random().below(around.size())];
            if (is_fresh(next)) return next;
            if (time_us(next)) consider(next, *time_us(next));
        }
        return promising_fresh();
    }

    void heard(std::size_t point, std::optional<double> time_us) override {
        if (time_us) consider(point, *time_us);
        temperature_ *= kCooling;
    }

  private:
    static constexpr double kHot = 0.2, kCold = 0.004, kCooling = 0.97;  // about 130 evaluations from hot to cold
    static constexpr int kStepsOverKnownGround = 64;

    void restart() {
        temperature_ = kHot;
        here_.reset();
    }
    void consider(std::size_t point, double time_us) {
        const double log_time = std::log(time_us);
        if (here_ && log_time > here_log_time_ && !random().chance(std::exp((here_log_time_ - log_time) / temperature_))) return;
        here_ = point;
        here_log_time_ = log_time;
    }

    double temperature_ = kHot;
    std::optional<std::size_t> here_;
    double here_log_time_ = 0;
};

}  // namespace

std::unique_ptr<Strategy> make_annealing(const Domain& domain, std::uint64_t seed) {
    return std::make_unique<Annealing>(domain, seed);
}

}  // namespace autotune::tuner
