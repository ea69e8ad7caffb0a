#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tuner/measure/racing.h"

namespace autotune::tuner {

// The trials of one tune, by point of its space, and the best so far. Decides nothing: Rungs, which it owns, decides who is
// measured how long.
class TrialBook {
  public:
    explicit TrialBook(const RungOptions& options) : rungs_(options) {}

    Rungs& rungs() { return rungs_; }
    const Rungs& rungs() const { return rungs_; }

    // Adds a trial that ended. Returns its time as the rungs estimate it; nullopt if it failed. `counts`: whether it is one of
    // those since the last improvement, if it is none.
    std::optional<double> add(std::size_t point, Trial trial, bool counts = true);
    // A candidate that was right and timed turned out to be wrong, or to kill the worker: adds a failed trial for it and excludes
    // it from being the best. Returns it in its new state. REQUIRES: add(point) before.
    const Trial& charge(std::size_t point, TrialStatus status, const std::string& detail, bool by_circumstance = false);

    int tried() const { return tried_; }
    int failed() const { return failed_; }
    // Trials since the last improvement; improvements within the noise do not count.
    int since_better() const { return since_better_; }
    std::optional<double> best_us() const { return best_us_; }
    // REQUIRES: some candidate was right.
    std::size_t best_point() const { return best_point_; }
    bool is_right(std::size_t point) const;
    const Trial& at(std::size_t point) const { return trials_.at(point); }
    const std::map<std::size_t, Trial>& trials() const { return trials_; }
    // Failed trials by status, in alphabetical order.
    std::vector<std::pair<std::string, int>> failures() const;

  private:
    Rungs rungs_;
    std::map<std::size_t, Trial> trials_;
    int tried_ = 0, failed_ = 0, since_better_ = 0;
    std::optional<double> best_us_;
    std::size_t best_point_ = 0;
};

}  // namespace autotune::tuner
