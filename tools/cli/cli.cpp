#include "tools/cli/cli.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <exception>
#include <new>

#include "src/catalogue/op_names.h"
#include "src/core/error.h"
#include "tools/cli/command.h"
#include "tools/cli/help/completion.h"
#include "tools/cli/help/help.h"
#include "tools/cli/input/kernel_files.h"
#include "tools/cli/input/parser.h"
#include "tools/cli/output/terminal/messages.h"
#include "tools/cli/output/terminal/printable_stream.h"

namespace autotune::cli {
namespace {

constexpr std::string_view kSource = "autotune";  // of log entries

std::string help_text(const std::vector<Command>& commands, const Catalogue& catalogue, const Parsed& parsed) {
    if (parsed.command == nullptr) return program_help(commands);
    if (!parsed.arguments.has("op") || !parsed.command->takes_op_options) return command_help(*parsed.command, catalogue.ops());
    const std::vector<std::string> names = op_names(catalogue);
    const std::string name = parse_word(parsed.arguments.text("op"), "--op", names);
    return command_help(*parsed.command, *catalogue.find_op(name), name);
}

}  // namespace

Cli::Cli(Streams streams, Environment environment, Services& services, Program program)
    : streams_(streams), environment_(std::move(environment)), services_(services), program_(std::move(program)) {}

ExitCode Cli::run(const std::vector<std::string>& words) {
    try {
        const ExitCode code = dispatch(words);
        streams_.out.flush();
        if (streams_.out || streams_.reader_left()) return code;
        const int why = streams_.out_failure ? streams_.out_failure() : 0;
        return fail(ExitCode::error,
                    std::string("standard output cannot be written") + (why == 0 ? "" : std::string(": ") + std::strerror(why)));
    } catch (const Error& error) {
        const bool go_on = error.code() == ErrorCode::interrupted;
        return fail(exit_code_of(error.code()), error.what() + std::string(go_on ? "; run the same command again to go on" : ""));
    } catch (const std::bad_alloc&) {
        return fail(ExitCode::error, "out of memory");
    } catch (const std::exception& error) {
        return fail(ExitCode::error, std::string("internal error: ") + error.what());
    }
}

ExitCode Cli::fail(ExitCode code, const std::string& message) {
    say(streams_.err, Message::error, message);
    if (log_ != nullptr && !log_->is_on_standard_error()) log_to(log_.get(), LogLevel::error, kSource, [&] { return message; });
    return code;
}

ExitCode Cli::dispatch(const std::vector<std::string>& words) {
    const std::vector<Command> commands = all_commands();
    Catalogue catalogue = Catalogue::embedded();
    if (!words.empty() && words.front() == "__complete") {  // The shells' completion scripts call this.
        streams_.out << completion_lines(complete(commands, catalogue, {words.begin() + 1, words.end()}));
        return ExitCode::done;
    }
    read_kernels(words, catalogue);
    Parsed parsed = parse(commands, catalogue.ops(), words);
    if (parsed.kind == Parsed::Kind::version) {
        streams_.out << "autotune " << program_.version << "\n";
        return ExitCode::done;
    }
    if (parsed.kind == Parsed::Kind::help) {
        streams_.out << help_text(commands, catalogue, parsed);
        return ExitCode::done;
    }
    mean_the_kernel(*parsed.command, parsed.arguments);
    return run_command(*parsed.command, parsed.arguments);
}

// Reads the kernel files of the line. A kernel file brings an op, and the line may have options of this op.
void Cli::read_kernels(const std::vector<std::string>& words, Catalogue& catalogue) {
    const std::vector<std::string> paths = kernel_paths_in(words);
    if (paths.empty()) return;
    const kernel_files::LoadOptions options = kernel_load_options(catalogue, environment_, services_);
    for (const std::string& path : paths) {
        kernel_files::KernelFile file = kernel_files::load_file_or_throw(path, options);
        defaults_ = std::move(file.defaults);
        kernels_.push_back(std::move(file.family));
        catalogue.add(kernels_.back());
    }
}

// Fills in what the line leaves out. Without --op it means the op of the only kernel file. If a command needs one problem and the
// line has no --shape, it means the file's first example.
void Cli::mean_the_kernel(const Command& command, Arguments& arguments) const {
    if (kernels_.size() != 1) return;
    const auto takes = [&](const char* name) {
        return std::any_of(command.flags.begin(), command.flags.end(), [&](const Flag& flag) { return flag.name == name; });
    };
    const OpDefinition& op = *kernels_.front().op;
    if (takes("op") && !arguments.has("op")) arguments.add("op", op.name);
    take_defaults(command, arguments);
    if (arguments.text("op") != op.name || arguments.has("shape") || arguments.has("shapes")) return;
    constexpr std::array<std::string_view, 5> kOfOneProblem = {"tune", "compile", "bench", "explain", "record"};
    if (std::find(kOfOneProblem.begin(), kOfOneProblem.end(), command.name) == kOfOneProblem.end() || !takes("shape")) return;
    std::vector<std::string> extents;
    for (const std::int64_t extent : op.examples.front().extents) extents.push_back(std::to_string(extent));
    arguments.add("shape", join(extents, "x"));
    for (const auto& [name, value] : op.examples.front().attributes)
        if (!arguments.has(name)) arguments.add(name, value);
}

// The file's [search] and [measure], where the line says nothing. A limit on the line replaces both limits of the file.
void Cli::take_defaults(const Command& command, Arguments& arguments) const {
    const bool has_limit = arguments.has("budget") || arguments.has("trials");
    for (const auto& [name, value] : defaults_) {
        const auto flag =
            std::find_if(command.flags.begin(), command.flags.end(), [&](const Flag& each) { return each.name == name; });
        if (flag == command.flags.end() || arguments.has(name) || (has_limit && (name == "budget" || name == "trials"))) continue;
        const std::string what = "the kernel file's '" + name + "'";
        const bool is_known =
            flag->allowed.empty() || std::find(flag->allowed.begin(), flag->allowed.end(), value) != flag->allowed.end();
        if (!is_known) throw Error(ErrorCode::usage, what + " is one of " + join(flag->allowed) + ", not '" + value + "'");
        if (flag->check) flag->check(what, value);
        arguments.add(name, value);
    }
}

void Cli::open_log(const Command& command, const Arguments& arguments) {
    log_ = cli::open_log(arguments, streams_.err);
    if (log_ == nullptr) return;
    if (log_->is_on_standard_error()) streams_.err_is_terminal = false;  // log entries would break up a progress line
    log_to(log_.get(), LogLevel::info, kSource, [&] { return program_.version + ", command " + command.name; });
}

ExitCode Cli::run_command(const Command& command, const Arguments& arguments) {
    open_log(command, arguments);
    PrintableBuffer printable(streams_.out, arguments.has("json") ? PrintableBuffer::Form::json : PrintableBuffer::Form::text);
    std::ostream out(&printable);
    Session session({.out = out,
                     .err = streams_.err,
                     .out_is_terminal = streams_.out_is_terminal,
                     .err_is_terminal = streams_.err_is_terminal,
                     .out_failure = streams_.out_failure,
                     .err_columns = streams_.err_columns},
                    environment_, services_, program_, arguments);
    session.add_kernels(kernels_);
    session.log_to(log_.get());
    if (program_.saves_on_interrupt != nullptr) program_.saves_on_interrupt->store(command.saves_on_interrupt);
    try {
        const ExitCode code = command.run(session, arguments);
        session.close();
        out.flush();
        log_to(log_.get(), LogLevel::info, kSource, [&] { return "exit code " + std::to_string(static_cast<int>(code)); });
        return code;
    } catch (...) {
        session.close();  // The warnings give the reason. Closing also ends a JSON array that was begun.
        out.flush();
        throw;
    }
}

}  // namespace autotune::cli
