#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "src/core/statistics/trial.h"

namespace autotune::jit {

// A compiled instance: code and the compiler's report.
struct Compiled {
    std::string symbol;
    std::string identity;
    std::vector<std::byte> cubin;
    CompileReport report;
};

// Cubins as files in one folder (0700), named by identity: magic, version, length, report, checksum, body. They are written under
// a random temporary name and renamed. A missing, short, altered, foreign-owned, symbolic or group-writable file is a miss, never
// an error. If the folder cannot be written, nothing is stored; if others can write or replace it (through its parent), it is not
// used at all. Safe for many processes and threads.
class CubinCache {
  public:
    // An empty folder name: no cache.
    explicit CubinCache(std::string folder);

    std::optional<Compiled> find(const std::string& identity) const;
    // False if it could not be stored.
    bool put(const Compiled& compiled) const;
    const std::string& folder() const { return folder_; }
    // Why nothing can be stored; empty if cubins can be stored.
    const std::string& disabled_because() const { return disabled_because_; }
    // Makes the same check and also writes a file, because full disks and quotas show only then. Commands use it to report the
    // cache's state.
    std::string why_not_usable() const;
    // Removes files that killed writers left more than an hour ago.
    void clean() const;

  private:
    std::string folder_;
    bool readable_ = false;
    std::string disabled_because_;
};

}  // namespace autotune::jit
