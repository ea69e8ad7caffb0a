#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "db/winner_store.h"
#include "tools/cli/output/data/json_format.h"
#include "tools/cli/session.h"

namespace autotune::cli {

// Reports stored rows that are not used, with the reasons.

// For a device, or for all if the key is empty: "12 winners of this card are not used: it was tuned with another version of
// gemm/mma (12)". Empty if all may be served. Reads every row.
std::string winners_passed_over_text(Session& session, const db::WinnerStore& store, const std::string& device_key);
// Winners of cards with the device's chip and another memory, which are offers for problems without a winner. Empty if there are
// none.
std::string winners_of_other_cards_text(const db::WinnerStore& store, const DeviceIdentity& device);
// Kernels of the portfolios that the library does not offer, for all classes of the shipped portfolios. Empty if it offers all.
std::string portfolios_passed_over_text(Session& session);

// Rows of one problem that are not used, for `explain`.
struct ProblemPassedOver {
    struct Row {
        db::Winner winner;
        std::string why{};      // why the row is not used; empty if it is used
        std::string differs{};  // for another card the differences, otherwise empty
    };
    std::vector<Row> winners{};      // the winners of exactly this problem on this device
    std::vector<Row> other_cards{};  // the nearest winners of other cards with this chip; offered if `why` is empty
    struct Kernels {
        std::string why;
        int count = 0;
    };
    std::vector<Kernels> portfolio{};
};
ProblemPassedOver passed_over_for(Session& session, const db::WinnerStore& store, const Problem& problem, const Device& device);
void add_passed_over_json(Json& json, const ProblemPassedOver& passed_over);
// Lines without line ends. No lines if all rows are used and there are no winners of other cards.
std::vector<std::string> passed_over_lines(const ProblemPassedOver& passed_over);

}  // namespace autotune::cli
