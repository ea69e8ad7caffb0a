#include "src/kernel_files/source_text.h"

#include <algorithm>
#include <array>

namespace autotune::kernel_files {
namespace {

bool is_word(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}
bool is_blank(char c) {
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

std::size_t after_blanks(std::string_view text, std::size_t at) {
    while (at < text.size() && is_blank(text[at])) ++at;
    return at;
}

// The position after the bracket that closes the one at `open`.
std::size_t after_closing(std::string_view code, std::size_t open) {
    int depth = 0;
    for (std::size_t at = open; at < code.size(); ++at) {
        if (code[at] == '(') ++depth;
        if (code[at] == ')' && --depth == 0) return at + 1;
    }
    return code.size();
}

std::size_t find_word(std::string_view code, std::string_view word, std::size_t from = 0) {
    for (std::size_t at = code.find(word, from); at != std::string_view::npos; at = code.find(word, at + 1)) {
        const bool begins = at == 0 || !is_word(code[at - 1]);
        const std::size_t end = at + word.size();
        if (begins && (end == code.size() || !is_word(code[end]))) return at;
    }
    return std::string_view::npos;
}

// The text before `at`, without blanks at its end.
std::string_view before(std::string_view text, std::size_t at) {
    while (at > 0 && is_blank(text[at - 1])) --at;
    return text.substr(0, at);
}

// Behind the '>' that closes the '<' at `open`.
std::size_t after_angle(std::string_view code, std::size_t open) {
    int depth = 0, round = 0;
    for (std::size_t at = open; at < code.size(); ++at) {
        if (code[at] == '(') ++round;
        if (code[at] == ')') --round;
        if (code[at] == '<' && round == 0) ++depth;
        if (code[at] == '>' && round == 0 && --depth == 0) return at + 1;
    }
    return code.size();
}

// Of the list of a template, without its < and >.
std::vector<TemplateParameter> template_parameters_of(std::string_view inside, std::size_t line) {
    std::vector<TemplateParameter> all;
    for (const std::string& part : parts_of_list(inside)) {
        std::string_view declared = part;
        TemplateParameter parameter;
        line += static_cast<std::size_t>(std::count(part.begin(), part.end(), '\n'));
        parameter.line = line;
        parameter.is_optional = declared.find('=') != std::string_view::npos || declared.find("...") != std::string_view::npos;
        declared = before(declared, std::min(declared.find('='), declared.size()));
        std::size_t begin = declared.size();
        while (begin > 0 && is_word(declared[begin - 1])) --begin;
        parameter.name = declared.substr(begin);
        parameter.is_type =
            find_word(declared, "typename") != std::string_view::npos || find_word(declared, "class") != std::string_view::npos;
        all.push_back(std::move(parameter));
    }
    return all;
}

}  // namespace

std::string blanked(std::string_view text, bool no_literals) {
    std::string out(text);
    const auto blank = [&](std::size_t from, std::size_t to) {
        for (std::size_t i = from; i < to && i < out.size(); ++i)
            if (out[i] != '\n') out[i] = ' ';
    };
    for (std::size_t i = 0; i < text.size();) {
        if (text.compare(i, 2, "//") == 0) {
            std::size_t end = i;
            while (end < text.size() && (text[end] != '\n' || text[end - 1] == '\\')) ++end;
            blank(i, end);
            i = end;
        } else if (text.compare(i, 2, "/*") == 0) {
            const std::size_t close = text.find("*/", i + 2);
            const std::size_t end = close == std::string_view::npos ? text.size() : close + 2;
            blank(i, end);
            i = end;
        } else if (text[i] == '"' || (text[i] == '\'' && (i == 0 || !is_word(text[i - 1])))) {
            std::size_t end = i + 1;
            while (end < text.size() && text[end] != text[i] && text[end] != '\n') end += text[end] == '\\' ? 2 : 1;
            end = std::min(end + 1, text.size());
            if (no_literals) blank(i + 1, end - 1);
            i = end;
        } else {
            ++i;
        }
    }
    return out;
}

std::vector<KernelFound> kernels_in(std::string_view text) {
    const std::string code = blanked(text, true);
    const std::string readable = blanked(text, false);
    std::vector<KernelFound> all;
    for (std::size_t at = find_word(code, "__global__"); at != std::string_view::npos;
         at = find_word(code, "__global__", at + 1)) {
        // The name is the last word before the first bracket that does not belong to an attribute.
        std::size_t next = at + 10;
        std::string name;
        std::size_t open = std::string_view::npos;
        while (next < code.size()) {
            next = after_blanks(code, next);
            if (next >= code.size() || code[next] == ';' || code[next] == '{') break;
            if (is_word(code[next])) {
                std::size_t end = next;
                while (end < code.size() && is_word(code[end])) ++end;
                name = code.substr(next, end - next);
                next = end;
            } else if (code[next] == '(') {
                const std::size_t end = after_closing(code, next);
                if (name != "__launch_bounds__" && name != "__attribute__" && name != "__cluster_dims__") {
                    open = next;
                    break;
                }
                next = end;
            } else {
                ++next;
            }
        }
        if (open == std::string_view::npos || name.empty()) continue;
        KernelFound found;
        found.name = name;
        found.global_at = at;
        found.is_extern_c = before(readable, at).ends_with("\"C\"");
        const std::string_view ahead = before(code, at);
        const std::size_t list = ahead.ends_with('>') ? ahead.rfind("template") : std::string_view::npos;
        found.is_template = list != std::string_view::npos;
        if (found.is_template) {
            const std::size_t angle = std::min(code.find('<', list), at);
            const std::size_t closed = after_angle(std::string_view(code).substr(0, at), angle);
            if (closed > angle + 1)
                found.template_parameters =
                    template_parameters_of(std::string_view(code).substr(angle + 1, closed - angle - 2), line_of(code, angle));
        }
        const std::size_t end = after_closing(code, open);
        found.parameters = parts_of_list(std::string_view(code).substr(open + 1, end - open - 2));
        const std::size_t body = after_blanks(code, end);
        if (body < code.size() && code[body] == '{') all.push_back(found);
    }
    return all;
}

std::vector<std::string> parts_of_list(std::string_view inside) {
    std::vector<std::string> parts;
    if (after_blanks(inside, 0) == inside.size()) return parts;
    parts.emplace_back();
    int depth = 0;
    for (const char c : inside) {
        if (c == '(' || c == '<' || c == '[' || c == '{') ++depth;
        if (c == ')' || c == '>' || c == ']' || c == '}') --depth;
        if (c == ',' && depth == 0) {
            parts.emplace_back();
        } else {
            parts.back() += c;
        }
    }
    return parts;
}

std::vector<TemplateParameter> template_parameters_in(std::string_view code) {
    std::vector<TemplateParameter> all;
    for (std::size_t at = find_word(code, "template"); at != std::string_view::npos; at = find_word(code, "template", at + 1)) {
        const std::size_t open = after_blanks(code, at + 8);
        if (open >= code.size() || code[open] != '<') continue;  // an instance
        const std::size_t end = after_angle(code, open);
        for (TemplateParameter& one : template_parameters_of(code.substr(open + 1, end - open - 2), line_of(code, open)))
            all.push_back(std::move(one));
    }
    return all;
}

bool is_pointer_to_const(std::string_view declaration) {
    const std::size_t star = declaration.rfind('*');
    return star != std::string_view::npos && find_word(declaration.substr(0, star), "const") != std::string_view::npos;
}

std::string pointed_type(std::string_view declaration) {
    const std::size_t star = declaration.find('*');
    if (star == std::string_view::npos || declaration.find('*', star + 1) != std::string_view::npos) return "";
    std::string type;
    std::string_view left = declaration.substr(0, star);
    while (!left.empty()) {
        left.remove_prefix(after_blanks(left, 0));
        std::size_t end = 0;
        while (end < left.size() && !is_blank(left[end])) ++end;
        const std::string_view word = left.substr(0, end);
        left.remove_prefix(end);
        if (word.empty() || word == "const" || word == "volatile" || word.starts_with("__restrict")) continue;
        type += (type.empty() ? "" : " ") + std::string(word);
    }
    return type;
}

std::string with_c_names(const std::string& text, const std::vector<std::string>& names) {
    std::string out;
    std::size_t done = 0;
    for (const KernelFound& kernel : kernels_in(text)) {
        if (kernel.is_extern_c || kernel.is_template || std::find(names.begin(), names.end(), kernel.name) == names.end())
            continue;
        out += text.substr(done, kernel.global_at - done) + "extern \"C\" ";
        done = kernel.global_at;
    }
    return out + text.substr(done);
}

bool mentions(std::string_view code, std::string_view word) {
    for (std::size_t at = find_word(code, word); at != std::string_view::npos; at = find_word(code, word, at + 1)) {
        const std::string_view left = before(code, at);
        if (!left.ends_with('.') && !left.ends_with("->") && !left.ends_with("::")) return true;
    }
    return false;
}

bool declares(std::string_view code, std::string_view word) {
    constexpr std::array<std::string_view, 6> kBeforeValues = {"return", "case", "else", "if", "elif", "unroll"};
    constexpr std::array<std::string_view, 11> kTypes = {"void", "char", "short", "int",    "long",        "unsigned",
                                                         "half", "bool", "float", "double", "__restrict__"};
    for (std::size_t at = find_word(code, word); at != std::string_view::npos; at = find_word(code, word, at + 1)) {
        const std::size_t next = after_blanks(code, at + word.size());
        if (next < code.size() && code[next] == '=' && (next + 1 == code.size() || code[next + 1] != '=')) return true;
        std::string_view left = before(code, at);
        const bool is_pointer = left.ends_with('*') || left.ends_with('&');
        while (left.ends_with('*') || left.ends_with('&')) left = before(left, left.size() - 1);
        std::size_t begin = left.size();
        while (begin > 0 && is_word(left[begin - 1])) --begin;
        const std::string_view previous = left.substr(begin);
        // A number, as in `#line 4`, or a word after which a value may stand.
        if (previous.empty() || (previous[0] >= '0' && previous[0] <= '9')) continue;
        // `a * word` may be a product.
        const bool is_type = std::find(kTypes.begin(), kTypes.end(), previous) != kTypes.end();
        if (is_pointer && !is_type) continue;
        if (std::find(kBeforeValues.begin(), kBeforeValues.end(), previous) == kBeforeValues.end()) return true;
    }
    return false;
}

bool has_device_array(std::string_view code, std::string_view name) {
    for (const std::string_view space : {"__constant__", "__device__"}) {
        for (std::size_t at = find_word(code, space); at != std::string_view::npos; at = find_word(code, space, at + 1)) {
            const std::string_view rest = code.substr(at, code.find_first_of(";{=", at) - at);
            if (rest.find('(') < rest.find('[') && rest.find('(') != std::string_view::npos) continue;  // a function
            if (find_word(rest, name) != std::string_view::npos) return true;
        }
    }
    return false;
}

namespace {

enum class Answer : std::uint8_t { no, unknown, yes };

Answer negated(Answer answer) {
    return answer == Answer::unknown ? answer : answer == Answer::yes ? Answer::no : Answer::yes;
}

// A conditional of the preprocessor while its lines are read.
struct Conditional {
    Answer outside;  // whether the lines around it are compiled
    Answer taken;    // whether an earlier branch of it is compiled
    Answer now;
};

std::string_view stripped(std::string_view text) {
    while (!text.empty() && is_blank(text.front())) text.remove_prefix(1);
    while (!text.empty() && is_blank(text.back())) text.remove_suffix(1);
    return text;
}

// Removes the word at the beginning of a text and returns it.
std::string_view take_word(std::string_view& text) {
    text = stripped(text);
    std::size_t end = 0;
    while (end < text.size() && is_word(text[end])) ++end;
    const std::string_view word = text.substr(0, end);
    text.remove_prefix(end);
    return word;
}

Answer is_defined(std::string_view name, const MacroNames& names) {
    if (names.defined.contains(std::string(name))) return Answer::yes;
    if (names.perhaps.contains(std::string(name))) return Answer::unknown;
    for (const std::string_view always : {"__CUDACC__", "__CUDACC_RTC__", "__CUDA_ARCH__", "__cplusplus"})
        if (name == always) return Answer::yes;
    return name.starts_with('_') ? Answer::unknown : Answer::no;
}

// The value of `defined(A)`, `!defined A`, 0, 1, and of several of them joined by && or by ||.
Answer value_of(std::string_view condition, const MacroNames& names) {
    condition = stripped(condition);
    for (const std::string_view join : {"||", "&&"}) {
        const std::size_t at = condition.find(join);
        if (at == std::string_view::npos) continue;
        const std::string_view first = condition.substr(0, at);
        if (std::count(first.begin(), first.end(), '(') != std::count(first.begin(), first.end(), ')')) return Answer::unknown;
        const Answer left = value_of(first, names), right = value_of(condition.substr(at + 2), names);
        return join == "||" ? std::max(left, right) : std::min(left, right);
    }
    if (condition.starts_with('!')) return negated(value_of(condition.substr(1), names));
    if (condition == "0") return Answer::no;
    if (condition == "1") return Answer::yes;
    if (take_word(condition) != "defined") return Answer::unknown;
    condition = stripped(condition);
    if (condition.starts_with('(') && condition.ends_with(')')) condition = condition.substr(1, condition.size() - 2);
    const std::string_view name = take_word(condition);
    return stripped(condition).empty() && !name.empty() ? is_defined(name, names) : Answer::unknown;
}

}  // namespace

SourceSeen seen_by_compiler(std::string_view code, MacroNames& names) {
    SourceSeen seen;
    std::vector<Conditional> open;
    std::size_t number = 0;
    while (!code.empty()) {
        // A line together with the lines that continue it.
        std::size_t end = std::min(code.find('\n'), code.size() - 1) + 1;
        std::size_t lines = 1;
        const bool is_directive = stripped(code.substr(0, end)).starts_with('#');
        while (is_directive && end < code.size() && before(code, end).ends_with('\\')) {
            end = std::min(code.find('\n', end), code.size() - 1) + 1;
            ++lines;
        }
        const std::string_view line = code.substr(0, end);
        code.remove_prefix(end);
        const std::size_t first = number + 1;
        number += lines;
        const Answer now = open.empty() ? Answer::yes : open.back().now;
        const std::string blank(lines, '\n');
        if (!is_directive) {
            seen.text += now == Answer::no ? blank : std::string(line);
            seen.directives += blank;
            continue;
        }
        seen.text += blank;
        seen.directives += now == Answer::no ? blank : std::string(line);
        std::string_view rest = stripped(line).substr(1);
        const std::string_view what = take_word(rest);
        if (what == "if" || what == "ifdef" || what == "ifndef") {
            Answer value = what == "if" ? value_of(rest, names) : is_defined(take_word(rest), names);
            if (what == "ifndef") value = negated(value);
            open.push_back({now, value, std::min(now, value)});
        } else if ((what == "elif" || what == "else") && !open.empty()) {
            Conditional& inside = open.back();
            const Answer value = std::min(negated(inside.taken), what == "else" ? Answer::yes : value_of(rest, names));
            inside.taken = std::max(inside.taken, value);
            inside.now = std::min(inside.outside, value);
        } else if (what == "endif" && !open.empty()) {
            open.pop_back();
        } else if ((what == "define" || what == "undef") && now != Answer::no) {
            const std::string name(take_word(rest));
            if (what == "define" && now == Answer::yes) {
                names.defined.insert(name);
                seen.defines.push_back({name, first});
            } else if (!names.defined.contains(name) || what == "undef") {
                names.defined.erase(name);
                names.perhaps.insert(name);
            }
        }
    }
    return seen;
}

std::vector<IncludeFound> includes_in(std::string_view text) {
    const std::string code = blanked(text, false);
    std::vector<IncludeFound> all;
    std::size_t line = 0;
    for (std::size_t begin = 0; begin < code.size();) {
        ++line;
        const std::size_t end = std::min(code.find('\n', begin), code.size());
        std::string_view one = std::string_view(code).substr(begin, end - begin);
        begin = end + 1;
        const auto strip = [&] { one.remove_prefix(std::min(one.find_first_not_of(" \t"), one.size())); };
        strip();
        if (!one.starts_with('#')) continue;
        one.remove_prefix(1);
        strip();
        if (!one.starts_with("include")) continue;
        one.remove_prefix(7);
        strip();
        if (one.empty() || (one[0] != '"' && one[0] != '<')) continue;
        const bool is_quoted = one[0] == '"';
        const std::size_t close = one.find(is_quoted ? '"' : '>', 1);
        if (close != std::string_view::npos) all.push_back({std::string(one.substr(1, close - 1)), is_quoted, line});
    }
    return all;
}

std::size_t line_of(std::string_view text, std::size_t at) {
    return 1 + static_cast<std::size_t>(
                   std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(std::min(at, text.size())), '\n'));
}

}  // namespace autotune::kernel_files
