#pragma once

#include <autotune/autotune.h>

#include <mutex>
#include <stdexcept>
#include <string>

namespace autotune::runtime {

// A failure with the status that the caller gets for it.
class Failure : public std::runtime_error {
  public:
    Failure(autotune_status status, const std::string& message) : std::runtime_error(message), status_(status) {}
    autotune_status status() const { return status_; }

  private:
    autotune_status status_;
};

// What a caught exception means for the caller. REQUIRES: called inside a catch block.
struct Caught {
    autotune_status status;
    std::string message;
};
Caught describe_current_exception();

// The last failure on one handle, and beside it the last one of each thread. Thread-safe; never throws, for it serves the hot
// path.
class LastError {
  public:
    // Returns `status`, so that a failing function can end with it.
    autotune_status set(autotune_status status, const std::string& message) noexcept;
    // Valid until this thread asks again.
    const char* text() const noexcept;

    static autotune_status set_for_thread(autotune_status status, const std::string& message) noexcept;
    static const char* text_for_thread() noexcept;

  private:
    mutable std::mutex mutex_;
    std::string text_;
};

}  // namespace autotune::runtime
