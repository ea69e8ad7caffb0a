#include <istream>

#include "tools/cli/command.h"
#include "tools/cli/input/input_file.h"
#include "tools/cli/rows.h"

namespace autotune::cli {
namespace {

ExitCode run_import(Session& session, const Arguments& arguments) {
    db::WinnerStore& store = session.open_store();
    std::vector<std::pair<std::string, db::TakeReport>> taken;
    for (const std::string& path : arguments.words()) {
        if (session.stopped()) break;
        InputFile buffer(path, [&session] { return session.stopped(); });
        std::istream file(&buffer);
        taken.emplace_back(path, db::import_lines(store, file, take_options(session)));
    }
    return report_taken(session, taken);
}

}  // namespace

Command import_command() {
    return {.name = "import",
            .about = "take winners from files that export wrote; every row is checked",
            .examples = {"autotune import winners.jsonl", "autotune import winners.jsonl --dry-run"},
            .flags = std::vector<Flag>{dry_run_flag(), templates_flag()} + store_flags() + output_flags(),
            .takes_op_options = false,
            .words = "FILE...",
            .fewest_words = 1,
            .run = run_import,
            .saves_on_stop = true};
}

}  // namespace autotune::cli
