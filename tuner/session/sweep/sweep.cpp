#include <algorithm>

#include "tuner/session/sweep/item_loop.h"
#include "tuner/session/tune.h"

namespace autotune::tuner {
namespace {

// A list of problems on one GPU.
class Sweep {
  public:
    Sweep(const SweepOptions& options, TuneServices& services, SweepObserver* observer)
        : options_(options), services_(services), observer_(observer), loop_(options.each, services) {}

    std::vector<SweepItem> run(const std::vector<Problem>& problems);

  private:
    void sort_out(const std::vector<Problem>& problems);
    void tune_item(std::size_t index, bool is_again = false);
    void look_again();
    const Problem* following(std::size_t index) const;
    void tell(const SweepItem& item);
    bool out_of_time() const { return options_.total_seconds > 0 && seconds_since(begun_) >= options_.total_seconds; }

    SweepOptions options_;
    TuneServices& services_;
    SweepObserver* observer_;
    ItemLoop loop_;
    Clock::time_point begun_ = Clock::now();
    std::vector<SweepItem> items_;
    std::vector<bool> settled_;
    std::vector<std::size_t> in_work_;  // of other processes
    std::size_t done_ = 0;
    double tuned_seconds_ = 0;
    int tuned_ = 0;
};

// A problem with a valid winner is recognised before any process starts.
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
        if (loop_.stopped()) {
            items_[i].state = SweepItem::State::interrupted;
        } else if (out_of_time()) {
            items_[i].state = SweepItem::State::skipped_for_budget;
            items_[i].detail = "the sweep's time was used up";
        } else {
            tune_item(i);
        }
        if (items_[i].state == SweepItem::State::in_work) {
            in_work_.push_back(i);
        } else {
            tell(items_[i]);
        }
    }
    look_again();
    return std::move(items_);
}

// Looks again at problems that other processes were tuning. They have winners by now, or will have them soon, or are free again.
void Sweep::look_again() {
    if (!in_work_.empty() && services_.observer != nullptr)
        services_.observer->on_warning("another process is tuning " + std::to_string(in_work_.size()) +
                                       " of these problems; they are looked up once it is done");
    for (const std::size_t index : in_work_) {
        SweepItem& item = items_[index];
        while (item.state == SweepItem::State::in_work) {
            tune_item(index, true);
            if (item.state == SweepItem::State::in_work) loop_.rest(0.2);
            if (item.state == SweepItem::State::in_work && loop_.stopped()) item.state = SweepItem::State::interrupted;
        }
        tell(item);
    }
}

void Sweep::tune_item(std::size_t index, bool is_again) {
    SweepItem& item = items_[index];
    loop_.tune(
        item, [this, index] { return following(index); }, is_again);
    if (item.state == SweepItem::State::in_work) return;
    tuned_seconds_ += item.seconds;
    ++tuned_;
}

const Problem* Sweep::following(std::size_t index) const {
    for (++index; index < items_.size(); ++index) {
        if (!settled_[index]) return &items_[index].problem;
    }
    return nullptr;
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
