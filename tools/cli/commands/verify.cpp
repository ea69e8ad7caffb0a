#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <set>
#include <vector>

#include "src/core/error.h"
#include "src/dispatch/rules/stored_winner.h"
#include "tools/cli/command.h"
#include "tools/cli/input/requests.h"
#include "tools/cli/output/data/json_format.h"
#include "tools/cli/output/terminal/messages.h"
#include "tools/cli/output/terminal/progress.h"
#include "tools/cli/output/text/text_format.h"
#include "tools/cli/shared/rows.h"
#include "tools/cli/shared/unstored.h"
#include "tuner/session/tune/recall.h"

namespace autotune::cli {
namespace {

// Throws if the file is damaged. Rows that commands skip are only listed.
void check_file(Session& session, const db::WinnerStore& store) {
    const db::FileHealth health = store.check();
    if (!health.damage.empty()) {
        throw Error(ErrorCode::database, "the database " + store.path() + " is damaged: " + health.damage +
                                             "; export what can be read, move the file away and import it again");
    }
    if (!health.is_sound()) session.warn(passed_over_text(store.path(), health));
}

// Checks stored rows and reports on each.
class Verification {
  public:
    explicit Verification(Session& session)
        : session_(session), list_(session, {{"database", session.database_path()}}, "rows"), identities_(session.catalogue()) {}

    // Reports rows that cannot be used here, as far as their text shows this. Needs no GPU.
    ExitCode check_rows(const db::WinnerStore& store, const RowFilter& filter);
    // Runs the kernels of this GPU's rows.
    ExitCode check_kernels(const Gpu& gpu, db::WinnerStore& store, const RowFilter& filter);

  private:
    void report(const db::Winner& row, const std::string& verdict, const std::string& detail);
    struct Race {
        const db::Winner& row;
        std::string why;  // why the winner must be raced, if the user did not request it
    };
    void sort_out(const db::Winner& row, const Gpu& gpu);
    void check_answers(tuner::TuneServices& services);
    ExitCode race_row(const Race& race, const db::WinnerStore& store, tuner::TuneServices& services);
    Unstored store(const tuner::TuneServices& services, const db::Winner& winner);
    ExitCode race_again(const Problem& problem, const db::Winner& row, const std::string& why, tuner::TuneServices& services);

    Session& session_;
    JsonList list_;
    TemplateIdentities identities_;
    std::vector<const db::Winner*> to_check_;
    std::vector<Race> to_race_;
    std::set<ExitCode> codes_;  // of the rows
};

void Verification::report(const db::Winner& row, const std::string& verdict, const std::string& detail) {
    if (session_.json()) {
        list_.add({{"class_key", row.class_key},
                   {"shape", shape_of(row)},
                   {"device_key", row.device.key()},
                   {"family", row.candidate.family},
                   {"config", config_json(row.candidate.config)},
                   {"verdict", verdict},
                   {"detail", detail}});
        return;
    }
    session_.out() << fmt::format("{:<12} {} {}  {}{}\n", verdict, row.class_key, shape_of(row), row.candidate.to_string(),
                                  detail.empty() ? "" : ": " + printable(detail));
}

ExitCode Verification::check_rows(const db::WinnerStore& store, const RowFilter& filter) {
    std::uint64_t unusable = 0;
    const std::uint64_t total = scan_rows(store, filter, SIZE_MAX, [&](const db::Winner& row) {
        if (const auto reason = why_unusable(identities_, row)) {
            ++unusable;
            report(row, row.doubt.empty() ? "unusable" : "in doubt", *reason);
        }
        return !session_.stopped();
    });
    if (session_.stopped()) throw Error(ErrorCode::interrupted, "interrupted; nothing was changed");
    if (session_.json()) {
        list_.finish({{"winners", total}, {"unusable", unusable}, {"sound", true}});
    } else {
        session_.out() << fmt::format("{} winners, {} of no use here; the file is sound\n", total, unusable);
    }
    return unusable == 0 ? ExitCode::done : ExitCode::some_failed;
}

// All in one call, so that the next ones compile while one is on the GPU.
void Verification::check_answers(tuner::TuneServices& services) {
    std::vector<tuner::ToVerify> items;
    for (const db::Winner* row : to_check_) items.push_back({*problem_of(session_.catalogue(), *row), row->candidate});
    session_.services().verify(items, services, [this](std::size_t index, const tuner::Verified& verified) {
        const db::Winner& row = *to_check_[index];
        const TrialStatus status = verified.trial.status;
        if (!verified.failure.empty()) {
            report(row, "not verified", verified.failure);
            codes_.insert(ExitCode::some_failed);
            return;
        }
        report(row, status == TrialStatus::ok ? "right" : std::string(to_string(status)), verified.trial.detail);
        codes_.insert(status == TrialStatus::ok             ? ExitCode::done
                      : status == TrialStatus::wrong_result ? ExitCode::verification
                                                            : ExitCode::some_failed);
    });
}

std::string why_out(const tuner::RaceAgainResult& result, const Candidate& candidate) {
    for (const Trial& trial : result.out) {
        if (trial.candidate == candidate) return std::string(to_string(trial.status)) + ": " + trial.detail;
    }
    return "";
}

// If the database cannot be written, the result of a race that took seconds is saved elsewhere.
Unstored Verification::store(const tuner::TuneServices& services, const db::Winner& winner) {
    try {
        services.store->put(winner);
        return {};
    } catch (const db::DatabaseError& error) {
        return save_unstored_winner(session_, winner, error.what());
    }
}

// Races the winner against those it beat, with today's driver and compiler, and stores the result.
ExitCode Verification::race_again(const Problem& problem, const db::Winner& row, const std::string& why,
                                  tuner::TuneServices& services) {
    tuner::RaceAgainOptions options;
    options.rounds = static_cast<int>(session_.arguments().integer("rounds", options.rounds, {.least = 3, .most = 100'000}));
    tuner::RaceAgainResult result;
    try {
        result = session_.services().race_again(problem, row, options, services);
    } catch (const Error& error) {
        if (error.code() != ErrorCode::driver) throw;
        report(row, "not verified", error.what());
        return ExitCode::some_failed;
    }
    if (!result.winner) {
        report(row, "demoted",
               "no candidate's answer is right now, " + why_out(result, row.candidate) + "; tune again with --retune");
        return ExitCode::verification;
    }
    const Unstored unstored = store(services, *result.winner);
    const std::string now = us_text(result.winner->timing.median_us) + " us" + (why.empty() ? "" : "; " + why);
    if (result.winner->candidate == row.candidate) {
        report(row, "confirmed", now);
    } else {
        const std::string fault = why_out(result, row.candidate);
        report(row, "demoted", fault.empty() ? "slower than another now; " + why : fault);
        report(*result.winner, "promoted", now);
    }
    if (!unstored.is_stored()) report_unstored(session_, unstored);
    return unstored.is_stored() ? ExitCode::done : ExitCode::database;
}

void Verification::sort_out(const db::Winner& row, const Gpu& gpu) {
    db::Winner believed = row;  // the race resolves a doubt
    believed.doubt.clear();
    if (const auto reason = why_unusable(identities_, believed)) {
        report(row, "unusable", *reason);
        codes_.insert(ExitCode::some_failed);
        return;
    }
    const std::string stale =
        row.doubt.empty() ? tuner::why_stale(row.provenance, gpu.provenance) : "it was in doubt: " + row.doubt;
    if (session_.arguments().has("race") || (!stale.empty() && !session_.arguments().has("no-race")))
        to_race_.push_back({row, stale});
    else
        to_check_.push_back(&row);
}

ExitCode Verification::race_row(const Race& race, const db::WinnerStore& store, tuner::TuneServices& services) {
    const auto problem = problem_of(session_.catalogue(), race.row);
    const auto served = race.row.restricted_to.empty() ? tuner::valid_winner(*problem, services) : std::nullopt;
    if (served && served->candidate != race.row.candidate) {
        report(race.row, "superseded", "the answer is " + served->candidate.to_string());
        return ExitCode::done;
    }
    return race_again(*problem, with_evidence(store, session_.catalogue(), race.row), race.why, services);
}

ExitCode Verification::check_kernels(const Gpu& gpu, db::WinnerStore& store, const RowFilter& filter) {
    const MatchingRows rows = matching_rows(store, filter, SIZE_MAX);
    for (const db::Winner& row : rows.winners) sort_out(row, gpu);
    ProgressLine progress(session_);
    tuner::TuneServices services = session_.tune_services(gpu, &store, &progress);
    check_answers(services);
    for (const Race& race : to_race_) {
        if (session_.stopped()) throw Error(ErrorCode::interrupted, "interrupted; rows that were raced are stored");
        codes_.insert(race_row(race, store, services));
    }
    if (session_.json()) {
        list_.finish({{"winners", rows.total}});
    } else {
        session_.out() << fmt::format("{} winners of this device\n", rows.total);
    }
    for (const ExitCode worst : {ExitCode::database, ExitCode::verification, ExitCode::some_failed})
        if (codes_.contains(worst)) return worst;
    return ExitCode::done;
}

ExitCode run_verify(Session& session, const Arguments& arguments) {
    if (arguments.has("race") && arguments.has("no-race"))
        throw Error(ErrorCode::usage, "--race and --no-race exclude each other; give one of them");
    RowFilter filter = row_filter_of(session);
    Verification verification(session);
    if (arguments.has("database-only")) {
        const db::WinnerStore& store = session.open_store_to_read();
        check_file(session, store);
        return verification.check_rows(store, filter);
    }
    Gpu gpu = session.need_gpu("autotune verify runs kernels (--database-only checks the rows alone)");
    db::WinnerStore& store = session.open_store_that_exists();
    check_file(session, store);
    session.services().learn_versions(gpu, session.nvrtc_path());
    filter.device_key = gpu.device.identity.key();
    return verification.check_kernels(gpu, store, filter);
}

}  // namespace

Command verify_command() {
    return {
        .name = "verify",
        .about = "check stored winners again, and race those of another driver or compiler: promotes and demotes",
        .examples = {"autotune verify", "autotune verify --op hgemm --shape 4096x4096x2048", "autotune verify --race --op hgemm",
                     "autotune verify --database-only"},
        .flags =
            problem_flags() +
            std::vector<Flag>{shapes_flag(),
                              {"database-only", "", "check the file and its rows; needs no GPU", false, {}},
                              {"race", "", "race every winner again, not only those of another driver or compiler", false, {}},
                              {"no-race", "", "only check answers", false, {}},
                              {"rounds",
                               "N",
                               "interleaved rounds of a race at least; default 30",
                               false,
                               {},
                               integer_value({.least = 3, .most = 100'000})},
                              templates_flag()} +
            device_flags() + std::vector<Flag>{jobs_flag()} + store_flags() + output_flags() + std::vector<Flag>{kernel_flag()},
        .takes_op_options = true,
        .words = "",
        .min_positional = 0,
        .run = run_verify,
        .saves_on_interrupt = true};
}

}  // namespace autotune::cli
