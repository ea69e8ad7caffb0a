#pragma once

#include <cstdint>
#include <string>

#include "db/sqlite/sqlite_handle.h"

namespace autotune::db {

// "ATUN": marks a file as ours, shown by file(1).
inline constexpr std::int64_t kApplicationId = 0x4154554E;

// Raised with every migration; stored in the file's user_version.
int schema_version();

// Brings an open database to schema_version() or throws Error{database}: an empty one is initialised, an older one is migrated
// after a backup next to the file, everything else that is not exactly ours is refused. A read-only one must be current. Returns
// the backup's path, empty if none was made.
std::string prepare_schema(Connection& connection);

// Runs the steps from the file's version to `version` in one transaction, without a backup, and deletes orphans. For
// prepare_schema and its tests.
void migrate(Connection& connection, int version);

// Copies the database as it is now, or as it was when the connection's transaction began, to a new file (0600) of this name, with
// a number appended if the name is taken. Returns the name. An incomplete copy is removed.
std::string back_up(Connection& connection, const std::string& name);
// Copies like back_up(), but replaces an earlier backup of this name once the new one is complete. REQUIRES: a transaction that
// has written nothing.
std::string back_up_again(Connection& connection, const std::string& name);

// Hash of all names and definitions in the file.
std::uint64_t schema_fingerprint(Connection& connection);
// The fingerprint for schema_version(), as a constant, and computed by running the steps in memory.
inline constexpr std::uint64_t kFingerprint = 6840089539802229435ULL;
std::uint64_t expected_fingerprint();

}  // namespace autotune::db
