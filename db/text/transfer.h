#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <iosfwd>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "db/winner_store.h"

namespace autotune::db {

enum class Refusal : std::uint8_t {
    malformed,   // no row at all, or one that the validators refuse
    unusable,    // its problem, family, template or config is not one of this version
    impossible,  // its evidence cannot be true
};
inline constexpr std::array<Refusal, 3> kRefusals = {Refusal::malformed, Refusal::unusable, Refusal::impossible};
std::string_view to_string(Refusal reason);  // "malformed"

// What to do with a row. Shape, names and ranges have been checked before it is asked for; the caller, who has the catalogue,
// decides whether it can be used and believed.
struct RowVerdict {
    std::optional<Refusal> refusal{};  // nullopt: take it
    std::string why{};                 // of a refusal; else why the row is in doubt, empty if it is believed
};
using RowCheck = std::function<RowVerdict(const Winner&)>;

struct TakeOptions {
    FormerTemplates former{};         // rows of earlier versions that count as today's, and are taken as such
    RowCheck check{};                 // empty: takes every valid row
    bool dry_run = false;             // counts, and writes nothing
    std::function<bool()> stopped{};  // asked before each row, and from another thread while merge() checks
};

// What became of the rows that were offered.
struct TakeReport {
    std::int64_t added = 0;
    std::int64_t replaced = 0;                      // ours was slower, or measured with another toolchain and older
    std::int64_t kept = 0;                          // ours is as good
    std::int64_t refused = 0;                       // not valid
    std::map<Refusal, std::int64_t> refused_for{};  // the same by reason; only reasons that there are
    std::int64_t doubted = 0;                       // of those added and replaced: they answer nothing until they are raced
    std::vector<std::string> refusals{};            // of the first 20: "line 12: WHY"
    bool stopped = false;                           // before the end, by options.stopped
    std::int64_t offered() const { return added + replaced + kept + refused; }
};

// Of two winners of one problem, device and template: whether `theirs` should replace `ours`. Measured with the same driver,
// NVRTC and method the faster one stays; times of different toolchains do not compare, so there the newer one does. A row in
// doubt never replaces one that is believed.
bool takes_over(const Winner& theirs, const Winner& ours);

// Writes the user's rows that match, one JSON object a line, oldest first so that importing them keeps their order. Returns how
// many. Throws Error{database} if the stream fails.
std::int64_t export_lines(const WinnerStore& store, const Filter& filter, std::ostream& out);

// Offers each line to the store; empty lines are passed over. A line that is not valid is counted and does not end the import;
// one that is longer than kMostLineBytes, or cannot be read, does.
inline constexpr std::size_t kMostLineBytes = std::size_t{16} << 20;
TakeReport import_lines(WinnerStore& store, std::istream& in, const TakeOptions& options);

}  // namespace autotune::db
