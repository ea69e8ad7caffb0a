#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "src/core/statistics/trial.h"

namespace autotune::cli {

// Tells the rows of a table apart in few words. Each row has a group and words ("gemm/mma" and block_m=128 stages=4 ..., or an op
// and the words of its class). What all rows of a group have is said once, above the table, and left out of the rows.
class CommonWords {
  public:
    // `full`: nothing is left out.
    explicit CommonWords(bool full = false) : full_(full) {}

    // First every row is added, then rows are named. `text`: the group, a space, words.
    void add(const std::string& text);
    void add(const Candidate& candidate) { add(candidate.to_string()); }
    // The group and what not every row of it has.
    std::string name(const std::string& text) const;
    std::string name(const Candidate& candidate) const { return name(candidate.to_string()); }
    // The words left out of names, a group a line, and an empty line; empty if none were.
    std::string legend() const;

  private:
    struct Group {
        std::size_t rows = 0;
        std::vector<std::string> common;  // in the order of the first row
    };
    bool full_;
    std::map<std::string, Group> groups_;
};

}  // namespace autotune::cli
