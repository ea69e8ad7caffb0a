#include "src/core/family/expression.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>

#include "src/core/error.h"

namespace autotune {
namespace {

using Integer = std::int64_t;

enum class Kind : std::uint8_t {
    number,
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
    minimum,
    maximum,
    ceil_div,
    round_up,
};

constexpr int kDeepest = 100;  // the most brackets and prefixes inside each other: the parser recurses

[[noreturn]] void refuse(const std::string& text, const std::string& what) {
    throw Error(ErrorCode::usage, "expression '" + text + "': " + what);
}

}  // namespace

struct Expression::Node {
    Kind kind = Kind::number;
    Integer value = 0;
    std::string name = {};
    std::vector<std::shared_ptr<const Node>> parts = {};
};

namespace {

using NodePtr = std::shared_ptr<const Expression::Node>;

NodePtr make(Kind kind, std::vector<NodePtr> parts) {
    return std::make_shared<const Expression::Node>(Expression::Node{.kind = kind, .parts = std::move(parts)});
}

struct Operator {
    std::string_view spelling;
    Kind kind;
};

// By precedence, the weakest first; of two that begin alike, the longer one first.
// Never destroyed: threads run on while exit() destroys statics.
const auto& kLevels = *new std::array<std::vector<Operator>, 6>{{
    {{"||", Kind::logical_or}},
    {{"&&", Kind::logical_and}},
    {{"==", Kind::equal}, {"!=", Kind::unequal}},
    {{"<=", Kind::less_equal}, {">=", Kind::greater_equal}, {"<", Kind::less}, {">", Kind::greater}},
    {{"+", Kind::sum}, {"-", Kind::difference}},
    {{"*", Kind::product}, {"/", Kind::quotient}, {"%", Kind::remainder}},
}};

constexpr std::array<Operator, 4> kFunctions = {
    {{"min", Kind::minimum}, {"max", Kind::maximum}, {"ceil_div", Kind::ceil_div}, {"round_up", Kind::round_up}}};

bool is_letter(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}
bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

// Recursive descent over the text.
class Parser {
  public:
    Parser(const std::string& text, std::vector<std::string>& names) : text_(text), names_(names) {}

    NodePtr whole() {
        NodePtr node = conditional();
        if (skip_blanks() != text_.size()) fail("something is left over");
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

    [[noreturn]] void fail(const std::string& what) const { refuse(text_, what + " at character " + std::to_string(at_ + 1)); }

    std::size_t skip_blanks() {
        while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\t')) ++at_;
        return at_;
    }
    bool take(std::string_view token) {
        if (text_.compare(skip_blanks(), token.size(), token) != 0) return false;
        at_ += token.size();
        return true;
    }
    void expect(std::string_view token) {
        if (!take(token)) fail("'" + std::string(token) + "' is missing");
    }

    NodePtr conditional() {
        const Depth depth(*this);
        NodePtr condition = binary(0);
        if (!take("?")) return condition;
        NodePtr yes = conditional();
        expect(":");
        return make(Kind::conditional, {condition, yes, conditional()});
    }

    NodePtr binary(std::size_t level) {
        if (level == kLevels.size()) return prefixed();
        NodePtr left = binary(level + 1);
        while (true) {
            const auto found = std::find_if(kLevels[level].begin(), kLevels[level].end(),
                                            [&](const Operator& entry) { return take(entry.spelling); });
            if (found == kLevels[level].end()) return left;
            left = make(found->kind, {left, binary(level + 1)});
        }
    }

    NodePtr prefixed() {
        const Depth depth(*this);
        if (take("-")) return make(Kind::negated, {prefixed()});
        if (text_.compare(skip_blanks(), 2, "!=") != 0 && take("!")) return make(Kind::logical_not, {prefixed()});
        if (take("(")) {
            NodePtr inner = conditional();
            expect(")");
            return inner;
        }
        return skip_blanks() < text_.size() && is_digit(text_[at_]) ? number() : named();
    }

    NodePtr number() {
        Integer value = 0;
        const auto [end, code] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), value);
        if (code != std::errc{}) fail("a number does not fit 64 bits");
        at_ = static_cast<std::size_t>(end - text_.data());
        if (at_ < text_.size() && is_letter(text_[at_])) fail("a number runs into a word");
        return std::make_shared<const Expression::Node>(Expression::Node{.kind = Kind::number, .value = value});
    }

    NodePtr named() {
        std::string name = word();
        if (take("(")) return call(name);
        if (at_ < text_.size() && text_[at_] == '.') {
            ++at_;
            name += "." + word();
        }
        if (std::find(names_.begin(), names_.end(), name) == names_.end()) names_.push_back(name);
        return std::make_shared<const Expression::Node>(Expression::Node{.kind = Kind::name, .name = std::move(name)});
    }

    std::string word() {
        if (skip_blanks() == text_.size()) fail("a value is missing");
        if (!is_letter(text_[at_])) fail("'" + std::string(1, text_[at_]) + "' stands where a value is expected");
        const std::size_t begin = at_;
        while (at_ < text_.size() && (is_letter(text_[at_]) || is_digit(text_[at_]))) ++at_;
        return text_.substr(begin, at_ - begin);
    }

    NodePtr call(const std::string& name) {
        const auto found =
            std::find_if(kFunctions.begin(), kFunctions.end(), [&](const Operator& entry) { return entry.spelling == name; });
        if (found == kFunctions.end()) fail("there is no function '" + name + "'; known are min, max, ceil_div and round_up");
        NodePtr first = conditional();
        expect(",");
        NodePtr second = conditional();
        expect(")");
        return make(found->kind, {first, second});
    }

    const std::string& text_;
    std::vector<std::string>& names_;
    std::size_t at_ = 0;
    int depth_ = 0;
};

class Evaluator {
  public:
    Evaluator(const std::string& text, const Expression::Scope& scope) : text_(text), scope_(scope) {}

    Integer value(const NodePtr& node) const {
        switch (node->kind) {
            case Kind::number:
                return node->value;
            case Kind::name:
                return named(node->name);
            case Kind::conditional:
                return value(node->parts[value(node->parts[0]) != 0 ? 1 : 2]);
            case Kind::logical_or:
                return value(node->parts[0]) != 0 || value(node->parts[1]) != 0 ? 1 : 0;
            case Kind::logical_and:
                return value(node->parts[0]) != 0 && value(node->parts[1]) != 0 ? 1 : 0;
            case Kind::logical_not:
                return value(node->parts[0]) == 0 ? 1 : 0;
            case Kind::negated:
                return combined(Kind::difference, 0, value(node->parts[0]));
            default:
                return combined(node->kind, value(node->parts[0]), value(node->parts[1]));
        }
    }

  private:
    Integer named(const std::string& name) const {
        const std::optional<Integer> found = scope_(name);
        if (!found) refuse(text_, "there is no '" + name + "'");
        return *found;
    }

    Integer combined(Kind kind, Integer a, Integer b) const {
        switch (kind) {
            case Kind::equal:
                return a == b ? 1 : 0;
            case Kind::unequal:
                return a != b ? 1 : 0;
            case Kind::less:
                return a < b ? 1 : 0;
            case Kind::less_equal:
                return a <= b ? 1 : 0;
            case Kind::greater:
                return a > b ? 1 : 0;
            case Kind::greater_equal:
                return a >= b ? 1 : 0;
            case Kind::minimum:
                return std::min(a, b);
            case Kind::maximum:
                return std::max(a, b);
            default:
                return arithmetic(kind, a, b);
        }
    }

    Integer arithmetic(Kind kind, Integer a, Integer b) const {
        Integer result = 0;
        bool overflows = false;
        if (kind == Kind::sum) overflows = __builtin_add_overflow(a, b, &result);
        if (kind == Kind::difference) overflows = __builtin_sub_overflow(a, b, &result);
        if (kind == Kind::product) overflows = __builtin_mul_overflow(a, b, &result);
        if (overflows) refuse(text_, "a result does not fit 64 bits");
        if (kind == Kind::sum || kind == Kind::difference || kind == Kind::product) return result;
        if (b == 0) refuse(text_, "a division by zero");
        if (kind == Kind::ceil_div || kind == Kind::round_up) return rounded_up(kind, a, b);
        if (b == -1) return kind == Kind::remainder ? 0 : combined(Kind::difference, 0, a);
        return kind == Kind::quotient ? a / b : a % b;
    }

    Integer rounded_up(Kind kind, Integer a, Integer b) const {
        if (b < 0) refuse(text_, "ceil_div and round_up take a positive divisor");
        const Integer blocks = a / b + (a % b > 0 ? 1 : 0);
        return kind == Kind::ceil_div ? blocks : arithmetic(Kind::product, blocks, b);
    }

    const std::string& text_;
    const Expression::Scope& scope_;
};

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

std::int64_t Expression::evaluate(const Scope& scope) const {
    return Evaluator(text_, scope).value(root_);
}

}  // namespace autotune
