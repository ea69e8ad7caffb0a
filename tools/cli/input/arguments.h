#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "src/core/text.h"

namespace autotune::cli {

// A flag as data: the parser, the help, the messages and the shell completion are made from it.
struct Flag {
    std::string name;  // without dashes: "shape"
    std::string form;  // what its value looks like: "MxNxK"; empty: a switch
    std::string about;
    bool several = false;              // may be given more than once
    std::vector<std::string> allowed;  // known values, for help and completion; who reads the flag judges
};

struct IntegerRange {
    std::int64_t least = INT64_MIN;
    std::int64_t most = INT64_MAX;
};

// What was given after the command's name. Every getter throws Error{usage} naming the flag, the value and what is allowed.
class Arguments {
  public:
    void add(const std::string& flag, std::string value) { values_[flag].push_back(std::move(value)); }
    void add_word(std::string word) { words_.push_back(std::move(word)); }

    bool has(std::string_view flag) const { return values_.find(flag) != values_.end(); }
    std::string text(std::string_view flag, const std::string& fallback = "") const;
    // Every value of a flag that may be given several times.
    std::vector<std::string> all(std::string_view flag) const;
    // The same with each value split at commas; an empty item is a mistake.
    std::vector<std::string> list(std::string_view flag) const;
    std::int64_t integer(std::string_view flag, std::int64_t fallback, IntegerRange range = {}) const;
    // One of `allowed`.
    std::string word(std::string_view flag, const std::string& fallback, const std::vector<std::string>& allowed) const;
    double positive_number(std::string_view flag, double fallback) const;

    const std::vector<std::string>& words() const { return words_; }

  private:
    std::map<std::string, std::vector<std::string>, std::less<>> values_;
    std::vector<std::string> words_;
};

// Digits with an optional sign and nothing else; throws Error{usage} "`what` wants ..., not 'text'".
std::int64_t parse_integer(std::string_view text, const std::string& what, IntegerRange range = {});
// A finite number > 0.
double parse_positive(std::string_view text, const std::string& what);

}  // namespace autotune::cli
