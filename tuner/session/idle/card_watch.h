#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "src/core/system/clock.h"
#include "src/gpu/nvml.h"

namespace autotune::tuner {

// Reads the load of the card with this UUID, like gpu::Nvml::load().
using ReadLoad = std::function<gpu::CardLoad(const std::string& uuid, unsigned long long& since_us)>;

// Tells whether a card is idle, and whether other processes begin to compute on it while we tune there. If NVML reports when
// processes compute, a card also counts as idle if others hold memory and a context, like a paused program.
class CardWatch {
  public:
    // `idle_s` is the time without load after which a card counts as idle. With 0 a card always counts as idle, and nothing is
    // read.
    CardWatch(std::string uuid, ReadLoad read, double idle_s);

    // Reads the card, at most five times a second. `at_work` says that we are tuning an item there, so the load may be ours.
    void look(bool at_work);
    bool is_idle() const { return idle_s_ == 0 || (has_looked_ && seconds_since(busy_at_) >= idle_s_); }
    // Whether other processes computed on the card at the last reading.
    bool is_others() const { return is_others_; }
    // Why the card was busy when it was last busy, as a clause; empty if it was never busy.
    const std::string& why_busy() const { return why_busy_; }
    // Counts the card as busy now, for a reason that NVML does not report.
    void count_as_busy(const std::string& why);

  private:
    std::string busy_because(const gpu::CardLoad& load, bool may_be_ours);
    std::string foreign_load(const gpu::CardLoad& load, bool may_be_ours);
    bool is_own(unsigned pid);

    std::string uuid_;
    ReadLoad read_;
    double idle_s_;
    bool has_looked_ = false, is_others_ = false;
    unsigned long long since_us_ = 0;
    Clock::time_point busy_at_ = Clock::now(), looked_at_{}, ours_at_{};
    bool was_ours_ = false;
    std::string why_busy_;
    std::set<unsigned> before_us_;  // processes that were on the card while we were not
    std::map<unsigned, bool> own_;  // whether a process is a descendant of this one, by pid
};

}  // namespace autotune::tuner
