#include "db/sqlite/open_file.h"

#include "db/sqlite/failure.h"
#include "db/sqlite/files.h"
#include "db/sqlite/schema.h"
#include "db/store/former_rows.h"

namespace autotune::db {

OpenFile::OpenFile(const OpenOptions& options, WarningLog& log)
    : options_(options),
      log_(log),
      // A read-only database in memory would have no rows, so it is opened for writing.
      read_only_(options.read_only && options.path != kMemory) {
    connect();
}

OpenFile::~OpenFile() {
    if (connection_ && is_forked_child()) connection_->abandon();
}

bool OpenFile::is_forked_child() const {
    return owner_ != ::getpid() && options_.path != kMemory;
}

Connection& OpenFile::use() {
    if (is_forked_child()) {
        if (connection_) connection_->abandon();
        connection_.reset();
        owner_ = ::getpid();
    }
    if (!connection_) connect();
    return *connection_;
}

void OpenFile::connect() {
    try {
        open_or_fall_back();
    } catch (const DatabaseError& error) {
        if (error.fault() != DatabaseFault::unfinished || !roll_back_unfinished()) throw;
        open_or_fall_back();
    }
}

void OpenFile::open_or_fall_back() {
    try {
        open_handle();
    } catch (const DatabaseError& error) {
        if (error.fault() != DatabaseFault::read_only || !options_.or_read_only || read_only_) throw;
        read_only_ = true;
        open_handle();
        log_.add({WarningKind::read_only, std::string(error.what()) + ". It is used as it is, nothing new is stored"});
    }
}

bool OpenFile::stands_in_for_missing() const {
    return read_only_ && options_.missing_is_empty && is_missing(options_.path);
}

void OpenFile::open_handle() {
    connection_.reset();
    if (stands_in_for_missing()) {
        log_.add({WarningKind::missing, "database " + options_.path + " does not exist yet; only shipped winners are known"});
        connection_ = std::make_unique<Connection>(ConnectionOptions{.path = kMemory});
        prepare_schema(*connection_);
        return;
    }
    for (const Warning& warning : prepare_path({.path = options_.path, .read_only = read_only_, .create = options_.create}))
        log_.add(warning);
    auto opened = std::make_unique<Connection>(
        ConnectionOptions{.path = options_.path, .read_only = read_only_, .busy_timeout_ms = options_.busy_timeout_ms});
    if (opened->is_read_only() && !read_only_) {
        throw database_error(options_.path, "cannot be written", "fix its permissions, or open it read-only",
                             DatabaseFault::read_only);
    }
    const std::string backup = prepare_schema(*opened);
    if (!backup.empty()) {
        log_.add({WarningKind::migrated, "database " + options_.path + " was migrated to schema " +
                                             std::to_string(schema_version()) + "; what it was before is in " + backup});
    }
    if (!read_only_) bring_rows_up_to_date(*opened);
    connection_ = std::move(opened);
}

// Takes the lock first: of two processes that open the file, only one makes the backup and rewrites the rows. If the
// file is locked or the disk is full, the rows stay as they are and are renamed while they are read.
void OpenFile::bring_rows_up_to_date(Connection& connection) {
    try {
        if (!has_former_rows(connection, options_.former)) return;
        Transaction transaction(connection);
        if (!has_former_rows(connection, options_.former)) return;  // another process was first
        const std::string backup = back_up_again(connection, options_.path + ".templates.backup");
        const UpdatedRows updated = update_former_rows(connection, options_.former);
        transaction.commit();
        std::string text = "database " + options_.path + " has " + std::to_string(updated.winners) + " winners and " +
                           std::to_string(updated.trials) +
                           " trials of an earlier version, whose kernels are the same today; they are kept under today's names";
        if (updated.rivals > 0)
            text += "; " + std::to_string(updated.rivals) + " problems had a winner of each version, and the better one was kept";
        log_.add({WarningKind::migrated, text + "; what the file was before is in " + backup});
    } catch (const DatabaseError& error) {
        log_.add({WarningKind::migrated, "database " + options_.path +
                                             " has rows of an earlier version. They are used, but could not be rewritten: " +
                                             error.what() + ". The next command tries again"});
    }
}

// SQLite's read-only connections find the journal of a killed writer but cannot roll it back; a writing connection can. False if
// this process may not write.
bool OpenFile::roll_back_unfinished() {
    try {
        (void)prepare_path({.path = options_.path, .read_only = false, .create = false});
        Connection writer({.path = options_.path, .busy_timeout_ms = options_.busy_timeout_ms});
        if (writer.is_read_only()) return false;
        (void)writer.query("SELECT count(*) FROM sqlite_schema").next();
    } catch (const DatabaseError& error) {
        return error.fault() == DatabaseFault::locked;  // another process is rolling back the journal
    }
    log_.add({WarningKind::recovered, "database " + options_.path +
                                          " had an unfinished transaction of a process that was killed; it was rolled back, "
                                          "what was committed before is intact"});
    return true;
}

}  // namespace autotune::db
