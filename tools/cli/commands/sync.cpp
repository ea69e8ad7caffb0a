#include "tuner/fleet/sync/sync.h"

#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "db/verdicts.h"
#include "src/catalogue/sha256.h"
#include "src/core/error.h"
#include "tools/cli/command.h"
#include "tools/cli/output/data/json_format.h"
#include "tools/cli/output/terminal/messages.h"
#include "tools/cli/shared/fleet_services.h"

namespace autotune::cli {
namespace {

// Each database has a file of the counts that were posted.
std::string posted_path(const std::string& folder, const std::string& database) {
    std::error_code ignored;
    return folder + "/posted-" + sha256_hex(std::filesystem::weakly_canonical(database, ignored).string()).substr(0, 12) +
           ".json";
}

Json posted_json(const fleet::PostReport& report) {
    return {{"added", report.wanted.added},
            {"raised", report.wanted.raised},
            {"known", report.wanted.known},
            {"refused", report.wanted.refused},
            {"unknown", report.unknown}};
}

std::string posted_text(const fleet::PostReport& report) {
    return fmt::format("misses: {} new to the fleet, {} counted, {} tuned already, {} refused\n", report.wanted.added,
                       report.wanted.raised, report.wanted.known, report.wanted.refused);
}

// Nothing for the many hosts whose programs have no patch.
std::string verdicts_text(const fleet::VerdictsPosted& posted) {
    if (posted.verdicts == 0) return "";
    if (posted.is_unchanged) return fmt::format("verdicts: {}, posted already\n", posted.verdicts);
    return fmt::format("verdicts: {} new to the fleet, {} known, {} refused\n", posted.report.added, posted.report.known,
                       posted.report.refused);
}

Json pulled_json(const fleet::Pulled& pulled) {
    return {{"name", pulled.label.name},   {"digest", pulled.label.digest}, {"rows", pulled.label.rows - pulled.verdicts},
            {"verdicts", pulled.verdicts}, {"file", pulled.path},           {"new", pulled.is_new}};
}

std::string pulled_text(const fleet::Pulled& pulled) {
    return fmt::format("label {}: {}, {}, {}\n", printable(pulled.label.name),
                       label_content(pulled.label.rows - pulled.verdicts, pulled.verdicts),
                       pulled.is_new ? "new here" : "here already", printable(pulled.path));
}

fleet::VerdictsPosted post_verdicts_of(Session& session, fleet::FleetStore& store, const std::string& state_path) {
    db::OpenOptions options = session.store_options();
    options.on_warning = {};  // the database has told them
    options.read_only = options.missing_is_empty = true;
    options.create = false;
    const fleet::VerdictsPosted posted = fleet::post_verdicts(store, db::read_verdicts(options, ""), state_path);
    if (!posted.not_noted.empty())
        session.warn("which verdicts were posted cannot be noted (" + posted.not_noted + "); they are posted again");
    return posted;
}

// Misses go first: they are small, and a label that cannot be had keeps nobody from asking.
ExitCode sync_with_store(Session& session, const std::string& label, const std::string& folder) {
    fleet::Connection::Options connection = store_connection(session);
    connection.writes = !session.arguments().has("no-misses");
    fleet::FleetStore store(connection);
    Json json = Json::object();
    bool some_refused = false;
    if (connection.writes) {
        const db::WinnerStore& database = session.open_store_if_any();
        const fleet::PostReport posted =
            fleet::post_misses(store, database, session.catalogue(), posted_path(folder, session.database_path()));
        some_refused = posted.wanted.refused > 0;
        if (posted.unknown > 0)
            session.warn(fmt::format("{} misses are of kernels that this command does not know; give their files with --kernel",
                                     posted.unknown));
        if (!posted.not_noted.empty())
            session.warn("what was posted cannot be noted in " + folder + " (" + posted.not_noted + "); it will count twice");
        json["misses"] = posted_json(posted);
        if (session.plain()) session.out() << posted_text(posted);
        const fleet::VerdictsPosted verdicts =
            post_verdicts_of(session, store, posted_path(folder, session.database_path()) + ".verdicts");
        some_refused = some_refused || verdicts.report.refused > 0;
        json["verdicts"] = {{"in_database", verdicts.verdicts},
                            {"added", verdicts.report.added},
                            {"known", verdicts.report.known},
                            {"refused", verdicts.report.refused}};
        if (session.plain()) session.out() << verdicts_text(verdicts);
    }
    if (!label.empty()) {
        const fleet::Pulled pulled = fleet::pull_label(store, label, folder);
        json["label"] = pulled_json(pulled);
        if (session.plain()) session.out() << pulled_text(pulled);
    }
    if (session.json()) print_json(session, std::move(json));
    return some_refused ? ExitCode::some_failed : ExitCode::done;
}

ExitCode run_sync(Session& session, const Arguments& arguments) {
    std::string label = session.environment().get("AUTOTUNE_LABEL").value_or("");
    // Programs may name a file. It is brought by other means.
    if (label.find('/') != std::string::npos) label.clear();
    label = arguments.text("label", label);
    if (!label.empty()) require_label_name(label);
    const std::string folder = fleet_folder(session);
    if (!arguments.has("from")) return sync_with_store(session, label, folder);
    if (arguments.has("store"))
        throw Error(ErrorCode::usage, "--from takes a label from a file, and no store; leave out --store");
    const fleet::Pulled pulled = fleet::take_label(arguments.text("from"), arguments.text("label"), folder);
    if (session.json()) print_json(session, {{"label", pulled_json(pulled)}});
    if (session.plain()) session.out() << pulled_text(pulled);
    return ExitCode::done;
}

}  // namespace

Command sync_command() {
    return {.name = "sync",
            .about = "tell the fleet what programs here missed and how patches did, and bring its label of winners",
            .examples = {"autotune sync --store postgresql://host/fleet --label prod",
                         "autotune sync --from 2026-12-01.jsonl --label prod"},
            .flags =
                std::vector<Flag>{
                    store_flag(),
                    {"label", "NAME", "the label, or the channel, to bring; default AUTOTUNE_LABEL, else none", false, {}},
                    {"from", "FILE", "take the label from a file that sync made elsewhere", false, {}},
                    {"folder", "DIR", "folder of labels; default AUTOTUNE_FLEET, else the data folder's", false, {}},
                    {"no-misses", "", "post neither misses nor verdicts: a server that only reads is enough", false, {}}} +
                store_flags() + output_flags() + std::vector<Flag>{templates_flag(), kernel_flag()},
            .takes_op_options = false,
            .words = "",
            .min_positional = 0,
            .run = run_sync,
            .saves_on_interrupt = false};
}

}  // namespace autotune::cli
