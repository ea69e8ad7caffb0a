#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "src/core/error.h"

namespace autotune {

// An integer, a floating-point number or a word such as f16.
using ExpressionValue = std::variant<std::int64_t, double, std::string>;

// An error in an expression and its place: `length` characters from `offset` on.
class ExpressionError : public Error {
  public:
    ExpressionError(std::string text, std::string reason_told, std::size_t offset_told, std::size_t length_told);

    std::string expression;
    std::string reason;  // "there is no 'x'"
    std::size_t offset = 0, length = 0;
};

// An expression as text. Families that are defined by data use expressions instead of C++. It can be stored, sent to another
// process and read by people. 64-bit integers, floating-point numbers and words; booleans are 0 and 1. conditional a ? b : c
// logic ! && || comparison == != < <= > >= arithmetic + - * / % and unary - chained 64 <= threads <= 1024 means both members x in
// [1, 2, 4] functions min(a, b, ...) max(a, b, ...) ceil_div(a, b) round_up(a, b) abs(a) clamp(a, low, high) log2(a) pow2(a)
// is_pow2(a) sqrt(a) size_of(tensor) names block_m, or two joined by a point, as dtype.f16 words "nn" or 'nn'; next to == and !=
// a bare word that is no name: T == f16 A float on either side makes the result a float; `/` of two integers truncates. &&, ||
// and ?: evaluate only what they need, so that `n > 0 && m % n == 0` divides by no zero.
class Expression {
  public:
    using Value = ExpressionValue;
    // The value of a name; nullopt if there is none.
    using Scope = std::function<std::optional<Value>(std::string_view)>;

    // The expression 0, used for an expression that was left out.
    Expression();
    // Throws ExpressionError if it cannot parse the text.
    explicit Expression(std::string text);
    Expression(const Expression&);
    Expression(Expression&&) noexcept;
    Expression& operator=(const Expression&);
    Expression& operator=(Expression&&) noexcept;
    ~Expression();

    // The value as an integer; a float or a word is an error and is not rounded. The evaluating functions throw ExpressionError
    // for an unknown name, a division by zero and a result that does not fit in 64 bits.
    std::int64_t evaluate(const Scope& scope) const;
    // The value as an integer or a float.
    double evaluate_number(const Scope& scope) const;
    Value evaluate_value(const Scope& scope) const;

    // Every name in the expression, once each, in the order of the text, including bare words next to == and !=.
    const std::vector<std::string>& names() const { return names_; }
    // The first place of a name.
    std::size_t offset_of(std::string_view name) const;
    // Whether a name may be a bare word: it is one whole side of == or !=.
    bool may_be_word(std::string_view name) const;
    const std::string& text() const { return text_; }

    struct Node;

  private:
    std::string text_;
    std::vector<std::string> names_;
    std::shared_ptr<const Node> root_;  // immutable, so copies share it
};

}  // namespace autotune
