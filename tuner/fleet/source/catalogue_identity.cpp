#include "tuner/fleet/source/catalogue_identity.h"

#include "src/catalogue/hash.h"

namespace autotune::fleet {

std::string catalogue_identity(const Catalogue& catalogue, std::string_view op) {
    Hash hash;
    hash.field(op);
    for (const Family* family : catalogue.families_of(op)) {
        hash.field(family->name());
        hash.field(catalogue.template_identity(*family));
    }
    return to_hex(hash.digest());
}

std::vector<std::string> catalogue_identities(const Catalogue& catalogue) {
    std::vector<std::string> all;
    for (const Op* op : catalogue.ops()) all.push_back(catalogue_identity(catalogue, op->name()));
    return all;
}

}  // namespace autotune::fleet
