#pragma once

#include <string>
#include <string_view>

#include "src/records/winner.h"

namespace autotune::records {

// The text form of the shipped layer, of export and import: one JSON object per line.
std::string to_json_line(const Winner& winner);
// Throws Error{database} naming what is wrong. Types, lengths and ranges are checked; the caller, who has the catalogue, checks
// whether the config is in the family's space.
Winner from_json_line(std::string_view line);

}  // namespace autotune::records
