#pragma once

#include <cstdint>

// While exit() runs, other threads of the process continue: threads of the library, and threads of the caller that plan or
// launch. Statics of the driver, of the compiler and of the caller are destroyed under them. So exit() first waits until no
// thread compiles or loads code; after that no such work begins, and the caller's log function is not called any more.
namespace autotune::runtime::process_end {

// Registers the exit handler. Handlers run in reverse order, and libraries that are opened later register theirs later; so this
// is called again after each such step. Cheap; only the first calls of each step register.
enum class After : std::uint8_t { driver_opened, compiler_opened, compiled, planned };
void watch(After step) noexcept;

// Whether exit() has begun.
bool has_begun() noexcept;

// Work that exit() waits for, for at most kMostWait: planning, compiling, loading. Nests.
class Section {
  public:
    // Throws Failure{not planned} if exit() has begun, except on the thread that called it: exit handlers of the program may use
    // the library.
    Section();
    ~Section();
    Section(const Section&) = delete;
    Section& operator=(const Section&) = delete;
};
// Part of a section that waits for another thread. exit() does not wait for it, because that thread may be the one that called
// exit().
class Waiting {
  public:
    Waiting() noexcept;
    ~Waiting();
    Waiting(const Waiting&) = delete;
    Waiting& operator=(const Waiting&) = delete;
};
// Called between two steps of a section. Throws like Section().
void check();

// A call of the caller's function. exit() waits for it too, but not as long, because it may wait for a lock that the exiting
// thread holds.
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
