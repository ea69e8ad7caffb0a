#include "tools/cli/shared/without_gpu.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "src/core/error.h"
#include "src/core/system/processors.h"
#include "src/jit/cubin_cache.h"
#include "tools/cli/input/requests.h"
#include "tools/cli/output/data/json_format.h"
#include "tools/cli/output/terminal/progress.h"
#include "tools/cli/output/text/command_line.h"
#include "tools/cli/output/text/compiled_table.h"
#include "tools/cli/output/text/text_format.h"
#include "tools/cli/shared/each_problem.h"
#include "tools/cli/shared/rows.h"

namespace autotune::cli {
namespace {

constexpr int kCompiledByDefault = 24;  // this many take about ten seconds on two cores
constexpr std::int64_t kShownByATune = 5;

tuner::CompileOptions compile_options_of(Session& session, const Problem& problem, const Device& device) {
    const Arguments& arguments = session.arguments();
    return {.choice = choice_of(session, problem, device),
            .count = static_cast<int>(arguments.integer("count", kCompiledByDefault)),
            .seed = static_cast<std::uint64_t>(arguments.integer("seed", 1)),
            .keep_folder = arguments.text("keep")};
}

// Why compiled kernels are not stored, or "". Checked again at the end, because the disk may be full by then.
std::string why_not_cached(Session& session) {
    const Place& cache = session.places().cache();
    return cache.path.empty() ? cache.warning : jit::CubinCache(cache.path).why_not_usable();
}

// Whether any candidate has a cubin, whether usable or rejected.
bool has_kernel(const std::vector<tuner::CompiledRow>& rows) {
    return std::any_of(rows.begin(), rows.end(), [](const auto& row) { return row.status != TrialStatus::compile_failed; });
}

// The exit code. If every candidate fails to compile, the compiler is at fault and not the configs.
ExitCode exit_code_of_rows(const std::vector<tuner::CompiledRow>& rows) {
    const bool any = std::any_of(rows.begin(), rows.end(), [](const auto& row) { return row.status == TrialStatus::ok; });
    if (any) return ExitCode::done;
    return has_kernel(rows) ? ExitCode::no_valid_config : ExitCode::error;
}

// How many candidates of `rows` a table shows. `otherwise` is the number if no flag gives one; 0 means all.
std::size_t shown_rows(const Arguments& arguments, std::int64_t otherwise, std::size_t rows) {
    const std::int64_t top = arguments.has("all") ? 0 : arguments.integer("top", otherwise);
    return top == 0 ? rows : std::min(rows, static_cast<std::size_t>(top));
}

// The kind of a run of compile_for(), and whether it compiled a kernel.
struct Purpose {
    bool is_tune = false;  // whether it is a tune that found no GPU
    bool has_kernels = false;
};

void print_compiled(Session& session, const Problem& problem, const Device& device, const std::optional<db::Winner>& known,
                    const std::vector<tuner::CompiledRow>& rows, std::size_t shown) {
    const Op& op = session.catalogue().op_of(problem);
    if (session.json()) {
        Json candidates = Json::array();
        for (const tuner::CompiledRow& row : rows) candidates.push_back(compiled_row_json(row));
        Json json{{"problem", problem_json(problem)}, {"device", device_json(device)}, {"arch", device.arch()}, {"timed", false}};
        json["shipped"] = known ? winner_json(*known, &op, &problem) : Json(nullptr);
        if (known) json["shipped"]["device"] = identity_json(known->device);
        json["candidates"] = candidates;
        json["failed"] =
            std::count_if(rows.begin(), rows.end(), [](const auto& row) { return row.status == TrialStatus::compile_failed; });
        json["cache_folder"] = why_not_cached(session).empty() ? Json(session.places().cache().path) : Json(nullptr);
        print_json(session, json);
        return;
    }
    std::ostream& out = session.out();
    out << problem_text(problem) << "\nfor " << device.arch() << ", with the limits of " << device_text(device.identity)
        << "\n\n";
    if (known) {
        out << session.bold(wrapped("winner on record: ", known->candidate.to_string(), session.text_columns()));
        out << fmt::format("  {} us, {} {} on {} ({})\n\n", us_text(known->timing.median_us),
                           rate_text(op, problem, known->timing.median_us), rate_title(op), device_text(known->device),
                           known->shipped ? "shipped" : "from the database");
    } else {
        out << "no winner on record for " << device.arch() << "\n\n";
    }
    out << compiled_table({rows.begin(), rows.begin() + static_cast<std::ptrdiff_t>(shown)}, session.full());
    if (shown < rows.size()) out << fmt::format("... and {} more; --all shows them\n", rows.size() - shown);
    out << "\n";
    if (const std::string troubles = compile_troubles_text(rows); !troubles.empty()) {
        out << troubles
            << (has_kernel(rows) ? "\n" : "`autotune doctor` checks the compiler; --keep DIR keeps sources and its logs.\n\n");
    }
}

// Sets `purpose.has_kernels` if a kernel was compiled.
ExitCode compile_one(Session& session, const db::WinnerStore& store, const Device& device, const Problem& problem,
                     Purpose& purpose) {
    ProgressLine progress(session);
    tuner::TuneServices services = session.tune_services(device, nullptr, &progress);
    // Nothing is timed meanwhile, so no processor must stay free for that.
    if (services.workers.compile_workers == 0) services.workers.compile_workers = usable_compilers(0);
    const tuner::CompileOptions options = compile_options_of(session, problem, device);
    const auto rows = session.services().compile_ranked(problem, options, services);
    progress.clear();
    if (session.stopped()) throw Error(ErrorCode::interrupted, "interrupted; what was compiled is kept");
    if (rows.empty())
        throw Error(ErrorCode::no_valid_config,
                    "no family has a legal config for " + problem_text(problem) + " on " + device.arch());
    print_compiled(session, problem, device, winner_on_record(session.catalogue(), store, problem, device), rows,
                   shown_rows(session.arguments(), purpose.is_tune ? kShownByATune : 0, rows.size()));
    purpose.has_kernels = purpose.has_kernels || has_kernel(rows);
    return exit_code_of_rows(rows);
}

void print_spaces_of(Session& session, const Problem& problem, const Device& device, const tuner::TuneOptions& options) {
    Table table({{"family", Table::Align::left}, {"points"}, {"legal"}, {"instances"}});
    Json families = Json::array();
    std::string dropped;
    Refusals refusals;
    const std::vector<const Family*> usable = families_for(session, problem, device, options.choice, &refusals);
    if (usable.empty()) throw Error(ErrorCode::no_valid_config, refusals.sentence(problem, device));
    for (const Family* family : usable) {
        const SpaceCount count = family->space(problem, device).count();
        table.add({std::string(family->name()), count_text(count.points), count_text(count.legal), count_text(count.instances)});
        Json reasons = Json::object();
        for (const auto& [reason, number] : count.dropped) {
            reasons[reason] = number;
            dropped += fmt::format("  {:>12}  {}: {}\n", count_text(number), family->name(), reason);
        }
        families.push_back({{"name", family->name()},
                            {"points", count.points},
                            {"legal", count.legal},
                            {"instances", count.instances},
                            {"dropped", reasons}});
    }
    if (session.json()) {
        print_json(session, {{"problem", problem_json(problem)},
                             {"device", device_json(device)},
                             {"dry_run", true},
                             {"timed", false},
                             {"budget", {{"seconds", options.budget.seconds}, {"trials", options.budget.trials}}},
                             {"families", families}});
        return;
    }
    session.out() << problem_text(problem) << "\n" << device_text(device.identity) << "\n\n" << table.to_string();
    if (!dropped.empty()) session.out() << "\ndropped before anything is compiled:\n" << dropped;
    session.out() << "\nA tune would search for at most " << budget_text(options.budget) << ".\n\n";
}

}  // namespace

std::optional<db::Winner> winner_on_record(const Catalogue& catalogue, const db::WinnerStore& store, const Problem& problem,
                                           const Device& device) {
    std::optional<db::Winner> best;
    TemplateIdentities identities(catalogue);
    for (db::Winner& winner : store.list({.op = problem.op, .class_key = problem.class_key(), .extents = problem.extents})) {
        if (arch_or_empty(winner.device) != device.arch() || !worth_of(identities, winner).why_not.empty()) continue;
        if (!best || winner.timing.median_us < best->timing.median_us) best = std::move(winner);
    }
    return best;
}

std::vector<Flag> shown_flags() {
    return {
        {"top", "N", "without a GPU: show the N candidates that are predicted fastest", false, {}, integer_value({.least = 1})},
        {"all", "", "without a GPU: show every candidate that was compiled", false, {}}};
}

void check_arch_is_the_gpus(Session& session, const std::vector<Problem>& problems, const Gpu& gpu) {
    for (const Device& asked : devices_of_archs(session.arguments(), {})) {
        if (asked.arch() == gpu.device.arch()) continue;
        throw Error(ErrorCode::usage, "--arch " + asked.arch() + " is not this GPU's (" + gpu.device.arch() +
                                          "); `autotune compile " +
                                          problem_flags_text(session.catalogue(), problems.front(), session.arguments()) +
                                          " --arch " + asked.arch() + "` compiles for another one");
    }
}

namespace {

// Prints the same tune as a command for a machine with a GPU.
void print_next_step(Session& session, const std::vector<Problem>& problems) {
    const Arguments& arguments = session.arguments();
    session.out() << "Next: run it where there is an NVIDIA GPU with its driver, which finds the fastest kernel and stores it:\n";
    constexpr std::size_t most = 5;
    for (std::size_t i = 0; i < std::min(problems.size(), most); ++i) {
        session.out() << "  autotune " << problem_flags_text(session.catalogue(), problems[i], arguments)
                      << given_flags_text(arguments, {"family", "config", "param", "budget", "trials", "patience", "target-gain",
                                                      "target", "seed", "strategy", "finalists", "tie-gap", "retune",
                                                      "no-learning", "l2", "streams", "keep"})
                      << shared_flags_text(arguments) << "\n";
    }
    if (problems.size() > most) session.out() << fmt::format("  ... and {} more\n", problems.size() - most);
}

ExitCode compile_for(Session& session, const std::vector<Device>& devices, const std::vector<Problem>& problems,
                     Purpose purpose) {
    if (session.arguments().has("all") && session.arguments().has("top"))
        throw Error(ErrorCode::usage, "--all and --top exclude each other; give one of them");
    if (purpose.is_tune && !session.json())
        session.out() << "No CUDA driver is installed here: candidates are compiled and ranked, not timed.\n\n";
    const db::WinnerStore& store = session.open_store_if_any();
    session.document().expect(devices.size() * problems.size());
    const ExitCode code = each_problem(session, devices, problems, [&](const Device& device, const Problem& problem) {
        return compile_one(session, store, device, problem, purpose);
    });
    if (code == ExitCode::interrupted || session.json()) return code;
    const std::string why = purpose.has_kernels ? why_not_cached(session) : "";
    session.out() << "Nothing was timed"
                  << (!purpose.has_kernels ? ", and nothing was compiled"
                      : why.empty()        ? ". The compiled kernels are in " + session.places().cache().path
                                           : ". The compiled kernels are not kept: " + why)
                  << ".\n";
    if (purpose.is_tune && purpose.has_kernels) print_next_step(session, problems);
    return code;
}

}  // namespace

ExitCode compile_for(Session& session, const std::vector<Device>& devices, const std::vector<Problem>& problems) {
    return compile_for(session, devices, problems, {});
}

ExitCode tune_without_gpu(Session& session, const std::vector<Device>& devices, const std::vector<Problem>& problems) {
    std::vector<std::string> given;
    for (const char* name : {"budget", "trials", "patience", "target-gain", "target", "strategy", "finalists", "tie-gap",
                             "retune", "no-learning", "l2", "streams"})
        if (session.arguments().has(name)) given.push_back(std::string("--") + name);
    if (!given.empty())
        session.warn(join(given, ", ") + (given.size() == 1 ? " has" : " have") +
                     " no effect: no CUDA driver is installed here, so nothing is searched or timed");
    return compile_for(session, devices, problems, {.is_tune = true});
}

ExitCode print_spaces(Session& session, const std::vector<Device>& devices, const std::vector<Problem>& problems,
                      OptionsOf options_of) {
    session.document().expect(devices.size() * problems.size());
    return each_problem(session, devices, problems, [&](const Device& device, const Problem& problem) {
        print_spaces_of(session, problem, device, options_of(session, problem, device));
        return ExitCode::done;
    });
}

}  // namespace autotune::cli
