#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>

#include "db/verdicts.h"
#include "src/core/error.h"
#include "src/dispatch/rules/stored_winner.h"
#include "tools/cli/command.h"
#include "tools/cli/input/requests.h"
#include "tools/cli/output/data/csv.h"
#include "tools/cli/output/data/json_format.h"
#include "tools/cli/output/terminal/messages.h"
#include "tools/cli/output/text/common_words.h"
#include "tools/cli/output/text/text_format.h"
#include "tools/cli/shared/rows.h"

namespace autotune::cli {
namespace {

constexpr std::int64_t kRowsByDefault = 50;

Json row_json(Session& session, TemplateIdentities& identities, const db::Winner& winner) {
    const auto problem = problem_of(session.catalogue(), winner);
    const Op* op = session.catalogue().find_op(winner.op);
    Json json{{"op", winner.op},
              {"class_key", winner.class_key},
              {"shape", shape_of(winner)},
              {"device", identity_json(winner.device)}};
    json.update(winner_json(winner, problem ? op : nullptr, problem ? &*problem : nullptr));
    const std::string why_not = worth_of(identities, winner).why_not;
    json["why_not"] = why_not.empty() ? Json(nullptr) : Json(why_not);
    return json;
}

// A winner's origin and, if it is not used, the reason. A winner of another version of its kernel is not served; a tune tries it
// first.
std::string source_of(TemplateIdentities& identities, const db::Winner& winner) {
    std::string from = winner.shipped ? "shipped" : winner.doubt.empty() ? "tuned" : "imported, in doubt";
    if (!winner.restricted_to.empty()) from += ", of " + winner.restricted_to + " alone";
    const RowWorth worth = worth_of(identities, winner);
    if (worth.is_old) return from + " for another version of this kernel";
    return worth.is_refused ? from + ", not used: " + worth.why_not : from;
}

std::string rows_table(Session& session, TemplateIdentities& identities, const std::vector<db::Winner>& winners) {
    CommonWords classes(session.full()), candidates(session.full());
    for (const db::Winner& winner : winners) {
        classes.add(winner.class_key);
        candidates.add(winner.candidate);
    }
    Table table({{"shape", Table::Align::left},
                 {"class", Table::Align::wrap},
                 {"device", Table::Align::wrap},
                 {"median us"},
                 {"rate"},
                 {"", Table::Align::left},
                 {"from", Table::Align::wrap},
                 {"date", Table::Align::left},
                 {"winner", Table::Align::wrap}});
    for (const db::Winner& winner : winners) {
        const auto problem = problem_of(session.catalogue(), winner);
        const Op* op = session.catalogue().find_op(winner.op);
        table.add({shape_of(winner), classes.name(winner.class_key), winner.device.name, us_text(winner.timing.median_us),
                   problem ? rate_text(*op, *problem, winner.timing.median_us) : "-", problem ? rate_title(*op) : "",
                   source_of(identities, winner), winner.provenance.date.substr(0, 10), candidates.name(winner.candidate)});
    }
    return classes.legend() + candidates.legend() + table.to_string(session.text_columns());
}

ExitCode show_misses(Session& session, const db::WinnerStore& store, std::size_t limit) {
    const std::vector<db::MissRow> misses = store.misses(limit);
    const auto total = static_cast<std::uint64_t>(store.count_misses());
    if (!session.plain()) {
        std::vector<Json> rows;
        for (const auto& miss : misses) {
            rows.push_back({{"op", miss.op},
                            {"class_key", miss.class_key},
                            {"shape", miss.shape},
                            {"device_key", miss.device_key},
                            {"count", miss.count},
                            {"date", miss.date},
                            {"origin", miss.origin}});
        }
        if (session.csv()) session.out() << csv_of(rows);
        if (session.json())
            print_json(session, {{"database", store.path()}, {"total", total}, {"shown", misses.size()}, {"misses", rows}});
        return ExitCode::done;
    }
    Table table({{"shape", Table::Align::left},
                 {"class", Table::Align::wrap},
                 {"device", Table::Align::wrap},
                 {"calls"},
                 {"last", Table::Align::left},
                 {"served by", Table::Align::left}});
    for (const auto& miss : misses) {
        table.add({miss.shape, miss.class_key, miss.device_key, count_text(static_cast<std::uint64_t>(miss.count)), miss.date,
                   miss.origin});
    }
    session.out() << (total == 0       ? "no misses are recorded; programs record them with `record_misses`\n"
                      : misses.empty() ? ""
                                       : table.to_string(session.text_columns()));
    if (total > misses.size())
        session.out() << fmt::format("... and {} more; --limit 0 shows all\n", count_text(total - misses.size()));
    return ExitCode::done;
}

// Lists the verdicts of autotune.torch, which compare our kernels with torch's in a caller's program.
ExitCode show_verdicts(Session& session, const db::WinnerStore& store, std::size_t limit) {
    db::OpenOptions options = session.store_options();
    options.on_warning = {};  // the store has already reported them
    std::vector<db::Verdict> verdicts = db::read_verdicts(options, "");
    std::reverse(verdicts.begin(), verdicts.end());  // the newest first
    const std::size_t total = verdicts.size();
    verdicts.resize(std::min(total, limit));
    if (!session.plain()) {
        std::vector<Json> rows;
        for (const db::Verdict& one : verdicts) {
            rows.push_back({{"problem", one.problem},
                            {"device", one.device},
                            {"rival", one.rival},
                            {"in_stream", one.in_stream},
                            {"in_graphs", one.in_graphs},
                            {"date", one.date}});
        }
        if (session.csv()) session.out() << csv_of(rows);
        if (session.json())
            print_json(session, {{"database", store.path()}, {"total", total}, {"shown", verdicts.size()}, {"verdicts", rows}});
        return ExitCode::done;
    }
    Table table({{"in a stream"},
                 {"in a graph"},
                 {"against", Table::Align::wrap},
                 {"device", Table::Align::wrap},
                 {"date", Table::Align::left},
                 {"problem", Table::Align::wrap}});
    for (const db::Verdict& one : verdicts) {
        table.add({fmt::format("{:.3f}", one.in_stream), fmt::format("{:.3f}", one.in_graphs), one.rival, one.device,
                   one.date.substr(0, 10), one.problem});
    }
    session.out() << (total == 0         ? "no verdicts are stored; autotune.torch.tune() in Python stores them\n"
                      : verdicts.empty() ? ""
                                         : table.to_string(session.text_columns()));
    if (total > verdicts.size())
        session.out() << fmt::format("... and {} more; --limit 0 shows all\n", count_text(total - verdicts.size()));
    return ExitCode::done;
}

// The rows of one `show`. They are printed while they are read, so a database of a million winners needs no more memory than one
// of a thousand.
class Listing {
  public:
    Listing(Session& session, const db::WinnerStore& store, const RowFilter& filter, std::size_t limit)
        : session_(session), store_(store), filter_(filter), limit_(limit), identities_(session.catalogue()) {}

    void print_json() {
        JsonList list(session_, {{"database", store_.path()}}, "winners");
        const std::uint64_t total = each([&](const db::Winner& winner) { list.add(row_json(session_, identities_, winner)); });
        list.finish({{"total", total}, {"shown", shown_}});
    }

    // Reads all rows twice, because the title line must name the columns of every row.
    void print_csv() {
        CsvColumns columns;
        each([&](const db::Winner& winner) { columns.learn(row_json(session_, identities_, winner)); });
        session_.out() << columns.title();
        each([&](const db::Winner& winner) { session_.out() << columns.line(row_json(session_, identities_, winner)); });
    }

    // Prints one table per page of rows. Columns are as wide as the page needs.
    void print_tables() {
        std::vector<db::Winner> page;
        const std::uint64_t total = each([&](const db::Winner& winner) {
            page.push_back(winner);
            if (page.size() < kPageRows) return;
            session_.out() << rows_table(session_, identities_, page) << "\n";
            page.clear();
        });
        if (!page.empty()) session_.out() << rows_table(session_, identities_, page);
        if (total == 0) {
            session_.out() << "no winner " << (filter_.matches_all() ? "yet" : "matches") << " in "
                           << printable(session_.database_path()) << "\n";
        } else if (total > shown_) {
            session_.out() << fmt::format("... and {} more; --limit 0 shows all, --op and --shape fewer\n",
                                          count_text(total - shown_));
        }
    }

  private:
    static constexpr std::size_t kPageRows = 1000;

    // Returns how many match.
    std::uint64_t each(const std::function<void(const db::Winner&)>& use) {
        shown_ = 0;
        const std::uint64_t total = scan_rows(store_, filter_, limit_, [&](const db::Winner& winner) {
            if (session_.stopped()) throw Error(ErrorCode::interrupted, "interrupted; not all rows were shown");
            use(winner);
            ++shown_;
            return session_.out().good();
        });
        return total;
    }

    Session& session_;
    const db::WinnerStore& store_;
    const RowFilter& filter_;
    std::size_t limit_;
    TemplateIdentities identities_;
    std::uint64_t shown_ = 0;
};

ExitCode run_show(Session& session, const Arguments& arguments) {
    const auto limit = arguments.integer("limit", kRowsByDefault, {.least = 0});
    const RowFilter filter = row_filter_of(session);
    const db::WinnerStore& store = session.open_store_to_read();
    const std::size_t most = limit == 0 ? SIZE_MAX : static_cast<std::size_t>(limit);
    if (arguments.has("misses")) return show_misses(session, store, most);
    if (arguments.has("verdicts")) return show_verdicts(session, store, most);
    announce_checks(session, std::min<std::uint64_t>(most, scan_rows(store, filter, 0, [](const db::Winner&) { return true; })));
    Listing listing(session, store, filter, most);
    if (session.csv()) {
        listing.print_csv();
    } else if (session.json()) {
        listing.print_json();
    } else {
        listing.print_tables();
    }
    return ExitCode::done;
}

}  // namespace

Command show_command() {
    return {.name = "show",
            .about = "list the winners of the database",
            .examples = {"autotune show", "autotune show --op hgemm --shape 4096x4096x2048 --json", "autotune show --misses"},
            .flags = problem_flags() +
                     std::vector<Flag>{
                         shapes_flag(),
                         {"device-key", "KEY", "only rows of this device, as --json names it", false, {}},
                         {"limit", "N", "rows at most; 0: all; default 50", false, {}, integer_value({.least = 0})},
                         {"misses", "", "problems the library was asked for and had no winner", false, {}},
                         {"verdicts", "", "times of torch's kernels over ours, as autotune.torch.tune() found them", false, {}},
                         full_flag()} +
                     store_flags() + table_flags() + std::vector<Flag>{kernel_flag()},
            .takes_op_options = true,
            .words = "",
            .min_positional = 0,
            .run = run_show};
}

}  // namespace autotune::cli
