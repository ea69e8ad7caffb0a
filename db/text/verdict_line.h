#pragma once

#include <string>
#include <string_view>

#include "db/verdicts.h"

namespace autotune::db {

// A verdict's line in a label, without its newline. It begins as a label's head does, so programs that read only winners pass
// over it.
std::string verdict_line(const Verdict& verdict);
bool is_verdict_line(std::string_view line);
// REQUIRES: is_verdict_line(line). Throws Error{database} for a verdict that cannot be.
Verdict verdict_of_line(std::string_view line);

}  // namespace autotune::db
