#pragma once

#include <string>
#include <vector>

namespace autotune::cli {

// A table for people: columns as wide as their longest cell, two spaces between.
class Table {
  public:
    enum class Align { left, right };
    struct Column {
        std::string title;
        Align align = Align::right;
    };

    explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}
    // REQUIRES: one cell per column.
    void add(std::vector<std::string> cells);
    bool empty() const { return rows_.empty(); }
    // Title line, rows, each ended by a newline; no spaces at line ends.
    std::string to_string() const;

  private:
    std::vector<Column> columns_;
    std::vector<std::vector<std::string>> rows_;
};

}  // namespace autotune::cli
