#pragma once

#include <pthread.h>

namespace autotune::runtime {

// During its lifetime pthread_cancel() of this thread waits. The library's longer calls pass through code that no exception may
// unwind: C frames of SQLite and of the compiler that hold locks, and waits of the standard library, which are noexcept.
class NoCancel {
  public:
    NoCancel() noexcept { ::pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before_); }
    ~NoCancel() { ::pthread_setcancelstate(before_, nullptr); }
    NoCancel(const NoCancel&) = delete;
    NoCancel& operator=(const NoCancel&) = delete;

  private:
    int before_ = PTHREAD_CANCEL_ENABLE;
};

}  // namespace autotune::runtime
