#include <fmt/format.h>

#include <algorithm>
#include <climits>
#include <nlohmann/json.hpp>

#include "src/core/error.h"
#include "src/rivals/rival.h"
#include "tools/cli/command.h"
#include "tools/cli/input/budget.h"
#include "tools/cli/input/requests.h"
#include "tools/cli/library_choice.h"
#include "tools/cli/output/data/csv.h"
#include "tools/cli/output/data/json_format.h"
#include "tools/cli/output/report/bench_plots.h"
#include "tools/cli/output/terminal/output_file.h"
#include "tools/cli/output/terminal/progress.h"
#include "tools/cli/output/text/bench_format.h"
#include "tools/cli/output/text/text_format.h"
#include "tools/cli/shared/each_problem.h"
#include "tools/cli/shared/without_gpu.h"
#include "tuner/session/race/dates.h"

namespace autotune::cli {
namespace {

// Refuses flags that contradict each other.
void check_flags(const Arguments& arguments) {
    const std::vector<std::pair<const char*, const char*>> exclusive = {
        {"burst", "warm"}, {"winner-only", "named"}, {"winner-only", "best-of-family"}};
    for (const auto& [one, other] : exclusive) {
        if (arguments.has(one) && arguments.has(other))
            throw Error(ErrorCode::usage, std::string("--") + one + " and --" + other + " exclude each other; give one of them");
    }
}

tuner::BenchOptions bench_options_of(Session& session, const Problem& problem, const Device& device) {
    const Arguments& arguments = session.arguments();
    tuner::BenchOptions options;
    options.choice = choice_of(session, problem, device);
    options.named = arguments.has("named");
    options.best_of_family = arguments.has("best-of-family");
    options.winner_only = arguments.has("winner-only");
    options.candidates = bench_candidates_of(session, problem, device);
    options.against = arguments.list("against");
    options.rounds = static_cast<int>(arguments.integer("rounds", options.rounds));
    options.racers = static_cast<std::size_t>(arguments.integer("racers", 8));
    if (arguments.has("budget")) options.survey_seconds = parse_seconds(arguments.text("budget"), "--budget");
    if (arguments.has("burst")) options.warm_seconds = 0;
    if (arguments.has("warm")) options.warm_seconds = arguments.positive_number("warm", options.warm_seconds);
    options.after = *tuner::parse_predecessor(arguments.text("after", "filler"));
    options.may_overlap = !arguments.has("no-pdl");
    options.blocks = static_cast<int>(arguments.integer("blocks", 0));
    options.method = measuring_method_of(arguments);
    options.seed = static_cast<std::uint64_t>(arguments.integer("seed", 1));
    return options;
}

std::string time_text(const tuner::BenchResult& result) {
    const std::string how = std::string(result.may_overlap ? "" : ", programmatic dependent launch off") +
                            (result.streams == 1 ? "" : ", in a context with kernels on two streams");
    switch (result.after) {
        case tuner::Predecessor::itself:
            return "each launch after another of the same kernel" + how;
        case tuner::Predecessor::trigger:
            return "each launch after a small kernel that lets it start early" + how;
        case tuner::Predecessor::filler:
            break;
    }
    return "stream time (each launch after a small kernel of another kind)" + how;
}

std::string conditions_text(const tuner::BenchResult& result) {
    std::string text = fmt::format("{}; {} interleaved rounds, {}", time_text(result), result.rounds,
                                   result.sustained ? "sustained (warmed before)" : "burst (not warmed)");
    if (result.surveyed > 0) text += fmt::format(", after a survey of {} configs", result.surveyed);
    if (result.conditions.sm_clock_mhz) text += fmt::format(", {} MHz", *result.conditions.sm_clock_mhz);
    if (result.conditions.power_w) text += fmt::format(", {} W", *result.conditions.power_w);
    return text + "\n";
}

// Prints one table after the other, made on the run's shared processes. Results over all tables come at the end.
class BenchPrinter {
  public:
    BenchPrinter(Session& session, const Gpu& gpu, db::WinnerStore& store)
        : session_(session),
          gpu_(gpu),
          library_(session),
          progress_(session),
          services_(session.tune_services(gpu, &store, &progress_)),
          run_(session.services().start_bench(services_)) {
        services_.provenance.date = tuner::now_utc_iso8601();
    }

    ExitCode bench(const Problem& problem);
    void print_csv();
    void plot(const std::string& path);

  private:
    void print(const Benched& benched);

    Session& session_;
    const Gpu& gpu_;
    LibraryChoice library_;
    ProgressLine progress_;
    tuner::TuneServices services_;
    std::unique_ptr<tuner::BenchRun> run_;
    std::vector<Benched> done_;
};

ExitCode BenchPrinter::bench(const Problem& problem) {
    tuner::BenchOptions options = bench_options_of(session_, problem, gpu_.device);
    std::optional<UntunedChoice> untuned;
    if (session_.arguments().has("untuned")) untuned = library_.untuned(problem, gpu_.device);
    if (untuned) options.untuned = untuned->candidate;
    done_.push_back({problem, run_->table(problem, options), std::move(untuned)});
    progress_.clear();
    print(done_.back());
    if (session_.stopped()) return ExitCode::interrupted;
    const std::vector<tuner::BenchRow>& rows = done_.back().result.rows;
    if (std::any_of(rows.begin(), rows.end(), [](const auto& row) { return row.status == TrialStatus::wrong_result; }))
        return ExitCode::verification;
    const bool any = std::any_of(rows.begin(), rows.end(), [](const auto& row) { return row.timing.has_value(); });
    return any ? ExitCode::done : ExitCode::no_valid_config;
}

void BenchPrinter::print(const Benched& benched) {
    const Op& op = session_.catalogue().op_of(benched.problem);
    if (session_.json()) print_json(session_, bench_json(benched, services_, op));
    if (session_.plain()) {
        session_.out() << problem_text(benched.problem) << "\n"
                       << device_text(gpu_.device.identity) << "\n"
                       << conditions_text(benched.result) << "\n"
                       << bench_table(benched, op, session_.full()) << "\n";
    }
    session_.out().flush();
}

void BenchPrinter::print_csv() {
    std::vector<Json> rows;
    for (const Benched& benched : done_) {
        for (Json& row : bench_csv_rows(benched, session_.catalogue().op_of(benched.problem))) rows.push_back(std::move(row));
    }
    session_.out() << csv_of(rows);
}

// Draws one problem's rows as bars, and several problems as a roofline plot. These must be of one op, whose rate is on the axis.
void BenchPrinter::plot(const std::string& path) {
    if (done_.empty()) return;
    const Op& op = session_.catalogue().op_of(done_.front().problem);
    const std::string svg = done_.size() == 1 ? ladder_svg(done_.front(), gpu_.device, op) : problems_svg(done_, gpu_.device, op);
    write_output(path, svg, "plot");
    if (session_.plain()) session_.out() << "plot written to " << path << "\n";
}

void check_plot(const Arguments& arguments, const std::vector<Problem>& problems) {
    if (!arguments.has("plot")) return;
    require_writable(arguments.text("plot"), "plot");
    if (!are_of_one_op(problems)) throw Error(ErrorCode::usage, "--plot shows problems of one op; split them over several runs");
}

ExitCode run_bench(Session& session, const Arguments& arguments) {
    const std::vector<Problem> problems = arguments.has("shapes") ? sweep_problems_of(session) : problems_of(session);
    check_flags(arguments);
    check_choice(session, problems);
    if (arguments.has("dry-run"))
        return print_spaces(session, {devices_of_archs(arguments, {"sm_90a"}).front()}, problems, default_options);
    check_plot(arguments, problems);
    Gpu gpu = session.need_gpu("autotune bench times kernels");
    check_arch_is_the_gpus(session, problems, gpu);
    db::WinnerStore& store = session.open_store();
    session.services().learn_versions(gpu, session.nvrtc_path());
    BenchPrinter printer(session, gpu, store);
    session.document().expect(problems.size());
    const ExitCode code = each_problem(session, problems, [&](const Problem& problem) { return printer.bench(problem); });
    if (session.csv()) printer.print_csv();
    if (arguments.has("plot")) printer.plot(arguments.text("plot"));
    return code;
}

}  // namespace

Command bench_command() {
    return {
        .name = "bench",
        .about = "time the winner, named configs and the vendor library side by side",
        .examples = {"autotune bench --op hgemm --shape 4096x4096x2048 --against cublas,cublaslt",
                     "autotune bench --op hgemm --shape 4096x4096x2048 --named --against cublas,cublaslt --plot ladder.svg",
                     "autotune bench --op hgemm --shapes shapes.txt --best-of-family --against cublaslt --csv",
                     "autotune bench --op hgemm --shape 1000x3000x2048 --untuned --against cublas     (beside a winner, if any)",
                     "autotune bench --op hgemm --shape 4096x4096x4096 --family gemm/mma --param stages=4",
                     "autotune bench --op hgemm --shape 8192x8192x8192 --candidate 'wgmma group=4' --candidate 'wgmma group=16'"},
        .flags = problem_flags() +
                 std::vector<Flag>{
                     shapes_flag(),
                     {"against", "LIST", "rivals to time beside ours", true, rival_names()},
                     {"named", "", "every named config of the families, from naive to best", false, {}},
                     {"best-of-family", "", "of the named configs only each family's best", false, {}},
                     {"untuned",
                      "",
                      "a row for the kernel that the library picks without a winner, instead of the defaults",
                      false,
                      {}},
                     {"winner-only", "", "no defaults beside a winner", false, {}},
                     {"candidate",
                      "CONFIG",
                      "a row for 'FAMILY NAME=VALUE ...', the family's default but for the values; repeatable",
                      true,
                      {}},
                     {"racers",
                      "N",
                      "named configs that go on from the survey to the rounds; default 8",
                      false,
                      {},
                      integer_value({.least = 1, .most = 64})},
                     {"budget", "TIME", "per problem: end the survey of named configs after 30s, 5m", false, {}, seconds_value()},
                     {"plot", "FILE", "SVG: one problem as a ladder of bars, several under the roofline", false, {}},
                     {"rounds", "N", "interleaved rounds; default 30", false, {}, integer_value({.least = 3, .most = 100'000})},
                     {"warm", "SECONDS", "load before the rounds; default 1", false, {}, positive_value(3600)},
                     {"burst", "", "no load before the rounds: times of a cold card", false, {}},
                     {"after",
                      "KERNEL",
                      "the kernel before each launch: filler (default), a small one; itself; trigger, a small "
                      "kernel that lets it start early",
                      false,
                      {"filler", "itself", "trigger"}},
                     {"no-pdl", "", "candidates without programmatic dependent launch: nothing overlaps", false, {}},
                     {"blocks",
                      "N",
                      "after the rounds N blocks of 1 s a row: sustained time and joules",
                      false,
                      {},
                      integer_value({.least = 0, .most = 1'000})}} +
                 measuring_flags() +
                 std::vector<Flag>{{"seed", "N", "seed of data and order; default 1", false, {}, seed_value()}} + choice_flags() +
                 device_flags() + std::vector<Flag>{jobs_flag(), arch_flag(), templates_flag(), dry_run_flag(), full_flag()} +
                 store_flags() + table_flags() + std::vector<Flag>{kernel_flag()},
        .takes_op_options = true,
        .words = "",
        .min_positional = 0,
        .run = run_bench,
        .saves_on_interrupt = true};
}

}  // namespace autotune::cli
