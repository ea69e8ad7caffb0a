#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "db/database_error.h"
#include "db/warning.h"
#include "src/core/former_templates.h"
#include "src/records/correction.h"
#include "src/records/winner.h"

namespace autotune::db {

using autotune::Evidence;
using autotune::Finalist;
using autotune::Provenance;
using autotune::StoredTrial;
using autotune::Winner;

// Selects rows for a listing; empty strings match all.
struct Filter {
    std::string op{};
    std::string class_key{};
    std::string device_key{};
    std::size_t limit = SIZE_MAX;
    std::vector<Extent> extents{};  // in the order of the problem; empty means all
};

// A problem for which a library call had no winner.
struct Miss {
    Problem problem;
    DeviceIdentity device;
    std::string origin{};    // the source of the kernel that served it: "portfolio", "near", "default" or "fallback"
    std::int64_t count = 1;  // calls
};

inline constexpr std::int64_t kMostMisses = 10'000;

struct MissRow {
    std::string problem_key{}, op{}, class_key{}, shape{}, device_key{}, date{};  // date: of the last call that was recorded
    std::string origin{};  // how the last call's kernel was found; empty: recorded before this column existed
    std::int64_t count = 0;
};

// A damaged file cannot be used. Orphaned or invalid rows are skipped, and repair() deletes them.
struct FileHealth {
    std::string damage{};      // a fault found by SQLite, or a device that does not match its key
    std::int64_t orphans = 0;  // rows that refer to missing rows, as deletions by other programs leave them
    std::int64_t invalid = 0;  // winners that the validators refuse
    std::string example{};     // the first of them
    bool is_sound() const { return damage.empty() && orphans == 0 && invalid == 0; }
};

struct RepairReport {
    std::int64_t orphans = 0;  // deleted
    std::int64_t invalid = 0;
    std::string backup{};  // path of a copy of the file before the repair; empty if nothing was deleted
};

struct OpenOptions {
    std::string path{};            // ":memory:" for tests
    bool read_only = false;        // never writes: for read-only media, and while another process writes
    bool create = true;            // whether to make the file and missing parent folders, accessible to their owner only (0700)
    int busy_timeout_ms = 10'000;  // the library uses 30
    std::vector<std::string> shipped{};  // JSONL files or folders of them: the read-only layer
    // If the file may not be written it is opened for reading, with a warning: put() then throws, and trials are not kept.
    bool or_read_only = false;
    // With read_only: a file that does not exist yet counts as empty, with a warning.
    bool missing_is_empty = false;
    // Rows of earlier versions that count as today's. They are rewritten once, after a backup, if the file is opened for writing;
    // otherwise, and in the shipped layer, they are converted when they are read.
    FormerTemplates former{};
    // Receives each of warnings() when it is found, in the middle of a call to the store: it must not call the store.
    std::function<void(const Warning&)> on_warning{};
};

// Stores what was learned: winners with their evidence, trials of every outcome, and the problems for which library calls had no
// winner. Not thread-safe: one store per thread. Every member may throw DatabaseError with the path, what is wrong and what to
// do, and std::bad_alloc; nothing else.
class WinnerStore {
  public:
    virtual ~WinnerStore() = default;

    // Winners for exactly this problem and device: the user's rows before shipped ones, newest first. The caller decides which
    // are valid (template identity known) and which are stale (Provenance). Invalid rows are skipped with a warning.
    virtual std::vector<Winner> find(const Problem& problem, const DeviceIdentity& device) const = 0;
    // Winners of the same op, class and device with other extents, nearest first: sum over extents of |log(a/b)|. Without
    // finalists and failures. Takes milliseconds among a million winners, because it reads only the thousand index entries around
    // them.
    virtual std::vector<Winner> near(const Problem& problem, const DeviceIdentity& device, std::size_t limit) const = 0;

    // Winners of cards with the same chip but other memory (src/core/problem/device_key.h), including winners of exactly this
    // problem.
    virtual std::vector<Winner> near_of_other_cards(const Problem& problem, const DeviceIdentity& device,
                                                    std::size_t limit) const = 0;

    // Replaces the row of the same problem, device and template identity in one durable transaction. Texts are cut to their
    // limits and cleaned of control characters. If a name or number is out of range it throws, and nothing is stored.
    virtual void put(const Winner& winner) = 0;
    // Stores all of them or none, in one transaction: for import and merge.
    virtual void put_all(std::span<const Winner> winners) = 0;
    // The user's rows, newest first, then shipped ones in the order of their files; without finalists and failures, for speed.
    // Reads no more than filter.limit of them. With extents in the filter it is as fast as find().
    virtual std::vector<Winner> list(const Filter& filter) const = 0;
    // Calls `use` with these rows one by one, in bounded memory, as long as it returns true. `use` may call the store, because no
    // lock is held while it runs.
    virtual void scan(const Filter& filter, const std::function<bool(const Winner&)>& use) const = 0;
    // Only the shipped rows.
    virtual std::vector<Winner> list_shipped(const Filter& filter) const = 0;
    // The number of rows that list() would return without a limit: from an index, and from shipped lines without parsing more
    // than the filter needs.
    virtual std::int64_t count(const Filter& filter) const = 0;
    // Like scan(), but only for the user's rows, finalists included, newest first.
    virtual void for_each(const Filter& filter, const std::function<bool(const Winner&)>& use) const = 0;
    // `invalid`, if given, receives the reason for each invalid row ("row 7: WHY") in place of a warning.
    virtual void for_each_oldest_first(const Filter& filter, const std::function<bool(const Winner&)>& use,
                                       const std::function<void(const std::string&)>& invalid = {}) const = 0;
    // The user's row that put(winner) would replace.
    virtual std::optional<Winner> same_key(const Winner& winner) const = 0;
    // Deletes the user's winners that match, and the trials of their problems; returns how many winners. Ignores filter.limit.
    virtual std::int64_t remove(const Filter& filter) = 0;

    // Records the outcome of a candidate; a later trial of the same candidate and NVRTC replaces it. Committed at once if trials
    // come slowly; if they come fast, in batches of at most 64 trials or 250 ms, and at the latest by flush(), put() and the
    // destructor. Call flush() before a long wait, so that kill -9 loses nothing that was recorded. If the file is locked, full
    // or read-only, neither throws: the trials wait in memory, with one warning, and flush() returns false.
    virtual void record(const Problem& problem, const DeviceIdentity& device, const StoredTrial& trial) = 0;
    virtual bool flush() = 0;
    // The trials of a problem in the order in which they were last recorded.
    virtual std::vector<StoredTrial> trials(const Problem& problem, const DeviceIdentity& device) const = 0;

    // Adds to the counts, all in one transaction. At most kMostMisses problems are kept: those with the most calls, and those of
    // this call. put() deletes the miss of its problem, unless the winner is in doubt or from a restricted search.
    virtual void record_misses(std::span<const Miss> misses) = 0;
    // Deletes the misses of problems that have a winner now.
    virtual void forget_misses(std::span<const Problem> problems, const DeviceIdentity& device) = 0;
    // Most calls first; among equals the latest first.
    virtual std::vector<MissRow> misses(std::size_t limit = SIZE_MAX) const = 0;
    virtual std::int64_t count_misses() const = 0;

    // The cost models' errors on a card, learned from its trials; for all classes of problems if `class_key` is empty. Invalid
    // rows are skipped with a warning.
    virtual std::vector<CostCorrection> corrections(const std::string& device_key, const std::string& class_key) const = 0;
    // Each replaces the one of the same card, family, template, NVRTC and class. Neither export nor merge includes them.
    virtual void put_corrections(std::span<const CostCorrection> corrections) = 0;

    virtual const std::string& path() const = 0;
    // Version of SQLite at run time, schema version, journal mode: for doctor.
    virtual std::string describe() const = 0;
    // Reads every row and returns the faults of the file.
    virtual FileHealth check() const = 0;
    // The faults in one sentence, or "" if there are none.
    std::string verify_integrity() const;
    // Deletes the rows that check() counts, in one transaction after a backup next to the file.
    virtual RepairReport repair() = 0;
    // Rows that were skipped, and other facts that a person should know, oldest first, each once. The tool prints them, the
    // library logs them.
    virtual std::vector<Warning> warnings() const = 0;
    // Whether put() always fails: the file was opened for reading, by request or because it may not be written.
    virtual bool is_read_only() const = 0;

  protected:
    WinnerStore() = default;
    WinnerStore(const WinnerStore&) = default;
    WinnerStore& operator=(const WinnerStore&) = default;
};

// Opens the store that the options name, an SQLite file. Throws DatabaseError, as Store::open() does.
std::unique_ptr<WinnerStore> open_store(const OpenOptions& options);

}  // namespace autotune::db
