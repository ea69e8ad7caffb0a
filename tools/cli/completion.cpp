#include "tools/cli/completion.h"

#include <fmt/format.h>

namespace autotune::cli {
namespace {

std::vector<std::string> op_names(const std::vector<const Op*>& ops) {
    std::vector<std::string> names;
    for (const Op* op : ops) {
        for (const OpAlias& alias : op->aliases()) names.push_back(alias.name);
        names.emplace_back(op->name());
    }
    return names;
}

bool takes_a_path(const Flag& flag) {
    return flag.form.find("FILE") != std::string::npos || flag.form.find("DIR") != std::string::npos;
}

std::vector<std::string> values_of(const Flag& flag, const std::vector<const Op*>& ops) {
    return flag.name == "op" ? op_names(ops) : flag.allowed;
}

std::string flag_words(const Command& command, const std::vector<const Op*>& ops) {
    std::vector<std::string> words;
    for (const Flag& flag : flags_of(command, ops)) words.push_back("--" + flag.name);
    words.push_back("--help");
    return join(words, " ");
}

// One case per command: what may follow a flag, else the flags.
std::string bash_case(const Command& command, const std::vector<const Op*>& ops) {
    std::string text = fmt::format("    {})\n      case $before in\n", command.name);
    for (const Flag& flag : flags_of(command, ops)) {
        const std::vector<std::string> values = values_of(flag, ops);
        if (!values.empty()) text += fmt::format("        --{}) words='{}' ;;\n", flag.name, join(values, " "));
        if (values.empty() && takes_a_path(flag))
            text += fmt::format("        --{}) COMPREPLY=($(compgen -f -- \"$now\")); return ;;\n", flag.name);
        if (values.empty() && !takes_a_path(flag) && !flag.form.empty())
            text += fmt::format("        --{}) return ;;\n", flag.name);
    }
    text += fmt::format("        *) words='{}' ;;\n      esac\n", flag_words(command, ops));
    if (!command.words.empty()) text += "      case $now in -*) ;; *) COMPREPLY=($(compgen -f -- \"$now\")); return ;; esac\n";
    return text + "      ;;\n";
}

// Single quotes end a zsh word; brackets and colons end a description.
std::string zsh_description(const std::string& about) {
    std::string text;
    for (const char c : about) {
        if (c == '\'') continue;
        if (c == '[' || c == ']' || c == ':') text += '\\';
        text += c;
    }
    return text;
}

std::string zsh_flag(const Flag& flag, const std::vector<const Op*>& ops) {
    std::string text = fmt::format("        '{}--{}[{}]", flag.several ? "*" : "", flag.name, zsh_description(flag.about));
    const std::vector<std::string> values = values_of(flag, ops);
    if (!values.empty()) {
        text += fmt::format(":{}:({})", flag.name, join(values, " "));
    } else if (takes_a_path(flag)) {
        text += ":file:_files";
    } else if (!flag.form.empty()) {
        text += fmt::format(":{}:", flag.name);
    }
    return text + "' \\\n";
}

}  // namespace

std::string bash_completion(const std::vector<Command>& commands, const std::vector<const Op*>& ops) {
    std::vector<std::string> names;
    std::string cases;
    for (const Command& command : commands) {
        names.push_back(command.name);
        cases += bash_case(command, ops);
    }
    return "# bash completion for autotune; made by `autotune completion bash`\n_autotune() {\n"
           "  local now=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} command=${COMP_WORDS[1]} words=\n"
           "  if [ \"$COMP_CWORD\" -eq 1 ]; then\n    words='" +
           join(names, " ") +
           " --help --version'\n  else\n    case $command in -*) command=tune ;; esac\n    case $command in\n" + cases +
           "    esac\n  fi\n  COMPREPLY=($(compgen -W \"$words\" -- \"$now\"))\n}\ncomplete -F _autotune autotune\n";
}

std::string zsh_completion(const std::vector<Command>& commands, const std::vector<const Op*>& ops) {
    std::string described, cases;
    for (const Command& command : commands) {
        described += fmt::format("    '{}:{}'\n", command.name, zsh_description(command.about));
        cases += fmt::format("    {})\n      _arguments \\\n", command.name);
        for (const Flag& flag : flags_of(command, ops)) cases += zsh_flag(flag, ops);
        if (!command.words.empty()) cases += "        '*:file:_files' \\\n";
        cases += "        '--help[show help]'\n      ;;\n";
    }
    return "#compdef autotune\n# zsh completion for autotune; made by `autotune completion zsh`\n_autotune() {\n  local -a "
           "commands=(\n" +
           described +
           "  )\n  if (( CURRENT == 2 )) && [[ $words[2] != -* ]]; then\n    _describe command commands\n    return\n  fi\n"
           "  local command=$words[2]\n  [[ $command == -* ]] && command=tune || { shift words; (( CURRENT-- )) }\n  case "
           "$command in\n" +
           cases + "  esac\n}\n_autotune \"$@\"\n";
}

}  // namespace autotune::cli
