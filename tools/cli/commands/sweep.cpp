#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "src/core/error.h"
#include "src/dispatch/rules/stored_winner.h"
#include "tools/cli/command.h"
#include "tools/cli/input/budget.h"
#include "tools/cli/input/requests.h"
#include "tools/cli/output/data/csv.h"
#include "tools/cli/output/data/json_format.h"
#include "tools/cli/output/terminal/progress.h"
#include "tools/cli/output/text/common_words.h"
#include "tools/cli/output/text/text_format.h"
#include "tools/cli/shared/devices.h"
#include "tools/cli/shared/unstored.h"
#include "tools/cli/shared/without_gpu.h"
#include "tuner/session/tune/search_limits.h"

namespace autotune::cli {
namespace {

using State = tuner::SweepItem::State;

// Limits of the search for each problem
constexpr std::array kLimits = {"budget", "trials", "patience", "target", "target-gain"};

// A finished item, and whether its winner was stored.
struct Swept {
    tuner::SweepItem item;
    Unstored unstored{};
    bool is_of_lanes = false;  // from a sweep on several GPUs
};

Json swept_json(Session& session, const Swept& swept) {
    const tuner::SweepItem& item = swept.item;
    Json json = item_json(session.catalogue(), item);
    if (item.result) json["origin"] = to_string(item.result->origin);
    if (item.result && !item.result->interrupted) add_unstored(json, swept.unstored);
    if (item.result && item.result->tuned) json["phases"] = phases_json(item.result->phases);
    if (!item.detail.empty()) json["detail"] = item.detail;
    if (swept.is_of_lanes) {
        json["gpu"] = item.gpu.empty() ? Json(nullptr) : Json(item.gpu);
        json["card"] = item.card;
    }
    return json;
}

Json lane_json(const tuner::LaneReport& lane) {
    return {{"ordinal", lane.ordinal},
            {"uuid", lane.uuid},
            {"name", lane.name},
            {"items", lane.items},
            {"seconds", lane.seconds},
            {"restarts", lane.restarts},
            {"out_because", lane.out_because.empty() ? Json(nullptr) : Json(lane.out_because)}};
}

// Reports each item when it ends: in the JSON list, or as a line above the progress line. Also keeps the items, so that those
// before a failure are printed.
class ItemReporter : public tuner::SweepObserver {
  public:
    ItemReporter(Session& session, ProgressLine& progress, bool of_lanes)
        : session_(session), progress_(progress), of_lanes_(of_lanes), list_(session, Json::object(), "items") {}

    void on_item(const tuner::SweepItem& item, std::size_t done, std::size_t total, std::optional<double> eta_s) override {
        progress_.clear();
        swept_.push_back(
            {item,
             item.result ? save_unstored_winner(session_, item.result->winner, why_unstored(session_, *item.result)) : Unstored{},
             of_lanes_});
        if (session_.json()) {
            list_.add(swept_json(session_, swept_.back()));
            session_.out().flush();
        }
        if (session_.streams().err_is_terminal) {
            session_.err() << fmt::format("{}/{}  {}  {}{}\n", done, total, problem_text(item.problem), state_text(item.state),
                                          eta_s ? ", " + seconds_text(*eta_s) + " left" : "");
        }
        progress_.set_prefix(fmt::format("{}/{}", std::min(done + 1, total), total));
    }

    const std::vector<Swept>& swept() const { return swept_; }
    JsonList& list() { return list_; }

  private:
    Session& session_;
    ProgressLine& progress_;
    bool of_lanes_;
    JsonList list_;
    std::vector<Swept> swept_;  // in the order in which they ended
};

// "1": the ordinal of the GPU that tuned it.
std::string gpu_of(const tuner::SweepItem& item, const std::vector<tuner::LaneReport>& lanes) {
    const auto lane =
        std::find_if(lanes.begin(), lanes.end(), [&](const tuner::LaneReport& one) { return one.uuid == item.gpu; });
    return lane == lanes.end() ? "-" : std::to_string(lane->ordinal);
}

std::string summary_table(Session& session, const std::vector<Swept>& items, const std::vector<tuner::LaneReport>& lanes) {
    CommonWords classes(session.full()), candidates(session.full());
    for (const Swept& swept : items) {
        classes.add(swept.item.problem.class_key());
        if (swept.item.result) candidates.add(swept.item.result->winner.candidate);
    }
    std::vector<Table::Column> columns{{"shape", Table::Align::left},
                                       {"class", Table::Align::wrap},
                                       {"state", Table::Align::wrap},
                                       {"median us"},
                                       {"rate"},
                                       {"", Table::Align::left},
                                       {"seconds"}};
    if (!lanes.empty()) columns.push_back({"GPU"});
    columns.push_back({"winner", Table::Align::wrap});
    Table table(columns);
    for (const auto& [item, unstored, is_of_lanes] : items) {
        const Op& op = session.catalogue().op_of(item.problem);
        const db::Winner* winner = item.result ? &item.result->winner : nullptr;
        std::vector<std::string> cells{item.problem.shape(),
                                       classes.name(item.problem.class_key()),
                                       std::string(state_text(item.state)) + (unstored.is_stored() ? "" : ", not stored"),
                                       winner ? us_text(winner->timing.median_us) : "-",
                                       winner ? rate_text(op, item.problem, winner->timing.median_us) : "-",
                                       winner ? rate_title(op) : "",
                                       fmt::format("{:.1f}", item.seconds)};
        if (!lanes.empty()) cells.push_back(gpu_of(item, lanes));
        cells.push_back(winner ? candidates.name(winner->candidate) : item.detail);
        table.add(std::move(cells));
    }
    return classes.legend() + candidates.legend() + table.to_string(session.text_columns());
}

std::size_t count_of(const std::vector<Swept>& items, State state) {
    return static_cast<std::size_t>(
        std::count_if(items.begin(), items.end(), [&](const Swept& swept) { return swept.item.state == state; }));
}

// "GPU 0 (GPU-5a3c..., NVIDIA H200): 31 problems, 36 s", one line per GPU.
std::string lanes_text(const std::vector<tuner::LaneReport>& lanes) {
    std::string text;
    for (const tuner::LaneReport& lane : lanes) {
        text += fmt::format("GPU {} ({}, {}): {} problems, {}", lane.ordinal, lane.uuid, lane.name, lane.items,
                            seconds_text(lane.seconds));
        if (lane.restarts > 0) text += ", its process was started again once";
        if (!lane.out_because.empty()) text += ", then out: " + lane.out_because;
        text += "\n";
    }
    return text;
}

void print_summary(Session& session, const std::vector<Swept>& items, const std::vector<tuner::LaneReport>& lanes,
                   JsonList& list) {
    double seconds = 0;
    for (const Swept& swept : items) seconds += swept.item.seconds;
    if (session.json()) {
        Json counts = Json::object();
        for (const State state : {State::fresh, State::tuned, State::failed, State::skipped_for_budget, State::interrupted}) {
            counts[std::string(state_text(state))] = count_of(items, state);
        }
        Json tail{{"summary", counts}, {"seconds", seconds}};
        for (const tuner::LaneReport& lane : lanes) tail["gpus"].push_back(lane_json(lane));
        list.finish(std::move(tail));
        return;
    }
    if (session.csv()) {
        std::vector<Json> rows;
        for (const Swept& swept : items) rows.push_back(swept_json(session, swept));
        session.out() << csv_of(rows);
        return;
    }
    session.out() << summary_table(session, items, lanes)
                  << fmt::format(
                         "\n{} problems: {} tuned, {} fresh already, {} failed, {} left for lack of time; {}\n", items.size(),
                         count_of(items, State::tuned), count_of(items, State::fresh), count_of(items, State::failed),
                         count_of(items, State::skipped_for_budget) + count_of(items, State::interrupted), seconds_text(seconds))
                  << lanes_text(lanes);
}

// Reports the winners that are not in the database; those that were saved to one file, in one message. False if there are none.
bool complain_of_unstored(Session& session, const std::vector<Swept>& items) {
    std::set<std::string> files;
    std::size_t count = 0;
    for (const Swept& swept : items) {
        if (swept.unstored.is_stored()) continue;
        ++count;
        if (swept.unstored.file.empty() || files.insert(swept.unstored.file).second) report_unstored(session, swept.unstored);
    }
    if (count > 1) session.complain(fmt::format("{} winners of this sweep are not stored", count));
    return count > 0;
}

bool is_out(const tuner::LaneReport& lane) {
    return !lane.out_because.empty();
}

ExitCode verdict(Session& session, const std::vector<Swept>& items, const std::vector<tuner::LaneReport>& lanes) {
    const bool all_stored = !complain_of_unstored(session, items);
    const std::size_t left = count_of(items, State::skipped_for_budget) + count_of(items, State::interrupted);
    if (session.stopped() || count_of(items, State::interrupted) > 0) {
        session.complain(fmt::format("interrupted; {} winners are kept, run the same command again for the other {}",
                                     count_of(items, State::tuned) + count_of(items, State::fresh), left));
        return ExitCode::interrupted;
    }
    if (left > 0) session.complain(fmt::format("the total budget is used up; run the same command again for the other {}", left));
    if (!all_stored) return ExitCode::database;
    if (!lanes.empty() && std::all_of(lanes.begin(), lanes.end(), is_out)) return ExitCode::gpu_unhealthy;
    const bool some_out = std::any_of(lanes.begin(), lanes.end(), is_out);
    return some_out || count_of(items, State::failed) > 0 ? ExitCode::some_failed : ExitCode::done;
}

// Fresh items end first, but are printed in the order in which the problems were given.
std::vector<Swept> in_order_of(const std::vector<Problem>& problems, std::vector<Swept> items) {
    std::map<std::string, std::size_t> places;
    for (std::size_t i = 0; i < problems.size(); ++i) places.emplace(problems[i].key(), i);
    std::vector<std::pair<std::size_t, std::size_t>> order;  // position of the problem, and index of the item
    for (std::size_t i = 0; i < items.size(); ++i) order.emplace_back(places.at(items[i].item.problem.key()), i);
    std::sort(order.begin(), order.end());
    std::vector<Swept> ordered;
    ordered.reserve(items.size());
    for (const auto& [place, i] : order) ordered.push_back(std::move(items[i]));
    return ordered;
}

double seconds_at_most(std::size_t problems, const tuner::SweepOptions& options) {
    const double each = options.each.budget.seconds + tuner::sustained_seconds(options.each.budget);
    const double all = each * static_cast<double>(problems);
    // A problem that was begun before the limit is finished after it, so it adds up to its own time.
    return options.total_seconds > 0 ? std::min(all, options.total_seconds + each) : all;
}

ExitCode dry_run(Session& session, const std::vector<Problem>& problems, const tuner::SweepOptions& options) {
    if (session.json()) {
        Json list = Json::array();
        for (const Problem& problem : problems) list.push_back(problem_json(problem));
        print_json(session,
                   {{"dry_run", true}, {"problems", list}, {"seconds_at_most", seconds_at_most(problems.size(), options)}});
        return ExitCode::done;
    }
    for (const Problem& problem : problems) session.out() << problem_text(problem) << "\n";
    session.out() << fmt::format("\n{} problems, at most {}\n", problems.size(),
                                 seconds_text(seconds_at_most(problems.size(), options)));
    return ExitCode::done;
}

// The problems for which library calls had no winner: most calls first, then the latest.
std::vector<Problem> missed_problems(Session& session) {
    std::vector<Problem> problems;
    std::set<std::string> known;  // keys, because a problem may have been missed on several devices
    for (const db::MissRow& miss : session.open_store_to_read().misses()) {
        const std::optional<Problem> problem = problem_of(session.catalogue(), miss);
        if (!problem) {
            const bool is_users = miss.class_key.starts_with("user_");
            session.complain("the miss " + miss.class_key + " " + miss.shape + " is passed over: " +
                             (is_users ? "its kernel file is not here; name it with --kernel" : "no op here knows it"));
            continue;
        }
        if (known.insert(problem->key()).second) problems.push_back(*problem);
    }
    return problems;
}

// A program that continues with a plan from before the winner was found records its problem again, and no tune would delete that
// miss.
void forget_misses_of_fresh(const std::vector<Swept>& swept, db::WinnerStore& store, const DeviceIdentity& device) {
    std::vector<Problem> fresh;
    for (const Swept& each : swept)
        if (each.item.state == State::fresh) fresh.push_back(each.item.problem);
    try {
        if (!fresh.empty() && !store.is_read_only()) store.forget_misses(fresh, device);
    } catch (const db::DatabaseError&) {
        // The next sweep finds these problems fresh again.
    }
}

// One, without --devices.
std::vector<Gpu> gpus_of(Session& session) {
    const char* purpose = "autotune sweep times kernels (autotune compile --shapes fills the cubin cache without a GPU)";
    if (!session.arguments().has("devices")) return {session.need_gpu(purpose)};
    std::vector<Gpu> gpus = gpus_of_devices(session, purpose);
    if (gpus.front().count == 1) session.remark("--devices: this host has one GPU, which does the whole list");
    return free_ones(session, std::move(gpus));
}

std::vector<tuner::LaneReport> sweep_on_lanes(Session& session, const std::vector<Gpu>& gpus,
                                              const std::vector<Problem>& problems, const tuner::SweepOptions& options,
                                              tuner::TuneServices& services, ItemReporter& reporter) {
    std::vector<tuner::LaneGpu> lanes;
    for (const Gpu& gpu : gpus) lanes.push_back(lane_gpu(session, gpu));
    return session.services().sweep_on(lanes, problems, options, session.store_options(), services, &reporter).lanes;
}

// Every n-th problem, from the i-th on: "2/8".
std::vector<Problem> shard_of(const std::vector<Problem>& problems, const std::string& text) {
    const std::size_t slash = text.find('/');
    const std::string form = "--shard is I/N, such as 2/8 for the second of eight";
    if (slash == std::string::npos) throw Error(ErrorCode::usage, form + "; it is '" + text + "'");
    const auto count = parse_integer(text.substr(slash + 1), "N of --shard", {.least = 1, .most = 1'000'000});
    const auto which = parse_integer(text.substr(0, slash), "I of --shard");
    if (which < 1 || which > count)
        throw Error(ErrorCode::usage, fmt::format("--shard {}: I is 1 to N, and there is no shard {} of {}", text, which, count));
    std::vector<Problem> mine;
    for (std::size_t i = static_cast<std::size_t>(which) - 1; i < problems.size(); i += static_cast<std::size_t>(count))
        mine.push_back(problems[i]);
    return mine;
}

ExitCode run_sweep(Session& session, const Arguments& arguments) {
    const bool of_misses = arguments.has("misses");
    if (of_misses && (arguments.has("shape") || arguments.has("shapes")))
        throw Error(ErrorCode::usage, "--misses takes its problems from the database; leave out --shape and --shapes");
    budget_of(arguments);
    if (of_misses && arguments.has("shard"))
        throw Error(ErrorCode::usage,
                    "--shard divides a list, and --misses has a list that changes while it is worked off; leave "
                    "out --shard: sweeps of one database share its misses");
    std::vector<Problem> problems = of_misses ? missed_problems(session) : sweep_problems_of(session);
    if (arguments.has("shard")) problems = shard_of(problems, arguments.text("shard"));
    if (problems.empty()) {
        if (session.json()) print_json(session, {{"items", Json::array()}, {"summary", Json::object()}, {"seconds", 0}});
        if (session.plain())
            session.out() << (of_misses ? "no misses that can be tuned are recorded; programs record them with `record_misses`\n"
                                        : "this shard has no problem: the list is shorter than N of --shard\n");
        return ExitCode::done;
    }
    check_choice(session, problems);
    tuner::SweepOptions options;
    if (arguments.has("total-budget")) options.total_seconds = parse_seconds(arguments.text("total-budget"), "--total-budget");
    if (arguments.has("finals")) options.finals_in_turns = arguments.text("finals") == "in-turns";
    if (arguments.has("dry-run")) {
        options.each = tune_options_of(session, problems.front(), devices_of_archs(arguments, {"sm_90a"}).front());
        return dry_run(session, problems, options);
    }
    std::vector<Gpu> gpus = gpus_of(session);
    for (Gpu& gpu : gpus) {
        check_arch_is_the_gpus(session, problems, gpu);
        session.services().learn_versions(gpu, session.nvrtc_path());
    }
    options.each = tune_options_of(session, problems.front(), gpus.front().device);
    // A limit on the command line holds for each problem.
    const bool has_limits = std::any_of(kLimits.begin(), kLimits.end(), [&](const char* limit) { return arguments.has(limit); });
    options.each.budget.trusts_learning = !has_limits;
    db::WinnerStore& store = session.open_store();
    ProgressLine progress(session);
    progress.set_prefix(fmt::format("1/{}", problems.size()));
    tuner::TuneServices services = session.tune_services(gpus.front(), &store, &progress);
    ItemReporter reporter(session, progress, gpus.size() > 1);
    std::vector<tuner::LaneReport> lanes;
    const auto summarise = [&] {
        progress.clear();
        print_summary(session, in_order_of(problems, reporter.swept()), lanes, reporter.list());
        session.out().flush();
    };
    try {
        if (gpus.size() == 1) {
            session.services().sweep(problems, options, services, &reporter);
        } else {
            lanes = sweep_on_lanes(session, gpus, problems, options, services, reporter);
        }
    } catch (const Error&) {
        summarise();
        complain_of_unstored(session, reporter.swept());
        throw;
    }
    summarise();
    if (of_misses) {
        for (const Gpu& gpu : gpus) forget_misses_of_fresh(reporter.swept(), store, gpu.device.identity);
    }
    return verdict(session, reporter.swept(), lanes);
}

}  // namespace

Command sweep_command() {
    return {.name = "sweep",
            .about = "tune many problems ahead of time; if it is stopped, the same command goes on",
            .examples = {"autotune sweep --op hgemm --shapes 1024:4096:1024x4096x2048",
                         "autotune sweep --op hgemm --shapes shapes.txt --budget 20s --total-budget 1h",
                         "autotune sweep --misses --total-budget 10m     (problems for which the library had no winner)",
                         "autotune sweep --shapes shapes.txt     (lines such as: 4096x4096x2048 op=hgemm layout=nt)"},
            .flags = problem_flags() +
                     std::vector<Flag>{
                         shapes_flag(),
                         {"misses", "", "the problems for which the library had no winner, most-called first", false, {}},
                         {"shard", "I/N", "every N-th problem of the list, from the I-th on", false, {}},
                         {"total-budget", "TIME", "stop starting problems after this time: 30m, 2h", false, {}, seconds_value()},
                         full_flag()} +
                     choice_flags() + search_flags() + device_flags() + devices_flags() +
                     std::vector<Flag>{jobs_flag(), arch_flag(), templates_flag(), dry_run_flag()} + store_flags() +
                     table_flags() + std::vector<Flag>{kernel_flag()},
            .takes_op_options = true,
            .words = "",
            .min_positional = 0,
            .run = run_sweep,
            .saves_on_interrupt = true};
}

}  // namespace autotune::cli
