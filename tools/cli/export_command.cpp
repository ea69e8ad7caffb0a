#include <cerrno>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>

#include "db/transfer.h"
#include "src/core/error.h"
#include "tools/cli/command.h"
#include "tools/cli/json_forms.h"
#include "tools/cli/rows.h"

namespace autotune::cli {
namespace {

std::int64_t write_rows(Session& session, const db::Store& store, const RowFilter& filter, std::ostream& out) {
    if (filter.problems.empty())
        return db::export_lines(store, {.op = filter.op, .class_key = "", .device_key = filter.device_key}, out);
    std::int64_t written = 0;
    for (const db::Winner& row : matching_rows(store, filter, SIZE_MAX).winners) {
        // The shipped layer is the same for everybody; what is worth passing on is what was tuned here.
        if (row.shipped) continue;
        out << db::to_json_line(with_evidence(store, session.catalogue(), row)) << "\n";
        ++written;
    }
    return written;
}

ExitCode write_file(Session& session, const db::Store& store, const RowFilter& filter, const std::string& path) {
    std::ofstream file(path, std::ios::trunc);
    if (!file) throw Error(ErrorCode::usage, "cannot write '" + path + "': " + std::strerror(errno) + "; choose another --out");
    const std::int64_t written = write_rows(session, store, filter, file);
    file.close();
    if (!file) throw Error(ErrorCode::internal, "cannot write all of '" + path + "': " + std::strerror(errno));
    if (session.json()) {
        print_json(session, {{"written", written}, {"file", path}});
    } else {
        session.out() << written << " winners written to " << path << "\n";
    }
    return ExitCode::done;
}

ExitCode run(Session& session, const Arguments& arguments) {
    const RowFilter filter = row_filter_of(session);
    const db::Store store = session.open_store_to_read();
    if (arguments.has("out")) return write_file(session, store, filter, arguments.text("out"));
    write_rows(session, store, filter, session.out());
    return ExitCode::done;
}

}  // namespace

Command export_command() {
    return {.name = "export",
            .about = "write winners as text, one JSON object a line",
            .examples = {"autotune export --out winners.jsonl", "autotune export --op hgemm > hgemm.jsonl"},
            .flags = problem_flags() +
                     std::vector<Flag>{shapes_flag(),
                                       {"out", "FILE", "write here instead of standard output", false, {}},
                                       {"device-key", "KEY", "only rows of this device, as show --json names it", false, {}}} +
                     store_flags() + output_flags(),
            .takes_op_options = true,
            .words = "",
            .fewest_words = 0,
            .run = run};
}

}  // namespace autotune::cli
