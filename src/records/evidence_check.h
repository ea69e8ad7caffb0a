#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "src/core/op/op.h"
#include "src/records/winner.h"

namespace autotune {

// Why a time cannot be a measurement: it is shorter than any launch, for example what remains when a launch overlaps its
// neighbours. "too short to measure: 0.01 us, and no kernel takes less than 0.05 us". The tuner checks its own measurements with
// it, and import checks those of others.
std::optional<std::string> why_unmeasured(double median_us);
// Whether a trial's detail has such a reason. Then the measurement failed, which says nothing about the candidate.
bool says_unmeasured(std::string_view detail);

// Evidence that contradicts itself on any device: "max_error is 5, more than what is allowed"; an interval that does not contain
// its median. nullopt if it is consistent.
std::optional<std::string> why_impossible(const Winner& winner);

// A time that no device of this kind can reach: below 0.05 us, twice the arithmetic rate or sixteen times the memory rate of its
// data sheet (the second-level cache is at most that much faster). `device`: clock and bandwidth of the architecture's well-known
// card, identity of the row. nullopt: it may be true.
std::optional<std::string> why_impossible(const Winner& winner, const Op& op, const Problem& problem, const Device& device);

// Evidence that is possible but suspect: faster than the data sheet, hardly sampled, never verified. A clause for Winner::doubt;
// empty if there is no reason for doubt.
std::string why_doubtful(const Winner& winner, const Op& op, const Problem& problem, const Device& device);

}  // namespace autotune
