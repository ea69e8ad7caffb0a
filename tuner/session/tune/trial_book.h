#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tuner/measure/racing.h"

namespace autotune::tuner {

// The trials of one tune, by point of its space, and which of them is the best so far. Decides nothing: Rungs, which it holds,
// says who is measured how long.
class TrialBook {
  public:
    explicit TrialBook(const RungOptions& options) : rungs_(options) {}

    Rungs& rungs() { return rungs_; }
    const Rungs& rungs() const { return rungs_; }

    // A trial that ended. Its time is what the rungs estimate, which is returned; nullopt of one that failed.
    std::optional<double> add(std::size_t point, Trial trial);
    // What was right and timed turned out to be wrong, or to kill: counted as one more trial, a failed one, and never the best
    // again. Returns it as it stands now. REQUIRES: add(point) before.
    const Trial& charge(std::size_t point, TrialStatus status, const std::string& detail, bool by_circumstance = false);

    int tried() const { return tried_; }
    int failed() const { return failed_; }
    int since_better() const { return since_better_; }  // trials; what is better by less than noise is not
    std::optional<double> best_us() const { return best_us_; }
    // REQUIRES: something was right once.
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
