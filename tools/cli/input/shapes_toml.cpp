#include <algorithm>

#include "src/core/error.h"
#include "src/core/system/read_file.h"
#include "src/kernel_files/toml.h"
#include "tools/cli/input/arguments.h"
#include "tools/cli/input/shapes.h"

namespace autotune::cli {
namespace {

std::string place(const std::string& name, const toml::source_region& region) {
    return name + ":" + std::to_string(region.begin.line);
}

constexpr std::size_t kLongestLine = 65'536;
constexpr std::ptrdiff_t kMostDots = 256;  // a dotted key makes a nested table of each part, so the dots of a line are limited
constexpr std::string_view kPlainLetters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.,:*";

// Reports characters that TOML forbids everywhere, before the text is parsed.
void require_text(const std::vector<std::string>& lines, const std::string& name) {
    for (std::size_t number = 1; number <= lines.size(); ++number) {
        const std::string& line = lines[number - 1];
        const std::string where = name + ":" + std::to_string(number) + ": ";
        if (line.size() > kLongestLine) throw Error(ErrorCode::usage, where + "the line is longer than 64 KiB");
        if (std::count(line.begin(), line.end(), '.') > kMostDots)
            throw Error(ErrorCode::usage, where + "the line has more than 256 dots");
        const std::size_t end = line.ends_with('\r') ? line.size() - 1 : line.size();
        const bool is_text = std::none_of(line.begin(), line.begin() + static_cast<std::ptrdiff_t>(end), [](char letter) {
            const auto byte = static_cast<unsigned char>(letter);
            return (byte < 0x20 && letter != '\t') || byte == 0x7F;
        });
        if (!is_text) throw Error(ErrorCode::usage, where + "there is a control character in the line");
    }
}

// Advice for "shape = 4096x4096x2048", a common first mistake. Empty if the line has another form.
std::string missing_quotes(const std::string& line) {
    const std::string content = line.substr(0, line.find('#'));
    const std::size_t equals = content.find('=');
    if (equals == std::string::npos) return {};
    const auto stripped = [](std::string text) {
        text.erase(0, std::min(text.find_first_not_of(" \t"), text.size()));
        text.erase(text.find_last_not_of(" \t\r") + 1);
        return text;
    };
    const std::string key = stripped(content.substr(0, equals)), value = stripped(content.substr(equals + 1));
    const bool is_number = value.find_first_not_of("0123456789+-._") == std::string::npos;
    const bool is_plain = !is_number && !key.empty() && !value.empty() &&
                          key.find_first_not_of(kPlainLetters) == std::string::npos &&
                          value.find_first_not_of(kPlainLetters) == std::string::npos;
    return is_plain ? key + " = \"" + value + "\"" : "";
}

[[noreturn]] void refuse(const std::vector<std::string>& lines, std::size_t number, const std::string& name,
                         const std::string& why) {
    const std::string quoted = number >= 1 && number <= lines.size() ? missing_quotes(lines[number - 1]) : "";
    throw Error(ErrorCode::usage, name + ":" + std::to_string(number) + ": " +
                                      (quoted.empty() ? why : "the value has to stand in quotes: " + quoted));
}

// A value in the form of the command line: strings unchanged, integers in decimals.
std::string word_of(const toml::node& node, std::string_view key, const std::string& name) {
    if (const auto text = node.value_exact<std::string>()) return *text;
    if (const auto number = node.value_exact<std::int64_t>()) return std::to_string(*number);
    throw Error(ErrorCode::usage, place(name, node.source()) + ": '" + std::string(key) + "' is neither a text nor an integer");
}

std::map<std::string, std::string> words_of(const toml::table& table, const std::string& name) {
    std::map<std::string, std::string> words;
    for (const auto& [key, node] : table) {
        if (!node.is_array()) words.emplace(std::string(key.str()), word_of(node, key.str(), name));
    }
    return words;
}

ShapeLine problem_of(const toml::table& table, std::map<std::string, std::string> words, const std::string& name) {
    for (auto& [key, value] : words_of(table, name)) words[key] = value;
    const auto shape = words.find("shape");
    if (shape == words.end()) throw Error(ErrorCode::usage, place(name, table.source()) + ": the problem has no shape");
    ShapeLine line{.shape = shape->second, .options = {}, .where = place(name, table.source())};
    words.erase(shape);
    line.options = std::move(words);
    return line;
}

}  // namespace

std::vector<ShapeLine> parse_shapes_toml(std::string_view text, const std::string& name) {
    text = without_mark(text);
    const std::vector<std::string> source = split(text, '\n');
    require_text(source, name);
    toml::table root;
    try {
        root = toml::parse(text, name);
    } catch (const toml::parse_error& error) {
        refuse(source, error.source().begin.line, name, std::string(error.description()));
    } catch (const std::logic_error&) {
        throw Error(ErrorCode::usage, name + ": it is not TOML");
    }
    const toml::array* problems = root["problem"].as_array();
    if (problems == nullptr) throw Error(ErrorCode::usage, name + ": there is no [[problem]] table; each wants a shape");
    std::vector<ShapeLine> lines;
    for (const toml::node& node : *problems) {
        const toml::table* table = node.as_table();
        if (table == nullptr) throw Error(ErrorCode::usage, place(name, node.source()) + ": a problem is a [[problem]] table");
        lines.push_back(problem_of(*table, words_of(root, name), name));
    }
    return lines;
}

}  // namespace autotune::cli
