#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "src/core/error.h"
#include "tools/cli/command.h"
#include "tools/cli/input/budget.h"
#include "tools/cli/input/instant.h"
#include "tools/cli/output/data/json_format.h"
#include "tools/cli/output/text/text_format.h"
#include "tools/cli/shared/devices.h"
#include "tools/cli/shared/fleet_services.h"
#include "tools/cli/shared/unstored.h"
#include "tuner/fleet/source/catalogue_identity.h"
#include "tuner/fleet/source/fleet_source.h"
#include "tuner/session/idle/idle_worker.h"
#include "tuner/session/idle/miss_source.h"
#include "tuner/session/race/dates.h"

namespace autotune::cli {
namespace {

constexpr double kDefaultIdle_s = 30;
constexpr double kDefaultBudget_s = 10;
// An item takes longer than its budget by this much, for the GPU worker's start, the reference and storing.
constexpr double kBesideBudget_s = 3;

double parse_idle(const std::string& text, const std::string& what) {
    if (text == "0" || text == "0s") return 0;
    return parse_seconds(text, what + " (30s, 5m; 0: do not look)");
}

FlagCheck idle_value() {
    return [](const std::string& what, const std::string& value) { parse_idle(value, what); };
}

std::string_view end_text(tuner::SweepItem::State state) {
    switch (state) {
        case tuner::SweepItem::State::tuned:
            return "tuned";
        case tuner::SweepItem::State::fresh:
            return "tuned before";
        case tuner::SweepItem::State::failed:
            return "failed, to be tried again in a day";
        case tuner::SweepItem::State::skipped_for_budget:
        case tuner::SweepItem::State::in_work:
        case tuner::SweepItem::State::interrupted:
            return "given back";
    }
    return "";
}

// Prints a line per item, for a terminal and for systemd's journal; with --json an object per line.
class ItemPrinter : public tuner::IdleObserver, public tuner::TuneObserver {
  public:
    // `counts_left`: whether the number of remaining problems is known.
    ItemPrinter(Session& session, bool counts_left) : session_(session), counts_left_(counts_left) {}

    void on_item(const tuner::SweepItem& item, std::int64_t calls, std::size_t waiting) override {
        session_.out() << (session_.json() ? json_text(line_json(item, calls, waiting)) + "\n" : item_line(item, calls, waiting));
        session_.out().flush();
        if (item.result && !item.result->not_stored.empty())
            report_unstored(session_, save_unstored_winner(session_, item.result->winner, why_unstored(session_, *item.result)));
    }
    void on_remark(const std::string& text) override { session_.warn(text); }
    void on_warning(const std::string& text) override { session_.warn(text); }

  private:
    std::string item_line(const tuner::SweepItem& item, std::int64_t calls, std::size_t waiting) const {
        std::string line = fmt::format("{}  {} ({} {}): {}", tuner::now_utc_iso8601(), problem_text(item.problem), calls,
                                       calls == 1 ? "call" : "calls", end_text(item.state));
        if (item.result && !item.result->interrupted) line += ", " + us_text(item.result->winner.timing.median_us) + " us";
        if (!item.detail.empty()) line += "; " + item.detail;
        return line + (counts_left_ ? fmt::format("; {} left\n", waiting) : "\n");
    }
    Json line_json(const tuner::SweepItem& item, std::int64_t calls, std::size_t waiting) const {
        Json json{{"date", tuner::now_utc_iso8601()}, {"calls", calls}, {"left", counts_left_ ? Json(waiting) : Json(nullptr)}};
        json.update(item_json(session_.catalogue(), item));
        if (item.result && item.result->interrupted) json["winner"] = nullptr;
        if (!item.detail.empty()) json["detail"] = item.detail;
        json["gpu"] = item.gpu.empty() ? Json(nullptr) : Json(item.gpu);
        if (!item.card.empty()) json["card"] = item.card;
        return json;
    }

    Session& session_;
    bool counts_left_;
};

// `first`: how the first store was opened, so that lanes open it in the same way.
std::vector<db::WinnerStore*> open_stores(Session& session, db::OpenOptions& first) {
    std::vector<db::WinnerStore*> stores;
    if (!session.arguments().has("db")) {
        stores.push_back(&session.open_store());
        if (session.stores_nothing())
            throw Error(ErrorCode::database, "there is no place for a database whose misses could be tuned; give one with --db");
        first = session.store_options();
    }
    std::set<std::string> known;
    for (const std::string& path : session.arguments().all("db")) {
        if (!known.insert(path).second) continue;
        stores.push_back(&session.open_store_at(path));
        if (stores.size() == 1) first = session.store_options();
    }
    for (const db::WinnerStore* store : stores)
        if (store->is_read_only())
            throw Error(ErrorCode::database,
                        store->path() + " cannot be written, so no winner can be stored; give another with --db");
    return stores;
}

tuner::IdleOptions idle_options_of(const Arguments& arguments, const tuner::Budget& budget) {
    tuner::IdleOptions options;
    options.idle_s = arguments.has("idle") ? parse_idle(arguments.text("idle"), "--idle") : kDefaultIdle_s;
    if (arguments.has("exit-when-idle"))
        options.exit_when_idle_s = parse_seconds(arguments.text("exit-when-idle"), "--exit-when-idle");
    options.item_s = budget.seconds + kBesideBudget_s;
    if (!arguments.has("until")) return options;
    if (!has_time_limit(budget))
        throw Error(ErrorCode::usage, "--until needs a time in --budget, such as 10s: a count of trials may take any time");
    options.until = parse_instant(arguments.text("until"), "--until");
    return options;
}

ExitCode worker_verdict(Session& session, const tuner::IdleCounts& counts) {
    if (session.json())
        session.out() << json_text({{"summary",
                                     {{"tuned", counts.tuned},
                                      {"fresh", counts.fresh},
                                      {"failed", counts.failed},
                                      {"given_back", counts.given_back}}}})
                      << "\n";
    else
        session.out() << fmt::format("{} tuned, {} tuned before, {} failed, {} given back\n", counts.tuned, counts.fresh,
                                     counts.failed, counts.given_back);
    if (session.stopped()) {
        session.complain("stopped; winners are kept, and problems that are left stay recorded");
        return ExitCode::interrupted;
    }
    return counts.failed > 0 ? ExitCode::some_failed : ExitCode::done;
}

std::string host_name() {
    char name[256] = {};
    return ::gethostname(name, sizeof(name) - 1) == 0 ? name : "unknown";
}

struct WorkerParts {
    const std::vector<tuner::LaneGpu>& gpus;
    const tuner::TuneOptions& each;
    const tuner::IdleOptions& options;
    const db::OpenOptions& store;
    const tuner::ReadLoad& read;
    tuner::TuneServices& services;
    ItemPrinter& printer;
};

// Tunes the problems of a fleet's store instead of this host's misses.
ExitCode run_for_fleet(Session& session, const WorkerParts& parts) {
    constexpr std::chrono::seconds kSendsFor{10};
    fleet::FleetLink::Options link_options{.store = store_connection(session),
                                           .host = host_name(),
                                           .tool = session.program().version,
                                           .lanes = {},
                                           .catalogues = fleet::catalogue_identities(session.catalogue())};
    for (const tuner::LaneGpu& gpu : parts.gpus) link_options.lanes.push_back({gpu.uuid, gpu.device.identity.key()});
    fleet::FleetLink link(std::move(link_options));
    tuner::FleetSource source(link, parts.gpus, parts.services, parts.read, parts.options, session.program().stop, parts.printer);
    session.services().work_when_idle(parts.gpus, source, parts.each, parts.store, parts.services);
    const std::size_t unsent = link.close(kSendsFor);
    source.pass_on_remarks();
    const ExitCode code = worker_verdict(session, source.counts());
    if (unsent == 0) return code;
    session.complain(
        fmt::format("{} results did not reach the store; they are kept in the database, and go to the store when this "
                    "worker gets their problems again",
                    unsent));
    return code == ExitCode::done ? ExitCode::some_failed : code;
}

ExitCode run_worker(Session& session, const Arguments& arguments) {
    const bool is_of_fleet = !store_address(session).empty();
    if (is_of_fleet && arguments.all("db").size() > 1)
        throw Error(ErrorCode::usage, "with --store a worker keeps its winners in one database; give --db once");
    tuner::TuneOptions each;
    each.budget = budget_of(arguments);
    if (!arguments.has("budget")) each.budget.seconds = kDefaultBudget_s;
    const tuner::IdleOptions options = idle_options_of(arguments, each.budget);
    const std::vector<std::string> words = arguments.has("devices") ? arguments.list("devices") : std::vector<std::string>{"all"};
    const bool is_all = words == std::vector<std::string>{"all"};
    std::vector<Gpu> here = gpus_named(session, words, "autotune worker tunes problems that programs missed");
    here = usable_ones(session, std::move(here), is_all);
    std::string why_no_load;
    const tuner::ReadLoad read = options.idle_s > 0 ? session.services().load_reader(&why_no_load) : tuner::ReadLoad{};
    if (options.idle_s > 0 && !read)
        throw Error(ErrorCode::no_gpu, "autotune worker sees by NVML whether a GPU is idle, and it cannot be used: " +
                                           why_no_load + "; --idle 0 takes GPUs as they are");
    db::OpenOptions lanes_store;
    const std::vector<db::WinnerStore*> stores = open_stores(session, lanes_store);
    std::vector<tuner::LaneGpu> gpus;
    for (Gpu& gpu : here) {
        session.services().learn_versions(gpu, session.nvrtc_path());
        gpus.push_back(lane_gpu(session, gpu));
    }
    tuner::TuneServices services = session.tune_services(here.front(), stores.front(), nullptr);
    ItemPrinter printer(session, !is_of_fleet);
    services.observer = &printer;
    if (is_of_fleet) return run_for_fleet(session, {gpus, each, options, lanes_store, read, services, printer});
    const std::string& state = services.workers.lock_folder;
    tuner::FailedProblems failed(state.empty() ? "" : state + "/failed_problems.jsonl");
    tuner::MissSource source(stores, gpus, session.catalogue(), failed, read, options, session.program().stop, printer);
    session.services().work_when_idle(gpus, source, each, lanes_store, services);
    return worker_verdict(session, source.counts());
}

}  // namespace

Command worker_command() {
    return {.name = "worker",
            .about = "tune what programs missed, on GPUs that are idle, until it is stopped",
            .examples = {"autotune worker", "autotune worker --store postgresql://host/fleet     (the problems of a fleet)",
                         "autotune worker --db a.db --db b.db --budget 5s",
                         "autotune worker --exit-when-idle 10m     (in a batch job)",
                         "autotune worker --idle 0 --until 2026-11-28T20:05:00Z     (GPUs that are ours alone)"},
            .flags =
                std::vector<Flag>{
                    {"db", "FILE", "database whose misses are tuned; repeatable, the first takes the winners of all", true, {}},
                    store_flag(),
                    {"idle",
                     "TIME",
                     "how long a GPU must have been idle before it is used; default 30s, 0: do not look",
                     false,
                     {},
                     idle_value()},
                    {"budget",
                     "TIME|TRIALS",
                     "the most that a problem takes: 10s (default), 200t or 30s,200t",
                     false,
                     {},
                     budget_value()},
                    {"exit-when-idle",
                     "TIME",
                     "end after this time without a miss to tune; default: never",
                     false,
                     {},
                     seconds_value()},
                    {"until",
                     "WHEN",
                     "begin no problem that may not end before then: 2026-11-28T20:05:00Z",
                     false,
                     {},
                     instant_value()}} +
                output_flags() +
                std::vector<Flag>{{"devices", "LIST", "GPUs to tune on: all (default), or ordinals and UUIDs", false, {}},
                                  {"allow-mps", "", "also GPUs with an MPS server", false, {}},
                                  jobs_flag(),
                                  templates_flag(),
                                  kernel_flag()},
            .words = "",
            .min_positional = 0,
            .run = run_worker,
            .saves_on_interrupt = true};
}

}  // namespace autotune::cli
