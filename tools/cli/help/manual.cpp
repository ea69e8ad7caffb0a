#include "tools/cli/help/manual.h"

#include <algorithm>

#include "tools/cli/environment.h"
#include "tools/cli/input/shapes.h"

namespace autotune::cli {
namespace {

// a flag that at least this many commands have is described once for all of them
constexpr std::ptrdiff_t kShared = 3;

// Escapes text for roff. '-' stays the character that a shell accepts, and no line begins with a roff request.
std::string roff(std::string_view text) {
    std::string escaped;
    for (const char c : text) {
        if (c == '\\') {
            escaped += "\\e";
        } else if (c == '-') {
            escaped += "\\-";
        } else {
            escaped += c;
        }
    }
    return escaped.starts_with(".") || escaped.starts_with("'") ? "\\&" + escaped : escaped;
}

bool same_flag(const Flag& a, const Flag& b) {
    return a.name == b.name && a.form == b.form && a.about == b.about;
}

bool has_flag(const std::vector<Flag>& flags, const Flag& wanted) {
    return std::any_of(flags.begin(), flags.end(), [&](const Flag& flag) { return same_flag(flag, wanted); });
}

// Flags that several commands define in the same way, each once, in the order of their first command.
std::vector<Flag> shared_flags(const std::vector<Command>& commands) {
    std::vector<Flag> shared;
    for (const Command& command : commands) {
        for (const Flag& flag : command.flags) {
            const auto takers =
                std::count_if(commands.begin(), commands.end(), [&](const Command& one) { return has_flag(one.flags, flag); });
            if (takers >= kShared && !has_flag(shared, flag)) shared.push_back(flag);
        }
    }
    return shared;
}

std::string flag_entry(const Flag& flag) {
    std::string entry = ".TP\n\\fB\\-\\-" + roff(flag.name) + "\\fR";
    if (!flag.form.empty()) entry += " \\fI" + roff(flag.form) + "\\fR";
    entry += "\n" + roff(flag.about);
    if (!flag.allowed.empty()) entry += " (" + roff(join(flag.allowed, ", ")) + ")";
    return entry + "\n";
}

std::string command_section(const Command& command, const std::vector<Flag>& shared) {
    std::string text = ".SS " + roff("autotune " + command.name + (command.words.empty() ? "" : " " + command.words)) + "\n" +
                       roff(command.about) + "\n";
    std::vector<std::string> elsewhere;
    for (const Flag& flag : command.flags) {
        if (has_flag(shared, flag)) {
            elsewhere.push_back("\\-\\-" + roff(flag.name));
        } else {
            text += flag_entry(flag);
        }
    }
    if (command.takes_op_options) elsewhere.emplace_back("the options of the operation");
    if (!elsewhere.empty()) text += ".PP\nAlso, as described below: " + join(elsewhere, ", ") + "\n";
    text += ".PP\nExamples:\n.PP\n.nf\n.RS 2\n";
    for (const std::string& example : command.examples) text += roff(example) + "\n";
    return text + ".RE\n.fi\n";
}

std::string op_sections(const std::vector<const Op*>& ops) {
    std::string text;
    for (const Op* op : ops) {
        std::vector<std::string> names;
        for (const OpAlias& alias : op->aliases()) names.push_back(alias.name);
        text += ".SS " + roff(op->name()) + "\n" + roff(op->about()) + ". Shape: " + roff(op->shape_form()) + ".";
        if (!names.empty()) text += " Short names: " + roff(join(names, ", ")) + ".";
        text += "\n";
        for (const OpOption& option : op->options())
            text += flag_entry({option.name, option.form.empty() ? "WORD" : option.form, option.about, false, option.allowed});
    }
    return text;
}

std::string tagged(const std::string& tag, std::string_view text) {
    return ".TP\n\\fB" + roff(tag) + "\\fR\n" + roff(text) + "\n";
}

std::string introduction(const std::string& version) {
    return ".\\\" Printed by `autotune manual`.\n.TH AUTOTUNE 1 \"\" \"autotune " + roff(version) +
           "\" \"User Commands\"\n.SH NAME\nautotune \\- find the fastest CUDA kernel for a problem on this GPU and remember it\n"
           ".SH SYNOPSIS\n\\fBautotune\\fR \\fB\\-\\-op\\fR \\fINAME\\fR \\fB\\-\\-shape\\fR \\fISHAPE\\fR [\\fIFLAGS\\fR]\n.br\n"
           "\\fBautotune\\fR \\fICOMMAND\\fR [\\fIFLAGS\\fR]\n.SH DESCRIPTION\n"
           "\\fBautotune\\fR searches the configurations of its kernel templates for one problem on one GPU. It compiles "
           "candidates,\nchecks their answers against a reference, times them and keeps the winner in a database. Asked again, "
           "it "
           "answers from\nthe database. A line without a command means \\fBtune\\fR.\n.PP\n"
           "Without a GPU candidates are compiled and ranked for any supported architecture, and nothing is timed.\n";
}

}  // namespace

std::string manual_page(const std::vector<Command>& commands, const std::vector<const Op*>& ops, const std::string& version) {
    const std::vector<Flag> shared = shared_flags(commands);
    std::string text = introduction(version) + ".SH COMMANDS\n";
    for (const Command& command : commands) text += command_section(command, shared);
    text += ".SH FLAGS OF SEVERAL COMMANDS\n";
    for (const Flag& flag : shared) text += flag_entry(flag);
    text += ".SH OPERATIONS AND THEIR OPTIONS\n" + op_sections(ops) + ".SH SHAPE FILES\n.nf\n" + roff(shapes_file_help()) +
            ".fi\n.SH EXIT STATUS\n";
    for (const auto& [code, meaning] : exit_code_meanings()) text += tagged(std::to_string(static_cast<int>(code)), meaning);
    text += ".SH ENVIRONMENT\n";
    for (const EnvironmentVariable& variable : environment_variables())
        text += tagged(std::string(variable.name), variable.about);
    return text + ".SH FILES\n" + tagged("$XDG_DATA_HOME/autotune/autotune.db", "the database of winners") +
           tagged("$XDG_CACHE_HOME/autotune", "compiled kernels, which may be deleted at any time") +
           tagged("$XDG_STATE_HOME/autotune", "locks and journals of runs");
}

}  // namespace autotune::cli
