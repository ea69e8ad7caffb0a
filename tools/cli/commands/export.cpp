#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>

#include "db/winner_store.h"
#include "src/core/error.h"
#include "src/core/system/write_file.h"
#include "src/kernel_files/tuned_header.h"
#include "src/records/json_line.h"
#include "tools/cli/command.h"
#include "tools/cli/output/data/json_format.h"
#include "tools/cli/output/terminal/messages.h"
#include "tools/cli/output/text/text_format.h"
#include "tools/cli/shared/rows.h"

namespace autotune::cli {
namespace {

constexpr std::int64_t kNamed = 20;  // at most this many of the omitted rows are listed

// The rows that were tuned here and that an import accepts, oldest first. Shipped rows are the same for everybody.
class ExportedRows {
  public:
    ExportedRows(Session& session, const db::WinnerStore& store, const RowFilter& filter)
        : session_(session), store_(store), filter_(filter), identities_(session.catalogue()) {}

    // Calls `use` until it returns false.
    void each(const std::function<bool(const db::Winner&)>& use);
    // Reports the omitted rows and, if nothing was written, the reason. Returns exit code 7 if a row was omitted.
    ExitCode finish(std::int64_t written);
    std::int64_t left_out() const { return left_out_ + invalid_rows(); }

  private:
    std::uint64_t own_rows() const;
    bool takes(const db::Winner& row);
    std::int64_t invalid_rows() const;
    void explain_nothing();

    Session& session_;
    const db::WinnerStore& store_;
    const RowFilter& filter_;
    TemplateIdentities identities_;
    std::int64_t left_out_ = 0, old_ = 0;
};

bool ExportedRows::takes(const db::Winner& row) {
    const RowWorth worth = worth_of(identities_, row);
    old_ += worth.is_old ? 1 : 0;
    if (!worth.is_refused) return true;
    if (++left_out_ <= kNamed)
        session_.warn("left out: " + row.class_key + " " + shape_of(row) + " on " + row.device.key() + ", " +
                      row.candidate.to_string() + ": " + worth.why_not);
    return false;
}

std::uint64_t ExportedRows::own_rows() const {
    const db::Filter filter{.op = filter_.op, .class_key = "", .device_key = filter_.device_key};
    return static_cast<std::uint64_t>(store_.count(filter)) - store_.list_shipped(filter).size();
}

void ExportedRows::each(const std::function<bool(const db::Winner&)>& use) {
    if (filter_.problems.empty()) {
        announce_checks(session_, own_rows());
        store_.for_each_oldest_first({.op = filter_.op, .class_key = "", .device_key = filter_.device_key},
                                     [&](const db::Winner& row) { return !takes(row) || use(row); });
        return;
    }
    for (const db::Winner& row : matching_rows(store_, filter_, SIZE_MAX).winners) {
        if (!row.shipped && takes(row) && !use(with_evidence(store_, session_.catalogue(), row))) return;
    }
}

// The store has already reported each of them.
std::int64_t ExportedRows::invalid_rows() const {
    const std::vector<db::Warning> warnings = store_.warnings();
    return std::count_if(warnings.begin(), warnings.end(),
                         [](const db::Warning& warning) { return warning.kind == db::WarningKind::invalid_row; });
}

void ExportedRows::explain_nothing() {
    const std::uint64_t shipped = scan_rows(store_, filter_, 0, [](const db::Winner&) { return true; });
    std::string text =
        "nothing is exported: no winner in " + session_.database_path() + (filter_.matches_all() ? "" : " matches");
    const std::vector<std::string> folders = session_.shipped();
    if (shipped > 0 && !folders.empty())
        text += fmt::format(". {} shipped winner{}; they are lines of this form already, in {}/*.jsonl", count_text(shipped),
                            shipped == 1 ? " is known beside it" : "s are known beside it", folders.front());
    session_.warn(text);
}

ExitCode ExportedRows::finish(std::int64_t written) {
    if (left_out_ > kNamed) session_.warn(fmt::format("left out: {} more", left_out_ - kNamed));
    if (old_ > 0)
        session_.warn(
            fmt::format("{} of the exported winners {} tuned with another version of {} family: only an autotune that has "
                        "that version takes {}",
                        old_, old_ == 1 ? "was" : "were", old_ == 1 ? "its" : "their", old_ == 1 ? "it" : "them"));
    if (left_out() == 0 && written == 0) explain_nothing();
    if (left_out() == 0) return ExitCode::done;
    session_.complain(fmt::format(
        "{} not exported, because `autotune import` refuses {}; a tune of {} replaces {}",
        left_out() == 1 ? "1 winner is" : count_text(static_cast<std::uint64_t>(left_out())) + " winners are",
        left_out() == 1 ? "it" : "them", left_out() == 1 ? "its problem" : "their problems", left_out() == 1 ? "it" : "them"));
    return ExitCode::some_failed;
}

ExitCode print_rows(Session& session, ExportedRows& rows, const std::string& database) {
    std::int64_t written = 0;
    if (!session.json()) {
        rows.each([&](const db::Winner& row) {
            session.out() << records::to_json_line(row) << "\n";
            written += session.out().good() ? 1 : 0;
            return session.out().good();
        });
        return rows.finish(written);
    }
    JsonList list(session, {{"database", database}}, "winners");
    rows.each([&](const db::Winner& row) {
        list.add_text(records::to_json_line(row));
        ++written;
        return session.out().good();
    });
    // Comes before the end of the document, because the document includes the warnings.
    const ExitCode code = rows.finish(written);
    list.finish({{"written", written}, {"left_out", rows.left_out()}});
    return code;
}

// Throws an error that says why the file could not be written.
void require(std::error_code failed, const std::string& path) {
    if (!failed) return;
    throw Error(ErrorCode::internal, "cannot write all of '" + path + "': " + failed.message() +
                                         (holds_something(path) ? "; what it held before is intact" : ""));
}

ExitCode write_file(Session& session, ExportedRows& rows, const std::string& path) {
    FileWriter file(path);
    if (const std::error_code failed = file.failure())
        throw Error(ErrorCode::usage, "cannot write '" + path + "': " + failed.message() + "; choose another --out");
    std::int64_t written = 0;
    rows.each([&](const db::Winner& row) {
        const bool goes_on = !file.write(records::to_json_line(row) + "\n");
        written += goes_on ? 1 : 0;
        return goes_on;
    });
    require(file.commit(), path);
    const ExitCode code = rows.finish(written);
    if (session.json()) {
        print_json(session, {{"written", written}, {"left_out", rows.left_out()}, {"file", path}});
    } else {
        session.out() << written << " winners written to " << printable(path) << "\n";
    }
    return code;
}

// The definition of a user's kernel that --kernel named.
FamilyDefinition definition_of(Session& session, const std::string& op) {
    for (FamilyDefinition& each : session.catalogue().definitions())
        if (each.op != nullptr && each.op->name == op) return std::move(each);
    throw Error(ErrorCode::usage, "--header writes the winner of a kernel file; name the file with --kernel");
}

std::string row_text(const db::Winner& row) {
    return shape_of(row) + " (" + row.class_key + ") on " + row.device.key();
}

// The only usable winner that the words describe.
db::Winner only_winner(Session& session, const db::WinnerStore& store, const RowFilter& filter) {
    TemplateIdentities identities(session.catalogue());
    std::vector<db::Winner> usable;
    scan_rows(store, filter, SIZE_MAX, [&](const db::Winner& row) {
        if (row.restricted_to.empty() && worth_of(identities, row).why_not.empty()) usable.push_back(row);
        return true;
    });
    if (usable.empty())
        throw Error(ErrorCode::usage, "no winner of " + filter.op +
                                          " that this kernel file can use matches; `autotune tune` with "
                                          "the same words finds one");
    if (usable.size() > 1) {
        constexpr std::size_t kTold = 3;
        std::string list;
        for (std::size_t i = 0; i < std::min(usable.size(), kTold); ++i) list += (i == 0 ? "" : "; ") + row_text(usable[i]);
        throw Error(ErrorCode::usage,
                    fmt::format("{} winners match ({}{}); choose one with --shape, the op's options and --device-key",
                                usable.size(), list, usable.size() > kTold ? "; ..." : ""));
    }
    return std::move(usable.front());
}

// A header for the user's own compiler.
ExitCode write_header(Session& session, const db::WinnerStore& store, const RowFilter& filter, const std::string& path) {
    const FamilyDefinition definition = definition_of(session, filter.op);
    const db::Winner row = only_winner(session, store, filter);
    const auto problem = problem_of(session.catalogue(), row);
    if (!problem) internal_error("a usable row without a problem");
    Device device;
    device.identity = row.device;
    if (const auto like = reference_device(device.arch())) device.limits = like->limits;
    const std::vector<std::string> about = {
        fmt::format("The winner of {} {} on {} ({}): {:.4g} us, tuned {}.", problem->op,
                    problem->key().substr(problem->op.size() + 1),
                    row.device.name.empty() ? row.provenance.device_name : row.device.name, device.arch(), row.timing.median_us,
                    row.provenance.date.substr(0, 10)),
        "Written by `autotune export --header`. Include it where the source has its #ifndef AUTOTUNE block."};
    FileWriter file(path);
    if (const std::error_code failed = file.failure())
        throw Error(ErrorCode::usage, "cannot write '" + path + "': " + failed.message() + "; choose another --header");
    file.write(kernel_files::tuned_header(definition, *problem, row.candidate.config, device, about));
    require(file.commit(), path);
    if (session.json()) {
        print_json(session, {{"written", 1}, {"left_out", 0}, {"file", path}});
    } else {
        session.out() << "the winner of " << printable(row_text(row)) << " written to " << printable(path) << "\n";
    }
    return ExitCode::done;
}

ExitCode run_export(Session& session, const Arguments& arguments) {
    const RowFilter filter = row_filter_of(session);
    const db::WinnerStore& store = session.open_store_to_read();
    if (arguments.has("header")) return write_header(session, store, filter, arguments.text("header"));
    ExportedRows rows(session, store, filter);
    return arguments.has("out") ? write_file(session, rows, arguments.text("out")) : print_rows(session, rows, store.path());
}

}  // namespace

Command export_command() {
    return {
        .name = "export",
        .about = "write winners as text, one JSON object a line",
        .examples = {"autotune export --out winners.jsonl", "autotune export --op hgemm > hgemm.jsonl",
                     "autotune export --kernel conv2d.toml --header conv2d_tuned.h"},
        .flags = problem_flags() +
                 std::vector<Flag>{shapes_flag(),
                                   {"out", "FILE", "write here instead of standard output", false, {}},
                                   {"header", "FILE", "write the winner of a --kernel here, as constants for nvcc", false, {}},
                                   {"device-key", "KEY", "only rows of this device, as show --json names it", false, {}}} +
                 store_flags() + output_flags() + std::vector<Flag>{kernel_flag()},
        .takes_op_options = true,
        .words = "",
        .min_positional = 0,
        .run = run_export};
}

}  // namespace autotune::cli
