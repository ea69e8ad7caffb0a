#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "tools/cli/output/terminal/wrap.h"

namespace autotune::cli {

// A table for people: columns as wide as their longest cell, two spaces between.
class Table {
  public:
    enum class Align { left, right, wrap };  // wrap means left-aligned, and broken into lines if the table would be too wide
    struct Column {
        std::string title;
        Align align = Align::right;
    };

    explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}
    // Makes the cells printable. REQUIRES: one cell per column.
    void add(std::vector<std::string> cells);
    bool empty() const { return rows_.empty(); }
    // Title line and rows, each ended by a newline, without spaces at line ends. Columns that wrap shrink until a line has at
    // most `columns`.
    std::string to_string(std::size_t columns = kTextColumns) const;

  private:
    std::vector<std::size_t> widths(std::size_t columns) const;
    std::string line(const std::vector<std::string>& cells, const std::vector<std::size_t>& widths) const;

    std::vector<Column> columns_;
    std::vector<std::vector<std::string>> rows_;
};

}  // namespace autotune::cli
