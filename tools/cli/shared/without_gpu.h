#pragma once

#include <optional>
#include <vector>

#include "tools/cli/session.h"
#include "tuner/session/tune.h"

namespace autotune::cli {

// `autotune tune` without an installed driver: the stored winner for the requested architecture, then the ranked candidates,
// compiled for it; --top and --all set how many are shown. States that nothing was timed, and what to do next.
ExitCode tune_without_gpu(Session& session, const std::vector<Device>& devices, const std::vector<Problem>& problems);

// --top and --all: how many of the compiled candidates are shown.
std::vector<Flag> shown_flags();

// Throws Error{usage} if --arch names another architecture than the GPU's, with the command that compiles for it.
void check_arch_is_the_gpus(Session& session, const std::vector<Problem>& problems, const Gpu& gpu);

// Ranks and compiles for each device and problem, prints, fills the cubin cache: the command `autotune compile`.
ExitCode compile_for(Session& session, const std::vector<Device>& devices, const std::vector<Problem>& problems);

// The best stored winner for the problem on any device of the architecture, among shipped winners and the user's own that may be
// served.
std::optional<db::Winner> winner_on_record(const Catalogue& catalogue, const db::WinnerStore& store, const Problem& problem,
                                           const Device& device);

// --dry-run, for each device and problem: families, points, legal configs, instances and how many configs each constraint
// excludes. Compiles nothing.
using OptionsOf = tuner::TuneOptions (*)(Session& session, const Problem& problem, const Device& device);
ExitCode print_spaces(Session& session, const std::vector<Device>& devices, const std::vector<Problem>& problems,
                      OptionsOf options_of);

}  // namespace autotune::cli
