#include "db/text/merge.h"

#include "tools/cli/command.h"
#include "tools/cli/shared/rows.h"

namespace autotune::cli {
namespace {

// Every file is checked before the database is opened, so that a missing or damaged one leaves no empty database behind.
ExitCode run_merge(Session& session, const Arguments& arguments) {
    const db::TakeOptions options = take_options(session);
    for (const std::string& path : arguments.words())
        if (!db::check_source(path, options.stopped)) return report_taken(session, {});
    std::vector<std::pair<std::string, db::TakeReport>> taken;
    take_rows(session, [&](db::WinnerStore& store) {
        for (const std::string& path : arguments.words()) {
            if (session.stopped()) break;
            taken.emplace_back(path, db::take_from(store, path, options));
        }
    });
    return report_taken(session, taken);
}

}  // namespace

Command merge_command() {
    return {.name = "merge",
            .about = "take winners from other databases; every row is checked, the better one is kept",
            .examples = {"autotune merge node1.db node2.db --db all.db"},
            .flags = std::vector<Flag>{dry_run_flag(), templates_flag()} + store_flags() + output_flags() +
                     std::vector<Flag>{kernel_flag()},
            .takes_op_options = false,
            .words = "DATABASE...",
            .min_positional = 1,
            .run = run_merge,
            .saves_on_interrupt = true};
}

}  // namespace autotune::cli
