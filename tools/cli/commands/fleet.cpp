#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "db/text/verdict_line.h"
#include "src/core/error.h"
#include "src/records/json_line.h"
#include "tools/cli/command.h"
#include "tools/cli/input/requests.h"
#include "tools/cli/output/data/json_format.h"
#include "tools/cli/output/terminal/messages.h"
#include "tools/cli/output/terminal/table.h"
#include "tools/cli/shared/fleet_services.h"
#include "tools/cli/shared/rows.h"
#include "tuner/fleet/source/catalogue_identity.h"
#include "tuner/fleet/store/schema.h"
#include "tuner/fleet/sync/sync.h"

namespace autotune::cli {
namespace {

using fleet::FleetStore;

constexpr std::size_t kMostStoreRows = 500;

// The word at this position after the action. `what` names it in a message.
std::string fleet_word(Session& session, std::size_t index, const std::string& what) {
    const std::vector<std::string>& words = session.arguments().words();
    if (words.size() <= index)
        throw Error(ErrorCode::usage,
                    "autotune fleet " + words.front() + " wants " + what + "; `autotune fleet --help` shows how");
    return words[index];
}

void expect_fleet_words(Session& session, std::size_t most) {
    const std::vector<std::string>& words = session.arguments().words();
    if (words.size() > most)
        throw Error(ErrorCode::usage, "'" + words[most] + "' is not expected here; `autotune fleet --help` shows how");
}

// The name of a label or a channel.
std::string label_word(Session& session, std::size_t index, const std::string& what) {
    const std::string name = fleet_word(session, index, what);
    require_label_name(name);
    return name;
}

// Why a change is made is kept with it.
std::string fleet_note(Session& session) {
    return session.arguments().text("note");
}

void answer(Session& session, Json json, const std::string& text) {
    if (session.json()) print_json(session, std::move(json));
    if (session.plain()) session.out() << text;
}

ExitCode migrate_store(Session& session) {
    expect_fleet_words(session, 1);
    FleetStore store(store_connection(session), FleetStore::Unchecked{});
    if (session.arguments().has("dry-run")) {
        session.out() << fleet::migration_text(store.version().version);
        return ExitCode::done;
    }
    const std::vector<std::string> applied = store.migrate(session.program().version);
    std::string text;
    for (const std::string& each : applied) text += "applied: " + each + "\n";
    answer(session, {{"schema", fleet::kSchema}, {"applied", applied}},
           text + fmt::format("the store has schema {}; roles and rights are set\n", fleet::kSchema));
    return ExitCode::done;
}

struct StoreFinding {
    std::string text;
    bool is_trouble = false;
};

std::vector<StoreFinding> store_findings(FleetStore& store) {
    std::vector<StoreFinding> found;
    const auto one = [&](const std::string& sql) { return store.connection().query(sql); };
    const fleet::StoreVersion version = store.version();
    const fleet::Rows server = one("SELECT current_setting('server_version'), session_user, pg_is_in_recovery()");
    found.push_back({fmt::format("PostgreSQL {}, schema {}, as role {}{}", server.text(0, 0), version.version, server.text(0, 1),
                                 server.text(0, 2) == "t" ? ", a standby" : "")});
    const fleet::Rows items = one(
        "SELECT coalesce(sum(items) FILTER (WHERE state = 'ready'), 0), coalesce(sum(items) FILTER (WHERE state = 'leased'), 0),"
        " coalesce(sum(items) FILTER (WHERE state = 'waiting'), 0), coalesce(sum(items) FILTER (WHERE state IN ('poison', "
        "'impossible')), 0),"
        " coalesce(extract(epoch FROM now() - min(oldest) FILTER (WHERE state = 'ready'))::bigint, 0) FROM autotune.queue");
    found.push_back({fmt::format("problems: {} to tune, {} in work, {} waiting after a loss; the oldest for {} s",
                                 items.text(0, 0), items.text(0, 1), items.text(0, 2), items.text(0, 4))});
    if (items.integer(0, 3) > 0)
        found.push_back(
            {fmt::format("{} problems are set aside: `autotune fleet list failures` says why, `autotune fleet retry` tries "
                         "them again",
                         items.text(0, 3)),
             true});
    const fleet::Rows workers =
        one("SELECT count(*) FILTER (WHERE seen_at > now() - interval '5 minutes'), count(*) FILTER (WHERE sick) FROM "
            "autotune.workers");
    found.push_back({fmt::format("workers: {} seen within five minutes", workers.text(0, 0)), false});
    if (items.integer(0, 0) > 0 && workers.integer(0, 0) == 0) found.push_back({"no worker is there for the problems", true});
    if (workers.integer(0, 1) > 0)
        found.push_back(
            {fmt::format("{} workers lost several problems in a row, and get none for ten minutes", workers.text(0, 1)), true});
    const fleet::Rows channels =
        one("SELECT c.name, c.label, l.withdrawn FROM autotune.channels c JOIN autotune.labels l ON l.name = c.label ORDER BY 1");
    for (std::size_t i = 0; i < channels.rows.size(); ++i) {
        const bool has_withdrawn = channels.integer(i, 2) > 0;
        found.push_back({fmt::format("channel {} shows {}{}", channels.text(i, 0), channels.text(i, 1),
                                     has_withdrawn ? ", " + channels.text(i, 2) + " of whose winners were withdrawn since" : ""),
                         has_withdrawn});
    }
    const fleet::Rows held =
        one("SELECT coalesce(max(extract(epoch FROM now() - xact_start))::bigint, 0) FROM pg_stat_activity WHERE datname = "
            "current_database()"
            " AND backend_type = 'client backend'");
    if (held.integer(0, 0) > 300)
        found.push_back({fmt::format("a transaction is open for {} s: the queue gets slow while it is", held.text(0, 0)), true});
    return found;
}

ExitCode examine_store(Session& session) {
    expect_fleet_words(session, 1);
    FleetStore store(store_connection(session));
    const std::vector<StoreFinding> found = store_findings(store);
    Json list = Json::array();
    std::string text;
    bool has_trouble = false;
    for (const StoreFinding& each : found) {
        list.push_back({{"text", each.text}, {"trouble", each.is_trouble}});
        text += (each.is_trouble ? "! " : "  ") + printable(each.text) + "\n";
        has_trouble = has_trouble || each.is_trouble;
    }
    answer(session, {{"findings", list}}, text);
    return has_trouble ? ExitCode::some_failed : ExitCode::done;
}

struct JudgedWinners {
    std::vector<fleet::StoredLine> taken;
    std::int64_t refused = 0, of_other_versions = 0;
};

// Every winner of the store is judged as an import judges a row. Only the version that made a result can judge it.
JudgedWinners judge_winners(Session& session, FleetStore& store) {
    constexpr int kAtOnce = 500;
    JudgedWinners judged;
    TemplateIdentities identities(session.catalogue());
    for (std::int64_t after = 0;;) {
        const std::vector<fleet::StoredLine> lines = store.winners(after, kAtOnce);
        if (lines.empty()) break;
        for (const fleet::StoredLine& each : lines) {
            std::string why;
            bool is_old = false;
            try {
                const db::Winner winner = records::from_json_line(each.line);
                const RowWorth worth = worth_of(identities, winner);
                if (worth.why_not.empty()) judged.taken.push_back({each.id, fleet::label_line(winner)});
                why = worth.why_not;
                is_old = worth.is_old;
            } catch (const Error& error) {
                why = error.what();
            }
            if (why.empty()) continue;
            ++(is_old ? judged.of_other_versions : judged.refused);
            if (!is_old)
                session.warn(
                    fmt::format("result {} is left out: {}; `autotune fleet withdraw {}` takes it back", each.id, why, each.id));
        }
        after = lines.back().id;
    }
    // Sorted, so that a set of winners always has the same text.
    std::sort(judged.taken.begin(), judged.taken.end(), [](const auto& a, const auto& b) { return a.line < b.line; });
    return judged;
}

// As lines of a label, in one order; only what a reader will take.
std::vector<fleet::StoredLine> verdict_lines(FleetStore& store) {
    std::vector<fleet::StoredLine> lines;
    for (const fleet::PostedVerdict& each : store.verdicts()) {
        const db::Verdict verdict{each.problem, each.device, each.rival, each.in_stream, each.in_graphs, each.measured};
        if (!db::why_invalid(verdict)) lines.push_back({0, db::verdict_line(verdict)});
    }
    std::sort(lines.begin(), lines.end(), [](const auto& a, const auto& b) { return a.line < b.line; });
    return lines;
}

ExitCode freeze_label(Session& session) {
    expect_fleet_words(session, 2);
    const std::string name = label_word(session, 1, "the label's name, such as 2026-12-01");
    FleetStore store(store_connection(session));
    const JudgedWinners judged = judge_winners(session, store);
    if (judged.taken.empty())
        throw Error(ErrorCode::database, "the store has no winner that this version can use; nothing is frozen");
    const auto winners = static_cast<std::int64_t>(judged.taken.size());
    std::vector<fleet::StoredLine> lines = judged.taken;
    if (!session.arguments().has("no-verdicts"))
        for (fleet::StoredLine& each : verdict_lines(store)) lines.push_back(std::move(each));
    const fleet::LabelFacts label = store.freeze(name, fleet_note(session), lines);
    const std::string others =
        judged.of_other_versions > 0 ? fmt::format("; {} of other versions are not in it", judged.of_other_versions) : "";
    answer(session,
           {{"name", label.name},
            {"digest", label.digest},
            {"rows", winners},
            {"verdicts", label.rows - winners},
            {"refused", judged.refused},
            {"of_other_versions", judged.of_other_versions}},
           fmt::format("label {}: {}, digest {}{}\n", label.name, label_content(winners, label.rows - winners), label.digest,
                       others));
    return judged.refused > 0 ? ExitCode::some_failed : ExitCode::done;
}

ExitCode publish_label(Session& session) {
    expect_fleet_words(session, 3);
    const std::string channel = label_word(session, 1, "a channel and a label, such as prod 2026-12-01");
    const std::string label = label_word(session, 2, "a channel and a label, such as prod 2026-12-01");
    FleetStore store(store_connection(session));
    const std::string before = store.publish(channel, label, fleet_note(session));
    answer(session, {{"channel", channel}, {"label", label}, {"before", before.empty() ? Json(nullptr) : Json(before)}},
           fmt::format("channel {} shows {}{}\n", channel, label, before.empty() ? "" : ", before it " + before));
    return ExitCode::done;
}

ExitCode withdraw_results(Session& session) {
    fleet_word(session, 1, "numbers of results, as `autotune fleet list winners` shows them");
    if (fleet_note(session).empty())
        throw Error(ErrorCode::usage, "say with --note why the result is withdrawn; it is kept with it");
    std::vector<std::int64_t> results;
    for (std::size_t i = 1; i < session.arguments().words().size(); ++i)
        results.push_back(parse_integer(session.arguments().words()[i], "the result", {.least = 1}));
    FleetStore store(store_connection(session));
    Json list = Json::array();
    std::string text;
    for (const std::int64_t result : results) {
        const std::string problem = store.withdraw(result, fleet_note(session));
        list.push_back({{"result", result}, {"problem", problem}});
        text += fmt::format("result {} of {} is withdrawn\n", result, printable(problem));
    }
    answer(session, {{"withdrawn", list}}, text);
    return ExitCode::done;
}

ExitCode retry_failures(Session& session) {
    expect_fleet_words(session, 1);
    const std::int64_t count = FleetStore(store_connection(session)).retry();
    answer(session, {{"retried", count}}, fmt::format("{} problems are tried again\n", count));
    return ExitCode::done;
}

ExitCode want_problems(Session& session) {
    expect_fleet_words(session, 1);
    const std::vector<Problem> problems = sweep_problems_of(session);
    const std::string device =
        session.arguments().has("device-key")
            ? session.arguments().text("device-key")
            : session.need_gpu("autotune fleet want is for a kind of GPU, named by --device-key").device.identity.key();
    FleetStore store(store_connection(session));
    std::vector<fleet::Wanted> wanted;
    for (const Problem& each : problems)
        wanted.push_back({each.class_key(), each.shape(), device, fleet::catalogue_identity(session.catalogue(), each.op), 1});
    const fleet::WantReport report = store.want(wanted, fleet::kPriorityOfOperators);
    answer(session, {{"added", report.added}, {"raised", report.raised}, {"known", report.known}, {"refused", report.refused}},
           fmt::format("{} problems added, {} were waiting, {} are tuned, {} refused\n", report.added, report.raised,
                       report.known, report.refused));
    return report.refused > 0 ? ExitCode::some_failed : ExitCode::done;
}

struct StoreView {
    std::string name;
    std::vector<std::string> columns;
    std::vector<std::string> titles;
};

const std::vector<StoreView>& store_views() {
    static const auto* const all = new std::vector<StoreView>{
        {"queue",
         {"device", "op", "state", "items", "calls", "left(catalogue, 8)"},
         {"device", "op", "state", "problems", "calls", "templates"}},
        {"failures", {"id", "class", "shape", "device", "state", "attempts", "gpus", "why"}, {}},
        {"workers",
         {"host", "left(id::text, 8)", "role", "tool", "leases", "coalesce(sick, false)", "date_trunc('second', seen_at)"},
         {"host", "id", "role", "tool", "leases", "sick", "seen"}},
        {"winners",
         {"id", "class", "shape", "device", "round(median_us::numeric, 2)", "role"},
         {"id", "class", "shape", "device", "median us", "role"}},
        {"labels",
         {"name", "rows - verdicts", "verdicts", "left(digest, 12)", "withdrawn", "by", "date_trunc('second', at)", "note"},
         {"label", "winners", "verdicts", "digest", "withdrawn", "by", "at", "note"}},
        {"channels",
         {"name", "label", "before", "by", "date_trunc('second', at)", "note"},
         {"channel", "label", "before", "by", "at", "note"}},
        {"verdicts",
         {"rival", "device", "round(in_stream::numeric, 3)", "round(in_graphs::numeric, 3)", "role", "left(measured, 10)",
          "problem"},
         {"against", "device", "in a stream", "in a graph", "role", "date", "problem"}}};
    return *all;
}

ExitCode list_view(Session& session) {
    expect_fleet_words(session, 2);
    std::vector<std::string> names;
    for (const StoreView& each : store_views()) names.push_back(each.name);
    const std::string name = session.arguments().words().size() > 1
                                 ? parse_word(session.arguments().words()[1], "what `autotune fleet list` lists", names)
                                 : "queue";
    const StoreView& view =
        *std::find_if(store_views().begin(), store_views().end(), [&](const StoreView& each) { return each.name == name; });
    const std::vector<std::string>& titles = view.titles.empty() ? view.columns : view.titles;
    const fleet::Rows rows = FleetStore(store_connection(session)).table(view.name, view.columns, kMostStoreRows);
    std::vector<Table::Column> columns;
    for (const std::string& each : titles) columns.push_back({each, Table::Align::wrap});
    Table table(columns);
    Json json = Json::array();
    for (const auto& row : rows.rows) {
        std::vector<std::string> cells;
        Json object = Json::object();
        for (std::size_t i = 0; i < row.size(); ++i) {
            cells.push_back(row[i].value_or(""));
            object[titles[i]] = row[i] ? Json(*row[i]) : Json(nullptr);
        }
        table.add(cells);
        json.push_back(std::move(object));
    }
    answer(session, {{view.name, json}},
           rows.empty() ? fmt::format("no {}\n", view.name == "queue" ? "problems" : view.name)
                        : table.to_string(session.text_columns()));
    return ExitCode::done;
}

ExitCode run_fleet(Session& session, const Arguments& arguments) {
    using Action = ExitCode (*)(Session&);
    const std::array<std::pair<std::string, Action>, 8> actions = {{{"migrate", migrate_store},
                                                                    {"doctor", examine_store},
                                                                    {"want", want_problems},
                                                                    {"freeze", freeze_label},
                                                                    {"publish", publish_label},
                                                                    {"withdraw", withdraw_results},
                                                                    {"retry", retry_failures},
                                                                    {"list", list_view}}};
    std::vector<std::string> names;
    for (const auto& [name, action] : actions) names.push_back(name);
    const std::string name = parse_word(arguments.words().front(), "what `autotune fleet` does", names);
    return std::find_if(actions.begin(), actions.end(), [&](const auto& each) { return each.first == name; })->second(session);
}

}  // namespace

Command fleet_command() {
    return {.name = "fleet",
            .about = "keep a fleet's store: queue, results, labels (docs/fleet.md)",
            .examples = {"autotune fleet migrate --store postgresql://host/fleet     (once, by the owner of the database)",
                         "autotune fleet want --op hgemm --shape 4096x4096x2048", "autotune fleet list failures",
                         "autotune fleet freeze 2026-12-01 --note 'after the sweep of November'",
                         "autotune fleet publish prod 2026-12-01", "autotune fleet withdraw 4711 --note 'wrong at m = 3'"},
            .flags =
                std::vector<Flag>{
                    store_flag(),
                    {"note", "TEXT", "freeze, publish, withdraw: why; kept with the change", false, {}},
                    {"no-verdicts", "", "freeze: winners alone", false, {}},
                    {"device-key", "KEY", "want: the kind of GPU, as `fleet list` shows it; default this GPU's", false, {}}} +
                problem_flags() + std::vector<Flag>{shapes_flag(), full_flag(), dry_run_flag(), templates_flag()} +
                device_flags() + output_flags() + std::vector<Flag>{kernel_flag()},
            .takes_op_options = true,
            .words = "migrate|doctor|want|freeze|publish|withdraw|retry|list ...",
            .min_positional = 1,
            .run = run_fleet,
            .saves_on_interrupt = false};
}

}  // namespace autotune::cli
