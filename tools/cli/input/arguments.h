#pragma once

#include <cmath>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "src/core/text.h"

namespace autotune::cli {

// Throws Error{usage} if the flag cannot have the value. `what` names the flag: "--budget".
using FlagCheck = std::function<void(const std::string& what, const std::string& value)>;

// A flag as data, from which the parser, the help, the messages and the shell completion are made.
struct Flag {
    std::string name;  // without dashes: "shape"
    std::string form;  // the form of the value, such as "MxNxK"; "LIST" means items separated by commas; empty for a switch
    std::string about;
    bool several = false;  // may be given more than once
    // the allowed values, or the allowed items of a LIST; empty if values are checked elsewhere
    std::vector<std::string> allowed;
    FlagCheck check{};  // runs while the line is parsed, before any file, process or GPU is touched
};

struct IntegerRange {
    std::int64_t least = INT64_MIN;
    std::int64_t most = INT64_MAX;
};

FlagCheck integer_value(IntegerRange range);
FlagCheck positive_value(double most);

// The flags and words after the command's name. Every getter throws Error{usage} naming the flag, the value and the allowed
// values.
class Arguments {
  public:
    void add(const std::string& flag, std::string value) { values_[flag].push_back(std::move(value)); }
    void add_word(std::string word) { words_.push_back(std::move(word)); }

    bool has(std::string_view flag) const { return values_.find(flag) != values_.end(); }
    std::string text(std::string_view flag, const std::string& fallback = "") const;
    // Every value of a flag that may be given several times.
    std::vector<std::string> all(std::string_view flag) const;
    // The values of a flag, each split at commas. An empty item is an error.
    std::vector<std::string> list(std::string_view flag) const;
    std::int64_t integer(std::string_view flag, std::int64_t fallback, IntegerRange range = {}) const;
    // The value of a flag, which must be one of `allowed`, in any spelling.
    std::string word(std::string_view flag, const std::string& fallback, const std::vector<std::string>& allowed) const;
    double positive_number(std::string_view flag, double fallback) const;

    const std::vector<std::string>& words() const { return words_; }

  private:
    std::map<std::string, std::vector<std::string>, std::less<>> values_;
    std::vector<std::string> words_;
};

// The word of `allowed` that `text` spells; throws Error{usage} "`what` is one of ..., not 'text'".
std::string parse_word(std::string_view text, const std::string& what, const std::vector<std::string>& allowed);
// Digits with an optional sign and spaces around them; throws Error{usage} "`what` wants ..., not 'text'".
std::int64_t parse_integer(std::string_view text, const std::string& what, IntegerRange range = {});
// A finite number > 0.
double parse_positive(std::string_view text, const std::string& what, double most = HUGE_VAL);

}  // namespace autotune::cli
