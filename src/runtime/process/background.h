#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace autotune::runtime {

// Threads of the library for work that no caller waits for. They start with the first work, block every signal, and end with this
// object, which drops work that has not begun and waits for work that has. Once exit() has begun no work begins, and exit() waits
// for work that has begun (process_end.h). If work ends its thread (pthread_exit), another thread takes its place.
class Background {
  public:
    explicit Background(std::size_t most_threads) : most_threads_(most_threads) {}
    ~Background();
    Background(const Background&) = delete;
    Background& operator=(const Background&) = delete;

    // Starts every thread now, so that no add() does. Fewer if the system refuses some.
    void start();
    // Exceptions of `work` are dropped. Throws std::system_error if there is no thread and none can be made.
    void add(std::function<void()> work);
    // Waits until nothing is left to do.
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
