#include "tools/cli/command.h"
#include "tools/cli/input/requests.h"
#include "tools/cli/shared/without_gpu.h"

namespace autotune::cli {
namespace {

ExitCode run_compile(Session& session, const Arguments& arguments) {
    const std::vector<Problem> problems = arguments.has("shapes") ? sweep_problems_of(session) : problems_of(session);
    const std::vector<Device> devices = devices_of_archs(arguments, {"sm_90a"});
    if (arguments.has("dry-run")) return print_spaces(session, devices, problems, default_options);
    return compile_for(session, devices, problems);
}

}  // namespace

Command compile_command() {
    return {.name = "compile",
            .about = "rank and compile candidates for any architecture, without a GPU",
            .examples = {"autotune compile --op hgemm --shape 4096x4096x2048 --arch sm_80,sm_90a",
                         "autotune compile --op hgemm --shape 4096x4096x4096 --count 200 --json",
                         "autotune compile --op hgemm --shape 512x512x512 --family gemm/mma --keep kept"},
            .flags = problem_flags() +
                     std::vector<Flag>{shapes_flag(),
                                       arch_flag(),
                                       {"count",
                                        "N",
                                        "compile the N best predicted; default 24",
                                        false,
                                        {},
                                        integer_value({.least = 1, .most = 1'000'000})},
                                       {"seed", "N", "seed of the choice among equals; default 1", false, {}, seed_value()},
                                       keep_flag()} +
                     shown_flags() + choice_flags() +
                     std::vector<Flag>{jobs_flag(), templates_flag(), dry_run_flag(), full_flag()} + store_flags() +
                     output_flags() + std::vector<Flag>{kernel_flag()},
            .takes_op_options = true,
            .words = "",
            .min_positional = 0,
            .run = run_compile,
            .saves_on_interrupt = true};
}

}  // namespace autotune::cli
