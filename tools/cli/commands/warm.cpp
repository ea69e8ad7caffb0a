#include <fmt/format.h>

#include <algorithm>
#include <climits>
#include <nlohmann/json.hpp>

#include "src/core/error.h"
#include "tools/cli/command.h"
#include "tools/cli/input/requests.h"
#include "tools/cli/library_choice.h"
#include "tools/cli/output/data/json_format.h"
#include "tools/cli/output/terminal/progress.h"
#include "tools/cli/output/terminal/table.h"

namespace autotune::cli {
namespace {

constexpr std::int64_t kMost = 8192;  // "*" stands for first extents from 1 to this number

struct Warmed {
    Problem problem;  // as requested
    dispatch::WarmupEntry served;
    tuner::CompiledRow row;
};

// Compiles a candidate in the pool of compile workers. There is one instance, because every parameter is fixed.
tuner::CompiledRow compile(Session& session, const dispatch::WarmupEntry& served, tuner::TuneServices& services) {
    tuner::CompileOptions options;
    options.choice.families = {served.found.candidate.family};
    options.choice.pins = served.found.candidate.config;
    options.count = 1;
    std::vector<tuner::CompiledRow> rows = session.services().compile_ranked(served.problem, options, services);
    if (!rows.empty()) return std::move(rows.front());
    tuner::CompiledRow none;
    none.status = TrialStatus::compile_failed;
    none.detail = "the candidate is not in its family's space";
    return none;
}

std::size_t failures_in(const std::vector<Warmed>& all) {
    return static_cast<std::size_t>(
        std::count_if(all.begin(), all.end(), [](const Warmed& each) { return each.row.status == TrialStatus::compile_failed; }));
}

std::string summary_text(const std::vector<Warmed>& all) {
    std::string text = all.size() == 1 ? "1 kernel serves" : fmt::format("{} kernels serve", all.size());
    text += " every first extent from 1 on";
    const std::size_t failed = failures_in(all);
    return failed == 0 ? text : text + fmt::format("; {} of them did not compile", failed);
}

void print(Session& session, const std::vector<Warmed>& all) {
    if (!session.plain()) {
        Json rows = Json::array();
        for (const Warmed& each : all) {
            rows.push_back({{"problem", each.problem.key()},
                            {"first_taken_for", each.served.problem.shape()},
                            {"origin", to_string(each.served.found.origin)},
                            {"candidate", each.served.found.candidate.to_string()},
                            {"status", to_string(each.row.status)}});
        }
        print_json(session, {{"instances", rows}});
        return;
    }
    Table table({{"first taken for", Table::Align::left},
                 {"origin", Table::Align::left},
                 {"compiled", Table::Align::left},
                 {"kernel", Table::Align::wrap}});
    for (const Warmed& each : all) {
        table.add({each.served.problem.shape(), std::string(to_string(each.served.found.origin)),
                   each.row.status == TrialStatus::compile_failed ? each.row.detail : "yes",
                   each.served.found.candidate.to_string()});
    }
    session.out() << table.to_string(session.text_columns()) << "\n" << summary_text(all) << "\n";
}

ExitCode run_warm(Session& session, const Arguments& arguments) {
    const std::vector<Problem> problems = problems_up_to(session, arguments.integer("most", kMost));
    const std::optional<Gpu> gpu = arguments.has("arch") ? std::nullopt : session.find_gpu();
    const Device device = gpu ? gpu->device : devices_of_archs(arguments, {"sm_90a"}).front();
    LibraryChoice library(session);
    ProgressLine progress(session);
    tuner::TuneServices services = session.tune_services(device, nullptr, &progress);
    std::vector<Warmed> all;
    for (const Problem& problem : problems)
        for (const dispatch::WarmupEntry& served : library.serving(problem, device)) all.push_back({problem, served, {}});
    for (Warmed& each : all) {
        each.row = compile(session, each.served, services);
        if (session.stopped()) throw Error(ErrorCode::interrupted, "interrupted; what was compiled is kept");
    }
    progress.clear();
    print(session, all);
    return failures_in(all) == 0 ? ExitCode::done : ExitCode::some_failed;
}

}  // namespace

Command warm_command() {
    return {.name = "warm",
            .about = "compile the kernels that serve every first extent (M) of a problem up to the given one",
            .examples = {"autotune warm --op bgemm --shape '*x4096x4096' --layout nt     (M from 1 to 8192)",
                         "autotune warm --op hgemm --shape 512x1024x1024 --arch sm_90a   (M from 1 to 512)"},
            .flags = problem_flags() +
                     std::vector<Flag>{{"most",
                                        "N",
                                        "the largest first extent, where the shape has *; default 8192",
                                        false,
                                        {},
                                        integer_value({.least = 1, .most = INT_MAX})},
                                       arch_flag()} +
                     device_flags() + std::vector<Flag>{jobs_flag(), templates_flag(), full_flag()} + store_flags() +
                     output_flags(),
            .takes_op_options = true,
            .words = "",
            .min_positional = 0,
            .run = run_warm,
            .saves_on_interrupt = true};
}

}  // namespace autotune::cli
