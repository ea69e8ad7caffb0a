#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace autotune::cli {

constexpr std::size_t kTextColumns = 120;  // the width of output, unless --full asks for everything

// The text in lines of at most `columns`, broken at spaces; a longer word is broken anywhere. At least one line.
std::vector<std::string> wrap(std::string_view text, std::size_t columns);

// The text as indented lines: the first begins with `label`, the others with as many spaces.
std::string wrapped(std::string_view label, std::string_view text, std::size_t columns = kTextColumns);

}  // namespace autotune::cli
