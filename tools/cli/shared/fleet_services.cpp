#include "tools/cli/shared/fleet_services.h"

#include "src/core/error.h"
#include "src/dispatch/stored/label_file.h"

namespace autotune::cli {

Flag store_flag() {
    return {"store",
            "ADDRESS",
            "the fleet's PostgreSQL: postgresql://HOST/DATABASE, service=NAME; default AUTOTUNE_STORE",
            false,
            {}};
}

std::string store_address(Session& session) {
    return session.arguments().text("store", session.environment().get("AUTOTUNE_STORE").value_or(""));
}

fleet::Connection::Options store_connection(Session& session) {
    const std::string address = store_address(session);
    if (address.empty())
        throw Error(ErrorCode::usage, "no store is named; give --store postgresql://HOST/DATABASE, or set AUTOTUNE_STORE");
    return {.address = address, .program = "autotune " + session.program().version};
}

void require_label_name(const std::string& name) {
    if (!dispatch::is_label_name(name))
        throw Error(ErrorCode::usage,
                    "'" + name + "' is no name of a label or channel: small letters, digits, '.', '_' and '-', at most 64");
}

std::string label_content(std::int64_t winners, std::int64_t verdicts) {
    return std::to_string(winners) + " winners" + (verdicts == 0 ? "" : " and " + std::to_string(verdicts) + " verdicts");
}

std::string fleet_folder(Session& session) {
    return session.arguments().text("folder", session.places().labels());
}

}  // namespace autotune::cli
