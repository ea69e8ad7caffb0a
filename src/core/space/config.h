#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace autotune {

// A value for every parameter of a family, in the order in which the space declares them. Values are always integers.
class Config {
  public:
    Config() = default;
    Config(std::initializer_list<std::pair<std::string, std::int64_t>> values) : values_(values) {}

    // The value of a parameter. REQUIRES: the parameter is there (throws Error{internal} naming it otherwise).
    std::int64_t operator[](std::string_view name) const;
    std::optional<std::int64_t> find(std::string_view name) const;
    void set(std::string_view name, std::int64_t value);
    // Changes the value at a position of values(). REQUIRES: position < values().size().
    void set_at(std::size_t position, std::int64_t value) { values_[position].second = value; }
    // Keeps the first `count` values.
    void truncate(std::size_t count) { values_.resize(count < values_.size() ? count : values_.size()); }

    const std::vector<std::pair<std::string, std::int64_t>>& values() const { return values_; }
    bool empty() const { return values_.empty(); }
    bool operator==(const Config&) const = default;
    auto operator<=>(const Config&) const = default;

    // The canonical text for logs, keys and people, such as "block_m=128 block_n=256 stages=3".
    std::string to_string() const;

  private:
    std::vector<std::pair<std::string, std::int64_t>> values_;
};

}  // namespace autotune
