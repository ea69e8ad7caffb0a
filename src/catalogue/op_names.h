#pragma once

#include <string>
#include <vector>

#include "src/catalogue/catalogue.h"

namespace autotune {

// Every name and alias of an op: what Catalogue::find_op() takes.
std::vector<std::string> op_names(const Catalogue& catalogue);

}  // namespace autotune
