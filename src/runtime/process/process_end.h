#pragma once

#include <cstdint>

// exit() runs while other threads of the process go on: threads of the library and threads of the caller that plan or launch.
// Statics of the driver, of the compiler and of the caller are destroyed beneath them. So exit() first waits until no thread is
// in the compiler or loads code, no such work is begun any more, and the caller's log function is not called any more.
namespace autotune::runtime::process_end {

// Lets exit() call us. Handlers run in reverse order, those of a library that was opened later before ours: so this is asked for
// again after each such step. Cheap; the first times of each step count.
enum class After : std::uint8_t { driver_opened, compiler_opened, compiled, planned };
void watch(After step) noexcept;

// Whether exit() has begun.
bool has_begun() noexcept;

// Work that exit() waits for, for at most kMostWait: planning, compiling, loading. Nests.
class Section {
  public:
    // Throws Failure{not planned} where exit() has begun, but not on the thread that called it: exit handlers of the program may
    // use the library.
    Section();
    ~Section();
    Section(const Section&) = delete;
    Section& operator=(const Section&) = delete;
};
// Part of a section that waits for another thread: exit() does not wait for it, since that thread may be the one that called
// exit().
class Waiting {
  public:
    Waiting() noexcept;
    ~Waiting();
    Waiting(const Waiting&) = delete;
    Waiting& operator=(const Waiting&) = delete;
};
// Between two steps of a section. Throws as that does.
void check();

// A call of the caller's function, which exit() waits for too, but not as long: it may wait for a lock that the exiting thread
// has.
class Callback {
  public:
    Callback() noexcept;
    ~Callback();
    Callback(const Callback&) = delete;
    Callback& operator=(const Callback&) = delete;
    bool is_allowed() const noexcept { return is_allowed_; }

  private:
    bool is_allowed_;
};

}  // namespace autotune::runtime::process_end
