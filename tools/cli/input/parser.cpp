#include "tools/cli/input/parser.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <deque>

#include "src/core/error.h"
#include "src/core/spelling.h"

namespace autotune::cli {
namespace {

bool names_an_op(const std::vector<const Op*>& ops, const std::string& word) {
    return std::any_of(ops.begin(), ops.end(), [&](const Op* op) {
        const std::vector<OpAlias> aliases = op->aliases();
        return op->name() == word ||
               std::any_of(aliases.begin(), aliases.end(), [&](const OpAlias& alias) { return alias.name == word; });
    });
}

const Command& find_command(const std::vector<Command>& commands, const std::vector<const Op*>& ops, const std::string& word) {
    std::vector<std::string> names;
    for (const Command& command : commands) names.push_back(command.name);
    const std::string name = known_word(word, names);
    const auto found = std::find_if(commands.begin(), commands.end(), [&](const Command& c) { return c.name == name; });
    if (found != commands.end()) return *found;
    if (name.empty()) throw Error(ErrorCode::usage, "the command is empty; the commands are " + join(names, ", "));
    if (names_an_op(ops, name)) {
        throw Error(ErrorCode::usage,
                    "'" + name + "' is an operation and no command; write `autotune --op " + name + " --shape ...`");
    }
    throw Error(ErrorCode::usage,
                "unknown command '" + name + "'" + did_you_mean(name, names) + "; the commands are " + join(names, ", "));
}

bool looks_like_a_shape(const std::string& word) {
    const std::string shape = plain_shape(word);
    return shape.find('x') != std::string::npos && shape.find_first_not_of("0123456789x,:*") == std::string::npos;
}

// CLI11 only splits the words. Their meaning and every message are ours, so that each message names the wrong word and the
// remedy.
class CommandParser {
  public:
    CommandParser(const Command& command, std::vector<Flag> flags) : command_(command), flags_(std::move(flags)) {
        app_.set_help_flag();
        app_.allow_extras();
        for (const Flag& flag : flags_) declare(flag);
        app_.add_flag("-h,--help", help_);
    }

    Parsed parse(std::vector<std::string> words) {
        for (const std::string& word : words) check_joined_value(word);
        std::reverse(words.begin(), words.end());
        try {
            app_.parse(words);
        } catch (const CLI::ParseError& error) {
            refuse_value(error.what());
        }
        Parsed parsed{.kind = help_ ? Parsed::Kind::help : Parsed::Kind::run, .command = &command_, .arguments = {}};
        if (help_) {  // --help is about the named op, whatever else the line contains
            for (std::size_t i = 0; i < flags_.size(); ++i)
                if (flags_[i].name == "op" && !given_[i].values.empty()) parsed.arguments.add("op", given_[i].values.back());
            return parsed;
        }
        for (const std::string& word : app_.remaining()) take_word(parsed.arguments, word);
        if (parsed.arguments.words().size() < command_.min_positional) {
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

    void refuse_joined_value(const Flag& flag, const std::string& word) const {
        const std::string what = "--" + flag.name;
        if (!word.starts_with(what + "=")) return;
        if (flag.form.empty())
            throw Error(ErrorCode::usage, what + " takes no value, and has '" + word.substr(what.size() + 1) + "'");
        if (word.size() == what.size() + 1) throw Error(ErrorCode::usage, what + " is empty; give " + flag.form + hint());
    }

    // Refuses values that CLI11 would misread. For "--op=" it would take the next word as the value, and "--json=no" would turn
    // the switch off.
    void check_joined_value(const std::string& word) const {
        for (const Flag& flag : flags_) refuse_joined_value(flag, word);
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
            const std::string name = word.substr(0, word.find('='));
            const bool has_one_dash = std::find(names.begin(), names.end(), "-" + name) != names.end();
            throw Error(ErrorCode::usage, "unknown flag '" + name + "'" +
                                              (has_one_dash ? " (did you mean -" + name + "?)" : did_you_mean(name, names)) +
                                              hint());
        }
        if (command_.words.empty()) {
            const bool is_shape = command_.takes_op_options && looks_like_a_shape(word);
            throw Error(ErrorCode::usage, "'" + word + "' is not expected here" +
                                              (is_shape ? " (did you mean --shape " + word + "?)" : "") + hint());
        }
        arguments.add_word(word);
    }

    void take_flag(Arguments& arguments, const Flag& flag, const Given& given) const {
        if (given.on) arguments.add(flag.name, "");
        if (given.values.size() > 1 && !flag.several) {
            throw Error(ErrorCode::usage,
                        "--" + flag.name + " is given " + std::to_string(given.values.size()) + " times; once is enough");
        }
        for (const std::string& value : given.values) arguments.add(flag.name, checked_value(flag, value));
    }

    // The value in the command's usual spelling. Values of op options are checked by the op.
    std::string checked_value(const Flag& flag, const std::string& value) const {
        const std::string what = "--" + flag.name;
        if (trimmed(value).empty()) throw Error(ErrorCode::usage, what + " is empty; give " + flag.form + hint());
        if (flag.check) flag.check(what, value);
        const bool is_ours = &flag < flags_.data() + command_.flags.size();
        if (flag.allowed.empty() || !is_ours) return value;
        if (flag.form != "LIST") return parse_word(value, what, flag.allowed);
        std::vector<std::string> items;
        for (const std::string& item : split(value, ',')) {
            if (trimmed(item).empty())
                throw Error(ErrorCode::usage, what + " has an empty item in '" + value + "'; separate by one comma");
            items.push_back(parse_word(item, what, flag.allowed));
        }
        return join(items, ",");
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

Parsed parse(const std::vector<Command>& commands, const std::vector<const Op*>& ops, std::vector<std::string> words) {
    if (words.empty()) return {.kind = Parsed::Kind::help, .command = nullptr, .arguments = {}};
    if (words.front() == "--version" || words.front() == "-V")
        return {.kind = Parsed::Kind::version, .command = nullptr, .arguments = {}};
    std::string name = "tune";
    if (is_help(words.front())) {
        if (words.size() == 1) return {.kind = Parsed::Kind::help, .command = nullptr, .arguments = {}};
        words.front() = "--help";  // "help tune --op X" and "--help tune" mean "tune --help --op X"
        if (!words[1].starts_with('-')) std::swap(words[0], words[1]);
    }
    if (!words.front().starts_with('-')) {
        name = words.front();
        words.erase(words.begin());
    }
    const Command& command = find_command(commands, ops, name);
    return CommandParser(command, flags_of(command, ops)).parse(std::move(words));
}

}  // namespace autotune::cli
