#pragma once

#include <functional>
#include <thread>

namespace autotune::runtime {

// A thread of the library with every signal blocked, so that the caller's threads receive them. Throws std::system_error or
// std::bad_alloc.
std::thread start_quiet_thread(std::function<void()> work);

}  // namespace autotune::runtime
