#include "src/runtime/winners.h"

#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <limits>
#include <set>
#include <sstream>

#include "kernel_templates/legality.h"
#include "kernel_templates/offers.h"
#include "kernel_templates/stored_winner.h"
#include "src/core/error.h"
#include "src/core/integer_math.h"
#include "src/runtime/status.h"

namespace autotune::runtime {
namespace {

// A caller waits for a plan: a database that somebody holds is a miss after this long.
constexpr int kBusyTimeoutMs = 30;
constexpr std::size_t kNearLimit = 8;        // looked at
constexpr std::size_t kNearTried = 2;        // that are legal: whether one is takes as long as everything else
constexpr std::size_t kMostDefaults = 4096;  // remembered, at about 1 KB each
constexpr std::size_t kMissesPerWrite = 32;
constexpr std::size_t kUntunedTried = 3;    // of those predicted fastest: the others are for kernels that will not compile
constexpr std::int64_t kLeastPivot = 16;    // the narrowest tile
constexpr std::int64_t kMostServed = 8192;  // first extents that one set of instances serves

db::OpenOptions open_options(const Settings& settings, const std::string& path) {
    db::OpenOptions options;
    options.path = path;
    options.read_only = path != ":memory:";
    options.create = path == ":memory:";
    options.busy_timeout_ms = kBusyTimeoutMs;
    if (!settings.shipped.empty()) options.shipped = {settings.shipped};
    return options;
}

// The next number of four binary digits and zeros: 129 becomes 144.
std::int64_t rounded_up(std::int64_t value) {
    std::int64_t unit = 1;
    while (value / unit >= 16) unit *= 2;
    return round_up(value, unit);
}

// The same problem with its extents rounded up: not to be computed, only to be predicted.
Problem rounded_up(Problem problem) {
    for (Extent& extent : problem.extents) extent.value = rounded_up(extent.value);
    return problem;
}

// The same problem with another first extent: not to be computed, only to be predicted and planned for.
Problem with_first_extent(Problem problem, std::int64_t value) {
    problem.extents.front().value = value;
    return problem;
}

// Every value to 64, then eight steps to each doubling: what is chosen changes with waves of tiles.
std::int64_t next_value(std::int64_t value) {
    return value < 64 ? value + 1 : value + static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(value))) / 8;
}

struct RankedDefaults {
    std::vector<Found> candidates;  // the one that is predicted fastest first
    std::string refusals;           // "; FAMILY: REASON" of each family that refuses
};

RankedDefaults ranked_defaults(const Catalogue& catalogue, const Problem& problem, const Device& device) {
    RankedDefaults defaults;
    std::vector<std::pair<double, Found>> ranked;
    for (const Family* family : catalogue.families_of(problem.op)) {
        if (const auto reason = family->refuses(problem, device)) {
            defaults.refusals += "; " + std::string(family->name()) + ": " + *reason;
            continue;
        }
        const Config config = family->default_config(problem, device);
        const double us = family->predict_us(problem, config, device).value_or(std::numeric_limits<double>::infinity());
        ranked.push_back({us, {{std::string(family->name()), config}, AUTOTUNE_ORIGIN_DEFAULT, ""}});
    }
    std::stable_sort(ranked.begin(), ranked.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    for (auto& [us, each] : ranked) defaults.candidates.push_back(std::move(each));
    return defaults;
}

// What a pin's parameters stand in.
struct PinnedSpace {
    const SearchSpace& rules;
    Config config;  // the default, which fills what the pin leaves out
};

// "gemm/mma block_m=128 stages=3": a family and the parameters to hold, over its default config.
Config pinned_config(const std::string& pin, std::istringstream& words, PinnedSpace space) {
    Config& config = space.config;
    for (std::string word; words >> word;) {
        const std::size_t equals = word.find('=');
        const std::string name = word.substr(0, equals);
        const char* digits = equals == std::string::npos ? "" : word.c_str() + equals + 1;
        char* end = nullptr;
        const long long value = std::strtoll(digits, &end, 10);
        if (equals == std::string::npos || end == digits || *end != '\0' || space.rules.find(name) == nullptr)
            throw Failure(AUTOTUNE_INVALID_ARGUMENT, "pin '" + pin + "': '" + word + "' is no parameter=value of the family");
        config.set(name, value);
    }
    return config;
}

// Of the fastest rival in the winner's final rounds, on the scale of the winner's time; 0: none ran.
double rival_us(const db::Winner& winner) {
    double least_ratio = 0;
    for (const Finalist& finalist : winner.evidence.finalists) {
        const bool is_better = least_ratio == 0 || finalist.ratio < least_ratio;
        if (!finalist.candidate && finalist.ratio > 0 && is_better) least_ratio = finalist.ratio;
    }
    return least_ratio * winner.timing.median_us;
}

}  // namespace

Winners::Winners(const Settings& settings, const Catalogue& catalogue, Log& log)
    : settings_(settings), catalogue_(catalogue), log_(log), identities_(catalogue) {}

Winners::~Winners() {
    try {
        flush_misses();
    } catch (...) {
        // There is no memory to write them with, nor anybody left to hear of it.
    }
}

// The user's database where there is one, else an empty one in memory with the shipped winners beneath. A database that appears
// later, by a first tune, is picked up at the next look. REQUIRES: mutex_ is held.
db::WinnerStore* Winners::store(LateWarnings& warnings) {
    const bool exists = !settings_.database.empty() && ::access(settings_.database.c_str(), F_OK) == 0;
    if (store_ && (store_has_database_ || !exists)) return store_.get();
    if (exists) {
        try {
            store_ = db::open_store(open_options(settings_, settings_.database));
            store_has_database_ = true;
            return store_.get();
        } catch (const Error& error) {
            warnings.add("open", std::string(error.what()) + "; winners of this database are not used");
        }
    }
    if (store_) return store_.get();
    try {
        store_ = db::open_store(open_options(settings_, ":memory:"));
        return store_.get();
    } catch (const Error& error) {
        warnings.add("shipped", std::string(error.what()) + "; shipped winners are not used");
    }
    return nullptr;
}

// REQUIRES: mutex_ is held.
std::vector<Found> Winners::read(const Problem& problem, const Device& device, LateWarnings& warnings) {
    std::vector<Found> found;
    db::WinnerStore* const open = store(warnings);
    if (open == nullptr) return found;
    StoredWinnerRule rule(identities_, problem, device);
    const auto take = [&](const db::Winner& winner, autotune_origin origin) {
        if (!rule.why_unusable(winner))
            found.push_back({winner.candidate, origin, winner.provenance.nvrtc, winner.timing.median_us, rival_us(winner), 0});
    };
    const std::vector<db::Winner> exact = open->find(problem, device.identity);
    for (const db::Winner& winner : exact)
        if (!winner.shipped) take(winner, AUTOTUNE_ORIGIN_EXACT);
    for (const db::Winner& winner : exact)
        if (winner.shipped) take(winner, AUTOTUNE_ORIGIN_SHIPPED);
    return found;
}

// The nearest winners of other extents that may answer. A database that fails has none. Without a lock held by the caller.
std::vector<Found> Winners::read_near(const Problem& problem, const Device& device, std::size_t count) {
    std::vector<Found> found;
    LateWarnings warnings(log_);
    {
        const std::lock_guard lock(mutex_);
        try {
            db::WinnerStore* const open = store(warnings);
            if (open == nullptr) return found;
            StoredWinnerRule rule(identities_, problem, device);
            for (const db::Winner& winner : open->near(problem, device.identity, kNearLimit)) {
                if (rule.why_unbelievable(winner)) continue;
                found.push_back({winner.candidate, AUTOTUNE_ORIGIN_NEAR, winner.provenance.nvrtc});
                if (found.size() == count) break;
            }
        } catch (const Error& error) {
            if (error.code() != ErrorCode::database) throw;
            warnings.add("read", std::string(error.what()) + "; treated as if nothing were stored");
        }
    }
    warnings.say();
    return found;
}

std::vector<Found> Winners::stored(const Problem& problem, const Device& device) {
    std::vector<Found> found;
    LateWarnings warnings(log_);
    {
        const std::lock_guard lock(mutex_);
        try {
            found = read(problem, device, warnings);
        } catch (const Error& error) {
            if (error.code() != ErrorCode::database) throw;
            warnings.add("read", std::string(error.what()) + "; treated as if nothing were stored");
        }
        if (store_) {
            for (const db::Warning& warning : store_->warnings()) warnings.add(warning.text, warning.text);
        }
    }
    warnings.say();
    return found;
}

const db::Portfolio* Winners::portfolio(const Problem& problem, const Device& device, LateWarnings& warnings) {
    if (!portfolios_) {
        const auto warn = [&](const std::string& text) { warnings.add(text, text); };
        portfolios_ = settings_.shipped.empty() ? std::vector<db::Portfolio>{}
                                                : db::read_portfolios(db::portfolio_path(settings_.shipped), warn);
    }
    return db::portfolio_for(*portfolios_, problem.class_key(), device.arch());
}

std::vector<Found> Winners::rank(const std::vector<Found>& offers, const Problem& problem, const Device& device,
                                 std::size_t count) const {
    std::vector<Candidate> candidates;
    for (const Found& each : offers) candidates.push_back(each.candidate);
    std::vector<Found> ranked;
    for (OfferRanking::Ranked& each : OfferRanking(catalogue_, problem, device).best(candidates, count)) {
        Found found = offers[each.offer];
        found.candidate = std::move(each.candidate);
        ranked.push_back(std::move(found));
    }
    return ranked;
}

// The best offer for each pivot, each instance once.
std::vector<Found> Winners::make_serving_set(const Problem& problem, const Device& device, std::vector<Found> offers,
                                             const std::vector<std::int64_t>& pivots) const {
    std::vector<Found> set;
    std::set<std::string> instances;
    for (const std::int64_t pivot : pivots) {
        const Problem at = with_first_extent(problem, pivot);
        for (Found& best : rank(offers, at, device, 1))
            if (instances.insert(instance_key(catalogue_, at, device, best.candidate)).second) set.push_back(std::move(best));
    }
    return set;
}

// First extents for which the best is chosen: each doubles what an instance has to do, and to 8192 there are ten. A larger one
// has only itself, rounded up.
std::vector<std::int64_t> pivots_of(std::int64_t first_extent) {
    std::vector<std::int64_t> pivots;
    for (std::int64_t pivot = kLeastPivot; pivot <= kMostServed; pivot *= 2) pivots.push_back(pivot);
    if (first_extent > kMostServed) pivots = {static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(first_extent)))};
    return pivots;
}

std::vector<Found> Winners::serving_set(const Problem& problem, const Device& device) {
    if (problem.extents.empty()) return {};
    const std::vector<std::int64_t> pivots = pivots_of(problem.extents.front().value);
    const std::string key = with_first_extent(problem, pivots.back()).key() + " on " + device.identity.key();
    std::vector<Found> offers;
    bool is_borrowed = false;
    LateWarnings warnings(log_);
    {
        const std::lock_guard lock(mutex_);
        if (const auto known = serving_sets_.find(key); known != serving_sets_.end()) return known->second;
        if (const db::Portfolio* const known = portfolio(problem, device, warnings)) {
            is_borrowed = known->class_key != problem.class_key();
            for (const Candidate& each : known->candidates)
                offers.push_back({each, AUTOTUNE_ORIGIN_DEFAULT, "", 0, 0, is_borrowed ? -1 : known->regret_median});
        }
    }
    warnings.say();
    if (offers.empty()) return {};
    if (is_borrowed) {
        // What another class was tuned for may be slow here: the families' own defaults stand beside it.
        for (std::size_t i = 0; i < pivots.size(); i += 3) {
            for (Found& each : ranked_defaults(catalogue_, with_first_extent(problem, pivots[i]), device).candidates)
                offers.push_back(std::move(each));
        }
    }
    std::set<std::string> known;
    for (const std::int64_t pivot : pivots) {
        const Problem at = with_first_extent(problem, pivot);
        for (Found& near : read_near(at, device, kNearTried)) {
            near.regret = offers.front().regret;
            if (known.insert(near.candidate.to_string()).second) offers.push_back(std::move(near));
        }
    }
    std::vector<Found> set = make_serving_set(problem, device, std::move(offers), pivots);
    const std::lock_guard lock(mutex_);
    if (serving_sets_.size() >= kMostDefaults) serving_sets_.clear();
    serving_sets_.emplace(key, set);
    return set;
}

std::vector<Found> Winners::untuned(const Problem& problem, const Device& device) {
    if (const std::vector<Found> set = serving_set(problem, device); !set.empty()) {
        if (std::vector<Found> ranked = rank(set, problem, device, kUntunedTried); !ranked.empty()) return ranked;
    }
    std::vector<Found> offers = read_near(problem, device, kNearTried);
    for (Found& each : likely_default(problem, device)) offers.push_back(std::move(each));
    return rank(offers, problem, device, kUntunedTried);
}

std::vector<Served> Winners::serving(const Problem& problem, const Device& device) {
    std::vector<Served> all;
    std::set<std::string> instances;
    const std::int64_t most = problem.extents.empty() ? 0 : problem.extents.front().value;
    const auto add = [&](std::vector<Found> found, const Problem& at) {
        if (found.empty()) found = defaults(at, device);
        if (instances.insert(instance_key(catalogue_, at, device, found.front().candidate)).second)
            all.push_back({std::move(found.front()), at});
    };
    for (std::int64_t value = 1; value <= most; value = next_value(value)) {
        const Problem at = with_first_extent(problem, value);
        std::vector<Found> found = stored(at, device);
        add(found.empty() ? untuned(at, device) : std::move(found), at);
    }
    return all;
}

void Winners::refresh() {
    const std::lock_guard lock(mutex_);
    store_.reset();
    store_has_database_ = false;
    portfolios_.reset();
    likely_defaults_.clear();
    serving_sets_.clear();
}

std::vector<Found> Winners::likely_default(const Problem& problem, const Device& device) {
    const Problem rounded = rounded_up(problem);
    const std::string key = rounded.key() + " on " + device.identity.key();
    std::optional<Candidate> likely;
    {
        const std::lock_guard lock(mutex_);
        if (const auto known = likely_defaults_.find(key); known != likely_defaults_.end()) likely = known->second;
    }
    if (!likely) {
        const RankedDefaults ranked = ranked_defaults(catalogue_, rounded, device);
        if (ranked.candidates.empty()) return {};
        likely = ranked.candidates.front().candidate;
        const std::lock_guard lock(mutex_);
        if (likely_defaults_.size() >= kMostDefaults) likely_defaults_.clear();
        likely_defaults_.emplace(key, *likely);
    }
    if (!Legality(catalogue_, problem, device).allows(*likely)) return {};
    return {{std::move(*likely), AUTOTUNE_ORIGIN_DEFAULT, ""}};
}

void check_supported(const Catalogue& catalogue, const Problem& problem, const Device& device) {
    std::string refusals;
    for (const Family* family : catalogue.families_of(problem.op)) {
        const auto reason = family->refuses(problem, device);
        if (!reason) return;
        refusals += "; " + std::string(family->name()) + ": " + *reason;
    }
    throw Failure(AUTOTUNE_NO_KERNEL, "no family can do " + problem.key() + refusals);
}

std::vector<Found> Winners::defaults(const Problem& problem, const Device& device) const {
    RankedDefaults ranked = ranked_defaults(catalogue_, problem, device);
    if (ranked.candidates.empty()) throw Failure(AUTOTUNE_NO_KERNEL, "no family can do " + problem.key() + ranked.refusals);
    return std::move(ranked.candidates);
}

Found Winners::pinned(const Problem& problem, const Device& device) const {
    std::istringstream words(settings_.pin);
    std::string name;
    words >> name;
    const Family* family = catalogue_.find_family(name);
    if (family == nullptr)
        throw Failure(AUTOTUNE_INVALID_ARGUMENT, "pin '" + settings_.pin + "': there is no family '" + name + "'");
    if (const auto reason = family->refuses(problem, device))
        throw Failure(AUTOTUNE_NO_KERNEL, "the pinned family " + name + " cannot do " + problem.key() + ": " + *reason);
    const SearchSpace rules = family->rules(problem, device);
    const Config config = pinned_config(settings_.pin, words, {rules, family->default_config(problem, device)});
    if (const auto reason = rules.why_not(config))
        throw Failure(AUTOTUNE_NO_KERNEL, "the pinned config is not legal for " + problem.key() + ": " + *reason);
    return {{name, config}, AUTOTUNE_ORIGIN_PINNED, ""};
}

bool Winners::is_pinned(const Problem& problem) const {
    const std::string op = settings_.pin.substr(0, settings_.pin.find('/'));
    return !settings_.pin.empty() && (op == problem.op || catalogue_.find_op(op) == nullptr);
}

void Winners::note_miss(const Problem& problem, const DeviceIdentity& device, autotune_origin origin) {
    if (!settings_.record_misses || settings_.database.empty()) return;
    bool full = false;
    {
        const std::lock_guard lock(mutex_);
        misses_.push_back({problem, device, origin});
        full = misses_.size() >= kMissesPerWrite;
    }
    if (full) flush_misses();
}

void Winners::write(const std::vector<Miss>& misses) const {
    db::OpenOptions options = open_options(settings_, settings_.database);
    options.read_only = false;
    options.create = true;
    options.shipped.clear();
    const std::unique_ptr<db::WinnerStore> writable = db::open_store(options);
    for (const Miss& miss : misses) writable->record_miss(miss.problem, miss.device);
}

void Winners::flush_misses() {
    LateWarnings warnings(log_);
    {
        const std::lock_guard lock(mutex_);
        if (misses_.empty()) return;
        try {
            write(misses_);
        } catch (const Error& error) {
            warnings.add("misses", std::string(error.what()) + "; misses are not recorded");
        }
        misses_.clear();
    }
    warnings.say();
}

}  // namespace autotune::runtime
