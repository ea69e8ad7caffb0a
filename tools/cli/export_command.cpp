#include <cerrno>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>

#include "src/core/error.h"
#include "tools/cli/command.h"
#include "tools/cli/json_forms.h"
#include "tools/cli/rows.h"

namespace autotune::cli {
namespace {

std::uint64_t write_rows(Session& session, const db::Store& store, const MatchingRows& rows, std::ostream& out) {
    std::uint64_t written = 0;
    for (const db::Winner& row : rows.winners) {
        // The shipped layer is the same for everybody; what is worth passing on is what was tuned here.
        if (row.shipped && !session.arguments().has("shipped")) continue;
        out << db::to_json_line(with_evidence(store, session.catalogue(), row)) << "\n";
        ++written;
    }
    return written;
}

ExitCode run(Session& session, const Arguments& arguments) {
    const RowFilter filter = row_filter_of(session);
    const db::Store store = session.open_store_to_read();
    const MatchingRows rows = matching_rows(store, filter, SIZE_MAX);
    if (!arguments.has("out")) {
        write_rows(session, store, rows, session.out());
        return ExitCode::done;
    }
    const std::string path = arguments.text("out");
    std::ofstream file(path, std::ios::trunc);
    const std::uint64_t written = file ? write_rows(session, store, rows, file) : 0;
    file.close();
    if (!file) throw Error(ErrorCode::usage, "cannot write '" + path + "': " + std::strerror(errno));
    if (session.json()) {
        print_json(session, {{"written", written}, {"file", path}});
    } else {
        session.out() << written << " winners written to " << path << "\n";
    }
    return ExitCode::done;
}

}  // namespace

Command export_command() {
    return {.name = "export",
            .about = "write winners as text, one JSON object a line",
            .examples = {"autotune export --out winners.jsonl", "autotune export --op hgemm > hgemm.jsonl"},
            .flags = problem_flags() +
                     std::vector<Flag>{{"out", "FILE", "write here instead of standard output", false, {}},
                                       {"device-key", "KEY", "only rows of this device, as show --json names it", false, {}},
                                       {"shipped", "", "shipped winners too", false, {}}} +
                     store_flags() + output_flags(),
            .takes_op_options = true,
            .words = "",
            .fewest_words = 0,
            .run = run};
}

}  // namespace autotune::cli
