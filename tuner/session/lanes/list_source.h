#pragma once

#include <string>
#include <vector>

#include "src/core/system/clock.h"
#include "tuner/session/lanes/lanes.h"
#include "tuner/session/lanes/work_source.h"

namespace autotune::tuner {

// The list of a sweep on several GPUs. Each kind of card among them gets every problem. A lane preferably gets problems of the
// class that it had last, whose instances are compiled; otherwise the longest ones come first, so that the lanes end together. If
// the time of the sweep is limited, problems are begun in the order of the list.
class ListSource : public WorkSource {
  public:
    // REQUIRES: everything passed outlives it. `observer` may be nullptr.
    ListSource(const std::vector<Problem>& problems, const std::vector<LaneGpu>& gpus, const SweepOptions& options,
               const TuneServices& services, SweepObserver* observer);

    std::optional<Item> take(const LaneView& lane, bool is_ahead) override;
    void lane_out(const LaneView& lane) override;
    bool is_exhausted() const override;
    void done(const LaneView& lane, std::size_t id, SweepItem item) override;
    void failed(std::size_t id, Failure why, const std::string& detail) override;

    bool all_settled() const { return settled_ == entries_.size(); }
    // Adds the reason to items that were never begun, and returns all items in the order of the list, by kind of card.
    std::vector<SweepItem> finish();

  private:
    enum class Stage { waiting, in_hand, settled };
    struct Entry {
        SweepItem item;
        std::string device_key;
        std::string class_key;
        double work = 0;  // for comparing problems
        Stage stage = Stage::waiting;
    };
    void add(const Problem& problem, const LaneGpu& gpu);
    void settle(Entry& entry);
    void give_up(Entry& entry) const;
    std::size_t lanes_for(const std::string& device_key) const;
    bool is_another_lanes(const std::string& class_key, std::size_t lane) const;
    bool is_stopped() const { return services_.stop != nullptr && services_.stop->load(); }
    bool out_of_time() const { return options_.total_seconds > 0 && seconds_since(begun_) >= options_.total_seconds; }

    SweepOptions options_;
    const TuneServices& services_;
    SweepObserver* observer_;
    std::vector<LaneGpu> gpus_;
    Clock::time_point begun_ = Clock::now();
    std::vector<Entry> entries_;
    std::vector<std::string> classes_;  // the last class of each lane
    std::vector<bool> is_out_;          // by lane
    std::size_t settled_ = 0;
    double tuned_seconds_ = 0;
    int tuned_ = 0;
};

struct LanesSweep {
    std::vector<SweepItem> items;
    std::vector<LaneReport> lanes;
};
// sweep() on several GPUs. Throws Error{gpu_unhealthy} if every GPU is out; services.device and related members are not used.
LanesSweep sweep_on(const std::vector<LaneGpu>& gpus, const std::vector<Problem>& problems, const SweepOptions& options,
                    const db::OpenOptions& store, TuneServices& services, SweepObserver* observer);

}  // namespace autotune::tuner
