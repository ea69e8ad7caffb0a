#include "src/core/family/expression.h"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cmath>
#include <limits>

namespace autotune {
namespace {

using Integer = std::int64_t;
using Value = Expression::Value;

enum class Kind : std::uint8_t {
    number,
    word,
    name,
    conditional,
    logical_or,
    logical_and,
    logical_not,
    negated,
    equal,
    unequal,
    less,
    less_equal,
    greater,
    greater_equal,
    sum,
    difference,
    product,
    quotient,
    remainder,
    member,  // whether the first part equals one of the others
    minimum,
    maximum,
    ceil_div,
    round_up,
    absolute,
    clamp,
    log2,
    pow2,
    is_pow2,
    sqrt,
    size_of,
};

// The deepest nesting of brackets and prefixes; it is limited because the parser is recursive
constexpr int kDeepest = 100;
constexpr std::size_t kMostParts = 256;  // of the arguments of one function, or the elements of one list

// A place in the text.
struct Span {
    std::size_t offset = 0, length = 0;
};

}  // namespace

ExpressionError::ExpressionError(std::string text, std::string reason_told, std::size_t offset_told, std::size_t length_told)
    : Error(ErrorCode::usage, "expression '" + text + "': " + reason_told + " at character " + std::to_string(offset_told + 1)),
      expression(std::move(text)),
      reason(std::move(reason_told)),
      offset(offset_told),
      length(length_told) {}

struct Expression::Node {
    Kind kind = Kind::number;
    Value value = Integer{0};
    std::string name = {};
    std::vector<std::shared_ptr<const Node>> parts = {};
    Span span = {};
};

namespace {

using NodePtr = std::shared_ptr<const Expression::Node>;

struct Operator {
    std::string_view spelling;
    Kind kind;
};

// By precedence, the weakest first; if two begin alike, the longer one first. Never destroyed: other threads still run while
// exit() destroys statics.
const auto& kLevels = *new std::array<std::vector<Operator>, 6>{{
    {{"||", Kind::logical_or}},
    {{"&&", Kind::logical_and}},
    {{"==", Kind::equal}, {"!=", Kind::unequal}},
    {{"<=", Kind::less_equal}, {">=", Kind::greater_equal}, {"<", Kind::less}, {">", Kind::greater}},
    {{"+", Kind::sum}, {"-", Kind::difference}},
    {{"*", Kind::product}, {"/", Kind::quotient}, {"%", Kind::remainder}},
}};
constexpr std::size_t kFirstComparison = 2, kLastComparison = 3;

struct Function {
    std::string_view spelling;
    Kind kind;
    std::size_t fewest, most;  // parts
};

constexpr std::array<Function, 11> kFunctions = {{{"min", Kind::minimum, 1, kMostParts},
                                                  {"max", Kind::maximum, 1, kMostParts},
                                                  {"ceil_div", Kind::ceil_div, 2, 2},
                                                  {"round_up", Kind::round_up, 2, 2},
                                                  {"abs", Kind::absolute, 1, 1},
                                                  {"clamp", Kind::clamp, 3, 3},
                                                  {"log2", Kind::log2, 1, 1},
                                                  {"pow2", Kind::pow2, 1, 1},
                                                  {"is_pow2", Kind::is_pow2, 1, 1},
                                                  {"sqrt", Kind::sqrt, 1, 1},
                                                  {"size_of", Kind::size_of, 1, 1}}};

bool is_letter(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}
bool is_digit(char c) {
    return c >= '0' && c <= '9';
}
bool is_word_letter(char c) {
    return is_letter(c) || is_digit(c);
}

// The function here that other languages call by this name.
std::string instead_of(const std::string& name) {
    constexpr std::array<std::pair<std::string_view, std::string_view>, 15> kOthers = {
        {{"cdiv", "ceil_div(a, b)"},
         {"ceildiv", "ceil_div(a, b)"},
         {"ceil", "ceil_div(a, b)"},
         {"div_up", "ceil_div(a, b)"},
         {"divup", "ceil_div(a, b)"},
         {"iDivUp", "ceil_div(a, b)"},
         {"DIVUP", "ceil_div(a, b)"},
         {"CEIL_DIV", "ceil_div(a, b)"},
         {"floor", "a / b, which truncates"},
         {"int", "a / b, which truncates"},
         {"pow", "pow2(k) for powers of 2"},
         {"next_power_of_2", "a [[parameter]] with 'powers'"},
         {"align", "round_up(a, b)"},
         {"roundup", "round_up(a, b)"},
         {"sizeof", "size_of(tensor)"}}};
    for (const auto& [other, ours] : kOthers)
        if (other == name) return "; write " + std::string(ours);
    return "";
}

// A recursive descent parser of the text.
class Parser {
  public:
    Parser(const std::string& text, std::vector<std::string>& names) : text_(text), names_(names) {}

    NodePtr whole() {
        NodePtr node = conditional();
        if (skip_blanks() != text_.size()) fail_at(left_over(), at_, std::max<std::size_t>(word_here().size(), 1));
        return node;
    }

  private:
    struct Depth {
        explicit Depth(Parser& parser) : depth(parser.depth_) {
            if (++depth > kDeepest) parser.fail("it is nested too deeply");
        }
        ~Depth() { --depth; }
        int& depth;
    };

    [[noreturn]] void fail(const std::string& what) const { fail_at(what, at_, 1); }
    [[noreturn]] void fail_at(const std::string& what, std::size_t offset, std::size_t length) const {
        throw ExpressionError(text_, what, std::min(offset, text_.size()), length);
    }

    // The word at the present place; empty if there is none.
    std::string word_here() const {
        std::size_t end = at_;
        while (end < text_.size() && is_word_letter(text_[end])) ++end;
        return text_.substr(at_, end - at_);
    }

    // Advice for an operator of another language, or two values side by side.
    std::string left_over() const {
        const std::string word = word_here();
        if (word == "and") return "write && for 'and'";
        if (word == "or") return "write || for 'or'";
        if (word == "is") return "write == for 'is'";
        if (word == "if" || word == "else") return "write `condition ? a : b` for 'a if condition else b'";
        if (text_.compare(at_, 2, "= ") == 0 || text_[at_] == '=') return "write == for '='";
        if (text_[at_] == ',')
            return "a comma stands in a single expression; several expressions are a list, as in [\"a\", \"b\"]";
        if (text_[at_] == '&' || text_[at_] == '|' || text_[at_] == '^')
            return std::string("there is no operator '") + text_[at_] + "'; conditions are joined by && and ||";
        if (text_[at_] == '>' || text_[at_] == '<') return "there are no shifts; write * or / and pow2(k)";
        if (!word.empty() && is_letter(word.front()) && at_ >= 4 && text_.substr(0, at_).ends_with("not "))
            return "write ! for 'not'";
        return "an operator is missing before '" + (word.empty() ? std::string(1, text_[at_]) : word) + "'";
    }

    std::size_t skip_blanks() {
        while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\t')) ++at_;
        return at_;
    }
    bool take(std::string_view token) {
        if (text_.compare(skip_blanks(), token.size(), token) != 0) return false;
        at_ += token.size();
        return true;
    }
    // Takes a word that ends where the token ends.
    bool take_word(std::string_view token) {
        const std::size_t begin = skip_blanks();
        if (text_.compare(begin, token.size(), token) != 0) return false;
        const std::size_t end = begin + token.size();
        if (end < text_.size() && is_word_letter(text_[end])) return false;
        at_ = end;
        return true;
    }
    void expect(std::string_view token) {
        if (!take(token)) fail("'" + std::string(token) + "' is missing");
    }

    // From `begin` to the present position, without skipped blanks.
    Span span_from(std::size_t begin) const {
        std::size_t end = at_;
        while (end > begin && (text_[end - 1] == ' ' || text_[end - 1] == '\n' || text_[end - 1] == '\t')) --end;
        return {begin, end - begin};
    }

    NodePtr made(Kind kind, std::vector<NodePtr> parts, std::size_t begin) const {
        return std::make_shared<const Expression::Node>(
            Expression::Node{.kind = kind, .parts = std::move(parts), .span = span_from(begin)});
    }

    NodePtr conditional() {
        const Depth depth(*this);
        const std::size_t begin = skip_blanks();
        NodePtr condition = binary(0);
        if (!take("?")) return condition;
        NodePtr yes = conditional();
        expect(":");
        NodePtr no = conditional();
        return made(Kind::conditional, {condition, yes, no}, begin);
    }

    NodePtr binary(std::size_t level) {
        if (level == kLevels.size()) return prefixed();
        return level == kFirstComparison ? comparisons() : left_to_right(level);
    }

    const Operator* operator_at(std::size_t level) {
        const auto& level_operators = kLevels.at(level);
        const auto found = std::find_if(level_operators.begin(), level_operators.end(),
                                        [&](const Operator& entry) { return take(entry.spelling); });
        return found == level_operators.end() ? nullptr : &*found;
    }

    NodePtr left_to_right(std::size_t level) {
        const std::size_t begin = skip_blanks();
        NodePtr left = binary(level + 1);
        while (const Operator* const found = operator_at(level)) {
            NodePtr right = binary(level + 1);
            left = made(found->kind, {left, right}, begin);
        }
        return left;
    }

    // Equality binds more weakly than order: `a < b == c < d` compares two truth values. A chain of one kind of comparison
    // means that all of them hold.
    NodePtr comparisons() {
        return chain(kFirstComparison, [this] { return chain(kLastComparison, [this] { return membership(); }); });
    }

    template <class Operand>
    NodePtr chain(std::size_t level, Operand operand) {
        const std::size_t begin = skip_blanks();
        NodePtr left = operand();
        NodePtr all;
        while (const Operator* const found = operator_at(level)) {
            NodePtr right = operand();
            NodePtr one = made(found->kind, {left, right}, begin);
            all = all == nullptr ? one : made(Kind::logical_and, {all, one}, begin);
            left = std::move(right);
        }
        return all == nullptr ? left : all;
    }

    NodePtr membership() {
        const std::size_t begin = skip_blanks();
        NodePtr left = binary(kLastComparison + 1);
        if (!take_word("in")) return left;
        expect("[");
        std::vector<NodePtr> parts = {left};
        do {
            if (parts.size() > kMostParts) fail("a list has more than 256 members");
            parts.push_back(conditional());
        } while (take(","));
        expect("]");
        return made(Kind::member, std::move(parts), begin);
    }

    NodePtr prefixed() {
        const Depth depth(*this);
        const std::size_t begin = skip_blanks();
        if (take("-")) {
            NodePtr inner = prefixed();
            return made(Kind::negated, {inner}, begin);
        }
        if (text_.compare(skip_blanks(), 2, "!=") != 0 && take("!")) {
            NodePtr inner = prefixed();
            return made(Kind::logical_not, {inner}, begin);
        }
        if (take("(")) {
            NodePtr inner = conditional();
            expect(")");
            return inner;
        }
        if (skip_blanks() < text_.size() && (text_[at_] == '"' || text_[at_] == '\'')) return quoted();
        return at_ < text_.size() && is_digit(text_[at_]) ? number() : named();
    }

    NodePtr quoted() {
        const std::size_t begin = at_;
        const std::size_t end = text_.find(text_[begin], begin + 1);
        if (end == std::string::npos) fail("a word has no closing quote");
        at_ = end + 1;
        return std::make_shared<const Expression::Node>(
            Expression::Node{.kind = Kind::word, .value = text_.substr(begin + 1, end - begin - 1), .span = span_from(begin)});
    }

    // The end of a number that begins here, and whether it is a float.
    std::pair<std::size_t, bool> extent_of_number() const {
        std::size_t end = at_;
        const auto digits = [&] {
            while (end < text_.size() && is_digit(text_[end])) ++end;
        };
        digits();
        bool is_float = false;
        if (end + 1 < text_.size() && text_[end] == '.' && is_digit(text_[end + 1])) {
            is_float = true;
            ++end;
            digits();
        }
        if (end < text_.size() && (text_[end] == 'e' || text_[end] == 'E')) {
            const std::size_t mark = end++;
            if (end < text_.size() && (text_[end] == '+' || text_[end] == '-')) ++end;
            if (end < text_.size() && is_digit(text_[end])) {
                is_float = true;
                digits();
            } else {
                end = mark;
            }
        }
        return {end, is_float};
    }

    NodePtr number() {
        const std::size_t begin = at_;
        const auto [end, is_float] = extent_of_number();
        Expression::Node node;
        const char* const from = text_.data() + begin;
        const char* const to = text_.data() + end;
        std::errc code{};
        if (is_float) {
            double value = 0;
            code = std::from_chars(from, to, value).ec;
            node.value = value;
        } else {
            Integer value = 0;
            code = std::from_chars(from, to, value).ec;
            node.value = value;
        }
        if (code != std::errc{}) fail("a number does not fit 64 bits");
        at_ = end;
        if (at_ < text_.size() && (is_letter(text_[at_]) || text_[at_] == '.')) fail("a number runs into a word");
        node.span = span_from(begin);
        return std::make_shared<const Expression::Node>(std::move(node));
    }

    NodePtr named() {
        const std::size_t begin = skip_blanks();
        std::string name = word();
        if (take("(")) return call(name, begin);
        if (at_ < text_.size() && text_[at_] == '.') {
            ++at_;
            name += "." + word();
        }
        if (std::find(names_.begin(), names_.end(), name) == names_.end()) names_.push_back(name);
        return std::make_shared<const Expression::Node>(
            Expression::Node{.kind = Kind::name, .name = std::move(name), .span = span_from(begin)});
    }

    std::string word() {
        if (skip_blanks() == text_.size()) fail("a value is missing");
        const char before = at_ > 0 ? text_[at_ - 1] : ' ';
        if (text_[at_] == '*' && before == '*') fail_at("write pow2(k) for 2 ** k, or a product", at_ - 1, 2);
        if (text_[at_] == '/' && before == '/') fail_at("write / for //: it truncates if both sides are integers", at_ - 1, 2);
        if ((text_[at_] == '<' || text_[at_] == '>') && before == text_[at_])
            fail_at("there are no shifts; write * or / and pow2(k)", at_ - 1, 2);
        if (text_[at_] == '&' || text_[at_] == '|') fail("conditions are joined by && and ||");
        if (!is_letter(text_[at_])) fail("'" + std::string(1, text_[at_]) + "' stands where a value is expected");
        const std::size_t begin = at_;
        while (at_ < text_.size() && is_word_letter(text_[at_])) ++at_;
        return text_.substr(begin, at_ - begin);
    }

    NodePtr call(const std::string& name, std::size_t begin) {
        const auto found =
            std::find_if(kFunctions.begin(), kFunctions.end(), [&](const Function& entry) { return entry.spelling == name; });
        if (found == kFunctions.end()) {
            std::string known;
            for (const Function& entry : kFunctions)
                known += (known.empty() ? "" : &entry == &kFunctions.back() ? " and " : ", ") + std::string(entry.spelling);
            fail_at("there is no function '" + name + "'" + instead_of(name) + "; known are " + known, begin, name.size());
        }
        if (found->kind == Kind::size_of) return size_of(begin);
        std::vector<NodePtr> parts;
        while (true) {
            parts.push_back(conditional());
            if (parts.size() == found->most) break;
            if (parts.size() < found->fewest) {
                expect(",");
            } else if (!take(",")) {
                break;
            }
        }
        expect(")");
        return made(found->kind, std::move(parts), begin);
    }

    // size_of(a) is a.type_bytes.
    NodePtr size_of(std::size_t begin) {
        std::string name = word() + ".type_bytes";
        expect(")");
        if (std::find(names_.begin(), names_.end(), name) == names_.end()) names_.push_back(name);
        return std::make_shared<const Expression::Node>(
            Expression::Node{.kind = Kind::name, .name = std::move(name), .span = span_from(begin)});
    }

    const std::string& text_;
    std::vector<std::string>& names_;
    std::size_t at_ = 0;
    int depth_ = 0;
};

bool is_arithmetic(Kind kind) {
    return kind >= Kind::sum && kind <= Kind::remainder;
}

class Evaluator {
  public:
    Evaluator(const std::string& text, const Expression::Scope& scope) : text_(text), scope_(scope) {}

    Value value(const NodePtr& node) const {
        switch (node->kind) {
            case Kind::number:
            case Kind::word:
                return node->value;
            case Kind::name:
                return named(*node);
            case Kind::conditional:
                return value(node->parts[truth(node->parts[0]) ? 1 : 2]);
            case Kind::logical_or:
                return Integer{truth(node->parts[0]) || truth(node->parts[1])};
            case Kind::logical_and:
                return Integer{truth(node->parts[0]) && truth(node->parts[1])};
            case Kind::logical_not:
                return Integer{!truth(node->parts[0])};
            case Kind::equal:
                return Integer{are_equal(*node, node->parts[0], node->parts[1])};
            case Kind::unequal:
                return Integer{!are_equal(*node, node->parts[0], node->parts[1])};
            case Kind::member:
                return Integer{is_member(*node)};
            default:
                return computed(*node);
        }
    }

    [[noreturn]] void refuse(const Expression::Node& node, const std::string& what) const {
        throw ExpressionError(text_, what, node.span.offset, node.span.length);
    }

  private:
    Value named(const Expression::Node& node) const {
        std::optional<Value> found = scope_(node.name);
        if (!found) refuse(node, "there is no '" + node.name + "'");
        return std::move(*found);
    }

    bool truth(const NodePtr& node) const {
        const Value found = value(node);
        if (const auto* const integer = std::get_if<Integer>(&found)) return *integer != 0;
        if (const auto* const number = std::get_if<double>(&found)) return *number != 0;
        refuse(*node, "the word '" + std::get<std::string>(found) + "' is neither true nor false");
    }

    // A bare name that the scope does not know is a word, if the other side is a word.
    std::optional<Value> value_or_word(const NodePtr& node) const {
        if (node->kind != Kind::name) return value(node);
        return scope_(node->name);
    }

    bool are_equal(const Expression::Node& node, const NodePtr& left, const NodePtr& right) const {
        std::optional<Value> a = value_or_word(left), b = value_or_word(right);
        if (!a && b && std::holds_alternative<std::string>(*b)) a = left->name;
        if (!b && a && std::holds_alternative<std::string>(*a)) b = right->name;
        if (!a) a = named(*left);
        if (!b) b = named(*right);
        const bool left_is_word = std::holds_alternative<std::string>(*a),
                   right_is_word = std::holds_alternative<std::string>(*b);
        if (left_is_word != right_is_word) refuse(node, "a word is compared with a number");
        if (left_is_word) return std::get<std::string>(*a) == std::get<std::string>(*b);
        if (std::holds_alternative<Integer>(*a) && std::holds_alternative<Integer>(*b))
            return std::get<Integer>(*a) == std::get<Integer>(*b);
        return number_of(*left, *a) == number_of(*right, *b);
    }

    bool is_member(const Expression::Node& node) const {
        for (std::size_t i = 1; i < node.parts.size(); ++i)
            if (are_equal(node, node.parts[0], node.parts[i])) return true;
        return false;
    }

    double number_of(const Expression::Node& node, const Value& found) const {
        if (const auto* const integer = std::get_if<Integer>(&found)) return static_cast<double>(*integer);
        if (const auto* const number = std::get_if<double>(&found)) return *number;
        refuse(node, "the word '" + std::get<std::string>(found) + "' stands where a number is expected");
    }

    // The value of a node of any other kind, whose parts are numbers.
    Value computed(const Expression::Node& node) const {
        std::vector<Value> parts;
        parts.reserve(node.parts.size());
        bool has_float = false;
        for (const NodePtr& part : node.parts) {
            parts.push_back(value(part));
            if (std::holds_alternative<std::string>(parts.back())) number_of(*part, parts.back());
            has_float = has_float || std::holds_alternative<double>(parts.back());
        }
        const auto integer = [&](std::size_t i) { return std::get<Integer>(parts[i]); };
        const auto number = [&](std::size_t i) { return number_of(*node.parts[i], parts[i]); };
        switch (node.kind) {
            case Kind::negated:
                return has_float ? Value(-number(0)) : Value(arithmetic(node, Kind::difference, 0, integer(0)));
            case Kind::absolute:
                if (has_float) return std::fabs(number(0));
                return integer(0) < 0 ? arithmetic(node, Kind::difference, 0, integer(0)) : integer(0);
            case Kind::sqrt:
                if (number(0) < 0) refuse(node, "the square root of a negative number");
                return std::sqrt(number(0));
            case Kind::minimum:
            case Kind::maximum:
            case Kind::clamp:
                return has_float ? selected<double>(node, number, parts.size()) : selected<Integer>(node, integer, parts.size());
            case Kind::log2:
            case Kind::pow2:
            case Kind::is_pow2:
                if (has_float) refuse(node, "a float stands where an integer is expected");
                return of_powers(node, integer(0));
            default:
                break;
        }
        if (!is_arithmetic(node.kind) && node.kind != Kind::ceil_div && node.kind != Kind::round_up)
            return Integer{has_float ? ordered(node.kind, number(0), number(1)) : ordered(node.kind, integer(0), integer(1))};
        return has_float ? Value(floating(node, number(0), number(1)))
                         : Value(arithmetic(node, node.kind, integer(0), integer(1)));
    }

    template <class Number>
    static bool ordered(Kind kind, Number a, Number b) {
        if (kind == Kind::less) return a < b;
        if (kind == Kind::less_equal) return a <= b;
        return kind == Kind::greater ? a > b : a >= b;
    }

    template <class Number, class Part>
    Value selected(const Expression::Node& node, const Part& part, std::size_t count) const {
        Number best = part(0);
        if (node.kind == Kind::clamp) {
            if (part(1) > part(2)) refuse(node, "clamp's low end is above its high end");
            return std::clamp(best, Number{part(1)}, Number{part(2)});
        }
        for (std::size_t i = 1; i < count; ++i)
            if (node.kind == Kind::minimum ? part(i) < best : part(i) > best) best = part(i);
        return best;
    }

    Integer of_powers(const Expression::Node& node, Integer a) const {
        const bool is_power = a > 0 && std::has_single_bit(static_cast<std::uint64_t>(a));
        if (node.kind == Kind::is_pow2) return is_power ? 1 : 0;
        if (node.kind == Kind::log2) {
            if (!is_power) refuse(node, "log2 takes a power of two, not " + std::to_string(a));
            return std::countr_zero(static_cast<std::uint64_t>(a));
        }
        if (a < 0 || a > 62) refuse(node, "pow2 takes 0 to 62, not " + std::to_string(a));
        return Integer{1} << a;
    }

    double floating(const Expression::Node& node, double a, double b) const {
        if (node.kind == Kind::sum) return a + b;
        if (node.kind == Kind::difference) return a - b;
        if (node.kind == Kind::product) return a * b;
        if (node.kind != Kind::quotient) refuse(node, "a float stands where an integer is expected");
        if (b == 0) refuse(node, "a division by zero");
        return a / b;
    }

    Integer arithmetic(const Expression::Node& node, Kind kind, Integer a, Integer b) const {
        Integer result = 0;
        bool overflows = false;
        if (kind == Kind::sum) overflows = __builtin_add_overflow(a, b, &result);
        if (kind == Kind::difference) overflows = __builtin_sub_overflow(a, b, &result);
        if (kind == Kind::product) overflows = __builtin_mul_overflow(a, b, &result);
        if (overflows) refuse(node, "a result does not fit 64 bits");
        if (kind == Kind::sum || kind == Kind::difference || kind == Kind::product) return result;
        if (b == 0) refuse(node, "a division by zero");
        if (kind == Kind::ceil_div || kind == Kind::round_up) return rounded_up(node, kind, a, b);
        if (b == -1) return kind == Kind::remainder ? 0 : arithmetic(node, Kind::difference, 0, a);
        return kind == Kind::quotient ? a / b : a % b;
    }

    Integer rounded_up(const Expression::Node& node, Kind kind, Integer a, Integer b) const {
        if (b < 0) refuse(node, "ceil_div and round_up take a positive divisor");
        const Integer blocks = a / b + (a % b > 0 ? 1 : 0);
        return kind == Kind::ceil_div ? blocks : arithmetic(node, Kind::product, blocks, b);
    }

    const std::string& text_;
    const Expression::Scope& scope_;
};

// Calls visit(node) for each node.
template <class Visit>
void visit_all(const NodePtr& node, const Visit& visit) {
    visit(*node);
    for (const NodePtr& part : node->parts) visit_all(part, visit);
}

}  // namespace

Expression::Expression() : Expression("0") {}

Expression::Expression(std::string text) : text_(std::move(text)) {
    root_ = Parser(text_, names_).whole();
}

Expression::Expression(const Expression&) = default;
Expression::Expression(Expression&&) noexcept = default;
Expression& Expression::operator=(const Expression&) = default;
Expression& Expression::operator=(Expression&&) noexcept = default;
Expression::~Expression() = default;

Expression::Value Expression::evaluate_value(const Scope& scope) const {
    return Evaluator(text_, scope).value(root_);
}

std::int64_t Expression::evaluate(const Scope& scope) const {
    const Value value = evaluate_value(scope);
    if (const auto* const integer = std::get_if<std::int64_t>(&value)) return *integer;
    const std::string what = std::holds_alternative<double>(value) ? "a float" : "a word";
    Evaluator(text_, scope).refuse(*root_, what + " stands where an integer is expected");
}

double Expression::evaluate_number(const Scope& scope) const {
    const Value value = evaluate_value(scope);
    if (const auto* const integer = std::get_if<std::int64_t>(&value)) return static_cast<double>(*integer);
    if (const auto* const number = std::get_if<double>(&value)) return *number;
    Evaluator(text_, scope).refuse(*root_, "a word stands where a number is expected");
}

std::size_t Expression::offset_of(std::string_view name) const {
    std::size_t first = text_.size();
    visit_all(root_, [&](const Node& node) {
        if (node.kind == Kind::name && node.name == name) first = std::min(first, node.span.offset);
    });
    return first == text_.size() ? 0 : first;
}

bool Expression::may_be_word(std::string_view name) const {
    bool found = false, elsewhere = false;
    const auto is_it = [&](const NodePtr& part) { return part->kind == Kind::name && part->name == name; };
    visit_all(root_, [&](const Node& node) {
        const bool compares = node.kind == Kind::equal || node.kind == Kind::unequal || node.kind == Kind::member;
        for (const NodePtr& part : node.parts)
            if (is_it(part)) (compares ? found : elsewhere) = true;
    });
    return found && !elsewhere;
}

}  // namespace autotune
