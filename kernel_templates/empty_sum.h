#pragma once

#include <string_view>

#include "src/core/family/family.h"

namespace autotune {

// The family that computes problems whose sums have no terms (OpSchema::empty_sums), for every op: "common/empty_sum". It is
// found by name but is not in Catalogue::families(): there is nothing to tune.
const Family& empty_sum_family();
inline constexpr std::string_view kEmptySumText = "common/empty_sum.cuh";

}  // namespace autotune
