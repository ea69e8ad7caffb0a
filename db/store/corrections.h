#pragma once

#include <string>
#include <vector>

#include "db/sqlite/sqlite_handle.h"
#include "src/records/correction.h"

namespace autotune::db {

// Ordered by family and class; all classes if `class_key` is empty. Invalid rows are counted in `skipped`.
std::vector<CostCorrection> read_corrections(Connection& connection, const std::string& device_key, const std::string& class_key,
                                             int& skipped);
// Replaces the row of the same card, family, template, NVRTC and class. REQUIRES: it is valid.
void write_correction(Connection& connection, const CostCorrection& correction);

}  // namespace autotune::db
