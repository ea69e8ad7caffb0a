#include "tuner/session/tune/trial_book.h"

namespace autotune::tuner {

std::optional<double> TrialBook::add(std::size_t point, Trial trial, bool counts) {
    constexpr double kBetter = 0.995;  // less is noise
    ++tried_;
    if (counts) ++since_better_;
    std::optional<double> time_us;
    if (trial.status == TrialStatus::ok) {
        time_us = rungs_.estimate_us(point);
        if (time_us && (!best_us_ || *time_us < *best_us_)) {
            if (!best_us_ || *time_us < kBetter * *best_us_) since_better_ = 0;
            best_us_ = time_us;
            best_point_ = point;
        }
    } else {
        ++failed_;
        rungs_.fail(point);
    }
    trials_[point] = std::move(trial);
    return time_us;
}

const Trial& TrialBook::charge(std::size_t point, TrialStatus status, const std::string& detail, bool by_circumstance) {
    Trial trial = trials_.at(point);
    trial.status = status;
    trial.timing.reset();
    trial.detail = detail;
    trial.by_circumstance = by_circumstance;
    add(point, std::move(trial));
    if (best_point_ == point) {
        const std::vector<std::size_t> left = rungs_.finalists();
        best_us_ = left.empty() ? std::nullopt : rungs_.estimate_us(left.front());
        best_point_ = left.empty() ? best_point_ : left.front();
    }
    return trials_.at(point);
}

bool TrialBook::is_right(std::size_t point) const {
    const auto trial = trials_.find(point);
    return trial != trials_.end() && trial->second.status == TrialStatus::ok;
}

std::vector<std::pair<std::string, int>> TrialBook::failures() const {
    std::map<std::string, int> counts;
    for (const auto& [point, trial] : trials_) {
        if (trial.status != TrialStatus::ok) ++counts[std::string(to_string(trial.status))];
    }
    return {counts.begin(), counts.end()};
}

}  // namespace autotune::tuner
