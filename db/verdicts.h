#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "db/winner_store.h"

namespace autotune::db {

// How our kernel did in a caller's program beside another library's kernel for the same call.
struct Verdict {
    std::string problem{};  // the caller's text of it
    std::string device{};
    std::string rival{};   // with its version
    double in_stream = 0;  // the rival's time over ours
    double in_graphs = 0;  // the same in a CUDA graph
    std::string date{};    // set when it is stored
};

// A sentence; nothing for a verdict that may be stored.
std::optional<std::string> why_invalid(const Verdict& verdict);

inline constexpr std::size_t kMaxVerdictProblem = 4000;
inline constexpr std::int64_t kMostVerdicts = 50'000;

// Replaces those of the same problem, device and rival, all in one transaction. At most kMostVerdicts are kept, the newest.
// Throws Error{usage} for texts and numbers that are out of range, and then stores nothing; DatabaseError.
void put_verdicts(const OpenOptions& options, std::span<const Verdict> verdicts);

// Oldest first; those against all rivals if `rival` is empty. Rows that are not valid are left out. Throws DatabaseError.
std::vector<Verdict> read_verdicts(const OpenOptions& options, const std::string& rival);

}  // namespace autotune::db
