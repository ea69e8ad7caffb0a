#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "db/winner_store.h"
#include "tuner/session/idle/failed_problems.h"
#include "tuner/session/idle/idle_source.h"

namespace autotune::tuner {

// Problems from several databases for which library calls had no winner, for idle cards: those with most calls first. The lane
// that finds a winner stores it in the first database; this source copies it into every other database that missed the problem.
class MissSource : public IdleSource {
  public:
    // REQUIRES: everything passed outlives it. At least one store; `stop` is set when the user asks to stop.
    MissSource(std::vector<db::WinnerStore*> stores, const std::vector<LaneGpu>& gpus, const Catalogue& catalogue,
               FailedProblems& failed, const ReadLoad& read, const IdleOptions& options, const std::atomic<bool>* stop,
               IdleObserver& observer);

    std::optional<Item> take(const LaneView& lane, bool is_ahead) override;
    void done(const LaneView& lane, std::size_t id, SweepItem item) override;
    void failed(std::size_t id, Failure why, const std::string& detail) override;

    std::size_t waiting() const;

  protected:
    bool has_in_hand() const override { return !in_hand_.empty(); }

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
    void share(const Missed& missed, const SweepItem& item, const Device& device);

    std::vector<db::WinnerStore*> stores_;
    const Catalogue& catalogue_;
    FailedProblems& failed_;
    std::map<std::string, Missed> misses_;                    // by problem and device
    std::map<std::size_t, InHand> in_hand_;                   // by id
    std::map<std::string, Clock::time_point> settled_at_;     // when problems were tuned or found fresh, by problem and device
    std::map<std::string, std::optional<Problem>> problems_;  // the problems of rows, by their texts
    std::vector<std::filesystem::file_time_type> read_at_;    // the databases' times
    std::optional<Clock::time_point> looked_at_;
    std::size_t next_id_ = 0;
};

}  // namespace autotune::tuner
