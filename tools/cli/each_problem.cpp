#include "tools/cli/each_problem.h"

#include <algorithm>

#include "src/core/error.h"
#include "tools/cli/text_forms.h"

namespace autotune::cli {
namespace {

// Failures that the next problem would meet again.
bool ends_the_run(ErrorCode code) {
    switch (code) {
        case ErrorCode::interrupted:
        case ErrorCode::database:
        case ErrorCode::no_gpu:
        case ErrorCode::gpu_unhealthy:
            return true;
        default:
            return false;
    }
}

}  // namespace

ExitCode combined(const std::vector<ExitCode>& codes) {
    if (codes.empty()) return ExitCode::done;
    const bool alike = std::all_of(codes.begin(), codes.end(), [&](ExitCode code) { return code == codes.front(); });
    return alike ? codes.front() : ExitCode::some_failed;
}

ExitCode each_problem(Session& session, const std::vector<Problem>& problems,
                      const std::function<ExitCode(const Problem&)>& one) {
    std::vector<ExitCode> codes;
    for (const Problem& problem : problems) {
        if (session.stopped()) throw Error(ErrorCode::interrupted, "interrupted; what was measured is kept");
        try {
            codes.push_back(one(problem));
        } catch (const Error& error) {
            if (problems.size() == 1 || ends_the_run(error.code())) throw;
            session.err() << "autotune: " << problem_text(problem) << ": " << error.what() << std::endl;
            codes.push_back(exit_code_of(error.code()));
        }
        if (codes.back() == ExitCode::interrupted) {
            session.err() << "autotune: interrupted; what was measured is kept, run the same command again to go on" << std::endl;
            return ExitCode::interrupted;
        }
    }
    return combined(codes);
}

}  // namespace autotune::cli
