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

// A problem on a device, as rows refer to it.
struct ProblemKey {
    std::string op;
    std::string class_key;
    std::vector<Extent> extents;
    DeviceIdentity device;
};
ProblemKey problem_key_of(const Problem& problem, const DeviceIdentity& device);
ProblemKey problem_key_of(const Winner& winner);

// The same as numbers.
struct RowKey {
    std::int64_t class_id = 0;
    std::int64_t device_id = 0;
    std::array<std::int64_t, records::kMaxExtents> extents{};
};
// A GPU may stand in the table more than once: other versions rounded its memory otherwise when they made its key. Its places are
// one for each, that of the row which make_row_key() gives first. Empty if the database never heard of the class or the device.
enum class Cards : std::uint8_t {
    this_card,       // devices with the subject's key
    like_this_card,  // other keys, the same chip: src/core/problem/device_key.h
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

enum class Detail { brief, full };  // without or with finalists and failures

// REQUIRES: in a transaction, and why_invalid(winner) is nullopt. Replaces the row of the same place and template identity.
void write_winner(Connection& connection, const Winner& winner);

// Row `id` as it stands; `wrong` says why it must not be used. nullopt if there is none, or what it refers to is not there.
struct ReadRow {
    Winner winner;
    std::optional<std::string> wrong;
};
std::optional<ReadRow> read_winner(Connection& connection, std::int64_t id, Detail detail);
// Whether there is such a row at all.
bool has_winner(Connection& connection, std::int64_t id);

}  // namespace autotune::db
