#include "src/runtime/process/quiet_thread.h"

#include <signal.h>

#include <utility>

namespace autotune::runtime {
namespace {

// Blocks every signal on this thread during its lifetime.
class SignalsBlocked {
  public:
    SignalsBlocked() {
        sigset_t all;
        ::sigfillset(&all);
        ::pthread_sigmask(SIG_SETMASK, &all, &before_);
    }
    ~SignalsBlocked() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
    SignalsBlocked(const SignalsBlocked&) = delete;
    SignalsBlocked& operator=(const SignalsBlocked&) = delete;

  private:
    sigset_t before_{};
};

}  // namespace

std::thread start_quiet_thread(std::function<void()> work) {
    const SignalsBlocked blocked;  // the new thread inherits the signal mask
    return std::thread(std::move(work));
}

}  // namespace autotune::runtime
