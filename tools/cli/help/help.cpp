#include "tools/cli/help/help.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "tools/cli/input/shapes.h"
#include "tools/cli/output/terminal/wrap.h"
#include "tools/cli/output/text/command_line.h"

namespace autotune::cli {
namespace {

std::string usage_line(const Command& command) {
    std::string line = "usage: autotune " + command.name;
    if (!command.words.empty()) line += " " + command.words;
    return line + " [FLAGS]\n";
}

std::string left_column(const Flag& flag) {
    return "--" + flag.name + (flag.form.empty() ? "" : " " + flag.form);
}

constexpr std::size_t kWidestLeft = 24;  // after a longer flag, the description begins on the next line

std::string flag_lines(const Flag& flag, std::size_t width) {
    std::string about = flag.about;
    if (!flag.allowed.empty()) about += " (" + join(flag.allowed, ", ") + ")";
    const std::string left = "  " + left_column(flag);
    const std::string indent(width + 4, ' ');
    if (left.size() > width + 2) return left + "\n" + wrapped(indent, about);
    return wrapped(left + indent.substr(left.size()), about);
}

// The width of the left column, which the longest flag determines.
std::size_t left_width(const std::vector<Flag>& flags) {
    std::size_t width = 0;
    for (const Flag& flag : flags) {
        if (left_column(flag).size() <= kWidestLeft) width = std::max(width, left_column(flag).size());
    }
    return width;
}

std::string flags_text(const Command& command, const std::vector<const Op*>& ops, const std::string& of) {
    const std::vector<Flag> flags = flags_of(command, ops);
    std::string text = flags.empty() ? "" : "\nflags:\n";
    for (std::size_t i = 0; i < flags.size(); ++i) {
        if (i == command.flags.size()) text += "\noptions of " + of + ":\n";
        text += flag_lines(flags[i], left_width(flags));
    }
    return text;
}

std::string shapes_text(const Command& command) {
    const bool has_files =
        std::any_of(command.flags.begin(), command.flags.end(), [](const Flag& flag) { return flag.name == "shapes"; });
    return has_files ? "\n" + shapes_file_help() : "";
}

// The meaning of a name: "hgemm is gemm with acc=f32 dtype=f16. gemm: C = ..."
std::string meaning_of(const Op& op, const std::string& name) {
    std::string text;
    for (const OpAlias& alias : op.aliases()) {
        if (alias.name != name || alias.name == op.name()) continue;
        text = name + " is " + std::string(op.name()) + " with";
        for (const auto& [option, value] : alias.presets) text += " " + option + "=" + value;
        text += ". ";
    }
    return text + std::string(op.name()) + ": " + std::string(op.about()) + ". --shape is " + std::string(op.shape_form()) + ".";
}

// Three examples that use this name of the op, or else three of the op.
std::vector<ProblemRequest> examples_of(const Op& op, const std::string& name) {
    constexpr std::size_t most = 3;
    std::vector<ProblemRequest> all = op.examples(), named;
    std::copy_if(all.begin(), all.end(), std::back_inserter(named), [&](const auto& request) { return request.op == name; });
    if (named.empty()) named = all;
    named.resize(std::min(most, named.size()));
    return named;
}

}  // namespace

std::string program_help(const std::vector<Command>& commands) {
    std::string text =
        "autotune finds the fastest kernel for one problem on one GPU and remembers it.\n\n"
        "  autotune --op hgemm --shape 4096x4096x2048          tune one problem\n"
        "  autotune sweep --op hgemm --shapes 1024:4096:1024x4096x2048   tune many\n\n"
        "usage: autotune [COMMAND] [FLAGS]      without a command: tune\n\ncommands:\n";
    for (const Command& command : commands) text += fmt::format("  {:<12} {}\n", command.name, command.about);
    text +=
        "\n`autotune COMMAND --help` shows its flags and examples, with --op NAME those of one operation;\n`autotune -V` the "
        "version.\n\nexit codes:\n";
    for (const auto& [code, meaning] : exit_code_meanings()) text += fmt::format("  {:<5} {}\n", static_cast<int>(code), meaning);
    return text;
}

std::string command_help(const Command& command, const std::vector<const Op*>& ops) {
    std::string text = command.about + "\n\n" + usage_line(command);
    if (!command.examples.empty()) text += "\nexamples:\n";
    for (const std::string& example : command.examples) text += "  " + example + "\n";
    text += flags_text(command, ops, "the operation");
    if (command.takes_op_options) {
        const std::string name = command.name == "tune" ? "" : " " + command.name;
        text += "\n`autotune" + name + " --op NAME --help` shows the options of one operation.\n";
    }
    return text + shapes_text(command);
}

std::string command_help(const Command& command, const Op& op, const std::string& name) {
    std::string text = command.about + "\n\nusage: autotune " + command.name + " --op " + name + " --shape " +
                       std::string(op.shape_form()) + " [FLAGS]\n\n" + wrapped("", meaning_of(op, name)) + "\nexamples:\n";
    for (const ProblemRequest& request : examples_of(op, name)) {
        text += "  autotune " + command.name + " --op " + request.op + " --shape " + shell_word(request.shape);
        for (const auto& [option, value] : request.options) text += " --" + option + " " + shell_word(value);
        text += "\n";
    }
    return text + flags_text(command, {&op}, std::string(op.name())) + shapes_text(command);
}

}  // namespace autotune::cli
