#pragma once

#include <memory>

#include "src/gpu/driver/driver.h"

namespace autotune::gpu {

// The context of a thread, for another thread that works for it. It does not keep the context alive: calls in one that was
// destroyed fail. Throws DriverError.
class BorrowedContext {
  public:
    // That of this thread.
    explicit BorrowedContext(std::shared_ptr<const Driver> driver);
    void make_current() const;

  private:
    std::shared_ptr<const Driver> driver_;
    void* raw_ = nullptr;
};

}  // namespace autotune::gpu
