#pragma once

#include <string>
#include <vector>

#include "src/catalogue/catalogue.h"

namespace autotune {

// Every name and alias of an op that Catalogue::find_op() accepts.
std::vector<std::string> op_names(const Catalogue& catalogue);

}  // namespace autotune
