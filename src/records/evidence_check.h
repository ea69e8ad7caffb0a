#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "src/core/op/op.h"
#include "src/records/winner.h"

namespace autotune {

// Why a time is none that was measured: a launch takes longer, so it is what is left where a launch vanished among its
// neighbours, or nonsense. "too short to measure: 0.01 us, and no kernel takes less than 0.05 us". The tuner asks this of what it
// measures, import of what others did.
std::optional<std::string> why_unmeasured(double median_us);
// Whether a trial's detail says so: that was the measurement's fault and says nothing of the candidate.
bool says_unmeasured(std::string_view detail);

// Evidence that contradicts itself, whatever the device: "max_error is 5, more than what is allowed"; an interval that does not
// contain its median. nullopt: none of it.
std::optional<std::string> why_impossible(const Winner& winner);

// A time that no device of this kind reaches: below 0.05 us, twice the arithmetic or sixteen times the memory rate of its data
// sheet (the second level cache is at most that much faster). `device`: clock and bandwidth of the architecture's well-known
// card, identity of the row. nullopt: it may be true.
std::optional<std::string> why_impossible(const Winner& winner, const Op& op, const Problem& problem, const Device& device);

// What is possible and yet not to be believed unseen: faster than the data sheet, hardly sampled, never verified. A clause for
// Winner::doubt; empty if nothing speaks against the row.
std::string why_doubtful(const Winner& winner, const Op& op, const Problem& problem, const Device& device);

}  // namespace autotune
