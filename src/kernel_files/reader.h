#pragma once

#include <functional>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "src/kernel_files/kernel_file.h"
#include "src/kernel_files/toml.h"

namespace autotune::kernel_files {

// Collects the findings while a file is read.
class Reading {
  public:
    Reading(Loaded& loaded, std::string path) : loaded_(loaded), path_(std::move(path)) {}

    void fault(const Place& place, const std::string& text, bool is_warning = false);
    void fault(const toml::node& node, const std::string& text) { fault(place_of(node), text); }
    Place place_of(const toml::source_region& region, std::size_t length = 1) const;
    Place place_of(const toml::node& node) const { return place_of(node.source()); }
    // The place of the first character of a text in quotes.
    Place inside(const toml::node& node) const;
    KernelFile& file() const { return loaded_.file; }
    Loaded& loaded() { return loaded_; }
    const std::string& path() const { return path_; }
    std::size_t faults() const;

    // Stores the place of an expression and parses it; a finding if that fails.
    bool take_expression(const std::string& text, const Place& place);

  private:
    Loaded& loaded_;
    std::string path_;
};

// One table of the file. Each of its keys is read once; finish() reports keys that were not read.
class TableReader {
  public:
    TableReader(Reading& reading, const toml::table& table, std::string title)
        : reading_(reading), table_(table), title_(std::move(title)) {}

    Place place() const { return reading_.place_of(table_); }
    const std::string& title() const { return title_; }
    void fault(const std::string& text) { reading_.fault(place(), title_ + ": " + text); }

    const toml::node* node(std::string_view key);
    bool has(std::string_view key) { return node(key) != nullptr; }
    std::optional<std::string> text(std::string_view key);
    std::string needed_text(std::string_view key);
    std::string one_of(std::string_view key, const std::vector<std::string>& allowed, const std::string& otherwise);
    std::optional<std::int64_t> integer(std::string_view key);
    std::optional<double> number(std::string_view key);
    std::optional<bool> boolean(std::string_view key);
    // An expression: text, an integer, a float or a boolean.
    std::string expression(std::string_view key, const std::string& otherwise);
    std::vector<std::string> expressions(std::string_view key, std::size_t most);
    std::vector<std::string> texts(std::string_view key);
    std::string expression_of(const toml::node& node, std::string_view key);
    // The tables of an array of tables.
    std::vector<const toml::table*> tables(std::string_view key);
    const toml::table* table(std::string_view key);
    // Reports keys that this version does not support yet; returns whether there is one.
    bool later(const std::vector<std::string>& keys);
    void finish();
    Reading& reading() { return reading_; }

  private:
    Reading& reading_;
    const toml::table& table_;
    std::string title_;
    std::vector<std::string> known_;
};

}  // namespace autotune::kernel_files
