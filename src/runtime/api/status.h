#pragma once

#include <autotune/autotune.h>

#include <mutex>
#include <stdexcept>
#include <string>
#include <string_view>

namespace autotune::runtime {

// A failure and the status that the caller gets for it.
class Failure : public std::runtime_error {
  public:
    Failure(autotune_status status, const std::string& message) : std::runtime_error(message), status_(status) {}
    autotune_status status() const { return status_; }

  private:
    autotune_status status_;
};

// The status and message for a caught exception. If building the message runs out of memory, the status is out_of_memory.
// REQUIRES: called inside a catch block.
struct Caught {
    autotune_status status;
    std::string message;
};
Caught describe_current_exception() noexcept;

// A sentence whose assignment never throws: if it cannot be copied, a text that needs no memory takes its place.
class Sentence {
  public:
    void assign(std::string_view text) noexcept;
    const char* c_str() const noexcept;

  private:
    std::string text_;
    bool is_lost_ = false;  // there was no memory for it
};

// The last failure of one handle and, apart from it, the last one of each thread. Thread-safe. Never throws, because it is used
// on the hot path and reports exhausted memory.
class LastError {
  public:
    // Returns `status`, so that a failing function can end with it.
    autotune_status set(autotune_status status, std::string_view message) noexcept;
    // Valid until this thread calls it again.
    const char* text() const noexcept;

    static autotune_status set_for_thread(autotune_status status, std::string_view message) noexcept;
    static const char* text_for_thread() noexcept;

  private:
    mutable std::mutex mutex_;
    Sentence text_;
};

// Fails with the caught exception: returns its status, and stores its message for handle and thread. REQUIRES: called inside a
// catch block.
autotune_status fail_with_current_exception(LastError& errors) noexcept;

}  // namespace autotune::runtime
