#pragma once

#include <memory>
#include <ostream>

#include "src/core/log.h"
#include "tools/cli/input/arguments.h"

namespace autotune::cli {

// The log of one run: a line for each entry, with the time in UTC, its level and whose it is. Entries are made printable, so a
// line is one entry whatever it holds.
class Log : public LogSink {
  public:
    // Where entries go that no file takes: standard error.
    virtual bool is_on_standard_error() const = 0;
};

// What --log-level and --log-file ask for; nullptr: neither was given. A file is appended to; without one entries go to `err`.
// Throws Error{usage} for a level that is not known or a file that cannot be opened.
std::unique_ptr<Log> open_log(const Arguments& arguments, std::ostream& err);

}  // namespace autotune::cli
