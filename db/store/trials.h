#pragma once

#include <span>
#include <string>
#include <vector>

#include "db/store/rows.h"
#include "db/winner_store.h"

namespace autotune::db {

struct PendingTrial {
    ProblemKey problem_key;
    StoredTrial trial;
    std::string date;
};

// Why the trial must not be stored; nullopt if it is valid.
std::optional<std::string> why_invalid(const ProblemKey& problem_key, const StoredTrial& trial);

// REQUIRES: in a transaction, and the trial is valid.
void write_trial(Connection& connection, const PendingTrial& pending);

// Trials of a problem on a device in the order they were made. Invalid rows are left out and counted in `skipped`.
std::vector<StoredTrial> read_trials(Connection& connection, const ProblemKey& problem_key, int& skipped);

// Keeps at most kMostMisses rows. Rows with the fewest calls are deleted first, and the oldest of them first. REQUIRES: the
// connection is in a transaction.
void count_misses(Connection& connection, std::span<const Miss> misses);
std::int64_t number_of_misses(Connection& connection);
std::vector<MissRow> read_misses(Connection& connection, std::size_t limit);

// Now, in UTC: "2026-11-21T01:30:00Z".
std::string utc_now();
// The UTC time `seconds` from now.
std::string utc_in(int seconds);

}  // namespace autotune::db
