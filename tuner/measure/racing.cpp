#include "tuner/measure/racing.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "src/core/error.h"
#include "src/core/statistics/statistics.h"

namespace autotune::tuner {
namespace {

std::size_t share(std::size_t count, double fraction) {
    return static_cast<std::size_t>(std::ceil(static_cast<double>(count) * fraction));
}

}  // namespace

bool is_enough(const Step& step, std::span<const double> samples_us) {
    if (!step.enough_above_us) return false;
    const double time_us = step.by_interval ? stats::median_interval(samples_us).low : stats::median(samples_us);
    return time_us > *step.enough_above_us;
}

Rungs::Rungs(const RungOptions& options) : options_(options) {}

Measurement Rungs::measurement(int rung, double time_us) const {
    return {.rung = rung, .samples = options_.probe_samples, .time_us = time_us, .most_samples = options_.most_samples};
}

std::optional<Measurement> Rungs::next(std::size_t candidate) const {
    const auto found = entries_.find(candidate);
    if (found == entries_.end()) return measurement(0, 0);
    const Entry& entry = found->second;
    if (entry.failed || entry.dropped || entry.finished) return std::nullopt;
    if (entry.rung == 0) return measurement(1, options_.rung1_piece_us);
    return measurement(1, options_.rung1_us - options_.rung1_piece_us);
}

std::vector<Step> Rungs::climb() const {
    const std::optional<double> best = best_us();
    const auto times_best = [&](double ratio) { return best ? std::optional(ratio * *best) : std::nullopt; };
    return {{.measurement = measurement(0, 0), .enough_above_us = times_best(options_.drop_ratio)},
            {.measurement = measurement(1, options_.rung1_piece_us),
             .enough_above_us = times_best(options_.behind_ratio),
             .by_interval = true},
            {.measurement = measurement(1, options_.rung1_us - options_.rung1_piece_us)}};
}

void Rungs::report(std::size_t candidate, std::span<const double> samples_us) {
    check(!samples_us.empty(), "a rung was reported without samples");
    check(std::all_of(samples_us.begin(), samples_us.end(), [](double us) { return us > 0; }), "a time that is not positive");
    const std::optional<double> best = best_us();
    Entry& entry = entries_[candidate];
    const bool second_piece = entry.rung == 1 && !entry.finished;
    entry.rung = entry.finished ? 2 : std::min(entry.rung + 1, 1);
    if (!second_piece) entry.samples_us.clear();
    entry.samples_us.insert(entry.samples_us.end(), samples_us.begin(), samples_us.end());
    entry.estimate_us = stats::median(entry.samples_us);
    if (entry.rung == 0) entry.dropped = best && entry.estimate_us > options_.drop_ratio * *best;
    if (entry.rung == 1) entry.finished = second_piece || behind(entry, best);
}

bool Rungs::behind(const Entry& entry, std::optional<double> best) const {
    return best && stats::median_interval(entry.samples_us).low > options_.behind_ratio * *best;
}

void Rungs::fail(std::size_t candidate) {
    entries_[candidate].failed = true;
}

std::optional<double> Rungs::best_us() const {
    std::optional<double> best;
    int best_rung = 0;
    for (const auto& [candidate, entry] : entries_) {
        if (entry.failed || entry.dropped || entry.samples_us.empty()) continue;
        const int rung = std::min(entry.rung, 1);
        if (rung < best_rung || (rung == best_rung && best && *best <= entry.estimate_us)) continue;
        best = entry.estimate_us;
        best_rung = rung;
    }
    return best;
}

std::optional<double> Rungs::estimate_us(std::size_t candidate) const {
    const auto found = entries_.find(candidate);
    if (found == entries_.end() || found->second.failed || found->second.samples_us.empty()) return std::nullopt;
    return found->second.estimate_us;
}

std::optional<Timing> Rungs::timing(std::size_t candidate) const {
    if (!estimate_us(candidate)) return std::nullopt;
    return stats::summarize(entries_.at(candidate).samples_us);
}

bool Rungs::dropped(std::size_t candidate) const {
    const auto found = entries_.find(candidate);
    return found != entries_.end() && found->second.dropped;
}

std::vector<std::size_t> Rungs::ranked(int least_rung) const {
    std::vector<std::pair<double, std::size_t>> order;
    for (const auto& [candidate, entry] : entries_) {
        if (entry.failed || entry.dropped || entry.rung < least_rung) continue;
        order.emplace_back(entry.estimate_us, candidate);
    }
    std::sort(order.begin(), order.end());
    std::vector<std::size_t> result;
    for (const auto& [time_us, candidate] : order) result.push_back(candidate);
    return result;
}

// The first two candidates always stay.
void Rungs::leave_out_hopeless(std::vector<std::size_t>& order) const {
    constexpr std::size_t kAlways = 2;
    if (order.size() <= kAlways) return;
    double best_us = std::numeric_limits<double>::infinity();
    for (const std::size_t candidate : order) best_us = std::min(best_us, entries_.at(candidate).estimate_us);
    const auto is_hopeless = [&](std::size_t one) { return entries_.at(one).estimate_us > options_.chance_ratio * best_us; };
    order.erase(std::remove_if(order.begin() + kAlways, order.end(), is_hopeless), order.end());
}

std::vector<std::size_t> Rungs::rung2() const {
    std::vector<std::size_t> order = ranked(1);
    leave_out_hopeless(order);
    const std::size_t least = std::max(options_.keep_least, options_.finalists);
    const std::size_t most = std::max(options_.keep_most, 2 * options_.finalists);
    const std::size_t keep = std::clamp(share(order.size(), options_.keep_fraction), least, most);
    if (order.size() > keep) order.resize(keep);
    return order;
}

Measurement Rungs::rung2_measurement() const {
    return measurement(2, options_.rung2_us);
}

std::vector<std::size_t> Rungs::finalists() const {
    std::vector<std::size_t> order = ranked(2);
    // If the budget ended the search early, too few candidates finished rung 2. The missing ones come from rung 1, after the
    // better known ones.
    for (const std::size_t candidate : ranked(0)) {
        if (entries_.at(candidate).rung < 2) order.push_back(candidate);
    }
    leave_out_hopeless(order);
    if (order.size() > options_.finalists) order.resize(options_.finalists);
    return order;
}

}  // namespace autotune::tuner
