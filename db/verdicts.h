#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "db/winner_store.h"

namespace autotune::db {

// A comparison of our kernel with another library's kernel for one call in a caller's program.
struct Verdict {
    std::string problem{};  // the problem as text, in the caller's own form
    std::string device{};
    std::string rival{};   // with its version
    double in_stream = 0;  // the rival's time / ours, in a stream
    double in_graphs = 0;  // the same ratio in a CUDA graph
    std::string date{};    // set when the verdict is stored
};

// A sentence; nothing for a verdict that may be stored.
std::optional<std::string> why_invalid(const Verdict& verdict);

inline constexpr std::size_t kMaxVerdictProblem = 4000;
inline constexpr std::int64_t kMostVerdicts = 50'000;

// Stores verdicts in one transaction. Each replaces the one of the same problem, device and rival, and only the newest
// kMostVerdicts are kept. Throws Error{usage} for texts and numbers that are out of range, and then stores nothing;
// DatabaseError.
void put_verdicts(const OpenOptions& options, std::span<const Verdict> verdicts);

// Oldest first; for all rivals if `rival` is empty. Rows that are not valid are left out. Throws DatabaseError.
std::vector<Verdict> read_verdicts(const OpenOptions& options, const std::string& rival);

}  // namespace autotune::db
