#include "src/kernel_files/finding.h"

#include <algorithm>

namespace autotune::kernel_files {

std::string Place::text() const {
    std::string text = file;
    if (line > 0) text += ":" + std::to_string(line);
    if (line > 0 && column > 0) text += ":" + std::to_string(column);
    return text;
}

std::string Finding::told() const {
    std::string all = place.text() + ": " + (is_warning ? "warning: " : "") + text;
    if (line.empty() || place.column == 0 || place.column > line.size() + 1) return all;
    std::string shown = line;
    std::replace(shown.begin(), shown.end(), '\t', ' ');
    const std::size_t room = line.size() + 1 - place.column;
    const std::size_t marks = std::max<std::size_t>(std::min(place.length, room), 1);
    return all + "\n    " + shown + "\n    " + std::string(place.column - 1, ' ') + "^" + std::string(marks - 1, '~');
}

}  // namespace autotune::kernel_files
