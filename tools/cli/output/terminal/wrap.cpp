#include "tools/cli/output/terminal/wrap.h"

#include <algorithm>

namespace autotune::cli {

std::vector<std::string> wrap(std::string_view text, std::size_t columns) {
    columns = std::max<std::size_t>(columns, 1);
    std::vector<std::string> lines;
    while (text.size() > columns) {
        const std::size_t space = text.rfind(' ', columns);
        const std::size_t end = space == std::string_view::npos || space == 0 ? columns : space;
        lines.emplace_back(text.substr(0, end));
        text.remove_prefix(end);
        text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
    }
    if (!text.empty() || lines.empty()) lines.emplace_back(text);
    return lines;
}

std::string wrapped(std::string_view label, std::string_view text, std::size_t columns) {
    std::string out(label);
    const std::string indent(label.size(), ' ');
    bool is_first = true;
    for (const std::string& line : wrap(text, columns > label.size() ? columns - label.size() : 1)) {
        out += (is_first ? "" : indent) + line + "\n";
        is_first = false;
    }
    return out;
}

}  // namespace autotune::cli
