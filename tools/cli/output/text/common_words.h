#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "src/core/statistics/trial.h"

namespace autotune::cli {

// Shortens the names of table rows. Each row has a group and words ("gemm/mma" and block_m=128 stages=4 ..., or an op and the
// words of its class). Words that all rows of a group share are printed once, above the table, and left out of the rows.
class CommonWords {
  public:
    // `full`: nothing is left out.
    explicit CommonWords(bool full = false) : full_(full) {}

    // First all rows are added, then rows are named. `text`: the group, a space, words.
    void add(const std::string& text);
    void add(const Candidate& candidate) { add(candidate.to_string()); }
    // The group, and the row's words without those that all rows of the group have.
    std::string name(const std::string& text) const;
    std::string name(const Candidate& candidate) const { return name(candidate.to_string()); }
    // The words left out of names, one group per line, and an empty line; empty if nothing was left out.
    std::string legend() const;

  private:
    struct Group {
        std::size_t rows = 0;
        std::vector<std::string> common;  // words in the order of the first row
    };
    bool full_;
    std::map<std::string, Group> groups_;
};

}  // namespace autotune::cli
