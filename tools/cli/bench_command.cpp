#include <fmt/format.h>

#include <algorithm>
#include <climits>
#include <nlohmann/json.hpp>

#include "src/core/error.h"
#include "tools/cli/command.h"
#include "tools/cli/each_problem.h"
#include "tools/cli/json_forms.h"
#include "tools/cli/progress.h"
#include "tools/cli/requests.h"
#include "tools/cli/text_forms.h"
#include "tools/cli/without_gpu.h"

namespace autotune::cli {
namespace {

std::vector<std::string> rivals_of(const Arguments& arguments) {
    const std::vector<std::string> known = {"cublas", "cublaslt"};
    std::vector<std::string> rivals = arguments.list("against");
    for (const std::string& rival : rivals) {
        if (std::find(known.begin(), known.end(), rival) == known.end()) {
            throw Error(ErrorCode::usage, "--against knows cublas and cublaslt, not '" + rival + "'");
        }
    }
    return rivals;
}

tuner::BenchOptions bench_options_of(Session& session, const Problem& problem, const Device& device) {
    const Arguments& arguments = session.arguments();
    tuner::BenchOptions options;
    options.choice = choice_of(session, problem, device);
    options.named = arguments.has("named");
    options.against = rivals_of(arguments);
    options.rounds = static_cast<int>(arguments.integer("rounds", options.rounds, {.least = 3, .most = 100'000}));
    if (arguments.has("burst")) options.warm_seconds = 0;
    if (arguments.has("warm")) options.warm_seconds = arguments.positive_number("warm", options.warm_seconds);
    options.l2_warm = arguments.word("l2", "cold", {"cold", "warm"}) == "warm";
    options.seed = static_cast<std::uint64_t>(arguments.integer("seed", 1, {.least = 0}));
    return options;
}

std::string sample_text(const std::vector<double>& values) {
    std::string text;
    for (const double value : values) text += (text.empty() ? "" : " ") + fmt::format("{:.4g}", value);
    return text;
}

std::string rows_table(const tuner::BenchResult& result, const Op& op, const Problem& problem) {
    Table table({{"name", Table::Align::left},
                 {"median us"},
                 {"95 % interval"},
                 {rate_title(op)},
                 {"time ratio"},
                 {"samples of the answer", Table::Align::left},
                 {"", Table::Align::left}});
    for (const tuner::BenchRow& row : result.rows) {
        if (row.timing) {
            table.add({row.name, us_text(row.timing->median_us), interval_text(*row.timing),
                       rate_text(op, problem, row.timing->median_us),
                       fmt::format("{:.3f} ({:.3f} .. {:.3f})", row.ratio_to_first, row.ratio_low, row.ratio_high),
                       sample_text(row.sample_values), row.detail});
        } else {
            table.add({row.name, "-", "-", "-", "-", "", std::string(to_string(row.status)) + ": " + row.detail});
        }
    }
    return table.to_string();
}

std::string conditions_text(const tuner::BenchResult& result) {
    std::string text = fmt::format("{} interleaved rounds, {}", result.rounds,
                                   result.sustained ? "sustained (warmed before)" : "burst (not warmed)");
    if (result.conditions.sm_clock_mhz) text += fmt::format(", {} MHz", *result.conditions.sm_clock_mhz);
    if (result.conditions.power_w) text += fmt::format(", {} W", *result.conditions.power_w);
    return text + "\n";
}

void print_bench(Session& session, const Gpu& gpu, const Problem& problem, const tuner::BenchResult& result) {
    const Op& op = session.catalogue().op_of(problem);
    if (!session.json()) {
        session.out() << problem_text(problem) << "\n"
                      << device_text(gpu.device.identity) << "\n"
                      << conditions_text(result) << "\n"
                      << rows_table(result, op, problem) << "\n";
        return;
    }
    Json rows = Json::array();
    for (const tuner::BenchRow& row : result.rows) rows.push_back(bench_row_json(row, op, problem));
    print_json(session, {{"problem", problem_json(problem)},
                         {"device", device_json(gpu.device)},
                         {"rounds", result.rounds},
                         {"sustained", result.sustained},
                         {"conditions", conditions_json(result.conditions)},
                         {"provenance", provenance_json(gpu.provenance)},
                         {"rows", rows}});
}

ExitCode bench_one(Session& session, const Gpu& gpu, db::Store& store, const Problem& problem) {
    ProgressLine progress(session);
    tuner::TuneServices services = session.tune_services(gpu, &store, &progress);
    const tuner::BenchResult result = session.services().bench(problem, bench_options_of(session, problem, gpu.device), services);
    progress.clear();
    print_bench(session, gpu, problem, result);
    if (session.stopped()) return ExitCode::interrupted;
    const auto has = [&](TrialStatus status) {
        return std::any_of(result.rows.begin(), result.rows.end(), [&](const auto& row) { return row.status == status; });
    };
    if (has(TrialStatus::wrong_result)) return ExitCode::verification;
    const bool any = std::any_of(result.rows.begin(), result.rows.end(), [](const auto& row) { return row.timing.has_value(); });
    return any ? ExitCode::done : ExitCode::no_valid_config;
}

ExitCode run(Session& session, const Arguments& arguments) {
    const std::vector<Problem> problems = problems_of(session);
    rivals_of(arguments);
    if (arguments.has("dry-run")) {
        const Device device = devices_of_archs(arguments, {"sm_90a"}).front();
        for (const Problem& problem : problems) print_spaces(session, problem, device, default_options(session, problem, device));
        return ExitCode::done;
    }
    Gpu gpu = session.need_gpu("autotune bench times kernels");
    db::Store store = session.open_store();
    session.services().learn_versions(gpu, session.nvrtc_path());
    return each_problem(session, problems, [&](const Problem& problem) { return bench_one(session, gpu, store, problem); });
}

}  // namespace

Command bench_command() {
    return {
        .name = "bench",
        .about = "time the winner, named configs and the vendor library side by side",
        .examples = {"autotune bench --op hgemm --shape 4096x4096x2048 --against cublas,cublaslt",
                     "autotune bench --op hgemm --shape 8192x8192x8192 --named --json",
                     "autotune bench --op hgemm --shape 4096x4096x4096 --family gemm/mma --param stages=4"},
        .flags = problem_flags() +
                 std::vector<Flag>{{"against", "LIST", "rivals: cublas,cublaslt", true, {"cublas", "cublaslt"}},
                                   {"named", "", "every named config of the families", false, {}},
                                   {"rounds", "N", "interleaved rounds; default 30", false, {}},
                                   {"warm", "SECONDS", "load before the rounds; default 1", false, {}},
                                   {"burst", "", "no load before the rounds: what a cold card does", false, {}},
                                   {"l2", "POLICY", "operands in L2 or not while timing; default cold", false, {"cold", "warm"}},
                                   {"seed", "N", "seed of data and order", false, {}}} +
                 choice_flags() + device_flags() + std::vector<Flag>{arch_flag(), templates_flag(), dry_run_flag()} +
                 store_flags() + output_flags(),
        .takes_op_options = true,
        .words = "",
        .fewest_words = 0,
        .run = run};
}

}  // namespace autotune::cli
