#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "src/core/space/config.h"
#include "src/core/space/search_space.h"
#include "src/records/correction.h"

namespace autotune::tuner {

// A CostCorrection as one family's space reads it: by what factor the cost model's time is to be lengthened.
class LearnedErrors {
  public:
    LearnedErrors() = default;  // by none
    // Parameters and values that the space does not know are left out. REQUIRES: used with configs of this space.
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

// A config's time, and the one that the cost model alone predicted.
struct Prediction {
    Config config;
    double predicted_us = 0, time_us = 0;
};

// The correction with one more problem's trials: a ridge regression of the logarithm of time over prediction on the parameters'
// values, in which what is known already counts as observations. Trials near the fastest count more, since a choice depends on
// them, and those that take twice as long not at all. Keeps the key; without usable predictions nothing changes.
void learn(CostCorrection& correction, const SearchSpace& space, std::span<const Prediction> predictions);

}  // namespace autotune::tuner
