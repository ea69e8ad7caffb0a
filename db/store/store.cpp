#include "db/store/store.h"

#include <algorithm>

#include "db/sqlite/failure.h"
#include "db/sqlite/open_file.h"
#include "db/sqlite/orphans.h"
#include "db/sqlite/schema.h"
#include "db/sqlite/sqlite_handle.h"
#include "db/store/corrections.h"
#include "db/store/former_rows.h"
#include "db/store/integrity.h"
#include "db/store/listing.h"
#include "db/store/matching.h"
#include "db/store/nearest.h"
#include "db/store/rows.h"
#include "db/store/trial_queue.h"
#include "db/text/shipped.h"

namespace autotune::db {
namespace {

constexpr std::size_t kChunkRows = 128;  // this many winners with their finalists take about 1 MB

// The receiver of rows.
struct RowUser {
    Detail detail = Detail::full;
    std::function<bool(const Winner&)> use{};
    std::function<void(const std::string&)> invalid{};  // empty: a warning
};

}  // namespace

struct Store::Impl {
    FormerTemplates former;
    WarningLog log;
    OpenFile file;
    Shipped shipped;
    TrialQueue trials;

    explicit Impl(const OpenOptions& options)
        : former(options.former),
          log(options.on_warning),
          file(options, log),
          shipped(options.shipped, options.former, log),
          trials(file, log) {}
    ~Impl() { leave(); }
    Impl(const Impl&) = delete;
    Impl& operator=(const Impl&) = delete;

    const std::string& path() const { return file.path(); }

    // In a forked child the waiting trials are dropped, because the parent writes them.
    void settle() {
        if (file.is_forked_child()) trials.forget();
    }

    Connection& use() {
        settle();
        return file.use();
    }

    template <class Body>
    auto reading(const Body& body) {
        settle();
        return file.reading(body);
    }

    template <class Body>
    void write(const Body& body) {
        settle();
        trials.write(body);
    }

    void leave() noexcept {
        try {
            settle();
            trials.flush_now();
        } catch (...) {
            // A destructor must not throw. Callers who need to know whether trials are stored call flush().
        }
    }

    std::vector<Winner> load_all(const ProblemKey& problem_key) {
        return reading([&](Connection& source) {
            const Snapshot snapshot(source);  // one read transaction for all reads
            return load_rows(source, ids_of(source, problem_key), RowUser{});
        });
    }

    // Reads a chunk at a time: memory is bounded, and no lock is held while the user works. False once the user has stopped it.
    bool hand_over(std::span<const std::int64_t> ids, const RowUser& user) {
        for (std::size_t at = 0; at < ids.size(); at += kChunkRows) {
            const auto chunk = ids.subspan(at, std::min(kChunkRows, ids.size() - at));
            const std::vector<Winner> rows = reading([&](Connection& source) {
                const Snapshot snapshot(source);
                return load_rows(source, chunk, user);
            });
            if (!std::all_of(rows.begin(), rows.end(), std::ref(user.use))) return false;
        }
        return true;
    }

    std::vector<Winner> nearest(Connection& source, const ProblemKey& problem_key, std::size_t limit, Cards cards) {
        struct Ranked {
            double distance;
            std::int64_t id;        // of a row, or
            const Winner* shipped;  // from the shipped layer
        };
        std::vector<Ranked> ranked;
        const Snapshot snapshot(source);
        // Requests twice as many rows, because invalid rows are skipped.
        for (const NearRow& row : nearest_rows(source, problem_key, 2 * limit, cards))
            ranked.push_back({row.distance, row.id, nullptr});
        for (const Winner* winner : shipped.nearest(problem_key, limit, cards))
            ranked.push_back({log_distance(winner->extents, problem_key.extents), 0, winner});
        std::stable_sort(ranked.begin(), ranked.end(), [](const Ranked& a, const Ranked& b) { return a.distance < b.distance; });
        std::vector<Winner> winners;
        for (const Ranked& next : ranked) {
            if (winners.size() >= limit) break;
            if (next.shipped != nullptr) {
                winners.push_back(records::brief(*next.shipped));
            } else if (auto winner = load(source, next.id, {.detail = Detail::brief})) {
                winners.push_back(std::move(*winner));
            }
        }
        return winners;
    }

    std::vector<std::int64_t> ids(const Filter& filter) {
        return reading([&](Connection& source) { return ids_of(source, filter); });
    }

    std::vector<Winner> load_rows(Connection& source, std::span<const std::int64_t> ids, const RowUser& user) {
        std::vector<Winner> winners;
        for (const std::int64_t id : ids) {
            if (auto winner = load(source, id, user)) winners.push_back(std::move(*winner));
        }
        return winners;
    }

    std::optional<Winner> load(Connection& source, std::int64_t id, const RowUser& user = {}) {
        auto row = read_winner(source, id, user.detail);
        if (row && !row->wrong) {
            bring_up_to_date(row->winner, former);
            return std::move(row->winner);
        }
        const bool is_gone = !row && !has_winner(source, id);  // Another process may have deleted the winner in the meantime.
        if (is_gone) return std::nullopt;
        const std::string wrong = row ? *row->wrong : "the class, device or template that it names is not there";
        const std::string which = "row " + std::to_string(id) + ": " + wrong;
        if (user.invalid) {
            user.invalid(which);
        } else {
            log.add({WarningKind::invalid_row,
                     "database " + path() + " holds a winner that is not valid (" + which + "); it is not used"});
        }
        return std::nullopt;
    }
};

Store::Store(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Store::~Store() = default;
Store::Store(Store&&) noexcept = default;
Store& Store::operator=(Store&&) noexcept = default;

Store Store::open(const OpenOptions& options) {
    return Store(std::make_unique<Impl>(options));
}

std::unique_ptr<WinnerStore> open_store(const OpenOptions& options) {
    return std::make_unique<Store>(Store::open(options));
}

std::vector<Winner> Store::find(const Problem& problem, const DeviceIdentity& device) const {
    const ProblemKey problem_key = problem_key_of(problem, device);
    std::vector<Winner> winners = impl_->load_all(problem_key);
    for (Winner& winner : impl_->shipped.find(problem_key)) winners.push_back(std::move(winner));
    return winners;
}

std::vector<Winner> Store::near(const Problem& problem, const DeviceIdentity& device, std::size_t limit) const {
    const ProblemKey problem_key = problem_key_of(problem, device);
    return impl_->reading([&](Connection& source) { return impl_->nearest(source, problem_key, limit, Cards::this_card); });
}

std::vector<Winner> Store::near_of_other_cards(const Problem& problem, const DeviceIdentity& device, std::size_t limit) const {
    const ProblemKey problem_key = problem_key_of(problem, device);
    return impl_->reading([&](Connection& source) { return impl_->nearest(source, problem_key, limit, Cards::like_this_card); });
}

void Store::put(const Winner& winner) {
    put_all({&winner, 1});
}

void Store::put_all(std::span<const Winner> winners) {
    std::vector<Winner> rows;
    for (const Winner& winner : winners) {
        rows.push_back(records::tidied(winner));
        if (auto why = records::why_invalid(rows.back())) {
            throw database_error(path(), "cannot take a winner (" + *why + ")",
                                 "internal error: invalid row, nothing was stored");
        }
    }
    impl_->write([&rows](Connection& connection) {
        for (const Winner& row : rows) write_winner(connection, row);
    });
}

std::vector<Winner> Store::list(const Filter& filter) const {
    std::vector<Winner> rows;
    scan(filter, [&](const Winner& winner) {
        rows.push_back(winner);
        return true;
    });
    return rows;
}

void Store::scan(const Filter& filter, const std::function<bool(const Winner&)>& use) const {
    std::size_t given = 0;
    const auto count_and_use = [&](const Winner& winner) {
        ++given;
        return use(winner);
    };
    if (!impl_->hand_over(impl_->ids(filter), {.detail = Detail::brief, .use = count_and_use}) || given >= filter.limit) return;
    Filter rest = filter;
    rest.limit = filter.limit - given;
    for (Winner& winner : impl_->shipped.list(rest)) {
        winner.evidence.finalists.clear();
        winner.evidence.failures.clear();
        if (!use(winner)) return;
    }
}

std::vector<Winner> Store::list_shipped(const Filter& filter) const {
    return impl_->shipped.list(filter);
}

std::int64_t Store::count(const Filter& filter) const {
    return impl_->reading([&](Connection& source) { return count_of(source, filter); }) + impl_->shipped.count(filter);
}

void Store::for_each(const Filter& filter, const std::function<bool(const Winner&)>& use) const {
    impl_->hand_over(impl_->ids(filter), {.use = use});
}

void Store::for_each_oldest_first(const Filter& filter, const std::function<bool(const Winner&)>& use,
                                  const std::function<void(const std::string&)>& invalid) const {
    std::vector<std::int64_t> ids = impl_->ids(filter);
    std::reverse(ids.begin(), ids.end());
    impl_->hand_over(ids, {.detail = Detail::full, .use = use, .invalid = invalid});
}

std::optional<Winner> Store::same_key(const Winner& winner) const {
    for (Winner& ours : impl_->load_all(problem_key_of(winner))) {
        const bool same_family = ours.candidate.family == winner.candidate.family;
        const bool same_search = ours.restricted_to == winner.restricted_to;
        if (same_family && same_search && ours.template_identity == winner.template_identity) return std::move(ours);
    }
    return std::nullopt;
}

std::int64_t Store::remove(const Filter& filter) {
    std::int64_t removed = 0;
    impl_->write([&](Connection& connection) { removed = remove_matching(connection, filter); });
    return removed;
}

void Store::record(const Problem& problem, const DeviceIdentity& device, const StoredTrial& trial) {
    impl_->use();
    PendingTrial next{.problem_key = problem_key_of(problem, device), .trial = trial, .date = utc_now()};
    if (auto why = why_invalid(next.problem_key, trial)) {
        throw database_error(path(), "cannot take a trial (" + *why + ")", "internal error: invalid row, nothing was stored");
    }
    impl_->trials.add(std::move(next));
}

bool Store::flush() {
    impl_->settle();
    return impl_->trials.flush();
}

std::vector<StoredTrial> Store::trials(const Problem& problem, const DeviceIdentity& device) const {
    impl_->settle();
    impl_->trials.flush_now();
    int skipped = 0;
    std::vector<StoredTrial> found = impl_->reading([&](Connection& source) {
        skipped = 0;
        return read_trials(source, problem_key_of(problem, device), skipped);
    });
    for (StoredTrial& trial : found) bring_up_to_date(trial, impl_->former);
    if (skipped > 0) {
        impl_->log.add({WarningKind::invalid_row, "database " + path() + " holds " + std::to_string(skipped) +
                                                      " trials that are not valid; they are not used"});
    }
    return found;
}

void Store::record_misses(std::span<const Miss> misses) {
    impl_->write([&](Connection& connection) { db::count_misses(connection, misses); });
}

void Store::forget_misses(std::span<const Problem> problems, const DeviceIdentity& device) {
    impl_->write([&](Connection& connection) {
        for (const Problem& problem : problems)
            remove_miss(connection, find_row_keys(connection, problem_key_of(problem, device)));
    });
}

std::vector<MissRow> Store::misses(std::size_t limit) const {
    return impl_->reading([&](Connection& source) { return read_misses(source, limit); });
}

std::int64_t Store::count_misses() const {
    return impl_->reading([](Connection& source) { return number_of_misses(source); });
}

std::vector<CostCorrection> Store::corrections(const std::string& device_key, const std::string& class_key) const {
    int skipped = 0;
    std::vector<CostCorrection> found = impl_->reading([&](Connection& source) {
        skipped = 0;
        return read_corrections(source, device_key, class_key, skipped);
    });
    if (skipped > 0)
        impl_->log.add({WarningKind::invalid_row, "database " + path() + " holds " + std::to_string(skipped) +
                                                      " corrections of cost models that are not valid; they are not used"});
    return found;
}

void Store::put_corrections(std::span<const CostCorrection> corrections) {
    for (const CostCorrection& one : corrections)
        if (const auto why = records::why_invalid(one))
            throw database_error(path(), "cannot take a correction of a cost model (" + *why + ")",
                                 "internal error: invalid row, nothing was stored");
    impl_->write([&](Connection& connection) {
        for (const CostCorrection& one : corrections) write_correction(connection, one);
    });
}

const std::string& Store::path() const {
    return impl_->path();
}

std::string Store::describe() const {
    return impl_->reading([](Connection& source) { return describe_database(source); });
}

FileHealth Store::check() const {
    return impl_->reading([](Connection& source) { return health_of(source); });
}

std::string WinnerStore::verify_integrity() const {
    const FileHealth health = check();
    if (!health.damage.empty()) return health.damage;
    return health.is_sound() ? "" : health.example;
}

RepairReport Store::repair() {
    if (check().is_sound()) return {};
    RepairReport report{.backup = back_up(impl_->use(), path() + ".repair.backup")};
    impl_->write([&](Connection& connection) {
        report.orphans = remove_orphans(connection);
        report.invalid = remove_invalid(connection);
    });
    return report;
}

std::vector<Warning> Store::warnings() const {
    return impl_->log.all();
}

bool Store::is_read_only() const {
    return impl_->file.is_read_only();
}

}  // namespace autotune::db
