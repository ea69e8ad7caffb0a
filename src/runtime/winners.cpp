#include "src/runtime/winners.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <sstream>

#include "src/core/error.h"
#include "src/runtime/status.h"

namespace autotune::runtime {
namespace {

// A caller waits for a plan: a database that somebody holds is a miss after this long.
constexpr int kBusyTimeoutMs = 30;
constexpr std::size_t kNearLimit = 8;
constexpr std::size_t kMissesPerWrite = 32;

db::OpenOptions open_options(const Settings& settings, const std::string& path) {
    db::OpenOptions options;
    options.path = path;
    options.read_only = path != ":memory:";
    options.create = path == ":memory:";
    options.busy_timeout_ms = kBusyTimeoutMs;
    if (!settings.shipped.empty()) options.shipped = {settings.shipped};
    return options;
}

// "gemm/mma block_m=128 stages=3": a family and the parameters to hold, over its default config.
Config pinned_config(const std::string& pin, std::istringstream& words, const SearchSpace& space) {
    Config config = space.default_config;
    for (std::string word; words >> word;) {
        const std::size_t equals = word.find('=');
        const std::string name = word.substr(0, equals);
        const char* digits = equals == std::string::npos ? "" : word.c_str() + equals + 1;
        char* end = nullptr;
        const long long value = std::strtoll(digits, &end, 10);
        if (equals == std::string::npos || end == digits || *end != '\0' || space.find(name) == nullptr)
            throw Failure(AUTOTUNE_INVALID_ARGUMENT, "pin '" + pin + "': '" + word + "' is no parameter=value of the family");
        config.set(name, value);
    }
    return config;
}

}  // namespace

Winners::Winners(const Settings& settings, const Catalogue& catalogue, Log& log)
    : settings_(settings), catalogue_(catalogue), log_(log) {}

Winners::~Winners() {
    flush_misses();
}

// The user's database where there is one, else an empty one in memory with the shipped winners beneath. A database that appears
// later, by a first tune, is picked up at the next look. REQUIRES: mutex_ is held.
db::Store* Winners::store() {
    const bool exists = !settings_.database.empty() && ::access(settings_.database.c_str(), F_OK) == 0;
    if (store_ && (store_has_database_ || !exists)) return &*store_;
    if (exists) {
        try {
            store_ = db::Store::open(open_options(settings_, settings_.database));
            store_has_database_ = true;
            return &*store_;
        } catch (const Error& error) {
            log_.warn_once("open", std::string(error.what()) + "; winners of this database are not used");
        }
    }
    if (store_) return &*store_;
    try {
        store_ = db::Store::open(open_options(settings_, ":memory:"));
        return &*store_;
    } catch (const Error& error) {
        log_.warn_once("shipped", std::string(error.what()) + "; shipped winners are not used");
    }
    return nullptr;
}

bool Winners::legal(const db::Winner& winner, const Problem& problem, const Device& device) const {
    const Family* family = catalogue_.find_family(winner.candidate.family);
    if (family == nullptr || winner.template_identity != catalogue_.template_identity(*family)) return false;
    return !family->refuses(problem, device) && family->space(problem, device).contains(winner.candidate.config);
}

std::vector<Found> Winners::stored(const Problem& problem, const Device& device) {
    std::vector<Found> found;
    const std::lock_guard lock(mutex_);
    try {
        db::Store* const open = store();
        if (open == nullptr) return found;
        for (const bool shipped : {false, true}) {
            for (const db::Winner& winner : open->find(problem, device.identity)) {
                if (winner.shipped == shipped && legal(winner, problem, device))
                    found.push_back(
                        {winner.candidate, shipped ? AUTOTUNE_ORIGIN_SHIPPED : AUTOTUNE_ORIGIN_EXACT, winner.provenance.nvrtc});
            }
        }
        if (!found.empty()) return found;
        for (const db::Winner& winner : open->near(problem, device.identity, kNearLimit))
            if (legal(winner, problem, device))
                found.push_back({winner.candidate, AUTOTUNE_ORIGIN_NEAR, winner.provenance.nvrtc});
    } catch (const Error& error) {
        if (error.code() != ErrorCode::database) throw;
        log_.warn_once("read", std::string(error.what()) + "; treated as if nothing were stored");
    }
    return found;
}

std::vector<Found> Winners::defaults(const Problem& problem, const Device& device) const {
    std::vector<std::pair<double, Found>> ranked;
    std::string reasons;
    for (const Family* family : catalogue_.families_of(problem.op)) {
        if (const auto reason = family->refuses(problem, device)) {
            reasons += "; " + std::string(family->name()) + ": " + *reason;
            continue;
        }
        const Config config = family->space(problem, device).default_config;
        const double us = family->predict_us(problem, config, device).value_or(std::numeric_limits<double>::infinity());
        ranked.push_back({us, {{std::string(family->name()), config}, AUTOTUNE_ORIGIN_DEFAULT, ""}});
    }
    if (ranked.empty()) throw Failure(AUTOTUNE_NO_KERNEL, "no family can do " + problem.key() + reasons);
    std::stable_sort(ranked.begin(), ranked.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    std::vector<Found> found;
    for (auto& [us, each] : ranked) found.push_back(std::move(each));
    return found;
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
    const SearchSpace space = family->space(problem, device);
    const Config config = pinned_config(settings_.pin, words, space);
    if (const auto reason = space.why_not(config))
        throw Failure(AUTOTUNE_NO_KERNEL, "the pinned config is not legal for " + problem.key() + ": " + *reason);
    return {{name, config}, AUTOTUNE_ORIGIN_PINNED, ""};
}

// A pin holds for the problems of its family's op; one of no op at all is refused whatever is asked.
bool Winners::is_pinned(const Problem& problem) const {
    const std::string op = settings_.pin.substr(0, settings_.pin.find('/'));
    return !settings_.pin.empty() && (op == problem.op || catalogue_.find_op(op) == nullptr);
}

std::vector<Found> Winners::find(const Problem& problem, const Device& device) {
    if (is_pinned(problem)) return {pinned(problem, device)};
    std::vector<Found> found = stored(problem, device);
    std::vector<Found> rest = defaults(problem, device);
    found.insert(found.end(), std::make_move_iterator(rest.begin()), std::make_move_iterator(rest.end()));
    return found;
}

void Winners::note_miss(const Problem& problem, const DeviceIdentity& device) {
    if (!settings_.record_misses || settings_.database.empty()) return;
    bool full = false;
    {
        const std::lock_guard lock(mutex_);
        misses_.emplace_back(problem, device);
        full = misses_.size() >= kMissesPerWrite;
    }
    if (full) flush_misses();
}

void Winners::flush_misses() noexcept {
    try {
        const std::lock_guard lock(mutex_);
        if (misses_.empty()) return;
        const auto misses = std::exchange(misses_, {});
        db::OpenOptions options = open_options(settings_, settings_.database);
        options.read_only = false;
        options.create = true;
        options.shipped.clear();
        db::Store writable = db::Store::open(options);
        for (const auto& [problem, device] : misses) writable.record_miss(problem, device);
    } catch (const std::exception& error) {
        log_.warn_once("misses", std::string(error.what()) + "; misses are not recorded");
    }
}

}  // namespace autotune::runtime
