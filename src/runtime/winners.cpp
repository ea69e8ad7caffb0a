#include "src/runtime/winners.h"

#include <unistd.h>

#include <charconv>
#include <sstream>
#include <string_view>

#include "kernel_templates/former_templates.h"
#include "kernel_templates/refusals.h"
#include "kernel_templates/stored_winner.h"
#include "src/core/error.h"
#include "src/runtime/status.h"

namespace autotune::runtime {
namespace {

// A caller waits for a plan: a database that somebody holds is a miss after this long.
constexpr int kBusyTimeoutMs = 30;
constexpr std::size_t kMissesPerWrite = 128;  // a write takes milliseconds: fewer than one plan in a hundred waits for one

db::OpenOptions open_options(const Settings& settings, const Catalogue& catalogue, const std::string& path) {
    db::OpenOptions options;
    options.path = path;
    options.read_only = path != ":memory:";
    options.create = path == ":memory:";
    options.busy_timeout_ms = kBusyTimeoutMs;
    if (!settings.shipped.empty()) options.shipped = {settings.shipped};
    options.former = former_templates(catalogue);
    return options;
}

// What a pin's parameters stand in.
struct PinnedSpace {
    const SearchSpace& rules;
    Config config;  // the default, which fills what the pin leaves out
};

// The whole of `text` as an integer of 64 bits.
std::optional<std::int64_t> integer_of(std::string_view text) {
    std::int64_t value = 0;
    const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
    return failure == std::errc() && end == text.data() + text.size() ? std::optional(value) : std::nullopt;
}

// "gemm/mma block_m=128 stages=3": a family and the parameters to hold, over its default config.
Config pinned_config(const std::string& pin, std::istringstream& words, PinnedSpace space) {
    Config& config = space.config;
    for (std::string word; words >> word;) {
        const std::size_t equals = word.find('=');
        const std::string name = word.substr(0, equals);
        const auto value = equals == std::string::npos ? std::nullopt : integer_of(std::string_view(word).substr(equals + 1));
        if (!value || space.rules.find(name) == nullptr)
            throw Failure(AUTOTUNE_INVALID_ARGUMENT, "pin '" + pin + "': '" + word + "' is no parameter=value of the family");
        config.set(name, *value);
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

std::string_view to_string(Source source) {
    switch (source) {
        case Source::none:
            return "";
        case Source::portfolio:
            return "portfolio";
        case Source::near:
            return "near";
        case Source::other_card:
            return "near (other card)";
        case Source::family_default:
            return "default";
        case Source::fallback:
            return "fallback";
    }
    return "";
}

Winners::Winners(const Settings& settings, const Catalogue& catalogue, Log& log)
    : settings_(settings),
      catalogue_(catalogue),
      log_(log),
      database_state_(FileState::of_database(settings.database)),
      shipped_state_(FileState::of_folder(settings.shipped)),
      identities_(catalogue) {}

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
            store_ = db::open_store(open_options(settings_, catalogue_, settings_.database));
            store_has_database_ = true;
            return store_.get();
        } catch (const Error& error) {
            warnings.add("open", std::string(error.what()) + "; winners of this database are not used");
        }
    }
    if (store_) return store_.get();
    try {
        store_ = db::open_store(open_options(settings_, catalogue_, ":memory:"));
        return store_.get();
    } catch (const Error& error) {
        warnings.add("shipped", std::string(error.what()) + "; shipped winners are not used");
    }
    return nullptr;
}

// REQUIRES: mutex_ is held.
std::vector<ResolvedCandidate> Winners::read(const Problem& problem, const Device& device, LateWarnings& warnings) {
    std::vector<ResolvedCandidate> found;
    db::WinnerStore* const open = store(warnings);
    if (open == nullptr) return found;
    StoredWinnerRule rule(identities_, problem, device);
    const auto take = [&](const db::Winner& winner, autotune_origin origin) {
        if (winner.restricted_to.empty() && !rule.why_unusable(winner))
            found.push_back({winner.candidate, origin, winner.provenance.nvrtc, winner.timing.median_us, rival_us(winner), 0});
    };
    const std::vector<db::Winner> exact = open->find(problem, device.identity);
    for (const db::Winner& winner : exact)
        if (!winner.shipped) take(winner, AUTOTUNE_ORIGIN_EXACT);
    for (const db::Winner& winner : exact)
        if (winner.shipped) take(winner, AUTOTUNE_ORIGIN_SHIPPED);
    return found;
}

std::vector<ResolvedCandidate> Winners::stored(const Problem& problem, const Device& device) {
    std::vector<ResolvedCandidate> found;
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

bool Winners::refresh() {
    const FileState database = FileState::of_database(settings_.database), shipped = FileState::of_folder(settings_.shipped);
    const std::lock_guard lock(mutex_);
    const bool is_database_old = !database.is_surely_as(database_state_), is_shipped_old = !shipped.is_surely_as(shipped_state_);
    if (!is_database_old && !is_shipped_old) return false;
    // An open database shows what others write to it; one that was replaced does not, nor do shipped files.
    if (is_shipped_old || !database.is_same_file(database_state_)) {
        store_.reset();
        store_has_database_ = false;
    }
    if (is_shipped_old) {
        read_portfolios_.reset();
        portfolios_.reset();
    }
    likely_defaults_.clear();
    serving_sets_.clear();
    regrets_.clear();
    database_state_ = database;
    shipped_state_ = shipped;
    return true;
}

ResolvedCandidate Winners::pinned(const Problem& problem, const Device& device) const {
    std::istringstream words(settings_.pin);
    std::string name;
    words >> name;
    const Family* family = catalogue_.find_family(name);
    if (family == nullptr)
        throw Failure(AUTOTUNE_INVALID_ARGUMENT, "pin '" + settings_.pin + "': there is no family '" + name + "'");
    if (const auto reason = why_unable(*family, problem, device))
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

Winners::Calls Winners::note_miss(const Problem& problem, const DeviceIdentity& device, Source source) {
    if (!settings_.record_misses || settings_.database.empty()) return nullptr;
    auto calls = std::make_shared<std::atomic<std::int64_t>>(1);
    bool full = false;
    {
        const std::lock_guard lock(mutex_);
        misses_.push_back({problem, device, source, calls});
        full = ++unwritten_plans_ >= kMissesPerWrite;
    }
    if (full) flush_misses();
    return calls;
}

void Winners::write(const std::vector<db::Miss>& misses) const {
    db::OpenOptions options = open_options(settings_, catalogue_, settings_.database);
    options.read_only = false;
    options.create = true;
    options.shipped.clear();
    options.former = {};  // the command rewrites rows of earlier versions, not a program that notes a miss
    const std::unique_ptr<db::WinnerStore> writable = db::open_store(options);
    writable->record_misses(misses);
}

void Winners::flush_misses() {
    LateWarnings warnings(log_);
    {
        const std::lock_guard lock(mutex_);
        std::vector<db::Miss> counted;
        std::vector<std::size_t> places;  // of those, among all
        for (std::size_t i = 0; i < misses_.size(); ++i) {
            const Miss& miss = misses_[i];
            const std::int64_t calls = miss.calls->load(std::memory_order_relaxed);
            if (calls == 0) continue;
            places.push_back(i);
            counted.push_back({miss.problem, miss.device, std::string(to_string(miss.source)), calls});
        }
        if (counted.empty()) return;
        try {
            write(counted);
        } catch (const Error& error) {
            warnings.add("misses", std::string(error.what()) + "; misses are not recorded");
        }
        for (std::size_t i = 0; i < places.size(); ++i)
            misses_[places[i]].calls->fetch_sub(counted[i].count, std::memory_order_relaxed);
        std::erase_if(misses_, [](const Miss& miss) { return miss.calls.use_count() == 1; });  // nobody counts any more
        unwritten_plans_ = 0;
    }
    warnings.say();
}

}  // namespace autotune::runtime
