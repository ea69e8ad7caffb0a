#pragma once

#include <cstdint>
#include <optional>

namespace autotune::tuner {

// Energy per launch from a counter that is updated in steps (on an H200 every 98 ms): only the time between two updates counts.
class EnergyMeter {
  public:
    // Adds a reading of the energy, and the number of launches done at that time. Readings come in chronological order.
    void read(std::optional<double> joules, std::int64_t launches_done) {
        if (!joules) return;
        const bool has_jumped = last_ && *joules != *last_;
        last_ = joules;
        if (!has_jumped) return;
        if (!first_jump_) first_jump_ = {*joules, launches_done};
        last_jump_ = {*joules, launches_done};
    }
    // Returns nullopt before the second update.
    std::optional<double> joules_per_launch() const {
        if (!first_jump_ || last_jump_.launches <= first_jump_->launches) return std::nullopt;
        return (last_jump_.joules - first_jump_->joules) / static_cast<double>(last_jump_.launches - first_jump_->launches);
    }

  private:
    struct Jump {
        double joules = 0;
        std::int64_t launches = 0;
    };
    std::optional<double> last_;
    std::optional<Jump> first_jump_;
    Jump last_jump_;
};

}  // namespace autotune::tuner
