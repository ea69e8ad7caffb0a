#pragma once

#include <map>
#include <mutex>
#include <string>

#include "src/catalogue/catalogue.h"
#include "src/kernel_files/toolkit.h"
#include "src/runtime/api/settings.h"

namespace autotune::runtime {

// The kernel files that a program has opened with a handle. Thread-safe.
class OpenedKernels {
  public:
    // REQUIRES: both outlive it.
    OpenedKernels(const Settings& settings, Catalogue& catalogue) : settings_(settings), catalogue_(catalogue) {}

    // Adds the op of a kernel file to the catalogue and returns its name. The same content again is the same op. Throws
    // Error{usage} for a file with faults, and Failure{invalid argument} for an op that another content has.
    std::string open(const std::string& path);
    // How problems and calls of such an op are described, a line for each tensor, scalar, attribute and extent. Throws
    // Failure{invalid argument} for another op.
    std::string interface_of(const std::string& name) const;

  private:
    const Settings& settings_;
    Catalogue& catalogue_;
    std::mutex mutex_;                             // held while a file is read and added
    std::map<std::string, std::string> contents_;  // a hash of each op's file, source and headers
};

}  // namespace autotune::runtime
