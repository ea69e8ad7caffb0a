#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "src/core/family/family.h"
#include "src/core/problem/device.h"
#include "src/core/problem/problem.h"

namespace autotune {

// Why a family cannot do a problem on a device: its own reason, or that none of its configs is legal there. nullopt if it has a
// config. An empty space always counts as a refusal.
std::optional<std::string> why_unable(const Family& family, const Problem& problem, const Device& device);
inline constexpr const char* kNoLegalConfig = "none of its configs is legal for this problem";

// Collects why families cannot do a problem: each reason once, with the families that have it.
class Refusals {
  public:
    void add(std::string_view family, const std::string& reason);
    // "no family can do PROBLEM on sm_80: REASON (FAMILY, FAMILY); REASON (FAMILY)"
    std::string sentence(const Problem& problem, const Device& device) const;

  private:
    std::vector<std::pair<std::string, std::vector<std::string>>> families_by_reason_;
};

}  // namespace autotune
