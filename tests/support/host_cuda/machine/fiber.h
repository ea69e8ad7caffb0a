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
    const void* address = nullptr;  // address of the access to protected memory
};

// Threads of control on stacks of their own, of which one runs at a time. They survive the body that they run and wait for the
// next one. Linux with glibc: contexts begin by makecontext and change by _longjmp, which costs no system call.
class FiberPool {
  public:
    FiberPool();
    ~FiberPool();
    FiberPool(const FiberPool&) = delete;
    FiberPool& operator=(const FiberPool&) = delete;

    // Fibers 0 to count - 1 begin `body` when they are resumed next, wherever they were before.
    void begin(std::size_t count, std::function<void(int)> body);

    // Runs a fiber until it yields; behind its body it yields for ever. REQUIRES: it has not come to that.
    void resume(int number);
    // Within a fiber: back to whoever resumed it.
    void yield();

    // Calls `work`, which resumes fibers. An access to protected memory and a compiler's trap, which a failed check of its is,
    // end `work` in the middle.
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
