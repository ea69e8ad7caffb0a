#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "src/catalogue/catalogue.h"

namespace autotune::fleet {

// Identity of everything that an op's templates can be in this build: 64 hex digits, a hash over the identities of its families.
// A problem is tuned by workers that have the same one, so that nobody gets a winner that it cannot use.
std::string catalogue_identity(const Catalogue& catalogue, std::string_view op);
// Those of all ops of the catalogue, users' kernels included.
std::vector<std::string> catalogue_identities(const Catalogue& catalogue);

}  // namespace autotune::fleet
