#include "src/dispatch/stored/stored_candidates.h"

#include <sys/stat.h>

#include <algorithm>

#include "src/catalogue/former_templates.h"
#include "src/core/error.h"
#include "src/core/space/config_domain.h"
#include "src/dispatch/stored/label_file.h"
#include "src/dispatch/stored/portfolio_choice.h"

namespace autotune::dispatch {
namespace {

constexpr std::size_t kNearLimit = 8;  // looked at
// At most this many legal near winners are offered, because checking one takes as long as everything else.
constexpr std::size_t kNearTried = 2;
constexpr std::size_t kRegretProblems = 12;  // this many problems of a class are left out in turn; each takes some milliseconds
constexpr std::size_t kLeastTrials = 8;      // A problem with fewer trials than this has no best candidate yet.

db::OpenOptions open_options(const Files& files, const Catalogue& catalogue, const std::string& path) {
    db::OpenOptions options;
    options.path = path;
    options.read_only = path != ":memory:";
    options.create = path == ":memory:";
    options.busy_timeout_ms = kBusyTimeoutMs;
    if (!files.shipped.empty()) options.shipped = {files.shipped};
    options.former = former_templates(catalogue);
    return options;
}

// The time of the fastest rival in the winner's final rounds, on the scale of the winner's time, or 0 if no rival ran.
double rival_us(const db::Winner& winner) {
    double least_ratio = 0;
    for (const Finalist& finalist : winner.evidence.finalists) {
        const bool is_better = least_ratio == 0 || finalist.ratio < least_ratio;
        if (!finalist.candidate && finalist.ratio > 0 && is_better) least_ratio = finalist.ratio;
    }
    return least_ratio * winner.timing.median_us;
}

ResolvedCandidate near_candidate(const db::Winner& winner, Source source) {
    return {winner.candidate, Origin::near, winner.provenance.nvrtc, 0, 0, -1, source};
}

std::string mark_of(const db::WinnerStore& store) {
    std::string mark = std::to_string(store.count({}));
    for (const db::Winner& newest : store.list({.limit = 1})) {
        mark += ' ' + newest.class_key + ' ' + newest.candidate.to_string() + ' ' + newest.template_identity + ' ' +
                newest.provenance.date + ' ' + std::to_string(newest.timing.median_us) + ' ' + newest.doubt;
        for (const Extent& extent : newest.extents) mark += ' ' + std::to_string(extent.value);
    }
    return mark;
}

// Returns false for an empty file, in which another process is about to create a database.
bool is_database(const std::string& path) {
    struct stat info = {};
    return !path.empty() && ::stat(path.c_str(), &info) == 0 && !(S_ISREG(info.st_mode) && info.st_size == 0);
}

}  // namespace

StoredCandidates::StoredCandidates(Files files, const Catalogue& catalogue, Warn warn)
    : files_(std::move(files)),
      catalogue_(catalogue),
      warn_(std::move(warn)),
      database_state_(FileState::of_database(files_.database)),
      shipped_state_(FileState::of_folder(files_.shipped)),
      winners_state_(database_state_),
      identities_(catalogue) {
    if (!files_.label.empty()) open_label();
}

// The whole label is checked now: its lines are parsed later, when a problem needs them, and the file never changes.
void StoredCandidates::open_label() {
    try {
        label_digest_ = read_label(files_.label).digest;
        db::OpenOptions options = open_options({.database = "", .shipped = files_.label}, catalogue_, ":memory:");
        label_ = db::open_store(options);
    } catch (const Error& error) {
        why_no_label_ = error.what();
        label_digest_ = "none";
    }
}

void StoredCandidates::say(const Warnings& warnings) const {
    if (!warn_) return;
    for (const Heard& each : warnings) warn_(each.subject, each.message);
}

template <typename Read>
void StoredCandidates::with_store(Read read) {
    Warnings warnings;
    {
        const std::lock_guard lock(mutex_);
        try {
            if (db::WinnerStore* const open = store(warnings)) read(*open);
        } catch (const Error& error) {
            if (error.code() != ErrorCode::database) throw;
            warnings.push_back({"read", std::string(error.what()) + "; treated as if nothing were stored"});
        }
        if (!why_no_label_.empty()) warnings.push_back({"label", why_no_label_});
        for (const db::WinnerStore* each : {store_.get(), label_.get()}) {
            if (each == nullptr) continue;
            for (const db::Warning& warning : each->warnings()) warnings.push_back({warning.text, warning.text});
        }
    }
    say(warnings);
}

// Returns the user's database if it exists, else an empty one in memory, with the shipped winners beneath. If a tune creates the
// database later, the next look-up finds it.
db::WinnerStore* StoredCandidates::store(Warnings& warnings) {
    const bool exists = is_database(files_.database);
    if (store_ && (store_has_database_ || !exists)) return store_.get();
    if (exists) {
        try {
            store_ = db::open_store(open_options(files_, catalogue_, files_.database));
            store_has_database_ = true;
            return store_.get();
        } catch (const Error& error) {
            warnings.push_back({"open", std::string(error.what()) + "; winners of this database are not used"});
        }
    }
    if (store_) return store_.get();
    try {
        store_ = db::open_store(open_options(files_, catalogue_, ":memory:"));
        return store_.get();
    } catch (const Error& error) {
        warnings.push_back({"shipped", std::string(error.what()) + "; shipped winners are not used"});
    }
    return nullptr;
}

std::vector<ResolvedCandidate> StoredCandidates::winners(const Problem& problem, const Device& device) {
    std::vector<ResolvedCandidate> users, shipped;
    with_store([&](const db::WinnerStore& open) {
        StoredWinnerRule rule(identities_, problem, device);
        const auto add = [&](const db::Winner& winner, Origin origin, std::vector<ResolvedCandidate>& to) {
            // Winners of restricted searches were not compared with the rest of the space.
            if (!winner.restricted_to.empty() || rule.why_unusable(winner)) return;
            to.push_back({winner.candidate, origin, winner.provenance.nvrtc, winner.timing.median_us, rival_us(winner), 0});
        };
        if (label_)
            for (const db::Winner& winner : label_->find(problem, device.identity)) add(winner, Origin::label, users);
        for (const db::Winner& winner : open.find(problem, device.identity))
            winner.shipped ? add(winner, Origin::shipped, shipped) : add(winner, Origin::exact, users);
    });
    std::move(shipped.begin(), shipped.end(), std::back_inserter(users));
    return users;
}

void StoredCandidates::add_near(const db::WinnerStore& open, StoredWinnerRule& rule, const Problem& problem, const Device& device,
                                const Problem* ignored, std::vector<ResolvedCandidate>& to) const {
    std::size_t of_this = 0, of_others = 0;
    for (const db::Winner& winner : open.near(problem, device.identity, kNearLimit)) {
        if (ignored != nullptr && winner.extents == ignored->extents) continue;
        if (rule.why_unbelievable(winner)) continue;
        to.push_back(near_candidate(winner, Source::near));
        if (++of_this == kNearTried) break;
    }
    for (const db::Winner& winner : open.near_of_other_cards(problem, device.identity, kNearLimit)) {
        if (rule.why_unbelievable(winner)) continue;
        to.push_back(near_candidate(winner, Source::other_card));
        if (++of_others == kNearTried) break;
    }
}

std::vector<ResolvedCandidate> StoredCandidates::near(const Problem& problem, const Device& device, const Problem* ignored) {
    std::vector<ResolvedCandidate> found;
    with_store([&](const db::WinnerStore& open) {
        StoredWinnerRule rule(identities_, problem, device);
        if (label_) add_near(*label_, rule, problem, device, ignored, found);
        add_near(open, rule, problem, device, ignored, found);
    });
    return found;
}

std::vector<TriedProblem> StoredCandidates::tried_of_class(const Problem& problem, const Device& device) {
    std::vector<TriedProblem> all;
    with_store([&](const db::WinnerStore& open) {
        for (const db::Winner& winner : open.near(problem, device.identity, kRegretProblems)) {
            const auto at = problem_of(catalogue_, winner);
            if (!at) continue;
            TriedProblem tried{*at, {}};
            for (const StoredTrial& row : open.trials(*at, device.identity)) {
                const Family* family = catalogue_.find_family(row.trial.candidate.family);
                const bool is_todays = family != nullptr && identities_.of(*family) == row.template_identity;
                if (is_todays && row.trial.status == TrialStatus::ok && row.trial.timing)
                    tried.times_us.emplace_back(row.trial.candidate, row.trial.timing->median_us);
            }
            if (tried.times_us.size() >= kLeastTrials) all.push_back(std::move(tried));
        }
    });
    return all;
}

const std::vector<db::Portfolio>& StoredCandidates::read_portfolios(Warnings& warnings) {
    if (!read_portfolios_) {
        const auto warn = [&](const std::string& text) { warnings.push_back({text, text}); };
        read_portfolios_ = files_.shipped.empty()
                               ? std::vector<db::Portfolio>{}
                               : db::read_portfolios(db::portfolio_path(files_.shipped), warn, former_templates(catalogue_));
    }
    return *read_portfolios_;
}

const db::Portfolio* StoredCandidates::portfolio_of(const Problem& problem, const Device& device, Warnings& warnings) {
    if (!portfolios_) {
        std::vector<db::Portfolio> usable = read_portfolios(warnings);
        for (db::Portfolio& each : usable) {
            const std::size_t removed = std::erase_if(each.candidates, [&](const Candidate& candidate) {
                return why_of_another_template(identities_, candidate.family, each.templates[candidate.family]).has_value();
            });
            if (removed > 0) each.regret_median = each.regret_p90 = -1;  // the regret was measured with all kernels
        }
        std::erase_if(usable, [](const db::Portfolio& each) { return each.candidates.empty(); });
        portfolios_ = std::move(usable);
    }
    return portfolio_for(*portfolios_, problem.class_key(), device.arch());
}

std::vector<ResolvedCandidate> StoredCandidates::portfolio(const Problem& problem, const Device& device) {
    std::vector<ResolvedCandidate> offers;
    Warnings warnings;
    {
        const std::lock_guard lock(mutex_);
        if (const db::Portfolio* const known = portfolio_of(problem, device, warnings)) {
            const double regret = known->class_key == problem.class_key() ? known->regret_median : -1;
            for (const Candidate& each : known->candidates)
                offers.push_back({each, Origin::family_default, "", 0, 0, regret, Source::portfolio});
        }
    }
    say(warnings);
    return offers;
}

std::optional<ExpectedRegret> StoredCandidates::portfolio_regret(const Problem& problem, const Device& device) {
    std::optional<ExpectedRegret> regret;
    Warnings warnings;
    {
        const std::lock_guard lock(mutex_);
        const db::Portfolio* const own = portfolio_of(problem, device, warnings);
        if (own != nullptr && own->class_key == problem.class_key() && own->regret_median >= 0)
            regret = {own->regret_median, own->regret_p90, own->problems};
    }
    say(warnings);
    return regret;
}

void StoredCandidates::count_passed_over(const db::Portfolio& portfolio, const Problem& problem, const Device& device,
                                         std::vector<PassedOver>& counts) {
    for (const Candidate& candidate : portfolio.candidates) {
        const auto made_with = portfolio.templates.find(candidate.family);
        const std::string identity = made_with == portfolio.templates.end() ? "" : made_with->second;
        auto why = why_of_another_template(identities_, candidate.family, identity);
        const Family* family = why ? nullptr : catalogue_.find_family(candidate.family);
        if (family != nullptr && !family->refuses(problem, device))
            why = why_outside_domain(family->rules(problem, device).parameters, candidate.config);
        if (!why) continue;
        const auto known = std::find_if(counts.begin(), counts.end(), [&](const PassedOver& each) { return each.why == *why; });
        (known != counts.end() ? *known : counts.emplace_back(PassedOver{*why})).count += 1;
    }
}

std::vector<PassedOver> StoredCandidates::portfolio_kernels_passed_over(const Problem& problem, const Device& device) {
    std::vector<PassedOver> all;
    Warnings warnings;
    {
        const std::lock_guard lock(mutex_);
        for (const db::Portfolio& each : read_portfolios(warnings))
            if (each.op == problem.op && each.arch == device.arch()) count_passed_over(each, problem, device, all);
    }
    say(warnings);
    std::sort(all.begin(), all.end(), [](const PassedOver& a, const PassedOver& b) { return a.why < b.why; });
    return all;
}

// Tells whether winners were put or removed. Each put() makes a new row, so the number of rows and the newest one show that.
bool StoredCandidates::winners_changed() {
    if (!files_.label.empty()) return false;
    const FileState state = FileState::of_database(files_.database);
    const std::lock_guard lock(mutex_);
    if (state.is_surely_as(winners_state_)) return false;
    if (!state.is_same_file(winners_state_)) forget_store();
    Warnings said_by_the_next_reader;
    std::string mark;
    try {
        const db::WinnerStore* const open = store(said_by_the_next_reader);
        if (open == nullptr) return false;
        mark = mark_of(*open);
    } catch (const Error&) {
        return false;
    }
    winners_state_ = state;
    return std::exchange(winners_mark_, mark) != mark;
}

// REQUIRES: mutex_ is held.
void StoredCandidates::forget_store() {
    store_.reset();
    store_has_database_ = false;
}

bool StoredCandidates::refresh() {
    if (!files_.label.empty()) return false;
    const FileState database = FileState::of_database(files_.database), shipped = FileState::of_folder(files_.shipped);
    const std::lock_guard lock(mutex_);
    const bool is_database_old = !database.is_surely_as(database_state_), is_shipped_old = !shipped.is_surely_as(shipped_state_);
    if (!is_database_old && !is_shipped_old) return false;
    // An open database shows what other processes write to it, but not that its file was replaced; shipped files are read only
    // once.
    if (is_shipped_old || !database.is_same_file(database_state_)) {
        forget_store();
    }
    if (is_shipped_old) {
        read_portfolios_.reset();
        portfolios_.reset();
    }
    database_state_ = database;
    shipped_state_ = shipped;
    return true;
}

}  // namespace autotune::dispatch
