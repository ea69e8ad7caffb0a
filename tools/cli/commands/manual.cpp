#include "tools/cli/help/manual.h"

#include <nlohmann/json.hpp>

#include "tools/cli/command.h"
#include "tools/cli/output/data/json_format.h"
#include "tools/cli/session.h"

namespace autotune::cli {
namespace {

ExitCode run_manual(Session& session, const Arguments&) {
    const std::string page = manual_page(all_commands(), session.catalogue().ops(), session.program().version);
    if (session.json()) {
        print_json(session, {{"page", page}});
    } else {
        session.out() << page;
    }
    return ExitCode::done;
}

}  // namespace

Command manual_command() {
    return {.name = "manual",
            .about = "print the manual page",
            .examples = {"autotune manual | man -l -", "autotune manual > ~/.local/share/man/man1/autotune.1"},
            .flags = output_flags(),
            .takes_op_options = false,
            .words = "",
            .min_positional = 0,
            .run = run_manual};
}

}  // namespace autotune::cli
