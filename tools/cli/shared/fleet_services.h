#pragma once

#include <string>

#include "tools/cli/session.h"
#include "tuner/fleet/store/fleet_store.h"

namespace autotune::cli {

// --store.
Flag store_flag();
// The value of --store, else of AUTOTUNE_STORE; empty: neither is given.
std::string store_address(Session& session);
// How to connect to the store. Throws Error{usage} if no store is named.
fleet::Connection::Options store_connection(Session& session);
// Throws Error{usage} for another text.
void require_label_name(const std::string& name);
// "3 winners", "3 winners and 2 verdicts".
std::string label_content(std::int64_t winners, std::int64_t verdicts);
// The folder of labels: --folder, AUTOTUNE_FLEET, or `fleet` in the data folder.
std::string fleet_folder(Session& session);

}  // namespace autotune::cli
