#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace autotune {

// An integer expression that is text: what a family defined by data has in place of C++. It can be stored, sent to another
// process and read by people. 64-bit integers; booleans are 0 and 1.
//
//   conditional  a ? b : c        logic  ! && ||        comparison  == != < <= > >=        arithmetic  + - * / %  and unary -
//   functions    min(a, b)  max(a, b)  ceil_div(a, b)  round_up(a, b)
//   names        block_m, or two joined by a point, as dtype.f16
//
// &&, || and ?: evaluate only what they need, so that `n > 0 && m % n == 0` divides by no zero.
class Expression {
  public:
    // Value of a name; nullopt if there is none.
    using Scope = std::function<std::optional<std::int64_t>(std::string_view)>;

    // 0, in place of an expression that was left out.
    Expression();
    // Throws Error{usage} with the text and the place of what it does not understand.
    explicit Expression(std::string text);
    Expression(const Expression&);
    Expression(Expression&&) noexcept;
    Expression& operator=(const Expression&);
    Expression& operator=(Expression&&) noexcept;
    ~Expression();

    // Throws Error{usage} for an unknown name, a division by zero and a result that does not fit 64 bits.
    std::int64_t evaluate(const Scope& scope) const;

    // Every name in it, once each, in the order of the text.
    const std::vector<std::string>& names() const { return names_; }
    const std::string& text() const { return text_; }

    struct Node;

  private:
    std::string text_;
    std::vector<std::string> names_;
    std::shared_ptr<const Node> root_;  // immutable, so copies share it
};

}  // namespace autotune
