#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "src/core/device.h"
#include "src/core/problem.h"

namespace autotune {

// Why families cannot do a problem: each reason once, with the families that have it.
class Refusals {
  public:
    void add(std::string_view family, const std::string& reason);
    // "no family can do PROBLEM on sm_80: REASON (FAMILY, FAMILY); REASON (FAMILY)"
    std::string sentence(const Problem& problem, const Device& device) const;

  private:
    std::vector<std::pair<std::string, std::vector<std::string>>> families_by_reason_;
};

}  // namespace autotune
