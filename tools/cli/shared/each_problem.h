#pragma once

#include <functional>
#include <vector>

#include "src/core/problem/device.h"
#include "src/core/problem/problem.h"
#include "tools/cli/session.h"

namespace autotune::cli {

// Runs `one` for each problem. With a single problem its outcome is the command's. With several, a failure is reported and the
// rest continue: exit 7 if some failed, the common code if all failed in the same way. A stop, a broken database or an unhealthy
// GPU ends the run at once, and so does the end of the reader of standard output.
ExitCode each_problem(Session& session, const std::vector<Problem>& problems, const std::function<ExitCode(const Problem&)>& one);
// Calls the action for each device. A problem on several devices counts as several problems.
ExitCode each_problem(Session& session, const std::vector<Device>& devices, const std::vector<Problem>& problems,
                      const std::function<ExitCode(const Device&, const Problem&)>& one);

// The exit code of a finished run from those of its items: 5 if any could not be stored, else as above.
ExitCode combined(const std::vector<ExitCode>& codes);

}  // namespace autotune::cli
