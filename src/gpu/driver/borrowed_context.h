#pragma once

#include <memory>

#include "src/gpu/driver/driver.h"

namespace autotune::gpu {

// Makes a thread's context usable by another thread that works for it. Does not keep the context alive: calls in a destroyed one
// fail. Throws DriverError.
class BorrowedContext {
  public:
    // Takes the context of this thread.
    explicit BorrowedContext(std::shared_ptr<const Driver> driver);
    void make_current() const;

  private:
    std::shared_ptr<const Driver> driver_;
    void* raw_ = nullptr;
};

}  // namespace autotune::gpu
