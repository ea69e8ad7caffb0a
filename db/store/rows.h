#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "db/sqlite/sqlite_handle.h"
#include "db/winner_store.h"
#include "src/records/validate.h"

namespace autotune::db {

// A problem on a device, in the form that rows refer to.
struct ProblemKey {
    std::string op;
    std::string class_key;
    std::vector<Extent> extents;
    DeviceIdentity device;
};
ProblemKey problem_key_of(const Problem& problem, const DeviceIdentity& device);
ProblemKey problem_key_of(const Winner& winner);

// The row numbers of a problem's key.
struct RowKey {
    std::int64_t class_id = 0;
    std::int64_t device_id = 0;
    std::array<std::int64_t, records::kMaxExtents> extents{};
};
// The keys of a problem. A GPU may have several device rows, because earlier versions rounded its memory differently in its key;
// there is one RowKey for each, make_row_key()'s first. Empty if the database does not know the class or the device.
enum class Cards : std::uint8_t {
    this_card,       // devices with the problem's device key
    like_this_card,  // devices with another key but the same chip (src/core/problem/device_key.h)
};
std::vector<RowKey> find_row_keys(Connection& connection, const ProblemKey& problem_key, Cards cards = Cards::this_card);
// REQUIRES: in a transaction.
RowKey make_row_key(Connection& connection, const ProblemKey& problem_key);
// DeviceIdentity::key() of a row of `device`, in SQL.
inline constexpr const char* kDeviceKeySql =
    "'cc' || cc_major || '.' || cc_minor || '-sm' || sm_count || '-l2_' || l2_mib || '-mem' || "
    "CASE WHEN memory_gib > 0 THEN (memory_gib + 7) / 8 * 8 ELSE memory_gib END || '-bus' || bus_bits";
std::int64_t make_template(Connection& connection, const std::string& family, const std::string& identity);
void bind_row_key(Query& query, const RowKey& row_key);

// Groups of columns that several tables share, in this order.
void bind_timing(Query& query, const std::optional<Timing>& timing);
std::optional<Timing> read_timing(Query& query);
void bind_compile(Query& query, const CompileReport& report);
CompileReport read_compile(Query& query);

// REQUIRES: in a transaction.
void remove_miss(Connection& connection, const std::vector<RowKey>& row_keys);

enum class Detail { brief, full };  // full: with finalists and failures

// Replaces the row of the same key and template identity. REQUIRES: the connection is in a transaction, and why_invalid(winner)
// is nullopt.
void write_winner(Connection& connection, const Winner& winner);

// Row `id` as stored; `wrong` says why it must not be used. nullopt if it does not exist, or a row that it refers to does not.
struct ReadRow {
    Winner winner;
    std::optional<std::string> wrong;
};
std::optional<ReadRow> read_winner(Connection& connection, std::int64_t id, Detail detail);
// Whether the row exists at all.
bool has_winner(Connection& connection, std::int64_t id);

}  // namespace autotune::db
