#include "tuner/search/strategy_thread.h"

#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <system_error>

#include "src/core/error.h"

namespace autotune::tuner {
namespace {

// Ctrl-C must reach the waiting thread, whose wait it ends at once.
class SignalsBlocked {
  public:
    SignalsBlocked() {
        sigset_t all;
        ::sigfillset(&all);
        ::pthread_sigmask(SIG_BLOCK, &all, &before_);
    }
    ~SignalsBlocked() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
    SignalsBlocked(const SignalsBlocked&) = delete;
    SignalsBlocked& operator=(const SignalsBlocked&) = delete;

  private:
    sigset_t before_{};
};

}  // namespace

StrategyThread::StrategyThread(Make make) : ready_fd_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    check(ready_fd_ >= 0, std::string("eventfd: ") + std::strerror(errno));
    const SignalsBlocked inherited;
    try {
        thread_ = std::jthread([this, make = std::move(make)](const std::stop_token& stop) { think(make, stop); });
    } catch (const std::system_error& error) {
        ::close(ready_fd_);
        throw Error(ErrorCode::system, std::string("cannot start the thread of the search: ") + error.code().message() +
                                           "; raise the limit on processes (`ulimit -u`, pids.max of the container)");
    }
}

StrategyThread::~StrategyThread() {
    thread_.request_stop();
    thread_.join();
    ::close(ready_fd_);
}

void StrategyThread::ask(std::size_t count) {
    check(may_ask(), "a strategy is asked while it thinks or has nothing more to say");
    send({.count = count, .compiled = false});
}

void StrategyThread::ask_compiled(std::size_t count) {
    check(may_ask_compiled(), "a strategy is asked while it thinks or has no more compiled points");
    send({.count = count, .compiled = true});
}

void StrategyThread::send(Question question) {
    asking_ = true;
    asking_compiled_ = question.compiled;
    const std::scoped_lock lock(mutex_);
    wanted_ = question;
    told_.insert(told_.end(), unheard_.begin(), unheard_.end());
    unheard_.clear();
    wake_.notify_one();
}

std::vector<std::size_t> StrategyThread::take() {
    if (!asking_) return {};
    const std::scoped_lock lock(mutex_);
    if (failure_ != nullptr) std::rethrow_exception(failure_);
    if (!answer_) return {};
    std::uint64_t count = 0;
    [[maybe_unused]] const ssize_t read = ::read(ready_fd_, &count, sizeof count);
    asking_ = false;
    (asking_compiled_ ? is_compiled_dry_ : is_dry_) = answer_->points.empty() && unheard_.empty();
    outlook_ = answer_->outlook;
    return std::exchange(answer_, std::nullopt)->points;
}

void StrategyThread::report(std::size_t point, std::optional<double> time_us) {
    unheard_.emplace_back(point, time_us);
    is_dry_ = is_compiled_dry_ = false;
}

void StrategyThread::answer(Answer answer, std::exception_ptr failure) {
    const std::scoped_lock lock(mutex_);
    answer_ = std::move(answer);
    failure_ = std::move(failure);
    const std::uint64_t one = 1;
    [[maybe_unused]] const ssize_t written = ::write(ready_fd_, &one, sizeof one);
}

void StrategyThread::think(const Make& make, const std::stop_token& stop) {
    try {
        const std::unique_ptr<Strategy> strategy = make();
        while (true) {
            std::unique_lock lock(mutex_);
            if (!wake_.wait(lock, stop, [&] { return wanted_.has_value(); })) return;
            const Question question = *std::exchange(wanted_, std::nullopt);
            const std::vector<Report> reports = std::exchange(told_, {});
            lock.unlock();
            for (const auto& [point, time_us] : reports) strategy->report(point, time_us);
            Answer given{.points = question.compiled ? strategy->ask_compiled(question.count) : strategy->ask(question.count),
                         .outlook = {}};
            given.outlook = strategy->outlook();  // after the points just given, which count as in progress
            answer(std::move(given), nullptr);
        }
    } catch (...) {
        answer({}, std::current_exception());
    }
}

}  // namespace autotune::tuner
