#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "db/winner_store.h"
#include "tuner/session/idle/card_watch.h"
#include "tuner/session/idle/failed_problems.h"
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
    double item_s = 10;  // an item takes at most this long
    double give_back_after_s = 20;
};

struct IdleCounts {
    int tuned = 0, fresh = 0, failed = 0, given_back = 0;
};

// Problems from several databases for which library calls had no winner, for idle cards: those with most calls first. The lane
// that finds a winner stores it in the first database; this source copies it into every other database that missed the problem.
class MissSource : public WorkSource {
  public:
    // REQUIRES: everything passed outlives it. At least one store; `stop` is set when the user asks to stop.
    MissSource(std::vector<db::WinnerStore*> stores, const std::vector<LaneGpu>& gpus, const Catalogue& catalogue,
               FailedProblems& failed, const ReadLoad& read, const IdleOptions& options, const std::atomic<bool>* stop,
               IdleObserver& observer);

    std::optional<Item> take(const LaneView& lane, bool is_ahead) override;
    // Whether others began to compute on the lane's card.
    bool wants_back(const LaneView& lane) override;
    void lane_out(const LaneView& lane) override;
    bool is_exhausted() const override;
    void done(const LaneView& lane, std::size_t id, SweepItem item) override;
    void failed(std::size_t id, Failure why, const std::string& detail) override;

    // Set when every item must be given back: the user asked to stop, and the time for finishing items is over.
    const std::atomic<bool>& gives_all_back() const { return gives_all_back_; }
    // A lane could not use its card, which then counts as busy.
    void card_failed(const LaneView& lane, const std::string& why);

    const IdleCounts& counts() const { return counts_; }
    std::size_t waiting() const;

  private:
    struct Missed {
        Problem problem;
        std::string problem_key, device_key;
        std::int64_t calls = 0;
        std::string date;                 // date of the last call
        std::vector<std::size_t> stores;  // that missed it
    };
    struct InHand {
        Missed missed;
        std::size_t lane = 0;
    };
    static std::string key_of(const Missed& missed) { return missed.problem_key + " on " + missed.device_key; }
    void look_for_misses();
    bool read_misses(std::map<std::string, Missed>& to);
    const std::optional<Problem>& problem_of_miss(const db::MissRow& row);
    bool has_card(const std::string& device_key) const;
    bool is_waiting(const std::string& key, const Missed& missed) const;
    bool has_waiting() const;
    const Missed* best_for(const std::string& device_key) const;
    bool is_in_hand(const std::string& key) const;
    bool is_stopped() const;
    bool is_out_of_time() const;
    void share(const Missed& missed, const SweepItem& item, const Device& device);
    void remark_once(const std::string& text);

    std::vector<db::WinnerStore*> stores_;
    const std::vector<LaneGpu>& gpus_;
    const Catalogue& catalogue_;
    FailedProblems& failed_;
    IdleOptions options_;
    const std::atomic<bool>* stop_;
    IdleObserver& observer_;
    std::vector<CardWatch> watches_;                       // one a lane
    std::map<std::string, Missed> misses_;                 // by problem and device
    std::map<std::size_t, InHand> in_hand_;                // by id
    std::map<std::string, Clock::time_point> settled_at_;  // what was tuned or found fresh, by problem and device
    std::map<std::string, bool> remarked_;
    std::map<std::string, std::optional<Problem>> problems_;  // the problems of rows, by their texts
    std::vector<std::filesystem::file_time_type> read_at_;    // the databases' times
    std::optional<Clock::time_point> looked_at_;
    Clock::time_point useful_at_ = Clock::now();  // last time that an item was in hand or waiting
    mutable std::optional<Clock::time_point> stopped_at_;
    mutable std::atomic<bool> gives_all_back_{false};
    std::size_t next_id_ = 0;
    IdleCounts counts_;
};

}  // namespace autotune::tuner
