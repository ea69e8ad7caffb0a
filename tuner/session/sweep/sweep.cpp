#include <algorithm>
#include <chrono>
#include <future>
#include <memory>
#include <system_error>

#include "src/core/error.h"
#include "tuner/session/tune.h"
#include "tuner/session/tune/tune_run.h"

namespace autotune::tuner {
namespace {

// Many problems on one pool and one GPU worker: while one is on the GPU, the next one compiles.
class Sweep {
  public:
    Sweep(const SweepOptions& options, TuneServices& services, SweepObserver* observer)
        : options_(options),
          services_(services),
          observer_(observer),
          engine_(services),
          host_(engine_),
          shared_{engine_, host_, {}, {}} {}

    std::vector<SweepItem> run(const std::vector<Problem>& problems);

  private:
    void sort_out(const std::vector<Problem>& problems);
    void tune_item(std::size_t index);
    std::unique_ptr<TuneRun> begin(std::size_t index, int urgency);
    void begin_next(std::size_t after);
    void fail(SweepItem& item, const Error& error);
    void tell(const SweepItem& item);
    bool out_of_time() const { return options_.total_seconds > 0 && seconds_since(begun_) >= options_.total_seconds; }

    SweepOptions options_;
    TuneServices& services_;
    SweepObserver* observer_;
    Engine engine_;
    GpuWorkerHost host_;
    RunShared shared_;
    Clock::time_point begun_ = Clock::now();
    std::vector<SweepItem> items_;
    std::vector<bool> settled_;
    std::unique_ptr<TuneRun> next_;
    std::future<std::unique_ptr<const Candidates>> listing_;  // of the next problem
    std::size_t next_index_ = 0;
    std::size_t done_ = 0;
    double tuned_seconds_ = 0;
    int tuned_ = 0;
    bool stopped_ = false;
};

// What is fresh is known before any process starts.
void Sweep::sort_out(const std::vector<Problem>& problems) {
    for (const Problem& problem : problems) {
        SweepItem item;
        item.problem = problem;
        bool settled = false;
        if (!options_.each.retune) {
            item.result = recall(problem, services_, options_.each.choice);
            settled = item.result && !item.result->stale;
            if (!settled) item.result.reset();
        }
        items_.push_back(std::move(item));
        settled_.push_back(settled);
    }
    for (std::size_t i = 0; i < items_.size(); ++i) {
        if (settled_[i]) tell(items_[i]);
    }
}

std::vector<SweepItem> Sweep::run(const std::vector<Problem>& problems) {
    sort_out(problems);
    for (std::size_t i = 0; i < items_.size(); ++i) {
        if (settled_[i]) continue;
        if (stopped_ || engine_.stopping()) {
            items_[i].state = SweepItem::State::interrupted;
        } else if (out_of_time()) {
            items_[i].state = SweepItem::State::skipped_for_budget;
            items_[i].detail = "the sweep's time was used up";
        } else {
            tune_item(i);
        }
        tell(items_[i]);
    }
    return std::move(items_);
}

std::unique_ptr<TuneRun> Sweep::begin(std::size_t index, int urgency) {
    const Problem& problem = items_[index].problem;
    auto candidates =
        next_index_ == index && listing_.valid() ? listing_.get() : list_candidates(problem, options_.each, services_);
    auto run = std::make_unique<TuneRun>(shared_, problem, options_.each, std::move(candidates));
    run->start(urgency);
    return run;
}

// A second thread lists the next problem's candidates while this one is on the GPU: listing some 300,000 takes noticeable time.
// Its first ideas compile once this one's queue is short.
void Sweep::begin_next(std::size_t after) {
    std::size_t index = after + 1;
    while (index < items_.size() && settled_[index]) ++index;
    if (index >= items_.size() || next_ != nullptr) return;
    if (next_index_ != index) {
        next_index_ = index;
        const auto list = [this, problem = items_[index].problem] { return list_candidates(problem, options_.each, services_); };
        try {
            listing_ = std::async(std::launch::async, list);
        } catch (const std::system_error&) {  // no thread to be had: it is listed when it is its turn
            listing_ = {};
        }
    }
    if (!listing_.valid() || listing_.wait_for(std::chrono::seconds(0)) != std::future_status::ready) return;
    if (engine_.pool().pending() >= engine_.pool().capacity()) return;
    try {
        next_ = begin(index, 2);
    } catch (const Error&) {
        next_.reset();  // said again, and noted, when it is its turn
    }
}

void Sweep::tune_item(std::size_t index) {
    SweepItem& item = items_[index];
    const auto begun = Clock::now();
    try {
        std::unique_ptr<TuneRun> run = next_index_ == index && next_ != nullptr ? std::move(next_) : begin(index, 1);
        engine_.set_idle_hook([this, index, current = run.get()] {
            current->refill();
            begin_next(index);
            if (next_ != nullptr) next_->refill();
        });
        item.result = run->finish();
        item.state = item.result->interrupted ? SweepItem::State::interrupted
                     : item.result->tuned     ? SweepItem::State::tuned
                                              : SweepItem::State::fresh;  // another tuner stored it meanwhile
        stopped_ = item.result->interrupted;
    } catch (const Error& error) {
        fail(item, error);
    } catch (const Interrupted&) {
        item.state = SweepItem::State::interrupted;
        stopped_ = true;
    }
    engine_.set_idle_hook({});
    item.seconds = seconds_since(begun);
    tuned_seconds_ += item.seconds;
    ++tuned_;
}

// A problem that nothing can do is an item's failure; a card that is ill, or a store that fails, ends the sweep.
void Sweep::fail(SweepItem& item, const Error& error) {
    const ErrorCode code = error.code();
    if (ends_all(code)) throw error;
    item.state = code == ErrorCode::interrupted ? SweepItem::State::interrupted : SweepItem::State::failed;
    stopped_ = code == ErrorCode::interrupted;
    item.detail = error.what();
}

void Sweep::tell(const SweepItem& item) {
    ++done_;
    if (observer_ == nullptr) return;
    std::optional<double> eta_s;
    const std::size_t left = items_.size() - std::min(done_, items_.size());
    if (tuned_ > 0) eta_s = tuned_seconds_ / tuned_ * static_cast<double>(left);
    observer_->on_item(item, done_, items_.size(), eta_s);
}

}  // namespace

std::vector<SweepItem> sweep(const std::vector<Problem>& problems, const SweepOptions& options, TuneServices& services,
                             SweepObserver* observer) {
    Sweep sweep(options, services, observer);
    return sweep.run(problems);
}

}  // namespace autotune::tuner
