#include <istream>
#include <memory>

#include "tools/cli/command.h"
#include "tools/cli/input/input_file.h"
#include "tools/cli/shared/rows.h"

namespace autotune::cli {
namespace {

std::unique_ptr<InputFile> open_input(Session& session, const std::string& path) {
    return std::make_unique<InputFile>(
        path, [&session] { return session.stopped(); }, [&session](const std::string& text) { session.remark(text); });
}

// Every file is opened before the database, so that a wrong name leaves no empty database behind. Files that can be opened again
// are closed, because there may be more of them than a process may have open.
ExitCode run_import(Session& session, const Arguments& arguments) {
    std::vector<std::unique_ptr<InputFile>> inputs;
    for (const std::string& path : arguments.words()) {
        inputs.push_back(open_input(session, path));
        if (inputs.back()->is_regular()) inputs.back().reset();
    }
    std::vector<std::pair<std::string, db::TakeReport>> taken;
    take_rows(session, [&](db::WinnerStore& store) {
        for (std::size_t i = 0; i < inputs.size() && !session.stopped(); ++i) {
            const std::string& path = arguments.words()[i];
            const std::unique_ptr<InputFile> buffer = inputs[i] ? std::move(inputs[i]) : open_input(session, path);
            std::istream file(buffer.get());
            taken.emplace_back(path, db::import_lines(store, file, take_options(session)));
        }
    });
    return report_taken(session, taken);
}

}  // namespace

Command import_command() {
    return {.name = "import",
            .about = "take winners from files that export wrote; every row is checked",
            .examples = {"autotune import winners.jsonl", "autotune import winners.jsonl --dry-run"},
            .flags = std::vector<Flag>{dry_run_flag(), templates_flag()} + store_flags() + output_flags() +
                     std::vector<Flag>{kernel_flag()},
            .takes_op_options = false,
            .words = "FILE...",
            .min_positional = 1,
            .run = run_import,
            .saves_on_interrupt = true};
}

}  // namespace autotune::cli
