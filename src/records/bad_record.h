#pragma once

#include <string>

#include "src/core/error.h"

namespace autotune::records {

// Error{database}: "a record is not valid: WHY".
class BadRecord : public Error {
  public:
    explicit BadRecord(const std::string& why) : Error(ErrorCode::database, "a record is not valid: " + why) {}
};
inline BadRecord bad_record(const std::string& why) {
    return BadRecord(why);
}

}  // namespace autotune::records
