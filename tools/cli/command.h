#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "src/core/op/op.h"
#include "tools/cli/exit_codes.h"
#include "tools/cli/input/arguments.h"

namespace autotune::cli {

class Session;

// One subcommand as data. Its file is tools/cli/commands/<name>.cpp.
struct Command {
    std::string name;
    std::string about;  // one line
    std::vector<std::string> examples;
    std::vector<Flag> flags;
    bool takes_op_options = false;  // the options of every op are flags too
    std::string words;              // the form of the words that are not flags, such as "FILE..."; empty if none are allowed
    std::size_t min_positional = 0;
    std::function<ExitCode(Session&, const Arguments&)> run;
    // Whether the command saves its results at the first signal. Other commands have nothing to save, so a signal ends them at
    // once, whatever they are waiting for.
    bool saves_on_interrupt = false;
};

// Every command, in the order of the help.
std::vector<Command> all_commands();

Command tune_command();
Command sweep_command();
Command worker_command();
Command fleet_command();
Command sync_command();
Command bench_command();
Command compile_command();
Command warm_command();
Command show_command();
Command explain_command();
Command report_command();
Command verify_command();
Command export_command();
Command import_command();
Command merge_command();
Command families_command();
Command check_command();
Command new_command();
Command record_command();
Command simulate_command();
Command doctor_command();
Command completion_command();
Command manual_command();

// ---- flags that several commands share, with the same spelling and help text ----
std::vector<Flag> operator+(std::vector<Flag> left, const std::vector<Flag>& right);
std::vector<Flag> problem_flags();    // --op --shape
std::vector<Flag> choice_flags();     // --family --config --param
std::vector<Flag> search_flags();     // --budget --trials --seed --strategy --retune --keep and those of measuring_flags()
std::vector<Flag> measuring_flags();  // --l2 --streams
std::vector<Flag> device_flags();     // --device --require-gpu
std::vector<Flag> store_flags();      // --db
std::vector<Flag> output_flags();     // --json
std::vector<Flag> table_flags();      // --json --csv
std::vector<Flag> log_flags();        // --log-level --log-file: of every command
Flag jobs_flag();
Flag full_flag();  // --full
Flag shapes_flag();
Flag arch_flag();
Flag keep_flag();
Flag templates_flag();
Flag dry_run_flag();
Flag kernel_flag();  // --kernel: of every command that knows a user's op
FlagCheck seed_value();

// Flags of `command`, with the options of `ops` if it accepts them; an option that two ops share is listed once.
std::vector<Flag> flags_of(const Command& command, const std::vector<const Op*>& ops);

}  // namespace autotune::cli
