#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "src/core/error.h"
#include "tools/cli/command.h"
#include "tools/cli/json_forms.h"
#include "tools/cli/progress.h"
#include "tools/cli/requests.h"
#include "tools/cli/rows.h"
#include "tools/cli/text_forms.h"
#include "tuner/recall.h"

namespace autotune::cli {
namespace {

void check_integrity(const db::Store& store) {
    if (const std::string trouble = store.verify_integrity(); !trouble.empty()) {
        throw Error(ErrorCode::database, "the database " + store.path() + " is damaged: " + trouble +
                                             "; export what can be read, move the file away and import it again");
    }
}

void report(Session& session, const db::Winner& row, const std::string& verdict, const std::string& detail) {
    if (session.json()) {
        print_json(session, {{"class_key", row.class_key},
                             {"shape", shape_of(row)},
                             {"device_key", row.device.key()},
                             {"family", row.candidate.family},
                             {"config", config_json(row.candidate.config)},
                             {"verdict", verdict},
                             {"detail", detail}});
        return;
    }
    session.out() << fmt::format("{:<12} {} {}  {}{}\n", verdict, row.class_key, shape_of(row), row.candidate.to_string(),
                                 detail.empty() ? "" : ": " + detail);
}

// Rows whose text alone tells that they are of no use here. Needs no GPU.
ExitCode check_rows(Session& session, const db::Store& store, const RowFilter& filter) {
    std::uint64_t unusable = 0;
    const MatchingRows rows = matching_rows(store, filter, SIZE_MAX);
    for (const db::Winner& row : rows.winners) {
        const std::string reason = why_unusable(session.catalogue(), row);
        if (reason.empty()) continue;
        ++unusable;
        report(session, row, "unusable", reason);
    }
    if (!session.json()) session.out() << fmt::format("{} winners, {} of no use here; the file is sound\n", rows.total, unusable);
    return unusable == 0 ? ExitCode::done : ExitCode::some_failed;
}

// What became of one row.
ExitCode check_answer(Session& session, const Problem& problem, const db::Winner& row, tuner::TuneServices& services) {
    const Trial trial = session.services().verify(problem, row.candidate, services);
    report(session, row, trial.status == TrialStatus::ok ? "right" : std::string(to_string(trial.status)), trial.detail);
    if (trial.status == TrialStatus::ok) return ExitCode::done;
    return trial.status == TrialStatus::wrong_result ? ExitCode::verification : ExitCode::some_failed;
}

std::string why_out(const tuner::RaceAgainResult& result, const Candidate& candidate) {
    for (const Trial& trial : result.out) {
        if (trial.candidate == candidate) return std::string(to_string(trial.status)) + ": " + trial.detail;
    }
    return "";
}

// The winner against those it beat, on today's driver and compiler: what comes out of it is stored.
ExitCode race_again(Session& session, const Problem& problem, const db::Winner& row, const std::string& why,
                    tuner::TuneServices& services) {
    tuner::RaceAgainOptions options;
    options.rounds = static_cast<int>(session.arguments().integer("rounds", options.rounds, {.least = 3, .most = 100'000}));
    const tuner::RaceAgainResult result = session.services().race_again(problem, row, options, services);
    if (!result.winner) {
        report(session, row, "demoted",
               "nobody's answer is right now, " + why_out(result, row.candidate) + "; tune again with --retune");
        return ExitCode::verification;
    }
    services.store->put(*result.winner);
    const std::string now = us_text(result.winner->timing.median_us) + " us" + (why.empty() ? "" : "; " + why);
    if (result.winner->candidate == row.candidate) {
        report(session, row, "confirmed", now);
        return ExitCode::done;
    }
    const std::string fault = why_out(result, row.candidate);
    report(session, row, "demoted", fault.empty() ? "slower than another now; " + why : fault);
    report(session, *result.winner, "promoted", now);
    return ExitCode::done;
}

ExitCode verify_row(Session& session, const Gpu& gpu, db::Store& store, const db::Winner& row) {
    const auto problem = problem_of(session.catalogue(), row);
    if (const std::string reason = why_unusable(session.catalogue(), row); !reason.empty() || !problem) {
        report(session, row, "unusable", reason);
        return ExitCode::some_failed;
    }
    ProgressLine progress(session);
    tuner::TuneServices services = session.tune_services(gpu, &store, &progress);
    const std::string stale = tuner::why_stale(row.provenance, gpu.provenance);
    const bool races = session.arguments().has("race") || (!stale.empty() && !session.arguments().has("no-race"));
    if (!races) return check_answer(session, *problem, row, services);
    if (const auto served = tuner::valid_winner(*problem, services); served && served->candidate != row.candidate) {
        report(session, row, "superseded", "the answer is " + served->candidate.to_string());
        return ExitCode::done;
    }
    return race_again(session, *problem, with_evidence(store, session.catalogue(), row), stale, services);
}

ExitCode run(Session& session, const Arguments& arguments) {
    if (arguments.has("race") && arguments.has("no-race"))
        throw Error(ErrorCode::usage, "--race and --no-race exclude each other; give one of them");
    RowFilter filter = row_filter_of(session);
    if (arguments.has("database-only")) {
        const db::Store store = session.open_store_to_read();
        check_integrity(store);
        return check_rows(session, store, filter);
    }
    Gpu gpu = session.need_gpu("autotune verify runs kernels (--database-only checks the rows alone)");
    db::Store store = session.open_store();
    check_integrity(store);
    session.services().learn_versions(gpu, session.nvrtc_path());
    filter.device_key = gpu.device.identity.key();
    const MatchingRows rows = matching_rows(store, filter, SIZE_MAX);
    bool wrong = false, failed = false;
    for (const db::Winner& row : rows.winners) {
        if (session.stopped()) return ExitCode::interrupted;
        const ExitCode code = verify_row(session, gpu, store, row);
        wrong |= code == ExitCode::verification;
        failed |= code == ExitCode::some_failed;
    }
    if (!session.json()) session.out() << fmt::format("{} winners of this device\n", rows.total);
    return wrong ? ExitCode::verification : failed ? ExitCode::some_failed : ExitCode::done;
}

}  // namespace

Command verify_command() {
    return {.name = "verify",
            .about = "check stored winners again, and race those of another driver or compiler: promotes and demotes",
            .examples = {"autotune verify", "autotune verify --op hgemm --shape 4096x4096x2048",
                         "autotune verify --race --op hgemm", "autotune verify --database-only"},
            .flags = problem_flags() +
                     std::vector<Flag>{
                         shapes_flag(),
                         {"database-only", "", "check the file and its rows; needs no GPU", false, {}},
                         {"race", "", "race every winner again, not only those of another driver or compiler", false, {}},
                         {"no-race", "", "only check answers", false, {}},
                         {"rounds", "N", "interleaved rounds of a race at least; default 30", false, {}},
                         templates_flag()} +
                     device_flags() + store_flags() + output_flags(),
            .takes_op_options = true,
            .words = "",
            .fewest_words = 0,
            .run = run};
}

}  // namespace autotune::cli
