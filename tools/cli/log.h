#pragma once

#include <memory>
#include <ostream>

#include "src/core/log.h"
#include "tools/cli/input/arguments.h"

namespace autotune::cli {

// The log of one run: a line for each entry, with the time in UTC, its level and its source. Control characters in entries are
// escaped, so that each entry is one line.
class Log : public LogSink {
  public:
    // Whether entries go to standard error instead of a file.
    virtual bool is_on_standard_error() const = 0;
};

// The log that --log-level and --log-file request; nullptr: neither was given. A file is appended to; without one, entries go to
// `err`. Throws Error{usage} for an unknown level or a file that cannot be opened.
std::unique_ptr<Log> open_log(const Arguments& arguments, std::ostream& err);

}  // namespace autotune::cli
