#pragma once

#include <functional>

namespace autotune::runtime {

// What the caller's log function destroyed while the library was calling it: it is destroyed when the call of the library that
// speaks has returned. One for each thread.
class LateDestroy {
  public:
    // Throws std::bad_alloc.
    static void ask(std::function<void()> destroy);

    // At the end of each call of the library on this thread. Nothing happens inside the log function.
    static void settle() noexcept {
        if (is_asked()) settle_now();
    }
    // The same on a thread of the library, which what is destroyed waits for: on a thread of its own.
    static void settle_elsewhere() noexcept;

  private:
    static bool is_asked() noexcept;
    static void settle_now() noexcept;
};

}  // namespace autotune::runtime
