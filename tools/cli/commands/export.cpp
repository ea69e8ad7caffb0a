#include <functional>
#include <nlohmann/json.hpp>

#include "db/json_line.h"
#include "db/winner_store.h"
#include "src/core/error.h"
#include "src/core/write_file.h"
#include "tools/cli/command.h"
#include "tools/cli/output/json_format.h"
#include "tools/cli/output/messages.h"
#include "tools/cli/rows.h"

namespace autotune::cli {
namespace {

// The rows that were tuned here, oldest first, until `use` returns false. Shipped ones are the same for everybody.
void for_each_row(Session& session, const db::WinnerStore& store, const RowFilter& filter,
                  const std::function<bool(const db::Winner&)>& use) {
    if (filter.problems.empty()) {
        store.for_each_oldest_first({.op = filter.op, .class_key = "", .device_key = filter.device_key}, use);
        return;
    }
    for (const db::Winner& row : matching_rows(store, filter, SIZE_MAX).winners) {
        if (!row.shipped && !use(with_evidence(store, session.catalogue(), row))) return;
    }
}

// How many were written. A stream that fails ends it; who gave the stream asks it why.
std::int64_t write_rows(Session& session, const db::WinnerStore& store, const RowFilter& filter, std::ostream& out) {
    std::int64_t written = 0;
    for_each_row(session, store, filter, [&](const db::Winner& row) {
        out << db::to_json_line(row) << "\n";
        written += out.good() ? 1 : 0;
        return out.good();
    });
    return written;
}

ExitCode print_rows(Session& session, const db::WinnerStore& store, const RowFilter& filter) {
    if (session.json()) {
        JsonList list(session, {{"database", store.path()}}, "winners");
        std::int64_t written = 0;
        for_each_row(session, store, filter, [&](const db::Winner& row) {
            list.add_text(db::to_json_line(row));
            ++written;
            return session.out().good();
        });
        list.finish({{"written", written}});
        return ExitCode::done;
    }
    write_rows(session, store, filter, session.out());
    return ExitCode::done;
}

// Throws what the file could not be written for.
void require(std::error_code failed, const std::string& path) {
    if (!failed) return;
    throw Error(ErrorCode::internal, "cannot write all of '" + path + "': " + failed.message() +
                                         (holds_something(path) ? "; what it held before is intact" : ""));
}

ExitCode write_file(Session& session, const db::WinnerStore& store, const RowFilter& filter, const std::string& path) {
    FileWriter file(path);
    if (const std::error_code failed = file.failure())
        throw Error(ErrorCode::usage, "cannot write '" + path + "': " + failed.message() + "; choose another --out");
    std::int64_t written = 0;
    for_each_row(session, store, filter, [&](const db::Winner& row) {
        const bool goes_on = !file.write(db::to_json_line(row) + "\n");
        written += goes_on ? 1 : 0;
        return goes_on;
    });
    require(file.commit(), path);
    if (session.json()) {
        print_json(session, {{"written", written}, {"file", path}});
    } else {
        session.out() << written << " winners written to " << printable(path) << "\n";
    }
    return ExitCode::done;
}

ExitCode run_export(Session& session, const Arguments& arguments) {
    const RowFilter filter = row_filter_of(session);
    const db::WinnerStore& store = session.open_store_to_read();
    if (arguments.has("out")) return write_file(session, store, filter, arguments.text("out"));
    return print_rows(session, store, filter);
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
            .run = run_export};
}

}  // namespace autotune::cli
