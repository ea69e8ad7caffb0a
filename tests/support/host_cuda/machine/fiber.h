#pragma once

#include <csetjmp>
#include <functional>
#include <memory>
#include <vector>

namespace autotune::test::host_cuda {

// What stopped a fiber.
enum class Stop { nothing, protected_memory, trap };
struct StopReport {
    Stop stop = Stop::nothing;
    const void* address = nullptr;  // the address of the access to protected memory
};

// Threads of control with their own stacks, of which one runs at a time. After a body has ended they wait for the next. Linux
// with glibc: contexts begin with makecontext and switch by _longjmp, which needs no system call.
class FiberPool {
  public:
    FiberPool();
    ~FiberPool();
    FiberPool(const FiberPool&) = delete;
    FiberPool& operator=(const FiberPool&) = delete;

    // Fibers 0 to count - 1 start `body` when they are resumed next, wherever they were before.
    void begin(std::size_t count, std::function<void(int)> body);

    // Runs a fiber until it yields; after its body it yields forever. REQUIRES: its body has not ended.
    void resume(int number);
    // Called in a fiber: returns to whoever resumed it.
    void yield();

    // Calls `work`, which resumes fibers. An access to protected memory or a compiler's trap, such as a failed check, ends `work`
    // in the middle.
    static StopReport guarded(const std::function<void()>& work);

  private:
    struct Fiber;
    static void enter(unsigned high, unsigned low);

    std::vector<std::unique_ptr<Fiber>> fibers_;
    std::function<void(int)> body_;
    jmp_buf outside_;
    int running_ = -1;
};

}  // namespace autotune::test::host_cuda
