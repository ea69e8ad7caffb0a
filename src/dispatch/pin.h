#pragma once

#include <string>

#include "src/catalogue/catalogue.h"
#include "src/core/problem/device.h"
#include "src/core/problem/problem.h"
#include "src/core/statistics/trial.h"

namespace autotune::dispatch {

// A kernel that the user fixes: "gemm/mma block_m=128 stages=3", a family and the values of some parameters; the others are those
// of the family's default config. An empty text pins nothing. REQUIRES: the catalogue outlives it.
class Pin {
  public:
    Pin(std::string text, const Catalogue& catalogue) : text_(std::move(text)), catalogue_(catalogue) {}

    // A pin holds for the problems of its family's op. A pin whose family belongs to no op holds for every problem, so that it is
    // refused.
    bool holds_for(const Problem& problem) const;
    // Throws Error{usage} for an invalid pin, Error{no_valid_config} for one that is not legal here.
    Candidate candidate(const Problem& problem, const Device& device) const;

  private:
    std::string text_;
    const Catalogue& catalogue_;
};

}  // namespace autotune::dispatch
