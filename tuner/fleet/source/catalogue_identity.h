#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "src/catalogue/catalogue.h"

namespace autotune::fleet {

// The identity of an op's templates in this build: 64 hex digits, a hash over the identities of its families. Only workers with
// the same identity tune a problem, so that no client gets a winner that it cannot use.
std::string catalogue_identity(const Catalogue& catalogue, std::string_view op);
// The identities of all ops of the catalogue, including those of users' kernels.
std::vector<std::string> catalogue_identities(const Catalogue& catalogue);

}  // namespace autotune::fleet
