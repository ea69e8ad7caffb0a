#include "tools/cli/output/terminal/table.h"

#include <algorithm>
#include <numeric>

#include "src/core/error.h"
#include "tools/cli/output/terminal/messages.h"

namespace autotune::cli {
namespace {

constexpr std::size_t kGap = 2;
constexpr std::size_t kLeastWrapped = 16;  // minimum width of a column

}  // namespace

void Table::add(std::vector<std::string> cells) {
    check(cells.size() == columns_.size(), "a table row has as many cells as there are columns");
    for (std::string& cell : cells) cell = printable(cell);
    rows_.push_back(std::move(cells));
}

// Among the columns that wrap, the widest shrinks first.
std::vector<std::size_t> Table::widths(std::size_t columns) const {
    std::vector<std::size_t> widths;
    for (const Column& column : columns_) widths.push_back(column.title.size());
    for (const auto& row : rows_) {
        for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
    }
    std::size_t total = std::accumulate(widths.begin(), widths.end(), kGap * (widths.size() - 1));
    while (total > columns) {
        std::size_t widest = columns_.size();
        for (std::size_t i = 0; i < columns_.size(); ++i) {
            const bool can_shrink =
                columns_[i].align == Align::wrap && widths[i] > std::max(kLeastWrapped, columns_[i].title.size());
            if (can_shrink && (widest == columns_.size() || widths[i] > widths[widest])) widest = i;
        }
        if (widest == columns_.size()) break;
        --widths[widest];
        --total;
    }
    return widths;
}

std::string Table::line(const std::vector<std::string>& cells, const std::vector<std::size_t>& widths) const {
    std::vector<std::vector<std::string>> parts;
    std::size_t height = 1;
    for (std::size_t i = 0; i < cells.size(); ++i) {
        parts.push_back(wrap(cells[i], std::max<std::size_t>(widths[i], 1)));
        height = std::max(height, parts.back().size());
    }
    std::string text;
    for (std::size_t row = 0; row < height; ++row) {
        std::string out;
        for (std::size_t i = 0; i < cells.size(); ++i) {
            const std::string& part = row < parts[i].size() ? parts[i][row] : std::string();
            const std::string padding(widths[i] - part.size(), ' ');
            if (i > 0) out += std::string(kGap, ' ');
            out += columns_[i].align == Align::right ? padding + part : part + padding;
        }
        out.erase(out.find_last_not_of(' ') + 1);
        text += out + "\n";
    }
    return text;
}

std::string Table::to_string(std::size_t columns) const {
    const std::vector<std::size_t> fitting = widths(columns);
    std::vector<std::string> titles;
    for (const Column& column : columns_) titles.push_back(column.title);
    std::string text = line(titles, fitting);
    for (const auto& row : rows_) text += line(row, fitting);
    return text;
}

}  // namespace autotune::cli
