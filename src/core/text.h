#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace autotune {

// The parts between the separators, including empty ones. An empty text gives one empty part.
std::vector<std::string> split(std::string_view text, char separator);
// The parts with the separator between them.
std::string join(const std::vector<std::string>& parts, std::string_view separator = ", ");

}  // namespace autotune
