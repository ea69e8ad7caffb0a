#include "db/store.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>

#include "db/failure.h"
#include "db/files.h"
#include "db/integrity.h"
#include "db/listing.h"
#include "db/matching.h"
#include "db/rows.h"
#include "db/schema.h"
#include "db/shipped.h"
#include "db/sqlite_handle.h"
#include "db/trials.h"

namespace autotune::db {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kBatchRows = 64;
constexpr std::chrono::milliseconds kBatchTime{250};
// Trials are committed one by one as long as commits take less than a fiftieth of the time: 1 ms each on a local disk, with
// trials of 100 ms, is one.
constexpr int kCommitShare = 50;
constexpr std::size_t kMaxWarnings = 100;

// What the tuner itself writes is cleaned, not refused: a driver's name for a device is not its fault.
Winner tidied(Winner winner) {
    winner.device.name = cleaned(winner.device.name);
    Provenance& from = winner.provenance;
    for (std::string* text : {&from.driver, &from.nvrtc, &from.device_name, &from.method, &from.tool_version, &from.date}) {
        *text = cleaned(*text);
    }
    Evidence& evidence = winner.evidence;
    evidence.decided_by = cleaned(evidence.decided_by);
    evidence.stopped_by = cleaned(evidence.stopped_by);
    if (evidence.finalists.size() > kMaxFinalists) evidence.finalists.resize(kMaxFinalists);
    for (Finalist& finalist : evidence.finalists) finalist.name = cleaned(finalist.name, kMaxDetail);
    return winner;
}

}  // namespace

struct Store::Impl {
    OpenOptions options;
    Shipped shipped;
    std::vector<std::string> warnings;
    std::unique_ptr<Connection> connection;
    pid_t owner = ::getpid();
    std::vector<PendingTrial> pending;
    Clock::time_point last_commit{};
    Clock::duration commit_cost{};

    explicit Impl(const OpenOptions& wanted) : options(wanted), shipped(wanted.shipped) { connect(); }
    ~Impl() { leave(); }
    Impl(const Impl&) = delete;
    Impl& operator=(const Impl&) = delete;

    void connect() {
        const bool read_only = options.read_only && options.path != kMemory;  // an empty one in memory is of no use
        for (std::string& text : prepare_path({.path = options.path, .read_only = read_only, .create = options.create}))
            warn(text);
        connection = std::make_unique<Connection>(
            ConnectionOptions{.path = options.path, .read_only = read_only, .busy_timeout_ms = options.busy_timeout_ms});
        if (connection->is_read_only() && !read_only) {
            throw database_error(options.path, "cannot be written", "fix its permissions, or open it read-only");
        }
        const std::string backup = prepare_schema(*connection);
        if (!backup.empty()) warn("database " + options.path + " was migrated; what it was before is in " + backup);
    }

    void warn(const std::string& text) {
        const bool is_known = std::find(warnings.begin(), warnings.end(), text) != warnings.end();
        if (!is_known && warnings.size() < kMaxWarnings) warnings.push_back(text);
    }

    bool is_forked_child() const { return owner != ::getpid() && options.path != kMemory; }

    // The handle, this process's own: a forked child forgets its parent's, with the trials that the parent will write.
    Connection& use() {
        if (is_forked_child()) {
            if (connection) connection->abandon();
            connection.reset();
            pending.clear();
            connect();
            owner = ::getpid();
        }
        if (!connection) connect();
        return *connection;
    }

    void leave() noexcept {
        try {
            if (is_forked_child()) {
                if (connection) connection->abandon();
            } else if (connection) {
                flush();
            }
        } catch (...) {
            // A destructor does not throw. Who must know whether trials are stored calls flush().
        }
    }

    template <class Body>
    void write(const Body& body) {
        Connection& target = use();
        const auto start = Clock::now();
        Transaction transaction(target);
        for (const PendingTrial& trial : pending) write_trial(target, trial);
        body(target);
        transaction.commit();
        pending.clear();
        last_commit = Clock::now();
        commit_cost = last_commit - start;
    }

    void flush() {
        use();
        if (!pending.empty()) write([](Connection&) {});
    }

    bool is_batch_due() const {
        const auto pause = std::min<Clock::duration>(kBatchTime, commit_cost * kCommitShare);
        return pending.size() >= kBatchRows || Clock::now() - last_commit >= pause;
    }

    // Which: a Subject or a Filter.
    template <class Which>
    std::vector<Winner> load_all(const Which& which, Detail detail) {
        Connection& source = use();
        const Snapshot snapshot(source);  // one lock for all reads
        std::vector<Winner> winners;
        for (const std::int64_t id : ids_of(source, which)) {
            if (auto winner = load(id, detail)) winners.push_back(std::move(*winner));
        }
        return winners;
    }

    void hand_over(const std::vector<std::int64_t>& ids, const std::function<bool(const Winner&)>& user) {
        for (const std::int64_t id : ids) {
            const auto winner = load(id, Detail::full);
            if (winner && !user(*winner)) return;
        }
    }

    std::optional<Winner> load(std::int64_t id, Detail detail) {
        auto row = read_winner(use(), id, detail);
        if (!row) return std::nullopt;
        if (row->wrong) {
            warn("database " + options.path + " holds a winner that is not valid (row " + std::to_string(id) + ": " +
                 *row->wrong + "); it is not used");
            return std::nullopt;
        }
        return std::move(row->winner);
    }
};

Store::Store(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Store::~Store() = default;
Store::Store(Store&&) noexcept = default;
Store& Store::operator=(Store&&) noexcept = default;

Store Store::open(const OpenOptions& options) {
    return Store(std::make_unique<Impl>(options));
}

std::vector<Winner> Store::find(const Problem& problem, const DeviceIdentity& device) const {
    const Subject subject = subject_of(problem, device);
    std::vector<Winner> winners = impl_->load_all(subject, Detail::full);
    for (Winner& winner : impl_->shipped.find(subject)) winners.push_back(std::move(winner));
    return winners;
}

std::vector<Winner> Store::near(const Problem& problem, const DeviceIdentity& device, std::size_t limit) const {
    const Subject subject = subject_of(problem, device);
    struct Ranked {
        double distance;
        std::int64_t id;        // of a row, or
        const Winner* shipped;  // of the layer beneath
    };
    std::vector<Ranked> ranked;
    Connection& source = impl_->use();
    const Snapshot snapshot(source);
    for (const auto& [id, distance] : distances_of(source, subject)) ranked.push_back({distance, id, nullptr});
    const std::vector<Winner> shipped = impl_->shipped.of_class(subject);
    for (const Winner& winner : shipped) {
        if (winner.extents != subject.extents) ranked.push_back({log_distance(winner.extents, subject.extents), 0, &winner});
    }
    std::stable_sort(ranked.begin(), ranked.end(), [](const Ranked& a, const Ranked& b) { return a.distance < b.distance; });
    std::vector<Winner> winners;
    for (const Ranked& next : ranked) {
        if (winners.size() >= limit) break;
        if (next.shipped != nullptr) {
            winners.push_back(*next.shipped);
        } else if (auto winner = impl_->load(next.id, Detail::full)) {
            winners.push_back(std::move(*winner));
        }
    }
    return winners;
}

void Store::put(const Winner& winner) {
    put_all({&winner, 1});
}

void Store::put_all(std::span<const Winner> winners) {
    std::vector<Winner> rows;
    for (const Winner& winner : winners) {
        rows.push_back(tidied(winner));
        if (auto why = why_invalid(rows.back())) {
            throw database_error(path(), "cannot take a winner (" + *why + ")",
                                 "this is a bug of whoever made it, nothing was stored");
        }
    }
    impl_->write([&rows](Connection& connection) {
        for (const Winner& row : rows) write_winner(connection, row);
    });
}

std::vector<Winner> Store::list(const Filter& filter) const {
    std::vector<Winner> rows = impl_->load_all(filter, Detail::brief);
    if (rows.size() >= filter.limit) return rows;
    Filter rest = filter;
    rest.limit = filter.limit - rows.size();
    for (Winner& winner : impl_->shipped.list(rest)) {
        winner.evidence.finalists.clear();
        winner.evidence.failures.clear();
        rows.push_back(std::move(winner));
    }
    return rows;
}

std::vector<Winner> Store::list_shipped(const Filter& filter) const {
    return impl_->shipped.list(filter);
}

std::int64_t Store::count(const Filter& filter) const {
    return count_of(impl_->use(), filter) + impl_->shipped.count(filter);
}

void Store::for_each(const Filter& filter, const std::function<bool(const Winner&)>& use) const {
    impl_->hand_over(ids_of(impl_->use(), filter), use);
}

void Store::for_each_oldest_first(const Filter& filter, const std::function<bool(const Winner&)>& use) const {
    std::vector<std::int64_t> ids = ids_of(impl_->use(), filter);
    std::reverse(ids.begin(), ids.end());
    impl_->hand_over(ids, use);
}

std::optional<Winner> Store::same_key(const Winner& winner) const {
    for (Winner& ours : impl_->load_all(subject_of(winner), Detail::full)) {
        const bool same_family = ours.candidate.family == winner.candidate.family;
        if (same_family && ours.template_identity == winner.template_identity) return std::move(ours);
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
    PendingTrial next{.subject = subject_of(problem, device), .trial = trial, .date = utc_now()};
    if (auto why = why_invalid(next.subject, trial)) {
        throw database_error(path(), "cannot take a trial (" + *why + ")",
                             "this is a bug of whoever made it, nothing was stored");
    }
    impl_->pending.push_back(std::move(next));
    if (impl_->is_batch_due()) impl_->flush();
}

void Store::flush() {
    impl_->flush();
}

std::vector<StoredTrial> Store::trials(const Problem& problem, const DeviceIdentity& device) const {
    impl_->flush();
    int skipped = 0;
    std::vector<StoredTrial> found = read_trials(impl_->use(), subject_of(problem, device), skipped);
    if (skipped > 0)
        impl_->warn("database " + path() + " holds " + std::to_string(skipped) + " trials that are not valid; they are not used");
    return found;
}

void Store::record_miss(const Problem& problem, const DeviceIdentity& device) {
    const Subject subject = subject_of(problem, device);
    impl_->write([&](Connection& connection) { count_miss(connection, subject, problem.shape()); });
}

std::vector<MissRow> Store::misses() const {
    return read_misses(impl_->use());
}

const std::string& Store::path() const {
    return impl_->options.path;
}

std::string Store::describe() const {
    return describe_database(impl_->use());
}

std::string Store::verify_integrity() const {
    return integrity_of(impl_->use());
}

std::vector<std::string> Store::warnings() const {
    std::vector<std::string> all = impl_->warnings;
    all.insert(all.end(), impl_->shipped.warnings().begin(), impl_->shipped.warnings().end());
    return all;
}

}  // namespace autotune::db
