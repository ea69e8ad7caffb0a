#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace autotune::cli {

// JSON objects as comma-separated values (RFC 4180): a line of names, then one line per object. --csv prints the same rows as
// --json. A nested member is "compile.registers"; a list, and a member "config", is one cell of words; null and missing members
// are empty. Columns are in the order in which they first appear.
std::string csv_of(const std::vector<nlohmann::ordered_json>& rows);

// Writes CSV of rows that are not all in memory. Call learn() for each row, then title() and line() for each.
class CsvColumns {
  public:
    void learn(const nlohmann::ordered_json& row);
    std::string title() const;
    std::string line(const nlohmann::ordered_json& row) const;

  private:
    std::vector<std::string> names_;
};

}  // namespace autotune::cli
