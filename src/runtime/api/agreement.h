#pragma once

#include <string>
#include <utility>
#include <vector>

#include "src/runtime/plan/services.h"

namespace autotune::runtime {

// A name and a value without spaces at its ends or line breaks.
using AgreementPart = std::pair<std::string, std::string>;

// Everything that decides which kernels a handle with a label runs. Two processes whose parts are equal choose alike.
std::vector<AgreementPart> agreement_of(Services& services);

}  // namespace autotune::runtime
