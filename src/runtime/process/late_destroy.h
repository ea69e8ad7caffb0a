#pragma once

#include <functional>

namespace autotune::runtime {

// Objects that the caller's log function destroys while the library calls it: they are destroyed once the library call that
// logged has returned. One list per thread.
class LateDestroy {
  public:
    // Throws std::bad_alloc.
    static void ask(std::function<void()> destroy);

    // Destroys them. Called at the end of each library call on this thread. Does nothing inside the log function.
    static void settle() noexcept {
        if (is_asked()) settle_now();
    }
    // Called on a thread of the library. The objects' destructors wait for that thread, so another thread destroys them.
    static void settle_elsewhere() noexcept;

  private:
    static bool is_asked() noexcept;
    static void settle_now() noexcept;
};

}  // namespace autotune::runtime
