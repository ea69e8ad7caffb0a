#pragma once

#include <optional>
#include <vector>

#include "tools/cli/session.h"
#include "tuner/session/tune.h"

namespace autotune::cli {

// `autotune tune` where no driver is installed: the winner on record for the asked architecture, then the ranked candidates,
// compiled for it; --top and --all say how many are shown. Says plainly that nothing was timed, and what to do next.
ExitCode tune_without_gpu(Session& session, const std::vector<Device>& devices, const std::vector<Problem>& problems);

// --top and --all: how many of the compiled candidates are shown.
std::vector<Flag> shown_flags();

// Throws Error{usage} where --arch names another architecture than the GPU's, with the command that compiles for it.
void check_arch_is_the_gpus(Session& session, const std::vector<Problem>& problems, const Gpu& gpu);

// Ranks and compiles for each device and problem, prints, fills the cubin cache. What `autotune compile` does.
ExitCode compile_for(Session& session, const std::vector<Device>& devices, const std::vector<Problem>& problems);

// The best stored winner for the problem on any device of the architecture, shipped or the user's own, of those that may answer.
std::optional<db::Winner> winner_on_record(const Catalogue& catalogue, const db::WinnerStore& store, const Problem& problem,
                                           const Device& device);

// --dry-run, for each device and problem: families, points, legal configs, instances and what dropped the others. Nothing is
// compiled.
using OptionsOf = tuner::TuneOptions (*)(Session& session, const Problem& problem, const Device& device);
ExitCode print_spaces(Session& session, const std::vector<Device>& devices, const std::vector<Problem>& problems,
                      OptionsOf options_of);

}  // namespace autotune::cli
