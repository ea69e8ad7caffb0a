#include "src/core/error.h"
#include "tools/cli/command.h"
#include "tools/cli/rows.h"

namespace autotune::cli {
namespace {

void merge_database(Session& session, db::Store& store, const std::string& path, Absorbed& tally) {
    const db::Store other =
        db::Store::open({.path = path, .read_only = true, .create = false, .busy_timeout_ms = 10'000, .shipped = {}});
    const std::vector<db::Winner> rows = other.list({});
    std::size_t number = 0;
    for (const db::Winner& row : rows) {
        if (session.stopped())
            throw Error(ErrorCode::interrupted,
                        "interrupted; " + std::to_string(number) + " rows of " + path + " were looked at");
        ++number;
        absorb(session, store, with_evidence(other, session.catalogue(), row), path + ": " + row.class_key + " " + shape_of(row),
               tally);
    }
}

ExitCode run(Session& session, const Arguments& arguments) {
    db::Store store = session.open_store();
    Absorbed tally;
    for (const std::string& path : arguments.words()) merge_database(session, store, path, tally);
    print_absorbed(session, tally);
    return tally.exit_code();
}

}  // namespace

Command merge_command() {
    return {.name = "merge",
            .about = "take winners from other databases; every row is checked, the newer one is kept",
            .examples = {"autotune merge node1.db node2.db --db all.db"},
            .flags = std::vector<Flag>{{"replace", "", "take a row even if ours is newer", false, {}}, templates_flag()} +
                     store_flags() + output_flags(),
            .takes_op_options = false,
            .words = "DATABASE...",
            .fewest_words = 1,
            .run = run};
}

}  // namespace autotune::cli
