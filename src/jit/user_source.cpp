#include "src/jit/user_source.h"

#include <algorithm>
#include <string_view>

namespace autotune::jit {
namespace {

std::string_view stripped(std::string_view line) {
    while (!line.empty() && (line.front() == ' ' || line.front() == '\t')) line.remove_prefix(1);
    while (!line.empty() && (line.back() == ' ' || line.back() == '\t' || line.back() == '\r')) line.remove_suffix(1);
    return line;
}

// Whether a line may come before the macros: a blank line, a comment, or an include of a header that is not ours.
bool is_leading(std::string_view line, bool& in_comment) {
    line = stripped(line);
    if (in_comment) {
        const std::size_t close = line.find("*/");
        if (close == std::string_view::npos) return true;
        in_comment = false;
        return close + 2 == line.size();
    }
    if (line.empty() || line.starts_with("//") || line == "#pragma once") return true;
    if (line.starts_with("/*")) {
        const std::size_t close = line.find("*/", 2);
        in_comment = close == std::string_view::npos;
        return in_comment || close + 2 == line.size();
    }
    if (!line.starts_with('#')) return false;
    line = stripped(line.substr(1));
    return line.starts_with("include") && stripped(line.substr(7)).starts_with('<');
}

// Where the leading lines of a text end, and how many lines there are up to the last include.
std::pair<std::size_t, std::size_t> leading_part(std::string_view text) {
    std::size_t at = 0, line = 0, end = 0, lines = 0;
    bool in_comment = false;
    while (at < text.size()) {
        const std::size_t next = std::min(text.find('\n', at), text.size() - 1) + 1;
        const std::string_view one = text.substr(at, next - at);
        if (!is_leading(one, in_comment)) break;
        ++line;
        at = next;
        if (one.find("include") != std::string_view::npos && !in_comment && stripped(one).starts_with('#')) {
            end = at;
            lines = line;
        }
    }
    return {end, lines};
}

std::string line_mark(std::size_t line, const std::string& file) {
    return "#line " + std::to_string(line) + " \"" + file + "\"\n";
}

}  // namespace

UserUnit user_unit(std::vector<std::pair<std::string, std::string>> macros, const std::vector<StepDefinition>& steps,
                   const std::function<std::string(const std::string& kernel)>& name_of) {
    UserUnit unit{std::move(macros), {}, {}, {}};
    const auto is_in = [](const auto& all, const std::string& name) {
        return std::any_of(all.begin(), all.end(), [&](const auto& each) { return each.first == name; });
    };
    for (const StepDefinition& step : steps) {
        if (step.action != StepDefinition::Action::launch) continue;
        // Instances of one template share its name, which becomes the symbol of the first.
        const std::string base = kernel_base_name(step.kernel);
        if (!is_in(unit.entries, base)) unit.entries.emplace_back(base, step.entry);
        if (is_kernel_expression(step.kernel) && !is_in(unit.expressions, step.entry))
            unit.expressions.emplace_back(step.entry, name_of(step.kernel));
    }
    return unit;
}

std::vector<std::pair<std::string, std::string>> kernel_names(const UserUnit& unit, const std::string& symbol) {
    std::vector<std::pair<std::string, std::string>> names;
    for (const auto& [entry, expression] : unit.expressions) {
        const std::string base = kernel_base_name(expression);
        const auto renamed =
            std::find_if(unit.entries.begin(), unit.entries.end(), [&](const auto& each) { return each.first == base; });
        std::string text = expression;
        text.replace(text.substr(0, text.find('<')).rfind(base), base.size(), symbol + renamed->second);
        names.emplace_back(symbol + entry, std::move(text));
    }
    return names;
}

std::string user_source(const KernelSource& source, const UserUnit& unit, const std::string& symbol) {
    std::string out = "#include \"autotune_prelude.h\"\n#define AUTOTUNE 1\n";
    const std::string& first = source.files.front().text;
    const auto [end, lines] = leading_part(first);
    if (end > 0) out += line_mark(1, source.files.front().name) + first.substr(0, end);
    if (!out.ends_with('\n')) out += '\n';
    for (const auto& [name, value] : unit.macros) out += "#define " + name + " " + value + "\n";
    for (const auto& [kernel, suffix] : unit.entries) out += "#define " + kernel + " " + symbol + suffix + "\n";
    out += "// ---- end of parameters ----\n";
    for (std::size_t i = 0; i < source.files.size(); ++i) {
        const KernelText& file = source.files[i];
        out += i == 0 ? line_mark(lines + 1, file.name) + file.text.substr(end) : line_mark(1, file.name) + file.text;
        if (!out.ends_with('\n')) out += '\n';
    }
    if (!unit.appended) return out;
    for (const auto& [name, value] : unit.macros) out += "#undef " + name + "\n";
    for (const auto& [kernel, suffix] : unit.entries) out += "#undef " + kernel + "\n";
    return out + unit.appended(symbol);
}

}  // namespace autotune::jit
