#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace autotune::runtime {

// A thread of the library that repeats some work, for the first time one interval after its start. It ends with this object,
// which waits for work that has begun. Once exit() has begun no work begins, and exit() waits for work that has begun
// (process_end.h). If work ends its thread (pthread_exit), another takes its place. Exceptions of the work are dropped.
class Periodic {
  public:
    // Throws std::system_error if the system refuses the thread.
    Periodic(std::chrono::milliseconds interval, std::function<void()> work);
    ~Periodic();
    Periodic(const Periodic&) = delete;
    Periodic& operator=(const Periodic&) = delete;

  private:
    void start_thread();
    void serve();
    void work_once();

    const std::chrono::milliseconds interval_;
    const std::function<void()> work_;
    std::mutex mutex_;
    std::condition_variable ends_;
    std::vector<std::thread> threads_;  // all but the last were ended by their work
    bool is_ending_ = false;
};

}  // namespace autotune::runtime
