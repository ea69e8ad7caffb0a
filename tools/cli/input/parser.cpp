#include "tools/cli/input/parser.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <deque>
#include <numeric>

namespace autotune::cli {
namespace {

std::size_t edit_distance(const std::string& a, const std::string& b) {
    std::vector<std::size_t> row(b.size() + 1);
    std::iota(row.begin(), row.end(), std::size_t{0});
    for (std::size_t i = 1; i <= a.size(); ++i) {
        std::size_t diagonal = row[0];
        row[0] = i;
        for (std::size_t j = 1; j <= b.size(); ++j) {
            const std::size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
            diagonal = row[j];
            row[j] = std::min({row[j] + 1, row[j - 1] + 1, replaced});
        }
    }
    return row[b.size()];
}

std::string did_you_mean(const std::string& word, const std::vector<std::string>& known) {
    const std::string close = nearest(word, known);
    return close.empty() ? "" : " (did you mean " + close + "?)";
}

[[noreturn]] void refuse_command(const std::vector<Command>& commands, const std::string& word) {
    std::vector<std::string> names;
    for (const Command& command : commands) names.push_back(command.name);
    throw Error(ErrorCode::usage,
                "unknown command '" + word + "'" + did_you_mean(word, names) + "; the commands are " + join(names, ", "));
}

const Command& find_command(const std::vector<Command>& commands, const std::string& name) {
    const auto found = std::find_if(commands.begin(), commands.end(), [&](const Command& c) { return c.name == name; });
    if (found == commands.end()) refuse_command(commands, name);
    return *found;
}

// CLI11 splits the words; what they mean and every message is ours, so that each names the culprit and the remedy.
class CommandParser {
  public:
    CommandParser(const Command& command, std::vector<Flag> flags) : command_(command), flags_(std::move(flags)) {
        app_.set_help_flag();
        app_.allow_extras();
        for (const Flag& flag : flags_) declare(flag);
        app_.add_flag("-h,--help", help_);
    }

    Parsed parse(std::vector<std::string> words) {
        std::reverse(words.begin(), words.end());
        try {
            app_.parse(words);
        } catch (const CLI::ParseError& error) {
            refuse_value(error.what());
        }
        Parsed parsed{.kind = help_ ? Parsed::Kind::help : Parsed::Kind::run, .command = &command_, .arguments = {}};
        if (help_) return parsed;
        for (const std::string& word : app_.remaining()) take_word(parsed.arguments, word);
        if (parsed.arguments.words().size() < command_.fewest_words) {
            throw Error(ErrorCode::usage, "autotune " + command_.name + " wants " + command_.words + hint());
        }
        for (std::size_t i = 0; i < flags_.size(); ++i) take_flag(parsed.arguments, flags_[i], given_[i]);
        return parsed;
    }

  private:
    struct Given {
        std::vector<std::string> values;
        bool on = false;
    };

    void declare(const Flag& flag) {
        Given& given = given_.emplace_back();
        if (flag.form.empty()) {
            app_.add_flag("--" + flag.name, given.on);
        } else {
            app_.add_option("--" + flag.name, given.values)
                ->expected(1)
                ->allow_extra_args(false)
                ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
        }
    }

    std::string hint() const { return "; `autotune " + command_.name + " --help` shows how"; }

    [[noreturn]] void refuse_value(const std::string& text) const {
        const std::string flag = text.substr(0, text.find_first_of(": "));
        for (const Flag& known : flags_) {
            if ("--" + known.name == flag) throw Error(ErrorCode::usage, flag + " wants a value: " + known.form + hint());
        }
        throw Error(ErrorCode::usage, text + hint());
    }

    void take_word(Arguments& arguments, const std::string& word) const {
        if (word.size() > 1 && word.front() == '-') {
            std::vector<std::string> names;
            for (const Flag& flag : flags_) names.push_back("--" + flag.name);
            throw Error(ErrorCode::usage, "unknown flag '" + word + "'" + did_you_mean(word, names) + hint());
        }
        if (command_.words.empty()) throw Error(ErrorCode::usage, "'" + word + "' is not expected here" + hint());
        arguments.add_word(word);
    }

    void take_flag(Arguments& arguments, const Flag& flag, const Given& given) const {
        if (given.on) arguments.add(flag.name, "");
        if (given.values.size() > 1 && !flag.several) {
            throw Error(ErrorCode::usage,
                        "--" + flag.name + " is given " + std::to_string(given.values.size()) + " times; once is enough");
        }
        for (const std::string& value : given.values) arguments.add(flag.name, value);
    }

    const Command& command_;
    std::vector<Flag> flags_;
    CLI::App app_;
    std::deque<Given> given_;  // CLI11 keeps references
    bool help_ = false;
};

bool is_help(const std::string& word) {
    return word == "-h" || word == "--help" || word == "help";
}

}  // namespace

std::string nearest(const std::string& word, const std::vector<std::string>& known) {
    std::string best;
    std::size_t best_distance = 3;
    for (const std::string& candidate : known) {
        const std::size_t distance = edit_distance(word, candidate);
        if (distance < best_distance && distance < candidate.size()) {
            best = candidate;
            best_distance = distance;
        }
    }
    return best;
}

Parsed parse(const std::vector<Command>& commands, const std::vector<const Op*>& ops, std::vector<std::string> words) {
    if (words.empty()) return {.kind = Parsed::Kind::help, .command = nullptr, .arguments = {}};
    if (words.front() == "--version" || words.front() == "-V")
        return {.kind = Parsed::Kind::version, .command = nullptr, .arguments = {}};
    if (is_help(words.front())) {
        const Command* command = words.size() > 1 ? &find_command(commands, words[1]) : nullptr;
        return {.kind = Parsed::Kind::help, .command = command, .arguments = {}};
    }
    std::string name = "tune";
    if (words.front().front() != '-') {
        name = words.front();
        words.erase(words.begin());
    }
    const Command& command = find_command(commands, name);
    return CommandParser(command, flags_of(command, ops)).parse(std::move(words));
}

}  // namespace autotune::cli
