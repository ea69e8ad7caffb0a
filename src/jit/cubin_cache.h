#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "src/core/statistics/trial.h"

namespace autotune::jit {

// A compiled instance: code plus what the compiler said of it.
struct Compiled {
    std::string symbol;
    std::string identity;
    std::vector<std::byte> cubin;
    CompileReport report;
};

// Cubins as files under one folder (0700), named by identity: magic, version, length, report, checksum, body; written to a
// temporary name, which is random, and renamed. A missing, short, altered, foreign-owned, symbolic or group-writable file is a
// miss, never an error; a folder that cannot be written is a cache that stores nothing, and one that others can write or replace
// (by its parent) is not used at all. Safe for many processes and threads.
class CubinCache {
  public:
    // An empty folder name: no cache.
    explicit CubinCache(std::string folder);

    std::optional<Compiled> find(const std::string& identity) const;
    // False if it could not be stored.
    bool put(const Compiled& compiled) const;
    const std::string& folder() const { return folder_; }
    // Why nothing can be stored, empty if it can.
    const std::string& disabled_because() const { return disabled_because_; }
    // The same, and writes a file to find out: full disks and quotas show only then. What a command says of the cache comes from
    // here.
    std::string why_not_usable() const;
    // Removes what writers that were ended left more than an hour ago.
    void clean() const;

  private:
    std::string folder_;
    bool readable_ = false;
    std::string disabled_because_;
};

}  // namespace autotune::jit
