#pragma once

#include <span>
#include <string_view>

#include "src/catalogue/catalogue.h"
#include "src/core/former_templates.h"

namespace autotune {

// An identity in rows of earlier versions, and today's identity, whose text was shown to compile to the same machine code. When
// the family's code changes its identity changes too, and then its former rows are stale like all others.
struct FormerIdentity {
    std::string_view family, former, same_code;
};
std::span<const FormerIdentity> former_identities();

// Today's name of a parameter, in the families that have the new name and lack the old one.
struct RenamedParameter {
    std::string_view former, present;
};
std::span<const RenamedParameter> renamed_parameters();

// How this catalogue reads rows of earlier versions. The functions may be called from any thread. REQUIRES: the catalogue
// outlives them.
FormerTemplates former_templates(const Catalogue& catalogue);

}  // namespace autotune
