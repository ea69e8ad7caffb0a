#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "src/core/error.h"
#include "tools/cli/command.h"
#include "tools/cli/input/requests.h"
#include "tools/cli/output/data/json_format.h"
#include "tools/cli/output/terminal/output_file.h"
#include "tools/cli/output/terminal/progress.h"
#include "tools/cli/output/text/text_format.h"

namespace autotune::cli {
namespace {

Problem only_problem(Session& session) {
    const std::vector<Problem> problems = problems_of(session);
    if (problems.size() != 1) throw Error(ErrorCode::usage, "record takes one shape, not " + std::to_string(problems.size()));
    return problems.front();
}

tuner::RecordOptions record_options_of(Session& session, const Problem& problem, const Device& device) {
    const Arguments& arguments = session.arguments();
    tuner::RecordOptions options;
    options.choice = choice_of(session, problem, device);
    options.most_points = static_cast<std::size_t>(arguments.integer("points", 2'000));
    options.method = measuring_method_of(arguments);
    options.seed = static_cast<std::uint64_t>(arguments.integer("seed", 1));
    return options;
}

ExitCode run_record(Session& session, const Arguments& arguments) {
    if (!arguments.has("out")) throw Error(ErrorCode::usage, "--out is missing: where to write the space");
    require_writable(arguments.text("out"), "out");
    const Problem problem = only_problem(session);
    check_choice(session, {problem});
    Gpu gpu = session.need_gpu("autotune record times kernels");
    session.services().learn_versions(gpu, session.nvrtc_path());
    ProgressLine progress(session);
    tuner::TuneServices services = session.tune_services(gpu, nullptr, &progress);
    const tuner::RecordedSpace space =
        session.services().record(problem, record_options_of(session, problem, gpu.device), services);
    progress.clear();
    write_output(arguments.text("out"), tuner::to_json(space) + "\n", "out");
    const auto failed = std::count_if(space.rows.begin(), space.rows.end(), [](const auto& row) { return !row.time_us; });
    const std::optional<double> best_us = space.best_us();
    if (session.json()) {
        Json json{
            {"space", space.name}, {"file", arguments.text("out")}, {"points", space.rows.size()}, {"failed_points", failed}};
        json["best_us"] = best_us ? Json(*best_us) : Json(nullptr);
        print_json(session, json);
    } else {
        session.out() << fmt::format("{}: {} points, {} failed, best {} us, written to {}\n", space.name,
                                     count_text(space.rows.size()), failed, best_us ? us_text(*best_us) : "-",
                                     arguments.text("out"));
    }
    return ExitCode::done;
}

}  // namespace

Command record_command() {
    return {.name = "record",
            .about = "time every config of a small space and write it for simulate",
            .examples = {"autotune record --op hgemm --shape 2048x2048x2048 --family mma --param block_k=32 --param stages=3 "
                         "--param split_k=1 --param raster=0 --param swizzle_stride=0 --param min_blocks=1 --out mma.json"},
            .flags = problem_flags() + choice_flags() +
                     std::vector<Flag>{{"out", "FILE", "where to write the space", false, {}},
                                       {"points",
                                        "N",
                                        "refuse a space of more configs; default 2000",
                                        false,
                                        {},
                                        integer_value({.least = 1, .most = 2'000'000})},
                                       {"seed", "N", "seed of the operands' values; default 1", false, {}, seed_value()}} +
                     measuring_flags() + device_flags() + std::vector<Flag>{jobs_flag(), templates_flag()} + output_flags() +
                     std::vector<Flag>{kernel_flag()},
            .takes_op_options = true,
            .words = "",
            .min_positional = 0,
            .run = run_record,
            .saves_on_interrupt = true};
}

}  // namespace autotune::cli
