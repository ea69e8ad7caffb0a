#pragma once

#include <functional>

namespace autotune::runtime {

// Runs `work` on a thread of its own with 8 MiB of stack and waits for it: a compiler needs more than 64 KiB, and a caller's
// thread may have no more. The thread receives no signals. Exceptions of `work` are thrown here. If no thread can be made, `work`
// runs on this one.
void run_with_large_stack(const std::function<void()>& work);

}  // namespace autotune::runtime
