#pragma once

#include <cstdint>
#include <string>

#include "src/core/error.h"

namespace autotune::db {

// Why a database could not be used, in the classes that callers treat differently.
enum class DatabaseFault : std::uint8_t {
    other,
    locked,      // another process held the lock for longer than the wait
    full,        // disk, quota or file size limit
    read_only,   // the file or its folder may not be written
    unfinished,  // a killed process left a transaction that this process may not roll back
    missing,     // there is no file
    damaged,     // SQLite or our own checks reject the file's content
};

// Every Error{database} that a Store throws is one of these.
class DatabaseError : public Error {
  public:
    DatabaseError(DatabaseFault fault, const std::string& message) : Error(ErrorCode::database, message), fault_(fault) {}
    DatabaseFault fault() const { return fault_; }

  private:
    DatabaseFault fault_;
};

// Whether a row that could not be stored now may be stored later without a change to the file, because its content is sound.
constexpr bool keeps_from_storing(DatabaseFault fault) {
    return fault == DatabaseFault::locked || fault == DatabaseFault::full || fault == DatabaseFault::read_only;
}

}  // namespace autotune::db
