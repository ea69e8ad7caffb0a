#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace autotune::cli {

// Expands one argument to plain shapes. Each extent may be a value, a list `1024,2048` or a range `start:stop:step` with stop
// included: "1024:4096:1024x4096x2048" gives four shapes. Several whole shapes may be joined by commas. Text that is neither list
// nor range is passed on unchanged, for the op to check. `extents`: how many the op has, which distinguishes the two uses of the
// comma. Throws Error{usage} naming the argument, also if there are more than kMostShapes.
std::vector<std::string> expand_shapes(std::string_view text, std::size_t extents);

constexpr std::size_t kMostShapes = 100'000;

// One problem of a sweep file, as written: the shape and the words for this problem only.
struct ShapeLine {
    std::string shape;
    std::map<std::string, std::string> options;  // "op", "layout", "dtype", ...
    std::string where;                           // "FILE:LINE", for messages
};

// Reads a sweep file: one problem per line, `4096x4096x2048 op=hgemm layout=nt`, `#` starts a comment; or, if the name ends in
// .toml, [[problem]] tables with `shape` and the same words, and top-level words for all. Throws Error{usage} naming file, line
// and the wrong word.
std::vector<ShapeLine> read_shapes_file(const std::string& path);
// The two forms of a sweep file in a few lines, for help and manual.
std::string shapes_file_help();
// The lines of a file's text.
std::vector<ShapeLine> parse_shapes_text(std::string_view text, const std::string& name);
std::vector<ShapeLine> parse_shapes_toml(std::string_view text, const std::string& name);

}  // namespace autotune::cli
