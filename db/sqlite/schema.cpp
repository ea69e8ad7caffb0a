#include "db/sqlite/schema.h"

#include <array>
#include <string_view>

#include "db/sqlite/failure.h"
#include "db/sqlite/files.h"
#include "db/sqlite/orphans.h"
#include "src/core/error.h"

namespace autotune::db {
namespace {

// Schema 1. Frozen: files made with it must still migrate, so changes are made in later steps.
//
// Each class of problems, device and template is stored once and referred to by number: 100,000 winners take a third of the
// space, and counting or filtering them reads an index of some 12 bytes per row. e0..e7 are the extents in the order of
// extent_names; configs are canonical text of integers ("block_m=128 stages=3"), failures likewise ("crashed=1 timed_out=2").
constexpr const char* kStep1 = R"sql(
CREATE TABLE problem_class(
    id INTEGER PRIMARY KEY, op TEXT NOT NULL, class_key TEXT NOT NULL, extent_names TEXT NOT NULL,
    UNIQUE(class_key, extent_names)) STRICT;
CREATE TABLE device(
    id INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE, cc_major INTEGER NOT NULL, cc_minor INTEGER NOT NULL,
    sm_count INTEGER NOT NULL, l2_mib INTEGER NOT NULL, memory_gib INTEGER NOT NULL, bus_bits INTEGER NOT NULL) STRICT;
CREATE TABLE template(
    id INTEGER PRIMARY KEY, family TEXT NOT NULL, identity TEXT NOT NULL, UNIQUE(identity, family)) STRICT;
CREATE TABLE winner(
    id INTEGER PRIMARY KEY,
    class_id INTEGER NOT NULL REFERENCES problem_class(id), device_id INTEGER NOT NULL REFERENCES device(id),
    e0 INTEGER NOT NULL, e1 INTEGER NOT NULL, e2 INTEGER NOT NULL, e3 INTEGER NOT NULL,
    e4 INTEGER NOT NULL, e5 INTEGER NOT NULL, e6 INTEGER NOT NULL, e7 INTEGER NOT NULL,
    template_id INTEGER NOT NULL REFERENCES template(id), config TEXT NOT NULL,
    median_us REAL NOT NULL CHECK(median_us > 0), low_us REAL NOT NULL, high_us REAL NOT NULL, min_us REAL NOT NULL,
    samples INTEGER NOT NULL,
    registers INTEGER NOT NULL, spill_bytes INTEGER NOT NULL, static_smem_bytes INTEGER NOT NULL,
    wgmma_serialised INTEGER NOT NULL, setmaxnreg_ignored INTEGER NOT NULL, compile_ms REAL NOT NULL,
    cubin_bytes INTEGER NOT NULL,
    driver TEXT NOT NULL, nvrtc TEXT NOT NULL, device_name TEXT NOT NULL, method TEXT NOT NULL, tool_version TEXT NOT NULL,
    date TEXT NOT NULL) STRICT;
CREATE UNIQUE INDEX winner_key ON winner(class_id, device_id, e0, e1, e2, e3, e4, e5, e6, e7, template_id);
CREATE INDEX winner_place ON winner(class_id, device_id);
CREATE TABLE evidence(
    winner_id INTEGER PRIMARY KEY REFERENCES winner(id) ON DELETE CASCADE,
    rounds INTEGER NOT NULL, decided_by TEXT NOT NULL, max_error REAL, space_legal INTEGER NOT NULL, tried INTEGER NOT NULL,
    failed INTEGER NOT NULL, seconds REAL NOT NULL, compile_seconds REAL NOT NULL, verify_seconds REAL NOT NULL,
    measure_seconds REAL NOT NULL, stopped_by TEXT NOT NULL, seed INTEGER NOT NULL,
    sm_clock_mhz INTEGER, power_w INTEGER, temperature_c INTEGER, throttle_reasons INTEGER, failures TEXT NOT NULL) STRICT;
CREATE TABLE finalist(
    winner_id INTEGER NOT NULL REFERENCES winner(id) ON DELETE CASCADE, position INTEGER NOT NULL, name TEXT NOT NULL,
    family TEXT NOT NULL, config TEXT NOT NULL,
    median_us REAL NOT NULL, low_us REAL NOT NULL, high_us REAL NOT NULL, min_us REAL NOT NULL, samples INTEGER NOT NULL,
    ratio REAL NOT NULL, ratio_low REAL NOT NULL, ratio_high REAL NOT NULL, tie INTEGER NOT NULL,
    PRIMARY KEY(winner_id, position)) STRICT, WITHOUT ROWID;
CREATE TABLE trial(
    id INTEGER PRIMARY KEY,
    class_id INTEGER NOT NULL REFERENCES problem_class(id), device_id INTEGER NOT NULL REFERENCES device(id),
    e0 INTEGER NOT NULL, e1 INTEGER NOT NULL, e2 INTEGER NOT NULL, e3 INTEGER NOT NULL,
    e4 INTEGER NOT NULL, e5 INTEGER NOT NULL, e6 INTEGER NOT NULL, e7 INTEGER NOT NULL,
    template_id INTEGER NOT NULL REFERENCES template(id), nvrtc TEXT NOT NULL, config TEXT NOT NULL, status TEXT NOT NULL,
    median_us REAL, low_us REAL, high_us REAL, min_us REAL, samples INTEGER, max_error REAL,
    registers INTEGER NOT NULL, spill_bytes INTEGER NOT NULL, static_smem_bytes INTEGER NOT NULL,
    wgmma_serialised INTEGER NOT NULL, setmaxnreg_ignored INTEGER NOT NULL, compile_ms REAL NOT NULL,
    cubin_bytes INTEGER NOT NULL, detail TEXT NOT NULL, date TEXT NOT NULL) STRICT;
CREATE UNIQUE INDEX trial_key ON trial(class_id, device_id, e0, e1, e2, e3, e4, e5, e6, e7, template_id, nvrtc, config);
)sql";

// Schema 2: adds the power limit to the soft key, and the table of misses, the problems without a winner that library calls
// record.
constexpr const char* kStep2 = R"sql(
ALTER TABLE winner ADD COLUMN power_limit_w INTEGER NOT NULL DEFAULT 0;
CREATE TABLE miss(
    id INTEGER PRIMARY KEY,
    class_id INTEGER NOT NULL REFERENCES problem_class(id), device_id INTEGER NOT NULL REFERENCES device(id),
    e0 INTEGER NOT NULL, e1 INTEGER NOT NULL, e2 INTEGER NOT NULL, e3 INTEGER NOT NULL,
    e4 INTEGER NOT NULL, e5 INTEGER NOT NULL, e6 INTEGER NOT NULL, e7 INTEGER NOT NULL,
    shape TEXT NOT NULL, date TEXT NOT NULL, count INTEGER NOT NULL) STRICT;
CREATE UNIQUE INDEX miss_key ON miss(class_id, device_id, e0, e1, e2, e3, e4, e5, e6, e7);
)sql";

// Schema 3: a winner may be in doubt, and numbers of classes, devices and templates are never reused. If another program deletes
// such a row, winners that refer to it remain: they must not become winners of the next template.
constexpr const char* kStep3 = R"sql(
ALTER TABLE winner ADD COLUMN doubt TEXT NOT NULL DEFAULT '';
CREATE TABLE new_problem_class(
    id INTEGER PRIMARY KEY AUTOINCREMENT, op TEXT NOT NULL, class_key TEXT NOT NULL, extent_names TEXT NOT NULL,
    UNIQUE(class_key, extent_names)) STRICT;
INSERT INTO new_problem_class(id, op, class_key, extent_names) SELECT id, op, class_key, extent_names FROM problem_class;
DROP TABLE problem_class;
ALTER TABLE new_problem_class RENAME TO problem_class;
CREATE TABLE new_device(
    id INTEGER PRIMARY KEY AUTOINCREMENT, key TEXT NOT NULL UNIQUE, cc_major INTEGER NOT NULL, cc_minor INTEGER NOT NULL,
    sm_count INTEGER NOT NULL, l2_mib INTEGER NOT NULL, memory_gib INTEGER NOT NULL, bus_bits INTEGER NOT NULL) STRICT;
INSERT INTO new_device(id, key, cc_major, cc_minor, sm_count, l2_mib, memory_gib, bus_bits)
    SELECT id, key, cc_major, cc_minor, sm_count, l2_mib, memory_gib, bus_bits FROM device;
DROP TABLE device;
ALTER TABLE new_device RENAME TO device;
CREATE TABLE new_template(
    id INTEGER PRIMARY KEY AUTOINCREMENT, family TEXT NOT NULL, identity TEXT NOT NULL, UNIQUE(identity, family)) STRICT;
INSERT INTO new_template(id, family, identity) SELECT id, family, identity FROM template;
DROP TABLE template;
ALTER TABLE new_template RENAME TO template;
)sql";

// Schema 4: times measured in addition to the deciding one, and how a trial was measured.
constexpr const char* kStep4 = R"sql(
ALTER TABLE finalist ADD COLUMN after_itself_us REAL;
ALTER TABLE finalist ADD COLUMN after_trigger_us REAL;
ALTER TABLE finalist ADD COLUMN sm_clock_mhz INTEGER;
ALTER TABLE finalist ADD COLUMN power_w INTEGER;
ALTER TABLE evidence ADD COLUMN accumulation_error REAL;
ALTER TABLE trial ADD COLUMN method TEXT NOT NULL DEFAULT '';
)sql";

// Schema 5: the candidates that served problems without a winner, and winners of restricted searches. Those have rows of their
// own, next to the winners of full searches, because neither may replace the other.
constexpr const char* kStep5 = R"sql(
ALTER TABLE miss ADD COLUMN origin TEXT NOT NULL DEFAULT '';
ALTER TABLE winner ADD COLUMN restricted_to TEXT NOT NULL DEFAULT '';
DROP INDEX winner_key;
CREATE UNIQUE INDEX winner_key ON winner(class_id, device_id, e0, e1, e2, e3, e4, e5, e6, e7, template_id, restricted_to);
)sql";

// Schema 6: the gain that a search still expected when it ended, and the cost models' errors learned from trials. `learning`
// refers to no other table: deleting all or some of its rows resets what was learned and leaves no orphans.
constexpr const char* kStep6 = R"sql(
ALTER TABLE evidence ADD COLUMN expected_gain REAL;
CREATE TABLE learning(
    device TEXT NOT NULL, family TEXT NOT NULL, template TEXT NOT NULL, nvrtc TEXT NOT NULL, class TEXT NOT NULL,
    problems INTEGER NOT NULL, trials INTEGER NOT NULL, deviation REAL NOT NULL, effects TEXT NOT NULL, date TEXT NOT NULL,
    PRIMARY KEY(device, family, template, nvrtc, class)) STRICT, WITHOUT ROWID;
)sql";

// Schema 7: verdicts, which compare our kernels with another library's in a caller's program (autotune.torch's tune() finds
// them). `problem` is text in the caller's form. Rows refer to no other table.
constexpr const char* kStep7 = R"sql(
CREATE TABLE verdict(
    id INTEGER PRIMARY KEY, problem TEXT NOT NULL, device TEXT NOT NULL, rival TEXT NOT NULL,
    in_stream REAL NOT NULL CHECK(in_stream > 0), in_graphs REAL NOT NULL CHECK(in_graphs > 0), date TEXT NOT NULL) STRICT;
CREATE UNIQUE INDEX verdict_key ON verdict(problem, device, rival);
)sql";

// A new file runs all these steps, so a new file and a migrated one cannot differ.
struct Step {
    const char* sql;
    const char* stamp;  // a pragma takes no parameter
};
constexpr std::array<Step, 7> kSteps = {{{kStep1, "PRAGMA user_version = 1"},
                                         {kStep2, "PRAGMA user_version = 2"},
                                         {kStep3, "PRAGMA user_version = 3"},
                                         {kStep4, "PRAGMA user_version = 4"},
                                         {kStep5, "PRAGMA user_version = 5"},
                                         {kStep6, "PRAGMA user_version = 6"},
                                         {kStep7, "PRAGMA user_version = 7"}}};
constexpr const char* kStampApplication = "PRAGMA application_id = 1096045902";
static_assert(kApplicationId == 1096045902);

std::int64_t number(Connection& connection, std::string_view sql) {
    Query query = connection.query(sql);
    return query.next() ? query.integer() : 0;
}

std::int64_t user_version(Connection& connection) {
    return number(connection, "PRAGMA user_version");
}

// SQLite treats a file of one byte as empty, and would overwrite it.
bool is_blank(Connection& connection) {
    return size_of(connection.path()) == 0 && number(connection, "PRAGMA application_id") == 0 && user_version(connection) == 0 &&
           number(connection, "SELECT count(*) FROM sqlite_schema") == 0;
}

void require_ours(Connection& connection) {
    const std::int64_t id = number(connection, "PRAGMA application_id");
    if (id == 0) throw database_error(connection.path(), "is not a database of autotune", kChooseAnother);
    if (id != kApplicationId) {
        throw database_error(connection.path(), "belongs to another program (application_id " + std::to_string(id) + ")",
                             kChooseAnother);
    }
    const std::int64_t version = user_version(connection);
    if (version < 1) throw database_error(connection.path(), "has no schema version", kMoveAway);
    if (version > schema_version()) {
        throw database_error(connection.path(),
                             "was written by a newer autotune (schema " + std::to_string(version) + ", this one knows " +
                                 std::to_string(schema_version()) + ")",
                             "upgrade autotune, or choose another file with --db or AUTOTUNE_DB");
    }
}

// SQLite itself notices when whole pages are missing at the end, but not when part of the last one is. REQUIRES: a snapshot,
// which keeps writers away.
void require_whole_pages(Connection& connection) {
    const std::int64_t page_bytes = number(connection, "PRAGMA page_size");
    if (page_bytes > 0 && size_of(connection.path()) % page_bytes == 0) return;
    throw database_error(connection.path(), "is damaged (its last page is cut)", kMoveAway);
}

void require_schema(Connection& connection) {
    const std::uint64_t fingerprint = schema_fingerprint(connection);
    // Another version of SQLite may word ALTER TABLE's result differently. Then expected_fingerprint() runs the steps in memory
    // and hashes what comes out (0.6 ms).
    if (fingerprint == kFingerprint || fingerprint == expected_fingerprint()) return;
    throw database_error(
        connection.path(),
        "does not have the tables and columns of schema " + std::to_string(schema_version()) + " (changed by hand or damaged)",
        kMoveAway);
}

// Leaves WAL mode, which another program has set, because SQLite before 3.51.3 can lose commits in it.
void leave_wal(Connection& connection) {
    if (connection.is_read_only()) return;
    const std::string mode = [&] {
        Query query = connection.query("PRAGMA journal_mode");
        return query.next() ? query.text() : std::string();
    }();
    if (mode == "wal") connection.run("PRAGMA journal_mode=DELETE");
}

// A step that replaces a table must not delete the rows that refer to it. SQLite accepts the switch only outside transactions.
class LooseForeignKeys {
  public:
    explicit LooseForeignKeys(Connection& connection) : connection_(connection) { connection_.run("PRAGMA foreign_keys=OFF"); }
    ~LooseForeignKeys() {
        try {
            connection_.run("PRAGMA foreign_keys=ON");
        } catch (...) {
            // Nothing to do: the migration has failed, and the connection will be closed without another write.
        }
    }
    LooseForeignKeys(const LooseForeignKeys&) = delete;
    LooseForeignKeys& operator=(const LooseForeignKeys&) = delete;

  private:
    Connection& connection_;
};

void initialise(Connection& connection) {
    connection.run("PRAGMA journal_mode=DELETE");
    const LooseForeignKeys loose(connection);
    Transaction transaction(connection);
    if (is_blank(connection)) {  // another process may have created the schema first
        for (const Step& step : kSteps) {
            connection.run(step.sql);
            connection.run(step.stamp);
        }
        connection.run(kStampApplication);
    }
    transaction.commit();
}

// REQUIRES: the connection is in a transaction, with foreign keys off.
void run_steps(Connection& connection, int version) {
    for (auto at = static_cast<std::size_t>(user_version(connection)); at < static_cast<std::size_t>(version); ++at) {
        connection.run(kSteps.at(at).sql);
        connection.run(kSteps.at(at).stamp);
    }
    connection.run(kStampApplication);
    // Older schemas reused row numbers, so an orphan could join a new row.
    if (version == schema_version()) remove_orphans(connection);
}

// Copies what was committed before, through another connection, because SQLite cannot copy through a connection that is in a
// transaction.
void copy_to(Connection& connection, const std::string& target) {
    if (!connection.in_transaction()) {
        connection.query("VACUUM INTO ?1").bind(target).run();
        return;
    }
    ConnectionOptions options = connection.options();
    options.read_only = true;
    Connection reader(options);
    reader.query("VACUUM INTO ?1").bind(target).run();
}

// Takes the lock first, so that of two processes that open the file only one makes the backup and migrates it. Returns the
// backup's name, or "" if another process was first.
std::string migrate_with_backup(Connection& connection) {
    const LooseForeignKeys loose(connection);
    Transaction transaction(connection);
    const std::int64_t version = user_version(connection);
    if (version >= schema_version()) return {};
    const std::string name = connection.path() + ".schema" + std::to_string(version) + ".backup";
    std::string backup = back_up(connection, name);
    try {
        run_steps(connection, schema_version());
        transaction.commit();
    } catch (...) {
        // The failure has rolled the file back to its former state. Only the first backup stays, because a backup for each try
        // would fill the disk.
        if (backup != name) remove_file(backup);
        throw;
    }
    return backup;
}

enum class State { blank, older, current };

// Throws Error{database} if the file is in none of these states.
State look_at(Connection& connection) {
    const Snapshot snapshot(connection);
    if (is_blank(connection)) return State::blank;
    require_ours(connection);
    require_whole_pages(connection);
    if (user_version(connection) < schema_version()) return State::older;
    require_schema(connection);
    return State::current;
}

}  // namespace

int schema_version() {
    return static_cast<int>(kSteps.size());
}

void migrate(Connection& connection, int version) {
    const LooseForeignKeys loose(connection);
    Transaction transaction(connection);
    run_steps(connection, version);
    transaction.commit();
}

std::string back_up(Connection& connection, const std::string& name) {
    std::string target = new_private_file(name);
    try {
        copy_to(connection, target);
    } catch (...) {
        remove_file(target);
        throw;
    }
    return target;
}

std::string back_up_again(Connection& connection, const std::string& name) {
    const std::string part = name + ".part";
    remove_file(part);  // A killed process left this file. This process holds the lock, so no other process is writing the file.
    const std::string copy = back_up(connection, part);
    replace_file(copy, name);
    return name;
}

std::string prepare_schema(Connection& connection) {
    State state = look_at(connection);
    if (state == State::blank) {
        if (connection.is_read_only()) {
            throw database_error(connection.path(), "is empty",
                                 "open it once for writing, or choose another file with --db or AUTOTUNE_DB");
        }
        initialise(connection);
        state = look_at(connection);
    }
    leave_wal(connection);
    if (state == State::current) return {};
    if (connection.is_read_only()) {
        throw database_error(connection.path(), "has the older schema " + std::to_string(user_version(connection)),
                             "open it once for writing, which migrates it after a backup");
    }
    std::string backup = migrate_with_backup(connection);
    look_at(connection);
    return backup;
}

std::uint64_t schema_fingerprint(Connection& connection) {
    Query query = connection.query(
        "SELECT type, name, coalesce(sql, '') FROM sqlite_schema WHERE name NOT GLOB 'sqlite_*' ORDER BY type, name");
    std::uint64_t hash = 14695981039346656037ULL;  // FNV-1a detects accidental changes only; rows are also validated one by one.
    while (query.next()) {
        for (int column = 0; column < 3; ++column) {
            for (const char letter : query.text() + '\n') hash = (hash ^ static_cast<unsigned char>(letter)) * 1099511628211ULL;
        }
    }
    return hash;
}

std::uint64_t expected_fingerprint() {
    Connection connection({.path = kMemory});
    migrate(connection, schema_version());
    return schema_fingerprint(connection);
}

}  // namespace autotune::db
