#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "src/core/error.h"
#include "tools/cli/command.h"
#include "tools/cli/input/budget.h"
#include "tools/cli/input/requests.h"
#include "tools/cli/output/data/json_format.h"
#include "tools/cli/output/terminal/progress.h"
#include "tools/cli/output/terminal/wrap.h"
#include "tools/cli/output/text/command_line.h"
#include "tools/cli/output/text/evidence_text.h"
#include "tools/cli/output/text/text_format.h"
#include "tools/cli/shared/each_problem.h"
#include "tools/cli/shared/unstored.h"
#include "tools/cli/shared/without_gpu.h"

namespace autotune::cli {
namespace {

std::string verdict_text(Session& session, const Problem& problem, const tuner::TuneResult& result) {
    const db::Winner& winner = result.winner;
    std::string text = "origin     " + std::string(to_string(result.origin));
    text += result.tuned ? ", tuned now" : ", from the database, tuned " + winner.provenance.date;
    if (!result.stale) return text + "\n";
    return text + "; stale: " + result.stale_because + ". To make it fresh:\n           autotune " +
           problem_flags_text(session.catalogue(), problem, session.arguments()) + shared_flags_text(session.arguments()) +
           " --retune\n";
}

std::string evidence_text(const db::Evidence& evidence) {
    std::string text;
    if (!evidence.decided_by.empty()) text += fmt::format("decided    {}, {} rounds\n", evidence.decided_by, evidence.rounds);
    if (const std::string verified = verified_text(evidence); !verified.empty()) text += "verified   " + verified + "\n";
    text += fmt::format("search     {} legal configs, {} tried, {} failed, {}, stopped by {}\n", count_text(evidence.space_legal),
                        evidence.tried, evidence.failed, seconds_text(evidence.seconds),
                        evidence.stopped_by.empty() ? "nothing" : evidence.stopped_by);
    if (const std::string more = more_time_text(evidence); !more.empty())
        text += "           more time would probably gain " + more + "\n";
    return text;
}

void print_result(Session& session, const Gpu& gpu, const Problem& problem, const tuner::TuneResult& result,
                  const Unstored& unstored = {}) {
    const Op& op = session.catalogue().op_of(problem);
    const db::Winner& winner = result.winner;
    if (session.json()) {
        Json json{{"problem", problem_json(problem)},
                  {"device", device_json(gpu.device)},
                  {"origin", to_string(result.origin)},
                  {"tuned", result.tuned},
                  {"timed", true},
                  {"stale", result.stale},
                  {"interrupted", result.interrupted}};
        if (result.stale) json["stale_because"] = result.stale_because;
        if (!result.interrupted) add_unstored(json, unstored);
        json["winner"] = winner_json(winner, &op, &problem);
        json["evidence"] = evidence_json(winner.evidence);
        if (result.tuned) json["phases"] = phases_json(result.phases);
        print_json(session, json);
        return;
    }
    std::ostream& out = session.out();
    out << problem_text(problem) << "\n" << device_text(gpu.device.identity) << "\n\n";
    out << session.bold(wrapped("winner     ", winner.candidate.to_string(), session.text_columns()));
    out << fmt::format("time       {} us ({}), {} {}\n", session.bold(us_text(winner.timing.median_us)),
                       interval_text(winner.timing), session.bold(rate_text(op, problem, winner.timing.median_us)),
                       rate_title(op));
    if (const std::string rival = rival_text(winner.evidence); !rival.empty()) out << "rival      " << rival << "\n";
    out << verdict_text(session, problem, result);
    if (!winner.restricted_to.empty())
        out << wrapped("scope      ", "the best of " + winner.restricted_to + "; the library takes it only if it is pinned",
                       session.text_columns());
    out << evidence_text(winner.evidence);
    if (!winner.evidence.finalists.empty()) out << "\n" << finalists_table(winner.evidence, op, problem, session.full());
    out << "\n";
}

ExitCode tune_one(Session& session, Gpu& gpu, db::WinnerStore& store, const Problem& problem) {
    ProgressLine progress(session);
    const tuner::TuneOptions options = tune_options_of(session, problem, gpu.device);
    const bool asks_the_store =
        !options.retune && options.choice.named.empty() && options.choice.pins.empty() && options.choice.families.empty();
    if (asks_the_store) {
        const tuner::TuneServices light = session.tune_services(gpu, &store, &progress);
        if (const auto known = session.services().recall(problem, light); known && !known->stale) {
            print_result(session, gpu, problem, *known);
            return ExitCode::done;
        }
    }
    session.services().learn_versions(gpu, session.nvrtc_path());
    tuner::TuneServices services = session.tune_services(gpu, &store, &progress);
    const tuner::TuneResult result = session.services().tune(problem, options, services);
    progress.clear();
    const Unstored unstored = save_unstored_winner(session, result.winner, why_unstored(session, result));
    print_result(session, gpu, problem, result, unstored);
    if (!unstored.is_stored()) {
        session.out().flush();
        report_unstored(session, unstored);
        return ExitCode::database;
    }
    return result.interrupted ? ExitCode::interrupted : ExitCode::done;
}

ExitCode run_tune(Session& session, const Arguments& arguments) {
    const std::vector<Problem> problems = problems_of(session);
    check_choice(session, problems);
    budget_of(arguments);
    std::optional<Gpu> gpu = session.find_gpu();
    if (!gpu) {
        const std::vector<Device> devices = devices_of_archs(arguments, {"sm_90a"});
        if (arguments.has("dry-run")) return print_spaces(session, {devices.front()}, problems, tune_options_of);
        return tune_without_gpu(session, devices, problems);
    }
    check_arch_is_the_gpus(session, problems, *gpu);
    if (arguments.has("dry-run")) return print_spaces(session, {gpu->device}, problems, tune_options_of);
    session.document().expect(problems.size());
    db::WinnerStore& store = session.open_store();
    return each_problem(session, problems, [&](const Problem& problem) { return tune_one(session, *gpu, store, problem); });
}

}  // namespace

Command tune_command() {
    return {.name = "tune",
            .about = "find the fastest kernel for a problem and remember it (the default command)",
            .examples = {"autotune --op hgemm --shape 4096x4096x2048",
                         "autotune --op bgemm --shape 8192x8192x8192 --layout nt --budget 120s",
                         "autotune --op hgemm --shape 4096x4096x4096 --family gemm/mma --param stages=3 --retune",
                         "autotune --op hgemm --shape 4096x4096x2048 --arch sm_80 --json    (no GPU: compiled and ranked)"},
            .flags = problem_flags() + choice_flags() + search_flags() + device_flags() + shown_flags() +
                     std::vector<Flag>{jobs_flag(), arch_flag(), templates_flag(), dry_run_flag(), full_flag()} + store_flags() +
                     output_flags() + std::vector<Flag>{kernel_flag()},
            .takes_op_options = true,
            .words = "",
            .min_positional = 0,
            .run = run_tune,
            .saves_on_interrupt = true};
}

}  // namespace autotune::cli
