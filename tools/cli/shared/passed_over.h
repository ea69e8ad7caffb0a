#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "db/winner_store.h"
#include "tools/cli/output/data/json_format.h"
#include "tools/cli/session.h"

namespace autotune::cli {

// What is stored and yet answers nothing, and why: nothing is left out without a word.

// Of a device, or of all where the key is empty: "12 winners of this card are not used: it was tuned with another version of
// gemm/mma (12)". Empty if all may answer. Reads every row.
std::string winners_passed_over_text(Session& session, const db::WinnerStore& store, const std::string& device_key);
// Winners of cards with the device's chip and another memory: they are offers for problems without a winner. Empty if there are
// none.
std::string winners_of_other_cards_text(const db::WinnerStore& store, const DeviceIdentity& device);
// Kernels of the portfolios that the library does not offer, for all classes of the shipped portfolios. Empty if all are.
std::string portfolios_passed_over_text(Session& session);

// The same for one problem, as `explain` has it.
struct ProblemPassedOver {
    struct Row {
        db::Winner winner;
        std::string why{};      // it is not used; empty if it is
        std::string differs{};  // of another card: by what; else empty
    };
    std::vector<Row> winners{};      // of this very problem on this device
    std::vector<Row> other_cards{};  // the nearest of cards with this chip; those with no reason are offers
    struct Kernels {
        std::string why;
        int count = 0;
    };
    std::vector<Kernels> portfolio{};
};
ProblemPassedOver passed_over_for(Session& session, const db::WinnerStore& store, const Problem& problem, const Device& device);
void add_passed_over_json(Json& json, const ProblemPassedOver& passed_over);
// Lines without ends; none where nothing is passed over and no other card is known.
std::vector<std::string> passed_over_lines(const ProblemPassedOver& passed_over);

}  // namespace autotune::cli
