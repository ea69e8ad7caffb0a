#pragma once

#include <cstdint>
#include <functional>
#include <iosfwd>
#include <optional>
#include <string>
#include <vector>

#include "db/store.h"

namespace autotune::db {

// Why a row must not be taken; nullopt: take it. Shape, names and ranges have been checked before it is asked; the caller, who
// has the catalogue, checks that the family is known and the config in its space.
using RowCheck = std::function<std::optional<std::string>(const Winner&)>;

struct TakeOptions {
    RowCheck check{};      // empty: takes every valid row
    bool dry_run = false;  // counts, and writes nothing
    // Asked before each row: true ends the taking. What was taken by then is kept.
    std::function<bool()> stopped{};
};

// What became of the rows that were offered.
struct TakeReport {
    std::int64_t added = 0;
    std::int64_t replaced = 0;            // ours was slower, or measured with another toolchain and older
    std::int64_t kept = 0;                // ours is as good
    std::int64_t refused = 0;             // not valid
    std::vector<std::string> refusals{};  // of the first 20: "line 12: WHY"
    std::int64_t offered() const { return added + replaced + kept + refused; }
};

// Of two winners of one problem, device and template: whether `theirs` should replace `ours`. Measured with the same driver,
// NVRTC and method the faster one stays; times of different toolchains do not compare, so there the newer one does.
bool takes_over(const Winner& theirs, const Winner& ours);

// Writes the user's rows that match, one JSON object a line, oldest first so that importing them keeps their order. Returns how
// many. Throws Error{database} if the stream fails.
std::int64_t export_lines(const Store& store, const Filter& filter, std::ostream& out);

// Offers each line to the store; empty lines are passed over. A line that is not valid is counted and does not end the import,
// except for one that is longer than 1 MiB: such a file is no export, and may have no end.
TakeReport import_lines(Store& store, std::istream& in, const TakeOptions& options);

}  // namespace autotune::db
