#include "tests/support/host_cuda/translate.h"

#include <cctype>
#include <map>
#include <string_view>

#include "src/core/error.h"

namespace autotune::test::host_cuda {
namespace {

[[noreturn]] void refuse(const std::string& what, std::string_view text) {
    throw Error(ErrorCode::usage, "inline PTX cannot run on the host: " + what + ": " + std::string(text.substr(0, 120)));
}

bool is_word(char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
}

// A place in C++ text.
class Cursor {
  public:
    explicit Cursor(const std::string& text, std::size_t at = 0) : text_(text), at_(at) {}

    bool is_over() const { return at_ >= text_.size(); }
    char peek() const { return is_over() ? '\0' : text_[at_]; }
    std::size_t at() const { return at_; }
    std::string from(std::size_t begin) const { return text_.substr(begin, at_ - begin); }

    void skip_blanks() {
        while (std::isspace(static_cast<unsigned char>(peek())) != 0) ++at_;
    }
    bool take(char c) {
        skip_blanks();
        if (peek() != c) return false;
        ++at_;
        return true;
    }
    std::string word() {
        const std::size_t begin = at_;
        while (is_word(peek())) ++at_;
        return from(begin);
    }
    // Skips one character, or a whole string or character literal.
    void step() {
        const char quote = text_[at_++];
        if (quote != '"' && quote != '\'') return;
        while (!is_over() && peek() != quote) at_ += peek() == '\\' ? 2 : 1;
        ++at_;
    }
    // The text up to a character of `ends` outside parentheses, brackets and braces.
    std::string until(std::string_view ends) {
        const std::size_t begin = at_;
        for (int depth = 0; !is_over(); step()) {
            if (depth == 0 && ends.find(peek()) != std::string_view::npos) break;
            depth += std::string_view("([{").find(peek()) != std::string_view::npos ? 1 : 0;
            depth -= std::string_view(")]}").find(peek()) != std::string_view::npos ? 1 : 0;
        }
        return from(begin);
    }

  private:
    const std::string& text_;
    std::size_t at_;
};

// Reads neighbouring string literals as one string.
std::string literal(Cursor& cursor) {
    std::string value;
    for (cursor.skip_blanks(); cursor.peek() == '"'; cursor.skip_blanks()) {
        const std::size_t begin = cursor.at();
        cursor.step();
        const std::string quoted = cursor.from(begin);
        for (std::size_t i = 1; i + 1 < quoted.size(); ++i) {
            const bool is_escape = quoted[i] == '\\';
            if (is_escape) ++i;
            value += is_escape && quoted[i] == 'n' ? '\n' : quoted[i];
        }
    }
    return value;
}

// The expressions of `"=r"(a), "r"(b)`, appended.
void take_operands(Cursor& cursor, std::vector<std::string>& operands) {
    while (true) {
        cursor.skip_blanks();
        if (cursor.peek() != '"') return;
        literal(cursor);
        cursor.skip_blanks();
        std::string expression = cursor.until(",:)");
        expression.erase(expression.find_last_not_of(" \n") + 1);
        operands.push_back(std::move(expression));
        if (!cursor.take(',')) return;
    }
}

// Translates a whole asm statement without its semicolon. The word asm has been read.
std::string translated_asm(Cursor& cursor) {
    const std::size_t begin = cursor.at();
    cursor.skip_blanks();
    if (is_word(cursor.peek())) cursor.word();  // volatile
    if (!cursor.take('(')) refuse("an asm without operands", cursor.from(begin));
    const std::string ptx = literal(cursor);
    std::vector<std::string> operands;
    for (int section = 0; section < 2 && cursor.take(':'); ++section) take_operands(cursor, operands);
    cursor.until(")");
    cursor.take(')');
    return translated_ptx(ptx, operands);
}

// Translates a dynamic array, `__attribute__((aligned(16))) unsigned char memory[]`. `extern __shared__` has been read.
std::string translated_dynamic(Cursor& cursor) {
    const std::string declaration = cursor.until(";");
    const std::size_t bracket = declaration.rfind('[');
    std::size_t begin = bracket;
    while (begin > 0 && is_word(declaration[begin - 1])) --begin;
    const std::string name = declaration.substr(begin, bracket - begin);
    std::string type = declaration.substr(0, begin);
    if (const std::size_t end = type.rfind("))"); end != std::string::npos) type.erase(0, end + 2);
    return type + "* const " + name + " = reinterpret_cast<" + type + "*>(host_cuda_shared)";
}

// Register names get this prefix, because they may equal names of variables.
const std::string kRegister = "ptx_";

std::string mangled(std::string_view opcode) {
    std::string name;
    for (const char c : opcode) {
        if (is_word(c)) {
            name += c;
        } else if (name.empty() || name.back() != '_') {
            name += '_';
        }
    }
    return name;
}

std::string operand(Cursor& cursor, const std::vector<std::string>& operands, const std::string& statement) {
    if (cursor.take('%')) {
        if (cursor.take('%')) return "::host_cuda::ptx::" + cursor.word() + "()";  // %%cluster_ctarank
        const std::string number = cursor.word();
        const bool is_number = !number.empty() && number.find_first_not_of("0123456789") == std::string::npos;
        if (!is_number || std::stoul(number) >= operands.size()) refuse("an operand that is not given", statement);
        return operands[std::stoul(number)];
    }
    std::string word = cursor.word();
    if (word.empty()) refuse("an operand of another form", statement);
    if (word == "_") return "::host_cuda::ptx::Sink()";
    if (cursor.take('.')) word += "." + cursor.word();  // 1.0
    return std::isdigit(static_cast<unsigned char>(word.front())) != 0 ? word : kRegister + word;
}

std::string instruction(const std::string& statement, const std::vector<std::string>& operands) {
    Cursor cursor(statement);
    std::size_t begin = cursor.at();
    while (!cursor.is_over() && std::isspace(static_cast<unsigned char>(cursor.peek())) == 0) cursor.step();
    std::string call = "::host_cuda::ptx::" + mangled(cursor.from(begin)) + "(";
    bool is_first = true;
    while (true) {
        cursor.skip_blanks();
        if (cursor.is_over()) break;
        if (std::string_view("{}[],").find(cursor.peek()) != std::string_view::npos) {
            cursor.step();
            continue;
        }
        call += (is_first ? "" : ", ") + operand(cursor, operands, statement);
        is_first = false;
    }
    return call + ");";
}

std::string jump_or_instruction(const std::string& statement, const std::vector<std::string>& operands) {
    const std::string jump = "bra ";
    return statement.starts_with(jump) ? "goto " + kRegister + statement.substr(jump.size()) + ";"
                                       : instruction(statement, operands);
}

// Translates `@p ld.global ...`, which is executed only if the predicate is true.
std::string predicated(const std::string& statement, const std::vector<std::string>& operands) {
    if (statement.front() != '@') return jump_or_instruction(statement, operands);
    const std::size_t blank = statement.find(' ');
    if (statement[1] == '!' || blank == std::string::npos) refuse("a predicate of another form", statement);
    return "if (" + kRegister + statement.substr(1, blank - 1) + ") " +
           jump_or_instruction(statement.substr(blank + 1), operands);
}

// `.reg .b16 low, high` as a declaration.
std::string registers(const std::string& statement) {
    static const std::map<std::string, std::string> types = {{"pred", "bool"},    {"b16", "unsigned short"},
                                                             {"b32", "unsigned"}, {"b64", "unsigned long long"},
                                                             {"u32", "unsigned"}, {"f32", "float"}};
    const std::size_t dot = statement.find('.', 1);
    const std::size_t blank = dot == std::string::npos ? dot : statement.find(' ', dot);
    const auto type = blank == std::string::npos ? types.end() : types.find(statement.substr(dot + 1, blank - dot - 1));
    if (type == types.end()) refuse("a register of an unknown type", statement);
    std::string declaration = type->second + " ";
    for (const char c : statement.substr(blank + 1)) {
        const bool is_first = is_word(c) && !is_word(declaration.back());
        declaration += (is_first ? kRegister : "") + c;
    }
    return declaration + ";";
}

// Reads `again:` and returns its name. Empty if no label comes next.
std::string label_at(Cursor& cursor) {
    Cursor ahead = cursor;
    const std::string name = ahead.word();
    if (name.empty() || ahead.peek() != ':') return "";
    cursor.word();
    cursor.take(':');
    return kRegister + name;
}

}  // namespace

std::string translated_ptx(const std::string& ptx, const std::vector<std::string>& operands) {
    std::string result, labels;
    for (Cursor cursor(ptx);;) {
        cursor.skip_blanks();
        if (cursor.is_over()) break;
        if (const std::string label = label_at(cursor); !label.empty()) {
            labels += "__label__ " + label + "; ";
            result += label + ":;";
            continue;
        }
        if (cursor.peek() == '{' || cursor.peek() == '}') {
            result += cursor.peek();
            cursor.step();
            continue;
        }
        const std::string statement = cursor.until(";");
        cursor.take(';');
        result += statement.starts_with(".reg") ? registers(statement) : predicated(statement, operands);
    }
    return "do { " + labels + result + " } while (0)";
}

std::string translated(const std::string& text) {
    std::string result;
    result.reserve(text.size() + text.size() / 8);
    for (Cursor cursor(text); !cursor.is_over();) {
        const std::size_t begin = cursor.at();
        if (!is_word(cursor.peek())) {
            cursor.step();
            result += cursor.from(begin);
            continue;
        }
        const std::string word = cursor.word();
        if (word == "asm") {
            result += translated_asm(cursor);
        } else if (word == "__shared__") {
            result += "static __attribute__((section(\"host_cuda_static\")))";
        } else if (word == "extern") {
            cursor.skip_blanks();
            const std::size_t next = cursor.at();
            const bool is_shared = cursor.word() == "__shared__";
            result += is_shared ? translated_dynamic(cursor) : "extern " + cursor.from(next);
        } else {
            result += word;
        }
    }
    return result;
}

}  // namespace autotune::test::host_cuda
