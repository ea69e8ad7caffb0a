#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "db/warning.h"

namespace autotune::db {

inline constexpr const char* kMemory = ":memory:";

// Looks at a database's path before SQLite does, which would answer "unable to open database file" to all of this: a folder or a
// pipe in its place or in its journal's, a link to nothing, missing or unwritable folders, a missing file. Makes missing parent
// folders (0700) and the file (0600) if `create`. Never opens an existing file: closing it would drop the POSIX locks that this
// process may hold on it. Throws Error{database}; returns warnings (others may write to it, a network file system).
struct PathRequest {
    std::string path;
    bool read_only = false;
    bool create = false;
};
std::vector<Warning> prepare_path(const PathRequest& request);

// Whether nothing at all is there, not even a link.
bool is_missing(const std::string& path);

// Bytes of a file, 0 in memory. Throws Error{database}.
std::int64_t size_of(const std::string& path);

// Makes an empty file (0600) under `path`, or `path` with a number where that is taken, and returns its name.
std::string new_private_file(const std::string& path);
// Does nothing where it is not there or cannot be removed. REQUIRES: no connection is open to it.
void remove_file(const std::string& path) noexcept;
// `from` under the name of `to`, whatever that was. Throws Error{database}.
void replace_file(const std::string& from, const std::string& to);

}  // namespace autotune::db
