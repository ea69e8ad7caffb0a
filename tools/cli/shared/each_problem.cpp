#include "tools/cli/shared/each_problem.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "src/core/error.h"
#include "tools/cli/output/data/json_format.h"
#include "tools/cli/output/text/text_format.h"

namespace autotune::cli {
namespace {

// Whether the next problem would fail in the same way.
bool ends_the_run(ErrorCode code) {
    switch (code) {
        case ErrorCode::interrupted:
        case ErrorCode::database:
        case ErrorCode::no_gpu:
        case ErrorCode::no_compiler:
        case ErrorCode::gpu_unhealthy:
        case ErrorCode::gpu_in_use:
        case ErrorCode::system:
            return true;
        default:
            return false;
    }
}

void report_failure(Session& session, const Problem& problem, const Error& error) {
    session.complain(problem_text(problem) + ": " + error.what());
    if (!session.json()) return;
    print_json(session, {{"problem", problem_json(problem)},
                         {"error", error.what()},
                         {"exit_code", static_cast<int>(exit_code_of(error.code()))}});
}

// `is_alone` says that there is only one problem, so its error is the command's error.
ExitCode run_each(Session& session, const std::vector<Problem>& problems, const std::function<ExitCode(const Problem&)>& one,
                  bool is_alone) {
    std::vector<ExitCode> codes;
    for (const Problem& problem : problems) {
        if (session.reader_left()) break;
        if (session.stopped()) throw Error(ErrorCode::interrupted, "interrupted; what was measured is kept");
        try {
            codes.push_back(one(problem));
        } catch (const Error& error) {
            if (is_alone || ends_the_run(error.code())) throw;
            report_failure(session, problem, error);
            codes.push_back(exit_code_of(error.code()));
        }
        if (codes.back() == ExitCode::interrupted) {
            session.complain("interrupted; what was measured is kept, run the same command again to go on");
            return ExitCode::interrupted;
        }
    }
    return combined(codes);
}

}  // namespace

ExitCode combined(const std::vector<ExitCode>& codes) {
    if (codes.empty()) return ExitCode::done;
    // If a result was not stored, that exit code takes precedence.
    if (std::find(codes.begin(), codes.end(), ExitCode::database) != codes.end()) return ExitCode::database;
    const bool alike = std::all_of(codes.begin(), codes.end(), [&](ExitCode code) { return code == codes.front(); });
    return alike ? codes.front() : ExitCode::some_failed;
}

ExitCode each_problem(Session& session, const std::vector<Problem>& problems,
                      const std::function<ExitCode(const Problem&)>& one) {
    return run_each(session, problems, one, problems.size() == 1);
}

ExitCode each_problem(Session& session, const std::vector<Device>& devices, const std::vector<Problem>& problems,
                      const std::function<ExitCode(const Device&, const Problem&)>& one) {
    std::vector<ExitCode> codes;
    for (const Device& device : devices) {
        codes.push_back(run_each(
            session, problems, [&](const Problem& problem) { return one(device, problem); },
            devices.size() * problems.size() == 1));
        if (codes.back() == ExitCode::interrupted) return ExitCode::interrupted;
    }
    return combined(codes);
}

}  // namespace autotune::cli
