#include <toml++/toml.h>

#include "src/core/error.h"
#include "tools/cli/input/shapes.h"

namespace autotune::cli {
namespace {

std::string place(const std::string& name, const toml::source_region& region) {
    return name + ":" + std::to_string(region.begin.line);
}

// A word as the command line would have it: strings as they are, integers in decimals.
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
    toml::table root;
    try {
        root = toml::parse(text, name);
    } catch (const toml::parse_error& error) {
        throw Error(ErrorCode::usage, place(name, error.source()) + ": " + std::string(error.description()));
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
