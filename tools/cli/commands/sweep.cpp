#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "src/core/error.h"
#include "tools/cli/command.h"
#include "tools/cli/input/budget.h"
#include "tools/cli/input/requests.h"
#include "tools/cli/output/data/csv.h"
#include "tools/cli/output/data/json_format.h"
#include "tools/cli/output/terminal/progress.h"
#include "tools/cli/output/text/common_words.h"
#include "tools/cli/output/text/text_format.h"
#include "tools/cli/shared/unstored.h"
#include "tools/cli/shared/without_gpu.h"
#include "tuner/session/tune/search_limits.h"

namespace autotune::cli {
namespace {

using State = tuner::SweepItem::State;

std::string_view state_text(State state) {
    switch (state) {
        case State::fresh:
            return "fresh";
        case State::tuned:
            return "tuned";
        case State::failed:
            return "failed";
        case State::skipped_for_budget:
            return "skipped_for_budget";
        case State::interrupted:
            return "interrupted";
    }
    return "";
}

// An item that ended, and what became of its winner.
struct Swept {
    tuner::SweepItem item;
    Unstored unstored{};
};

Json item_json(Session& session, const Swept& swept) {
    const tuner::SweepItem& item = swept.item;
    const Op& op = session.catalogue().op_of(item.problem);
    Json json{{"problem", problem_json(item.problem)}, {"state", state_text(item.state)}, {"seconds", item.seconds}};
    json["winner"] = item.result ? winner_json(item.result->winner, &op, &item.problem) : Json(nullptr);
    if (item.result) json["origin"] = to_string(item.result->origin);
    if (item.result && !item.result->interrupted) add_unstored(json, swept.unstored);
    if (item.result && item.result->tuned) json["phases"] = phases_json(item.result->phases);
    if (!item.detail.empty()) json["detail"] = item.detail;
    return json;
}

// Reports each item as it ends, in the JSON list or as a line over the progress on a terminal, and keeps it: what came of the
// items before a failure is printed too.
class ItemReporter : public tuner::SweepObserver {
  public:
    ItemReporter(Session& session, ProgressLine& progress)
        : session_(session), progress_(progress), list_(session, Json::object(), "items") {}

    void on_item(const tuner::SweepItem& item, std::size_t done, std::size_t total, std::optional<double> eta_s) override {
        progress_.clear();
        swept_.push_back({item, item.result
                                    ? save_unstored_winner(session_, item.result->winner, why_unstored(session_, *item.result))
                                    : Unstored{}});
        if (session_.json()) {
            list_.add(item_json(session_, swept_.back()));
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
    JsonList list_;
    std::vector<Swept> swept_;  // in the order in which they ended
};

std::string summary_table(Session& session, const std::vector<Swept>& items) {
    CommonWords classes(session.full()), candidates(session.full());
    for (const Swept& swept : items) {
        classes.add(swept.item.problem.class_key());
        if (swept.item.result) candidates.add(swept.item.result->winner.candidate);
    }
    Table table({{"shape", Table::Align::left},
                 {"class", Table::Align::wrap},
                 {"state", Table::Align::wrap},
                 {"median us"},
                 {"rate"},
                 {"", Table::Align::left},
                 {"seconds"},
                 {"winner", Table::Align::wrap}});
    for (const auto& [item, unstored] : items) {
        const Op& op = session.catalogue().op_of(item.problem);
        const db::Winner* winner = item.result ? &item.result->winner : nullptr;
        table.add({item.problem.shape(), classes.name(item.problem.class_key()),
                   std::string(state_text(item.state)) + (unstored.is_stored() ? "" : ", not stored"),
                   winner ? us_text(winner->timing.median_us) : "-",
                   winner ? rate_text(op, item.problem, winner->timing.median_us) : "-", winner ? rate_title(op) : "",
                   fmt::format("{:.1f}", item.seconds), winner ? candidates.name(winner->candidate) : item.detail});
    }
    return classes.legend() + candidates.legend() + table.to_string(session.text_columns());
}

std::size_t count_of(const std::vector<Swept>& items, State state) {
    return static_cast<std::size_t>(
        std::count_if(items.begin(), items.end(), [&](const Swept& swept) { return swept.item.state == state; }));
}

void print_summary(Session& session, const std::vector<Swept>& items, JsonList& list) {
    double seconds = 0;
    for (const Swept& swept : items) seconds += swept.item.seconds;
    if (session.json()) {
        Json counts = Json::object();
        for (const State state : {State::fresh, State::tuned, State::failed, State::skipped_for_budget, State::interrupted}) {
            counts[std::string(state_text(state))] = count_of(items, state);
        }
        list.finish({{"summary", counts}, {"seconds", seconds}});
        return;
    }
    if (session.csv()) {
        std::vector<Json> rows;
        for (const Swept& swept : items) rows.push_back(item_json(session, swept));
        session.out() << csv_of(rows);
        return;
    }
    session.out() << summary_table(session, items)
                  << fmt::format(
                         "\n{} problems: {} tuned, {} fresh already, {} failed, {} left for lack of time; {}\n", items.size(),
                         count_of(items, State::tuned), count_of(items, State::fresh), count_of(items, State::failed),
                         count_of(items, State::skipped_for_budget) + count_of(items, State::interrupted), seconds_text(seconds));
}

// Tells of the winners that are not stored, together where they are in one file. False if there are none.
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

ExitCode verdict(Session& session, const std::vector<Swept>& items) {
    const bool all_stored = !complain_of_unstored(session, items);
    const std::size_t left = count_of(items, State::skipped_for_budget) + count_of(items, State::interrupted);
    if (session.stopped() || count_of(items, State::interrupted) > 0) {
        session.complain(fmt::format("interrupted; {} winners are kept, run the same command again for the other {}",
                                     count_of(items, State::tuned) + count_of(items, State::fresh), left));
        return ExitCode::interrupted;
    }
    if (left > 0) session.complain(fmt::format("the total budget is used up; run the same command again for the other {}", left));
    if (!all_stored) return ExitCode::database;
    return count_of(items, State::failed) > 0 ? ExitCode::some_failed : ExitCode::done;
}

// Fresh items end first; people look for them where they asked for them.
std::vector<Swept> in_order_of(const std::vector<Problem>& problems, std::vector<Swept> items) {
    std::map<std::string, std::size_t> places;
    for (std::size_t i = 0; i < problems.size(); ++i) places.emplace(problems[i].key(), i);
    std::vector<std::pair<std::size_t, std::size_t>> order;  // a place, and an index of items
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
    // A problem that was begun in time is finished.
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

// The problem of a miss; nullopt if no op here knows it any more.
std::optional<Problem> problem_of_miss(const Catalogue& catalogue, const db::MissRow& miss) {
    ProblemRequest request{.op = miss.op, .shape = miss.shape, .options = {}};
    std::istringstream words(miss.class_key);
    std::string word;
    words >> word;
    while (words >> word) {
        const std::size_t equals = word.find('=');
        if (equals != std::string::npos) request.options[word.substr(0, equals)] = word.substr(equals + 1);
    }
    try {
        return catalogue.problem(request);
    } catch (const Error&) {
        return std::nullopt;
    }
}

// The problems that library calls had no winner for, most-called first, then the latest.
std::vector<Problem> missed_problems(Session& session) {
    std::vector<Problem> problems;
    std::set<std::string> known;  // keys: a problem may have been missed on several devices
    for (const db::MissRow& miss : session.open_store_to_read().misses()) {
        const std::optional<Problem> problem = problem_of_miss(session.catalogue(), miss);
        if (!problem) {
            session.complain("the miss " + miss.class_key + " " + miss.shape + " is passed over: no op here knows it");
            continue;
        }
        if (known.insert(problem->key()).second) problems.push_back(*problem);
    }
    return problems;
}

// A program that runs on with the plan that it made before a winner was found notes its problem again, and no tune will delete
// that.
void forget_misses_of_fresh(const std::vector<Swept>& swept, db::WinnerStore& store, const DeviceIdentity& device) {
    std::vector<Problem> fresh;
    for (const Swept& each : swept)
        if (each.item.state == State::fresh) fresh.push_back(each.item.problem);
    try {
        if (!fresh.empty() && !store.is_read_only()) store.forget_misses(fresh, device);
    } catch (const db::DatabaseError&) {
        // They are found fresh again.
    }
}

ExitCode run_sweep(Session& session, const Arguments& arguments) {
    const bool of_misses = arguments.has("misses");
    if (of_misses && (arguments.has("shape") || arguments.has("shapes")))
        throw Error(ErrorCode::usage, "--misses takes its problems from the database; leave out --shape and --shapes");
    budget_of(arguments);
    const std::vector<Problem> problems = of_misses ? missed_problems(session) : sweep_problems_of(session);
    if (problems.empty()) {
        if (session.json()) print_json(session, {{"items", Json::array()}, {"summary", Json::object()}, {"seconds", 0}});
        if (session.plain()) session.out() << "no misses are recorded; programs record them with `record_misses`\n";
        return ExitCode::done;
    }
    check_choice(session, problems);
    tuner::SweepOptions options;
    if (arguments.has("total-budget")) options.total_seconds = parse_seconds(arguments.text("total-budget"), "--total-budget");
    if (arguments.has("dry-run")) {
        options.each = tune_options_of(session, problems.front(), devices_of_archs(arguments, {"sm_90a"}).front());
        return dry_run(session, problems, options);
    }
    Gpu gpu = session.need_gpu("autotune sweep times kernels (autotune compile --shapes fills the cubin cache without a GPU)");
    check_arch_is_the_gpus(session, problems, gpu);
    options.each = tune_options_of(session, problems.front(), gpu.device);
    db::WinnerStore& store = session.open_store();
    session.services().learn_versions(gpu, session.nvrtc_path());
    ProgressLine progress(session);
    progress.set_prefix(fmt::format("1/{}", problems.size()));
    tuner::TuneServices services = session.tune_services(gpu, &store, &progress);
    ItemReporter reporter(session, progress);
    const auto summarise = [&] {
        progress.clear();
        print_summary(session, in_order_of(problems, reporter.swept()), reporter.list());
        session.out().flush();
    };
    try {
        session.services().sweep(problems, options, services, &reporter);
    } catch (const Error&) {
        summarise();
        complain_of_unstored(session, reporter.swept());
        throw;
    }
    summarise();
    if (of_misses) forget_misses_of_fresh(reporter.swept(), store, gpu.device.identity);
    return verdict(session, reporter.swept());
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
                         {"total-budget", "TIME", "stop starting problems after this time: 30m, 2h", false, {}, seconds_value()},
                         full_flag()} +
                     choice_flags() + search_flags() + device_flags() +
                     std::vector<Flag>{jobs_flag(), arch_flag(), templates_flag(), dry_run_flag()} + store_flags() +
                     table_flags(),
            .takes_op_options = true,
            .words = "",
            .min_positional = 0,
            .run = run_sweep,
            .saves_on_interrupt = true};
}

}  // namespace autotune::cli
