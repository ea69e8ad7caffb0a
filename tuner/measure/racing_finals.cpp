#include <algorithm>
#include <cmath>
#include <limits>

#include "src/core/error.h"
#include "src/core/statistics/random.h"
#include "src/core/statistics/statistics.h"
#include "tuner/measure/racing.h"

namespace autotune::tuner {
namespace {

// A check takes one bootstrap per finalist. So it is made only every few rounds, which also limits how often chance can end a
// race.
constexpr int kRoundsBetweenLooks = 5;
constexpr double kEliminationConfidence = 0.999;
constexpr double kNotRun = std::numeric_limits<double>::quiet_NaN();

std::optional<int> median_of(std::span<const Conditions> seen, std::optional<int> Conditions::*member) {
    std::vector<double> known;
    for (const Conditions& one : seen) {
        if (one.*member) known.push_back(static_cast<double>(*(one.*member)));
    }
    if (known.empty()) return std::nullopt;
    return static_cast<int>(std::llround(stats::median(known)));
}

}  // namespace

Conditions summary_of(std::span<const Conditions> seen) {
    Conditions result;
    result.sm_clock_mhz = median_of(seen, &Conditions::sm_clock_mhz);
    result.power_w = median_of(seen, &Conditions::power_w);
    result.temperature_c = median_of(seen, &Conditions::temperature_c);
    for (const Conditions& one : seen) {
        if (one.throttle_reasons) result.throttle_reasons = result.throttle_reasons.value_or(0) | *one.throttle_reasons;
    }
    return result;
}

FinalRounds::FinalRounds(std::vector<FinalistInfo> finalists, const FinalOptions& options) : options_(options) {
    for (FinalistInfo& info : finalists) lanes_.push_back({.info = std::move(info), .times_us = {}, .seen = {}});
    check(!contenders().empty(), "final rounds without a finalist that may win");
    shuffle_order();
}

void FinalRounds::shuffle_order() {
    order_.clear();
    if (contenders().empty()) return;
    for (std::size_t i = 0; i < lanes_.size(); ++i) {
        if (lanes_[i].running) order_.push_back(i);
    }
    Random random(options_.seed * 0x9e3779b97f4a7c15u + ++shuffles_);
    random.shuffle(std::span(order_));
}

bool FinalRounds::report_round(std::span<const double> times_us, std::span<const Conditions> conditions) {
    check(times_us.size() == order_.size() && !order_.empty(), "a round with another number of times than finalists");
    check(conditions.empty() || conditions.size() == order_.size(), "a round with another number of readings than finalists");
    const bool is_void = std::any_of(conditions.begin(), conditions.end(), [&](const Conditions& one) {
        return (one.throttle_reasons.value_or(0) & options_.voiding_throttle_reasons) != 0;
    });
    if (is_void && ++void_rounds_ <= options_.most_void_rounds) {
        shuffle_order();
        return false;
    }
    for (Lane& lane : lanes_) lane.times_us.push_back(kNotRun);
    for (std::size_t i = 0; i < order_.size(); ++i) {
        check(times_us[i] > 0, "a time that is not positive");
        lanes_[order_[i]].times_us.back() = times_us[i];
        if (!conditions.empty()) lanes_[order_[i]].seen.push_back(conditions[i]);
    }
    ++rounds_;
    advance();
    return true;
}

void FinalRounds::advance() {
    const bool look = rounds_ % kRoundsBetweenLooks == 0;
    if (look && options_.eliminate_after > 0 && rounds_ >= options_.eliminate_after) eliminate();
    const bool enough = rounds_ >= options_.least_rounds && (rounds_ >= options_.most_rounds || (look && decided()));
    if (enough) {
        order_.clear();
    } else {
        shuffle_order();
    }
}

void FinalRounds::eliminate() {
    const std::size_t leader = fastest(contenders());
    for (const std::size_t other : contenders()) {
        if (other != leader && row(other, leader, kEliminationConfidence).ratio_low > options_.eliminate_ratio()) {
            lanes_[other].running = false;
        }
    }
}

void FinalRounds::fail(std::size_t finalist) {
    lanes_.at(finalist).running = false;
    lanes_.at(finalist).failed = true;
    if (order_.empty()) return;
    // If finalists that eliminated others have failed since, the eliminated ones return to the race.
    if (contenders().empty()) {
        for (Lane& lane : lanes_) lane.running = lane.running || (lane.info.may_win && !lane.failed);
    }
    shuffle_order();
}

std::vector<std::size_t> FinalRounds::contenders() const {
    std::vector<std::size_t> result;
    for (std::size_t i = 0; i < lanes_.size(); ++i) {
        if (lanes_[i].running && lanes_[i].info.may_win) result.push_back(i);
    }
    return result;
}

// Compares the median over rounds of a time divided by its round's geometric mean, so that drift between rounds cancels for all.
std::size_t FinalRounds::fastest(const std::vector<std::size_t>& among) const {
    std::vector<std::vector<double>> relative(among.size());
    for (std::size_t round = 0; round < static_cast<std::size_t>(rounds_); ++round) {
        const bool has_all =
            std::none_of(among.begin(), among.end(), [&](std::size_t lane) { return std::isnan(lanes_[lane].times_us[round]); });
        if (!has_all) continue;  // A finalist left the race before this round; only the first rounds have all finalists.
        double mean_log = 0;
        for (const std::size_t lane : among) mean_log += std::log(lanes_[lane].times_us[round]);
        mean_log /= static_cast<double>(among.size());
        for (std::size_t i = 0; i < among.size(); ++i) {
            relative[i].push_back(std::log(lanes_[among[i]].times_us[round]) - mean_log);
        }
    }
    std::size_t best = 0;
    std::vector<double> scores;
    for (const std::vector<double>& one : relative) scores.push_back(stats::median(one));
    for (std::size_t i = 1; i < scores.size(); ++i) {
        if (scores[i] < scores[best]) best = i;
    }
    return among.at(best);
}

FinalRow FinalRounds::row(std::size_t finalist, std::size_t baseline, double confidence) const {
    FinalRow result{.finalist = finalist, .timing = {}, .conditions = summary_of(lanes_[finalist].seen)};
    std::vector<double> own, paired, base;
    for (std::size_t round = 0; round < static_cast<std::size_t>(rounds_); ++round) {
        const double time_us = lanes_[finalist].times_us[round];
        const double base_us = lanes_[baseline].times_us[round];
        if (std::isnan(time_us)) continue;
        own.push_back(time_us);
        if (std::isnan(base_us)) continue;
        paired.push_back(time_us);
        base.push_back(base_us);
    }
    result.rounds = static_cast<int>(own.size());
    if (!own.empty()) result.timing = stats::summarize(own);
    if (paired.empty()) return result;
    const stats::Estimate ratio =
        stats::bootstrap_median(stats::paired_ratios(paired, base), {.confidence = confidence, .seed = options_.seed});
    result.ratio = ratio.value;
    result.ratio_low = ratio.low;
    result.ratio_high = ratio.high;
    result.tie = (ratio.low <= 1 && ratio.high >= 1) || std::abs(ratio.value - 1) < options_.tie_gap;
    return result;
}

// Whether more rounds would not change the verdict: each rival of the leader is surely within the tie gap or surely beyond it, or
// its interval is so narrow that it lies on the gap's edge.
bool FinalRounds::decided() const {
    const double confidence = rounds_ < options_.usual_rounds ? options_.early_confidence : options_.confidence;
    const std::vector<std::size_t> racing = contenders();
    const std::size_t leader = fastest(racing);
    return std::all_of(racing.begin(), racing.end(), [&](std::size_t other) {
        if (other == leader) return true;
        const FinalRow against = row(other, leader, confidence);
        return against.ratio_high < 1 + options_.tie_gap || against.ratio_low > 1 + options_.tie_gap ||
               against.ratio_high - against.ratio_low < options_.narrow();
    });
}

// The previous winner, if it is within the tie gap of the fastest. Otherwise the finalist within the tie gap that uses the fewest
// resources. Among equals it is the faster one if its lead exceeds the noise, else the first by name. A wide interval alone is
// not a tie: in 10 rounds at the power limit the intervals of kernels that are 2 to 7 % slower contained 1.
std::size_t FinalRounds::first_of_ties(std::vector<std::size_t> ties, std::string& decided_by) const {
    for (const std::size_t lane : ties) {
        if (!lanes_[lane].info.is_previous_winner) continue;
        decided_by = "tie: previous winner";
        return lane;
    }
    const std::size_t leader = fastest(ties);
    std::erase_if(ties, [&](std::size_t lane) {
        return lane != leader && row(lane, leader, options_.confidence).ratio >= 1 + options_.tie_gap;
    });
    decided_by = "tie: lower median";
    if (ties.size() == 1) return leader;
    Resources least = lanes_[ties.front()].info.resources;
    for (const std::size_t lane : ties) least = std::min(least, lanes_[lane].info.resources);
    decided_by = "tie: fewer resources";
    std::erase_if(ties, [&](std::size_t lane) { return lanes_[lane].info.resources != least; });
    if (ties.size() == 1) return ties.front();
    decided_by = "tie: fixed order";
    const std::size_t lead = fastest(ties);
    std::erase_if(ties, [&](std::size_t lane) { return lane != lead && row(lane, lead, options_.confidence).ratio_low > 1; });
    return *std::min_element(ties.begin(), ties.end(), [&](std::size_t left, std::size_t right) {
        return lanes_[left].info.name < lanes_[right].info.name;
    });
}

Verdict FinalRounds::verdict() const {
    const std::vector<std::size_t> racing = contenders();
    check(rounds_ > 0 && !racing.empty(), "a verdict without a counted round or a finalist");
    const std::size_t leader = fastest(racing);
    std::vector<std::size_t> ties;
    for (const std::size_t lane : racing) {
        if (lane == leader || row(lane, leader, options_.confidence).tie) ties.push_back(lane);
    }
    const bool alone = std::count_if(lanes_.begin(), lanes_.end(), [](const Lane& lane) { return lane.info.may_win; }) == 1;
    std::string decided_by = alone ? "only candidate" : "faster";
    const std::size_t winner = ties.size() == 1 ? leader : first_of_ties(std::move(ties), decided_by);
    return verdict_for(winner, std::move(decided_by));
}

Verdict FinalRounds::verdict_for(std::size_t winner, std::string decided_by) const {
    Verdict result;
    result.winner = winner;
    result.decided_by = std::move(decided_by);
    result.rows = rows_against(winner);
    std::stable_sort(result.rows.begin(), result.rows.end(), [&](const FinalRow& left, const FinalRow& right) {
        if ((left.finalist == winner) != (right.finalist == winner)) return left.finalist == winner;
        return left.ratio < right.ratio;
    });
    result.rounds = rounds_;
    result.void_rounds = void_rounds_;
    result.throttled = void_rounds_ > options_.most_void_rounds;
    result.conditions = conditions();
    return result;
}

std::vector<std::size_t> FinalRounds::near_to(std::size_t finalist, double ratio, std::size_t most) const {
    std::vector<FinalRow> rows;
    for (std::size_t i = 0; i < lanes_.size(); ++i) {
        if (i == finalist || lanes_[i].failed || !lanes_[i].info.may_win) continue;
        rows.push_back(row(i, finalist, options_.confidence));
        if (rows.back().rounds == 0 || rows.back().ratio > ratio) rows.pop_back();
    }
    const auto rank = [&](const FinalRow& one) {
        const FinalistInfo& info = lanes_[one.finalist].info;
        return std::pair(!info.is_previous_winner && !info.is_default, one.ratio);
    };
    std::stable_sort(rows.begin(), rows.end(),
                     [&](const FinalRow& left, const FinalRow& right) { return rank(left) < rank(right); });
    std::vector<std::size_t> chosen = {finalist};
    for (const FinalRow& one : rows) {
        if (chosen.size() < most) chosen.push_back(one.finalist);
    }
    return chosen;
}

std::vector<FinalRow> FinalRounds::rows_against(std::size_t baseline) const {
    std::vector<FinalRow> rows;
    for (std::size_t i = 0; i < lanes_.size(); ++i) {
        if (!lanes_[i].failed) rows.push_back(row(i, baseline, options_.confidence));
    }
    return rows;
}

Conditions FinalRounds::conditions() const {
    std::vector<Conditions> all;
    for (const Lane& lane : lanes_) all.insert(all.end(), lane.seen.begin(), lane.seen.end());
    return summary_of(all);
}

}  // namespace autotune::tuner
