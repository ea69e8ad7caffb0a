#include "tools/cli/input/shapes.h"

#include <algorithm>
#include <sstream>

#include "src/core/error.h"
#include "src/core/system/read_file.h"
#include "tools/cli/input/arguments.h"

namespace autotune::cli {
namespace {

[[noreturn]] void too_many(std::string_view text) {
    throw Error(ErrorCode::usage, "shape '" + std::string(text) + "' stands for more than " + std::to_string(kMostShapes) +
                                      " shapes; take fewer values or a larger step");
}

void append_range(const std::string& item, std::string_view text, std::vector<std::string>& values) {
    const std::vector<std::string> parts = split(item, ':');
    const std::string what = "range '" + item + "' in shape '" + std::string(text) + "'";
    if (parts.size() != 3) throw Error(ErrorCode::usage, what + " is not start:stop:step");
    const std::int64_t start = parse_integer(parts[0], "the start of " + what, {.least = 1});
    const std::int64_t stop = parse_integer(parts[1], "the stop of " + what, {.least = start});
    const std::int64_t step = parse_integer(parts[2], "the step of " + what, {.least = 1});
    // The values are counted first, because stop may be so large that adding a step to it overflows.
    const std::int64_t count = (stop - start) / step + 1;
    if (count > static_cast<std::int64_t>(kMostShapes - values.size())) too_many(text);
    for (std::int64_t i = 0; i < count; ++i) values.push_back(std::to_string(start + i * step));
}

// Values of one extent: "1024", "1024,2048", "1024:4096:1024", or a mixture.
std::vector<std::string> expand_extent(const std::string& extent, std::string_view text) {
    std::vector<std::string> values;
    for (const std::string& item : split(extent, ',')) {
        if (item.find(':') != std::string::npos) {
            append_range(item, text, values);
        } else {
            values.push_back(item);
        }
    }
    return values;
}

// "B*M" has a batch before the first extent. Batch and extent are expanded separately.
std::vector<std::string> expand_first_extent(const std::string& extent, std::string_view text) {
    const std::size_t star = extent.find('*');
    if (star == std::string::npos) return expand_extent(extent, text);
    std::vector<std::string> values;
    for (const std::string& batch : expand_extent(extent.substr(0, star), text)) {
        for (const std::string& value : expand_extent(extent.substr(star + 1), text)) values.push_back(batch + "*" + value);
    }
    return values;
}

std::vector<std::string> expand_one(std::string_view text) {
    const std::vector<std::string> extents = split(text, 'x');
    std::vector<std::string> shapes = expand_first_extent(extents.front(), text);
    for (std::size_t i = 1; i < extents.size(); ++i) {
        const std::vector<std::string> values = expand_extent(extents[i], text);
        if (shapes.size() * values.size() > kMostShapes) too_many(text);
        std::vector<std::string> longer;
        for (const std::string& shape : shapes) {
            for (const std::string& value : values) longer.push_back(shape + "x" + value);
        }
        shapes = std::move(longer);
    }
    return shapes;
}

std::string strip(const std::string& text) {
    const std::size_t first = text.find_first_not_of(" \t\r");
    return first == std::string::npos ? "" : text.substr(first, text.find_last_not_of(" \t\r") - first + 1);
}

ShapeLine parse_line(const std::string& line, const std::string& where) {
    ShapeLine parsed{.shape = "", .options = {}, .where = where};
    std::istringstream words(line);
    for (std::string word; words >> word;) {
        const std::size_t equals = word.find('=');
        if (equals == std::string::npos && parsed.shape.empty()) {
            parsed.shape = word;
        } else if (equals == std::string::npos || equals == 0 || equals + 1 == word.size()) {
            throw Error(ErrorCode::usage,
                        where + ": '" + word + "' is not name=value; a line is a shape and then words such as layout=nt");
        } else if (!parsed.options.emplace(word.substr(0, equals), word.substr(equals + 1)).second) {
            throw Error(ErrorCode::usage, where + ": '" + word.substr(0, equals) + "' is given twice");
        }
    }
    if (parsed.shape.empty()) throw Error(ErrorCode::usage, where + ": the line has no shape");
    return parsed;
}

}  // namespace

std::vector<std::string> expand_shapes(std::string_view text, std::size_t extents) {
    const std::vector<std::string> parts = split(text, ',');
    const bool whole_shapes = parts.size() > 1 && std::all_of(parts.begin(), parts.end(), [&](const std::string& part) {
                                  return static_cast<std::size_t>(std::count(part.begin(), part.end(), 'x')) + 1 == extents;
                              });
    if (!whole_shapes) return expand_one(text);
    std::vector<std::string> shapes;
    for (const std::string& part : parts) {
        for (std::string& shape : expand_one(part)) shapes.push_back(std::move(shape));
        if (shapes.size() > kMostShapes) too_many(text);
    }
    return shapes;
}

std::vector<ShapeLine> parse_shapes_text(std::string_view text, const std::string& name) {
    std::vector<ShapeLine> lines;
    std::size_t number = 0;
    for (const std::string& line : split(without_mark(text), '\n')) {
        ++number;
        const std::string content = strip(line.substr(0, line.find('#')));
        if (!content.empty()) lines.push_back(parse_line(content, name + ":" + std::to_string(number)));
    }
    return lines;
}

std::string shapes_file_help() {
    return R"(shapes files (--shapes FILE):
  A text file has one problem a line: a shape, then words. '#' begins a comment.
      4096x4096x2048 op=hgemm layout=nt
      1024:4096:1024x4096x2048 op=bgemm
  A file whose name ends in .toml has one [[problem]] table a problem. Words above the first table hold for all of them.
      op = "hgemm"
      [[problem]]
      shape = "4096x4096x2048"
      layout = "nt"
  Words are op and the options of the operation. A word in the file goes before the flag of its name.
  Examples of both: examples/shapes in the source, share/doc/autotune/examples/shapes in an installation.
)";
}

std::vector<ShapeLine> read_shapes_file(const std::string& path) {
    constexpr std::size_t most_bytes = 16u << 20;
    const FileContent content = read_regular_file(path, most_bytes);
    if (!content.is_read) {
        throw Error(ErrorCode::usage, "cannot read the shapes file '" + path + "': " + content.why +
                                          "; give a file, or shapes such as 1024:4096:1024x4096x2048");
    }
    const std::string& text = content.text;
    if (text.starts_with("\xFF\xFE") || text.starts_with("\xFE\xFF"))
        throw Error(ErrorCode::usage, "the shapes file '" + path + "' is text in UTF-16; save it as UTF-8");
    const bool toml = path.size() > 5 && path.compare(path.size() - 5, 5, ".toml") == 0;
    std::vector<ShapeLine> lines = toml ? parse_shapes_toml(text, path) : parse_shapes_text(text, path);
    if (lines.empty())
        throw Error(ErrorCode::usage,
                    "the shapes file '" + path + "' names no problem; write one a line, such as 4096x4096x2048");
    return lines;
}

}  // namespace autotune::cli
