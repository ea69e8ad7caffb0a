#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace autotune::runtime {

// Threads of the library that do what no caller waits for. They are started when the first work comes, with every signal blocked,
// and end with this object: work that has not begun is dropped, work that has begun is waited for. Once exit() has begun no work
// is begun, and exit() waits for what has begun (process_end.h). Work may end its thread (pthread_exit): another takes its place.
class Background {
  public:
    explicit Background(std::size_t most_threads) : most_threads_(most_threads) {}
    ~Background();
    Background(const Background&) = delete;
    Background& operator=(const Background&) = delete;

    // Starts every thread now, so that no add() does. Fewer where the system refuses.
    void start();
    // What `work` throws is dropped. Throws std::system_error if there is no thread and none can be made.
    void add(std::function<void()> work);
    // Until nothing is left to do.
    void wait();

  private:
    class Alive;
    class Busy;
    void serve();
    void do_one(std::unique_lock<std::mutex>& lock);
    void nap(std::unique_lock<std::mutex>& lock, std::chrono::steady_clock::time_point until);
    void start_thread();

    std::size_t most_threads_;
    std::mutex mutex_;
    std::condition_variable has_work_, is_idle_;
    std::deque<std::function<void()>> queue_;
    std::vector<std::thread> threads_;
    std::size_t alive_ = 0, busy_ = 0, napping_ = 0;  // threads
    bool is_ending_ = false;
};

}  // namespace autotune::runtime
