#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "db/warning.h"

namespace autotune::db {

// The warnings of one store, each once, in the order in which they were found. Only the first kMostOfOneKind of each kind are
// kept, so that a file with a million invalid rows gives only a few sentences.
class WarningLog {
  public:
    static constexpr int kMostOfOneKind = 20;

    // `tell` receives each warning when it is found; may be empty.
    explicit WarningLog(std::function<void(const Warning&)> tell) : tell_(std::move(tell)) {}

    void add(const Warning& warning);
    const std::vector<Warning>& all() const { return all_; }

  private:
    void keep(const Warning& warning);

    std::function<void(const Warning&)> tell_;
    std::vector<Warning> all_;
    std::map<WarningKind, int> counts_;
};

}  // namespace autotune::db
