#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tuner/session/idle/card_watch.h"
#include "tuner/session/lanes/lanes.h"
#include "tuner/session/lanes/work_source.h"

namespace autotune::tuner {

// Receives the events of a worker, on its thread.
class IdleObserver {
  public:
    virtual ~IdleObserver() = default;
    // An item has ended. `calls`: how often programs called the problem; `waiting`: misses that are left to tune.
    virtual void on_item(const SweepItem& item, std::int64_t calls, std::size_t waiting) = 0;
    // Something that the user may want to know, each once.
    virtual void on_remark(const std::string& text) = 0;
};

struct IdleOptions {
    double idle_s = 30;           // how long a card must have been idle; 0: it is used at once
    double exit_when_idle_s = 0;  // end after this time without a miss to tune; 0: never
    // Take no item that may end after this.
    std::optional<std::chrono::system_clock::time_point> until{};
    double item_s = 10;  // the longest duration of an item
    double give_back_after_s = 20;
};

struct IdleCounts {
    int tuned = 0, fresh = 0, failed = 0, given_back = 0;
};

// A source for cards that are used only while they are idle, by a worker that ends on a signal, at a time, or after a long enough
// time without work.
class IdleSource : public WorkSource {
  public:
    // REQUIRES: everything passed outlives it; `stop` is set when the user asks to stop.
    IdleSource(const std::vector<LaneGpu>& gpus, const ReadLoad& read, const IdleOptions& options, const std::atomic<bool>* stop,
               IdleObserver& observer);

    // Whether other processes began to compute on the lane's card.
    bool wants_back(const LaneView& lane) override;
    void lane_out(const LaneView& lane) override;
    bool is_exhausted() const override;

    // Set when every item must be given back: the user asked to stop, and the time for finishing items is over.
    const std::atomic<bool>& gives_all_back() const { return gives_all_back_; }
    // A lane could not use its card, which then counts as busy.
    void card_failed(const LaneView& lane, const std::string& why);
    const IdleCounts& counts() const { return counts_; }

  protected:
    virtual bool has_in_hand() const = 0;
    // Whether the lane's card is idle; reads it.
    bool is_card_idle(const LaneView& lane, bool is_ahead);
    bool is_stopped() const;
    void count_as_useful() { useful_at_ = Clock::now(); }
    void remark_once(const std::string& text);
    IdleObserver& observer() { return observer_; }
    const std::vector<LaneGpu>& gpus() const { return gpus_; }

    IdleCounts counts_;

  private:
    bool is_out_of_time() const;

    const std::vector<LaneGpu>& gpus_;
    IdleOptions options_;
    const std::atomic<bool>* stop_;
    IdleObserver& observer_;
    std::vector<CardWatch> watches_;  // one a lane
    std::map<std::string, bool> remarked_;
    Clock::time_point useful_at_ = Clock::now();  // last time that an item was in hand or waiting
    mutable std::optional<Clock::time_point> stopped_at_;
    mutable std::atomic<bool> gives_all_back_{false};
};

}  // namespace autotune::tuner
