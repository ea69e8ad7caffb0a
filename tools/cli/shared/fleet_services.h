#pragma once

#include <string>

#include "tools/cli/session.h"
#include "tuner/fleet/store/fleet_store.h"

namespace autotune::cli {

// --store.
Flag store_flag();
// --store, else AUTOTUNE_STORE; empty: neither.
std::string store_address(Session& session);
// How to connect to it. Throws Error{usage} if no store is named.
fleet::Connection::Options store_connection(Session& session);
// The folder of labels: --folder, AUTOTUNE_FLEET, or `fleet` in the data folder.
std::string fleet_folder(Session& session);

}  // namespace autotune::cli
