#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "src/core/space/config.h"
#include "src/core/space/search_space.h"
#include "src/records/correction.h"

namespace autotune::tuner {

// Applies a CostCorrection to one family's space: the factor by which to multiply the cost model's time.
class LearnedErrors {
  public:
    LearnedErrors() = default;  // by none
    // Ignores parameters and values that the space does not have. REQUIRES: used with configs of this space.
    LearnedErrors(const SearchSpace& space, const CostCorrection& correction);

    double factor(const Config& config) const;

  private:
    struct Parameter {
        std::size_t place = 0;             // in a canonical config
        std::vector<std::int64_t> values;  // ascending
        std::vector<double> effects;       // by value
    };
    double whole_ = 0;
    std::vector<Parameter> parameters_;
};

// A config's measured time, and the time that the cost model alone predicted.
struct Prediction {
    Config config;
    double predicted_us = 0, time_us = 0;
};

// Adds one more problem's trials to the correction: a ridge regression of the logarithm of time over prediction on the
// parameters' values, in which earlier knowledge counts as observations. Trials near the fastest count more, because choices
// depend on them; trials that take twice as long do not count. Keeps the key; without usable predictions nothing changes.
void learn(CostCorrection& correction, const SearchSpace& space, std::span<const Prediction> predictions);

}  // namespace autotune::tuner
