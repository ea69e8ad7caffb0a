#include "tools/cli/help/completion.h"

#include <algorithm>

#include "tools/cli/help/completion_values.h"

namespace autotune::cli {
namespace {

std::vector<Completion> command_completions(const std::vector<Command>& commands) {
    std::vector<Completion> names;
    for (const Command& command : commands) names.push_back({.word = command.name, .about = command.about});
    return names;
}

// A command line up to the cursor: which flags have a value, and which flag still needs one.
struct TypedLine {
    GivenFlags given{};
    const Flag* waiting = nullptr;  // set if the last word is a flag that takes a value
    std::size_t plain_words = 0;    // words that are neither a flag nor a flag's value
};

const Flag* find_flag(const std::vector<Flag>& flags, const std::string& name) {
    const auto found = std::find_if(flags.begin(), flags.end(), [&](const Flag& flag) { return flag.name == name; });
    return found == flags.end() ? nullptr : &*found;
}

TypedLine read_line(const std::vector<Flag>& flags, const std::vector<std::string>& words) {
    TypedLine line;
    for (const std::string& word : words) {
        if (line.waiting != nullptr) {
            line.given[line.waiting->name] = word;
            line.waiting = nullptr;
        } else if (word.starts_with("--")) {
            const std::size_t equals = word.find('=');
            const Flag* flag = find_flag(flags, word.substr(2, equals == std::string::npos ? equals : equals - 2));
            if (flag == nullptr) continue;
            line.given[flag->name] = equals == std::string::npos ? "" : word.substr(equals + 1);
            if (equals == std::string::npos && !flag->form.empty()) line.waiting = flag;
        } else {
            ++line.plain_words;
        }
    }
    return line;
}

std::vector<Completion> flag_completions(const std::vector<Flag>& flags, const GivenFlags& given) {
    std::vector<Completion> words;
    for (const Flag& flag : flags) {
        if (flag.several || given.count(flag.name) == 0) words.push_back({.word = "--" + flag.name, .about = flag.about});
    }
    words.push_back({.word = "--help", .about = "show help"});
    return words;
}

// Completes "--op=hg": offers values after the flag's name.
Completions joined_completions(const std::vector<Flag>& flags, const std::string& typed, const GivenFlags& given,
                               const Catalogue& catalogue) {
    const std::size_t equals = typed.find('=');
    const Flag* flag = find_flag(flags, typed.substr(2, equals - 2));
    if (flag == nullptr || flag->form.empty()) return {};
    Completions completions = value_completions(*flag, typed.substr(equals + 1), given, catalogue);
    for (Completion& completion : completions.words) completion.word = typed.substr(0, equals + 1) + completion.word;
    return completions;
}

// Completes words that are not flags: a choice such as "bash|zsh" once, names of ops and families, or files.
Completions plain_word_completions(const Command& command, const std::string& typed, std::size_t plain_words,
                                   const Catalogue& catalogue) {
    if (command.words.find("NAME") != std::string::npos) return {.words = beginning_with(typed, name_completions(catalogue))};
    if (command.words.find('|') == std::string::npos) return {.paths = PathKind::files};
    Completions completions;
    for (const std::string& word : split(command.words, '|')) completions.words.push_back({.word = word});
    completions.words = plain_words == 0 ? beginning_with(typed, completions.words) : std::vector<Completion>{};
    return completions;
}

}  // namespace

Completions complete(const std::vector<Command>& commands, const Catalogue& catalogue, const std::vector<std::string>& words) {
    const std::string typed = words.empty() ? "" : words.back();
    std::vector<std::string> before(words.begin(), words.empty() ? words.end() : words.end() - 1);
    const bool starts_a_line = before.empty();
    if (starts_a_line && !typed.starts_with("-")) return {.words = beginning_with(typed, command_completions(commands))};
    std::string name = "tune";
    if (!starts_a_line && !before.front().starts_with("-")) {
        name = before.front();
        before.erase(before.begin());
        if (name == "help") return {.words = beginning_with(typed, command_completions(commands))};
    }
    const auto command = std::find_if(commands.begin(), commands.end(), [&](const Command& one) { return one.name == name; });
    if (command == commands.end()) return {};

    const std::vector<Flag> flags = flags_of(*command, catalogue.ops());
    const TypedLine line = read_line(flags, before);
    if (line.waiting != nullptr) return value_completions(*line.waiting, typed, line.given, catalogue);
    if (typed.starts_with("--") && typed.find('=') != std::string::npos)
        return joined_completions(flags, typed, line.given, catalogue);
    if (!typed.starts_with("-") && !command->words.empty())
        return plain_word_completions(*command, typed, line.plain_words, catalogue);
    std::vector<Completion> offered = flag_completions(flags, line.given);
    if (starts_a_line) offered.push_back({.word = "--version", .about = "show the version"});
    return {.words = beginning_with(typed, offered)};
}

std::string completion_lines(const Completions& completions) {
    std::string text;
    for (const Completion& completion : completions.words) text += completion.word + "\t" + completion.about + "\n";
    if (completions.paths == PathKind::files) text += ":files\n";
    if (completions.paths == PathKind::folders) text += ":folders\n";
    if (completions.goes_on) text += ":goes_on\n";
    return text;
}

}  // namespace autotune::cli
