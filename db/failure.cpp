#include "db/failure.h"

#include <sqlite3.h>

#include <cerrno>
#include <system_error>

namespace autotune::db {
namespace {

struct Sentence {
    std::string wrong;
    std::string_view remedy;
};

std::string reason(const Failure& failure) {
    if (failure.system_errno == 0) return failure.detail;
    return std::generic_category().message(failure.system_errno);
}

std::string waited(int timeout_ms) {
    if (timeout_ms >= 1000) return std::to_string(timeout_ms / 1000) + " s";
    return std::to_string(timeout_ms) + " ms";
}

bool is_out_of_space(const Failure& failure) {
    return failure.system_errno == ENOSPC || failure.system_errno == EDQUOT || failure.system_errno == EFBIG;
}

Sentence input_output(const Failure& failure) {
    if (is_out_of_space(failure)) {
        return {"cannot grow (" + reason(failure) + ")", "free space or raise the limit, what was stored before is intact"};
    }
    return {"failed to read or write (" + reason(failure) + ")", "check the disk and the file system, then try again"};
}

Sentence sentence(const Failure& failure) {
    switch (failure.code & 0xff) {
        case SQLITE_BUSY:
        case SQLITE_LOCKED:
            return {"is locked by another process (waited " + waited(failure.busy_timeout_ms) + ")",
                    "wait for that process or end it, then try again"};
        case SQLITE_CORRUPT:
            return {"is damaged (" + failure.detail + ")", kMoveAway};
        case SQLITE_NOTADB:
            return {"is not an SQLite database", kChooseAnother};
        case SQLITE_READONLY:
            if (failure.code == SQLITE_READONLY_ROLLBACK) {
                return {"has an unfinished transaction that a reader cannot roll back", "open it once for writing"};
            }
            return {"cannot be written (" + failure.detail + ")",
                    "fix the permissions of the file and its folder, or open it read-only"};
        case SQLITE_CANTOPEN:
            return {"cannot be opened (" + reason(failure) + ")", "check the permissions of the file and its folder"};
        case SQLITE_FULL:
            return {"cannot grow (disk full)", "free space, what was stored before is intact"};
        case SQLITE_IOERR:
            return input_output(failure);
        case SQLITE_NOMEM:
            return {"could not be used for want of memory", "free memory and try again"};
        case SQLITE_PERM:
        case SQLITE_AUTH:
            return {"may not be accessed (" + failure.detail + ")", "fix the permissions of the file and its folder"};
        case SQLITE_CONSTRAINT:
            return {"refused a row (" + failure.detail + ")", "this is a bug of autotune or a damaged file, please report it"};
        case SQLITE_PROTOCOL:
            return {"cannot be locked (" + failure.detail + ")", "keep it on a local disk, with --db or AUTOTUNE_DB"};
        default:
            return {"failed (" + failure.detail + ")", kMoveAway};
    }
}

}  // namespace

Error database_error(std::string_view path, std::string_view wrong, std::string_view remedy) {
    std::string message = "database ";
    message.append(path).append(" ").append(wrong).append("; ").append(remedy);
    return Error(ErrorCode::database, message);
}

Error database_error(const Failure& failure) {
    const Sentence told = sentence(failure);
    return database_error(failure.path, told.wrong, told.remedy);
}

}  // namespace autotune::db
