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
    unusable,    // this version does not have its problem, family, template or config
    impossible,  // the evidence cannot be true
};
inline constexpr std::array<Refusal, 3> kRefusals = {Refusal::malformed, Refusal::unusable, Refusal::impossible};
std::string_view to_string(Refusal reason);  // "malformed"

// What to do with a row. Its form, names and ranges are checked before; the caller, who has the catalogue, decides whether it can
// be used and trusted.
struct RowVerdict {
    std::optional<Refusal> refusal{};  // nullopt: take it
    std::string why{};                 // for a refused row the reason; for an accepted one its doubt, empty if it is trusted
};
using RowCheck = std::function<RowVerdict(const Winner&)>;

struct TakeOptions {
    FormerTemplates former{};         // rows of earlier versions that count as today's and are accepted as such
    RowCheck check{};                 // empty: accepts every valid row
    bool dry_run = false;             // only counts, writes nothing
    std::function<bool()> stopped{};  // called before each row, and from another thread while merge() checks
};

// The outcome for the rows that were offered.
struct TakeReport {
    std::int64_t added = 0;
    std::int64_t replaced = 0;                      // our row was slower, or older and measured with another toolchain
    std::int64_t kept = 0;                          // ours is as good
    std::int64_t refused = 0;                       // not valid
    std::map<Refusal, std::int64_t> refused_for{};  // the refused rows by reason, for reasons that occurred
    std::int64_t doubted = 0;             // number of added and replaced rows that are not served until they are timed here
    std::vector<std::string> refusals{};  // the first 20 refusals, such as "line 12: WHY"
    bool stopped = false;                 // whether options.stopped ended it early
    std::int64_t offered() const { return added + replaced + kept + refused; }
};

// For two winners of one problem, device and template: whether `theirs` should replace `ours`. If both were measured with the
// same driver, NVRTC and method, the faster one stays. Times of different toolchains cannot be compared, so there the newer one
// stays. A row in doubt never replaces a trusted one.
bool takes_over(const Winner& theirs, const Winner& ours);

// Writes the user's rows that match, one JSON object per line, oldest first so that importing them keeps their order. Returns how
// many. Throws Error{database} if the stream fails.
std::int64_t export_lines(const WinnerStore& store, const Filter& filter, std::ostream& out);

// Offers each line to the store; empty lines are skipped. An invalid line is counted and does not end the import; a line longer
// than kMostLineBytes, or a read error, does.
inline constexpr std::size_t kMostLineBytes = std::size_t{16} << 20;
TakeReport import_lines(WinnerStore& store, std::istream& in, const TakeOptions& options);

}  // namespace autotune::db
