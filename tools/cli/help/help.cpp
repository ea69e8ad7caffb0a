#include "tools/cli/help/help.h"

#include <fmt/format.h>

#include <algorithm>

#include "tools/cli/input/shapes.h"
#include "tools/cli/output/wrap.h"

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

constexpr std::size_t kWidestLeft = 24;  // a longer flag has a line of its own

std::string flag_lines(const Flag& flag, std::size_t width) {
    std::string about = flag.about;
    if (!flag.allowed.empty()) about += " (" + join(flag.allowed, ", ") + ")";
    const std::string left = "  " + left_column(flag);
    const std::string indent(width + 4, ' ');
    if (left.size() > width + 2) return left + "\n" + wrapped(indent, about);
    return wrapped(left + indent.substr(left.size()), about);
}

// Of the left column: the longest flag in it.
std::size_t left_width(const std::vector<Flag>& flags) {
    std::size_t width = 0;
    for (const Flag& flag : flags) {
        if (left_column(flag).size() <= kWidestLeft) width = std::max(width, left_column(flag).size());
    }
    return width;
}

}  // namespace

std::string program_help(const std::vector<Command>& commands) {
    std::string text =
        "autotune finds the fastest kernel for one problem on one GPU and remembers it.\n\n"
        "  autotune --op hgemm --shape 4096x4096x2048          tune one problem\n"
        "  autotune sweep --op hgemm --shapes 1024:4096:1024x4096x2048   tune many\n\n"
        "usage: autotune [COMMAND] [FLAGS]      without a command: tune\n\ncommands:\n";
    for (const Command& command : commands) text += fmt::format("  {:<12} {}\n", command.name, command.about);
    text += "\n`autotune COMMAND --help` shows its flags and examples; `autotune -V` the version.\n\nexit codes:\n";
    for (const auto& [code, meaning] : exit_code_meanings()) text += fmt::format("  {:<5} {}\n", static_cast<int>(code), meaning);
    return text;
}

std::string command_help(const Command& command, const std::vector<const Op*>& ops) {
    std::string text = command.about + "\n\n" + usage_line(command);
    if (!command.examples.empty()) text += "\nexamples:\n";
    for (const std::string& example : command.examples) text += "  " + example + "\n";
    const std::vector<Flag> flags = flags_of(command, ops);
    if (!flags.empty()) text += "\nflags:\n";
    for (std::size_t i = 0; i < flags.size(); ++i) {
        if (i == command.flags.size()) text += "\noptions of the operation:\n";
        text += flag_lines(flags[i], left_width(flags));
    }
    if (std::any_of(flags.begin(), flags.end(), [](const Flag& flag) { return flag.name == "shapes"; }))
        text += "\n" + shapes_file_help();
    return text;
}

}  // namespace autotune::cli
