#pragma once

#include <condition_variable>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "tuner/search/search.h"

namespace autotune::tuner {

// Runs a strategy on a thread of its own: a model computes for as long as a candidate is measured, and the loop that keeps the
// GPU busy must not wait for it. One ask at a time; each ask has seen every report before it. Exceptions of the strategy come out
// of take().
class StrategyThread {
  public:
    using Make = std::function<std::unique_ptr<Strategy>()>;

    // `make` runs on the thread, because making a strategy may take time.
    explicit StrategyThread(Make make);
    // Waits until the running ask has ended.
    ~StrategyThread();
    StrategyThread(const StrategyThread&) = delete;
    StrategyThread& operator=(const StrategyThread&) = delete;

    // Whether a new ask may return points: no ask is running, and a report has arrived since the last ask that returned none.
    bool may_ask() const { return !asking_ && !is_dry_; }
    bool asking() const { return asking_; }
    // REQUIRES: may_ask().
    void ask(std::size_t count);
    // The same for Strategy::ask_compiled(), whose empty answers say nothing about those of ask().
    bool may_ask_compiled() const { return !asking_ && !is_compiled_dry_; }
    void ask_compiled(std::size_t count);
    // The answer, which is returned once. Empty while it is being computed or if nothing was asked.
    std::vector<std::size_t> take();
    void report(std::size_t point, std::optional<double> time_us);
    // The outlook at the time of the last answer that was taken.
    const std::optional<Outlook>& outlook() const { return outlook_; }
    // Readable while there is an answer that was not taken.
    int ready_fd() const { return ready_fd_; }

  private:
    using Report = std::pair<std::size_t, std::optional<double>>;

    void think(const Make& make, const std::stop_token& stop);
    struct Answer {
        std::vector<std::size_t> points;
        std::optional<Outlook> outlook;
    };
    struct Question {
        std::size_t count = 0;
        bool compiled = false;
    };
    void send(Question question);
    void answer(Answer answer, std::exception_ptr failure);

    // The caller's.
    bool asking_ = false, asking_compiled_ = false, is_dry_ = false, is_compiled_dry_ = false;
    std::vector<Report> unheard_;
    std::optional<Outlook> outlook_;
    int ready_fd_;
    // Protected by the mutex.
    std::mutex mutex_;
    std::condition_variable_any wake_;
    std::optional<Question> wanted_;
    std::vector<Report> told_;
    std::optional<Answer> answer_;
    std::exception_ptr failure_;

    std::jthread thread_;
};

}  // namespace autotune::tuner
