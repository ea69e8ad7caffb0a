#pragma once

#include <string>

#include "src/catalogue/catalogue.h"

namespace autotune::runtime {

// A kernel that stands in for others: its family, and a problem wide enough for its class.
struct GeneralKernel {
    std::string family;
    ProblemRequest request;
};

}  // namespace autotune::runtime
