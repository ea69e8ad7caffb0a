#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "db/warning.h"

namespace autotune::db {

inline constexpr const char* kMemory = ":memory:";

// Checks a database's path before SQLite opens it, which would report only "unable to open database file" for all of this: a
// folder or a pipe in its place or in its journal's, a dangling link, missing or unwritable folders, a missing file. With
// `create`, makes missing parent folders (0700) and the file (0600). Never opens an existing file, because closing it would drop
// the POSIX locks that this process may hold on it. Throws Error{database}; returns warnings (others may write to it, a network
// file system).
struct PathRequest {
    std::string path;
    bool read_only = false;
    bool create = false;
};
std::vector<Warning> prepare_path(const PathRequest& request);

// Whether nothing exists at the path, not even a link.
bool is_missing(const std::string& path);

// Bytes of a file, 0 in memory. Throws Error{database}.
std::int64_t size_of(const std::string& path);

// Creates an empty file (0600) named `path`, or `path` with a number if that is taken, and returns its name.
std::string new_private_file(const std::string& path);
// Removes a file. Does nothing if it does not exist or cannot be removed. REQUIRES: no connection to it is open.
void remove_file(const std::string& path) noexcept;
// Renames `from` to `to`, replacing what was there. Throws Error{database}.
void replace_file(const std::string& from, const std::string& to);

}  // namespace autotune::db
