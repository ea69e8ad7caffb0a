#pragma once

#include <autotune/autotune.h>

#include <mutex>
#include <stdexcept>
#include <string>
#include <string_view>

namespace autotune::runtime {

// A failure with the status that the caller gets for it.
class Failure : public std::runtime_error {
  public:
    Failure(autotune_status status, const std::string& message) : std::runtime_error(message), status_(status) {}
    autotune_status status() const { return status_; }

  private:
    autotune_status status_;
};

// What a caught exception means for the caller. Where there is no memory to describe it, that is what it means.
// REQUIRES: called inside a catch block.
struct Caught {
    autotune_status status;
    std::string message;
};
Caught describe_current_exception() noexcept;

// A sentence that is stored without ever throwing: where it cannot be copied, another one that needs no memory takes its place.
class Sentence {
  public:
    void assign(std::string_view text) noexcept;
    const char* c_str() const noexcept;

  private:
    std::string text_;
    bool is_lost_ = false;  // there was no memory for it
};

// The last failure on one handle, and beside it the last one of each thread. Thread-safe; never throws, for it serves the hot
// path and tells of exhausted memory.
class LastError {
  public:
    // Returns `status`, so that a failing function can end with it.
    autotune_status set(autotune_status status, std::string_view message) noexcept;
    // Valid until this thread asks again.
    const char* text() const noexcept;

    static autotune_status set_for_thread(autotune_status status, std::string_view message) noexcept;
    static const char* text_for_thread() noexcept;

  private:
    mutable std::mutex mutex_;
    Sentence text_;
};

// Fails with a caught exception: its status, and its message for handle and thread. REQUIRES: called inside a catch block.
autotune_status fail_with_current_exception(LastError& errors) noexcept;

}  // namespace autotune::runtime
