#include "tools/cli/table.h"

#include <algorithm>

#include "src/core/error.h"
#include "tools/cli/messages.h"

namespace autotune::cli {

void Table::add(std::vector<std::string> cells) {
    check(cells.size() == columns_.size(), "a table row has as many cells as there are columns");
    for (std::string& cell : cells) cell = printable(cell);
    rows_.push_back(std::move(cells));
}

std::string Table::to_string() const {
    std::vector<std::string> titles;
    for (const Column& column : columns_) titles.push_back(column.title);
    std::vector<std::size_t> widths(columns_.size(), 0);
    const auto widen = [&](const std::vector<std::string>& cells) {
        for (std::size_t i = 0; i < cells.size(); ++i) widths[i] = std::max(widths[i], cells[i].size());
    };
    widen(titles);
    for (const auto& row : rows_) widen(row);

    std::string text;
    const auto write = [&](const std::vector<std::string>& cells) {
        std::string line;
        for (std::size_t i = 0; i < cells.size(); ++i) {
            const std::string padding(widths[i] - cells[i].size(), ' ');
            if (i > 0) line += "  ";
            line += columns_[i].align == Align::right ? padding + cells[i] : cells[i] + padding;
        }
        line.erase(line.find_last_not_of(' ') + 1);
        text += line + "\n";
    };
    write(titles);
    for (const auto& row : rows_) write(row);
    return text;
}

}  // namespace autotune::cli
