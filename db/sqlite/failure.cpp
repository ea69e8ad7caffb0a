#include "db/sqlite/failure.h"

#include <sqlite3.h>

#include <cerrno>
#include <system_error>

namespace autotune::db {
namespace {

struct Sentence {
    std::string wrong;
    std::string remedy;
    DatabaseFault fault = DatabaseFault::other;
};

std::string reason(const Failure& failure) {
    if (failure.system_errno == 0) return failure.detail;
    return std::generic_category().message(failure.system_errno);
}

std::string waited(int timeout_ms) {
    if (timeout_ms >= 1000) return std::to_string(timeout_ms / 1000) + " s";
    return std::to_string(timeout_ms) + " ms";
}

bool is_out_of_space(int code) {
    return code == ENOSPC || code == EDQUOT || code == EFBIG;
}

Sentence cannot_be_locked(int code) {
    return {"cannot be locked (" + std::generic_category().message(code) + ")",
            "its file system has no locks that can be relied on: keep it on a local disk, with --db or AUTOTUNE_DB",
            DatabaseFault::locked};
}

bool is_of_locking(int code) {
    return code == SQLITE_IOERR_LOCK || code == SQLITE_IOERR_RDLOCK || code == SQLITE_IOERR_UNLOCK ||
           code == SQLITE_IOERR_CHECKRESERVEDLOCK;
}

Sentence input_output(const Failure& failure) {
    if (is_of_locking(failure.code) && failure.system_errno != 0) return cannot_be_locked(failure.system_errno);
    if (is_out_of_space(failure.system_errno)) {
        return {"cannot grow (" + reason(failure) + ")", "free space or raise the limit, what was stored before is intact",
                DatabaseFault::full};
    }
    return {"failed to read or write (" + reason(failure) + ")", "check the disk and the file system, then try again"};
}

Sentence read_only(const Failure& failure) {
    if (failure.code == SQLITE_READONLY_ROLLBACK || failure.code == SQLITE_READONLY_RECOVERY) {
        return {"has an unfinished transaction of a process that was killed, and this user may not roll it back",
                "run `autotune doctor --db " + failure.path + "` as a user who may write the file and its folder",
                DatabaseFault::unfinished};
    }
    return {"cannot be written (" + failure.detail + ")", "fix the permissions of the file and its folder, or open it read-only",
            DatabaseFault::read_only};
}

Sentence sentence(const Failure& failure) {
    switch (failure.code & 0xff) {
        case SQLITE_BUSY:
        case SQLITE_LOCKED:
            if (failure.lock_errno != 0) return cannot_be_locked(failure.lock_errno);
            return {"is locked by another process (waited " + waited(failure.busy_timeout_ms) + ")",
                    "wait for that process or end it, then try again", DatabaseFault::locked};
        case SQLITE_CORRUPT:
            return {"is damaged (" + failure.detail + ")", std::string(kMoveAway), DatabaseFault::damaged};
        case SQLITE_NOTADB:
            return {"is not an SQLite database", std::string(kChooseAnother), DatabaseFault::damaged};
        case SQLITE_READONLY:
            return read_only(failure);
        case SQLITE_CANTOPEN:
            return {"cannot be opened (" + reason(failure) + ")", "check the permissions of the file and its folder",
                    fault_of_errno(failure.system_errno)};
        case SQLITE_FULL:
            return {"cannot grow (disk full)", "free space, what was stored before is intact", DatabaseFault::full};
        case SQLITE_IOERR:
            return input_output(failure);
        case SQLITE_NOMEM:
            return {"could not be used for want of memory", "free memory and try again"};
        case SQLITE_PERM:
        case SQLITE_AUTH:
            return {"may not be accessed (" + failure.detail + ")", "fix the permissions of the file and its folder"};
        case SQLITE_CONSTRAINT:
            return {"refused a row (" + failure.detail + ")", "this is a bug of autotune or a damaged file, please report it",
                    DatabaseFault::damaged};
        case SQLITE_PROTOCOL:
            return {"cannot be locked (" + failure.detail + ")", "keep it on a local disk, with --db or AUTOTUNE_DB"};
        default:
            return {"failed (" + failure.detail + ")", std::string(kMoveAway)};
    }
}

}  // namespace

DatabaseError database_error(std::string_view path, std::string_view wrong, std::string_view remedy, DatabaseFault fault) {
    std::string message = "database ";
    message.append(path).append(" ").append(wrong).append("; ").append(remedy);
    return {fault, message};
}

DatabaseError database_error(const Failure& failure) {
    const Sentence told = sentence(failure);
    return database_error(failure.path, told.wrong, told.remedy, told.fault);
}

DatabaseFault fault_of_errno(int code) {
    if (is_out_of_space(code)) return DatabaseFault::full;
    const bool is_refused = code == EACCES || code == EPERM || code == EROFS;
    return is_refused ? DatabaseFault::read_only : DatabaseFault::other;
}

}  // namespace autotune::db
