// Ubuntu's compilers define _FORTIFY_SOURCE, with which glibc ends the process when _longjmp switches to another stack, as fibers
// do.
#undef _FORTIFY_SOURCE

#include "tests/support/host_cuda/machine/fiber.h"

#include <signal.h>
#include <sys/mman.h>
#include <ucontext.h>

#include <array>
#include <cstdint>

#include "src/core/error.h"

namespace autotune::test::host_cuda {
namespace {

constexpr std::size_t kStackBytes = 128 << 10;
constexpr std::size_t kPageBytes = 4096;

// Where execution continues after a fiber is stopped. One pool runs at a time.
sigjmp_buf* fault_exit = nullptr;
StopReport report;

constexpr std::array kSignals = {SIGSEGV, SIGBUS, SIGILL, SIGTRAP};

void on_fault(int signal_number, siginfo_t* info, void*) {
    if (fault_exit == nullptr) {
        ::signal(signal_number, SIG_DFL);
        return;
    }
    const bool is_access = signal_number == SIGSEGV || signal_number == SIGBUS;
    report = is_access ? StopReport{Stop::protected_memory, info->si_addr} : StopReport{Stop::trap, nullptr};
    siglongjmp(*fault_exit, 1);
}

// During its lifetime, faults that stop a fiber jump to `exit`. The handler has its own stack, because the fiber's may be full.
class FaultGuard {
  public:
    explicit FaultGuard(sigjmp_buf& exit) {
        static std::array<std::byte, 64 << 10> stack;
        const stack_t alternative = {stack.data(), 0, stack.size()};
        ::sigaltstack(&alternative, &stack_before_);
        struct sigaction action = {};
        action.sa_sigaction = on_fault;
        action.sa_flags = SA_SIGINFO | SA_ONSTACK;
        for (std::size_t i = 0; i < kSignals.size(); ++i) ::sigaction(kSignals[i], &action, &before_[i]);
        fault_exit = &exit;
    }
    ~FaultGuard() {
        fault_exit = nullptr;
        for (std::size_t i = 0; i < kSignals.size(); ++i) ::sigaction(kSignals[i], &before_[i], nullptr);
        ::sigaltstack(&stack_before_, nullptr);
    }
    FaultGuard(const FaultGuard&) = delete;
    FaultGuard& operator=(const FaultGuard&) = delete;

  private:
    std::array<struct sigaction, kSignals.size()> before_ = {};
    stack_t stack_before_ = {};
};

}  // namespace

struct FiberPool::Fiber {
    Fiber() {
        memory =
            ::mmap(nullptr, kStackBytes + kPageBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        check(memory != MAP_FAILED, "there is no memory for the stack of a fiber");
        ::mprotect(memory, kPageBytes, PROT_NONE);  // a full stack gives a fault, which is reported
    }
    ~Fiber() { ::munmap(memory, kStackBytes + kPageBytes); }
    Fiber(const Fiber&) = delete;
    Fiber& operator=(const Fiber&) = delete;

    void* memory = nullptr;
    jmp_buf inside;
    bool has_begun = false;  // until then `inside` is not valid
    bool is_idle = false;    // behind a body
};

FiberPool::FiberPool() = default;
FiberPool::~FiberPool() = default;

void FiberPool::begin(std::size_t count, std::function<void(int)> body) {
    body_ = std::move(body);
    while (fibers_.size() < count) fibers_.push_back(std::make_unique<Fiber>());
    for (std::size_t i = 0; i < count; ++i) {
        Fiber& fiber = *fibers_[i];
        fiber.has_begun = fiber.is_idle;  // If a fault stopped a fiber in the middle of its body, the fiber starts again.
        fiber.is_idle = false;
    }
}

// makecontext only passes integers.
void FiberPool::enter(unsigned high, unsigned low) {
    auto* const pool = reinterpret_cast<FiberPool*>(static_cast<std::uintptr_t>(high) << 32 | low);
    while (true) {
        pool->body_(pool->running_);
        pool->fibers_[static_cast<std::size_t>(pool->running_)]->is_idle = true;
        pool->yield();
    }
}

void FiberPool::resume(int number) {
    Fiber& fiber = *fibers_[static_cast<std::size_t>(number)];
    running_ = number;
    if (_setjmp(outside_) != 0) return;
    if (fiber.has_begun) _longjmp(fiber.inside, 1);
    fiber.has_begun = true;
    ucontext_t context;
    ::getcontext(&context);
    context.uc_stack.ss_sp = static_cast<std::byte*>(fiber.memory) + kPageBytes;
    context.uc_stack.ss_size = kStackBytes;
    context.uc_link = nullptr;
    const auto self = reinterpret_cast<std::uintptr_t>(this);
    ::makecontext(&context, reinterpret_cast<void (*)()>(enter), 2, static_cast<unsigned>(self >> 32),
                  static_cast<unsigned>(self));
    ::setcontext(&context);
}

void FiberPool::yield() {
    if (_setjmp(fibers_[static_cast<std::size_t>(running_)]->inside) == 0) _longjmp(outside_, 1);
}

StopReport FiberPool::guarded(const std::function<void()>& work) {
    sigjmp_buf exit;
    const FaultGuard guard(exit);
    if (sigsetjmp(exit, 1) != 0) return report;
    work();
    return {};
}

}  // namespace autotune::test::host_cuda
