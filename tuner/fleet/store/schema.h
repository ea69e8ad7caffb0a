#pragma once

#include <string>
#include <vector>

namespace autotune::fleet {

// The schema that this version was made for. A store of a newer schema works as long as its `oldest` is not above this.
inline constexpr int kSchema = 2;

// One forward step of the store's schema: statements that run in one transaction.
struct SchemaStep {
    int version = 0;
    // The oldest version of the schema whose programs still work with the schema after this step.
    int oldest = 0;
    std::string name, sql;
};
// In order. A released step never changes.
const std::vector<SchemaStep>& schema_steps();
// Makes the roles autotune_worker, autotune_client and autotune_curator, and grants them their functions. May run again.
const char* schema_roles();

}  // namespace autotune::fleet
