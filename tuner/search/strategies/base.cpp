#include "tuner/search/strategies/base.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "src/core/error.h"

namespace autotune::tuner {
namespace {

// The expected improvement of `more` draws over the best of `times_us`, as a share of it. Assumes that the logarithms of the
// fastest tenth have an exponential tail, whose mean the normalised spacings estimate (Renyi 1953; Weissman 1978): the record of
// n draws lies mean * (1 + 1/2 + ... + 1/n) from the start of the tail.
double gain_of_more_draws(std::vector<double> times_us, std::size_t more) {
    constexpr std::size_t kLeast = 4;
    const std::size_t drawn = times_us.size();
    if (drawn < 2) return more > 0 ? 1 : 0;
    std::sort(times_us.begin(), times_us.end());
    const std::size_t tail = std::min(drawn - 1, std::max(kLeast, drawn / 10));
    double mean = 0;
    for (std::size_t i = 0; i < tail; ++i) mean += std::log(times_us[tail] / times_us[i]) / static_cast<double>(tail);
    const double records = std::log1p(static_cast<double>(more) / static_cast<double>(drawn));
    return -std::expm1(-mean * records);
}

}  // namespace

BaseStrategy::BaseStrategy(std::string name, const Domain& domain, std::uint64_t seed)
    : name_(std::move(name)),
      domain_(domain),
      random_(seed),
      seeds_(domain.seeds.begin(), domain.seeds.end()),
      fresh_(domain.size),
      place_(domain.size),
      times_us_(domain.size),
      reported_(domain.size, false) {
    std::iota(fresh_.begin(), fresh_.end(), std::size_t{0});
    std::iota(place_.begin(), place_.end(), std::size_t{0});
}

std::vector<std::size_t> BaseStrategy::ask(std::size_t count) {
    std::vector<std::size_t> given;
    while (given.size() < count && !fresh_.empty()) {
        std::optional<std::size_t> point;
        if (!seeds_.empty()) {
            point = seeds_.front();
            seeds_.pop_front();
            check(*point < domain_.size, "a seed outside the domain");
            if (!is_fresh(*point)) continue;
        } else {
            point = propose();
            if (!point && pending_ > 0) break;
            if (!point) point = random_fresh();
        }
        give(*point);
        given.push_back(*point);
    }
    return given;
}

std::vector<std::size_t> BaseStrategy::ask_compiled(std::size_t count) {
    std::vector<std::size_t> given;
    while (given.size() < count && !fresh_.empty()) {
        const std::optional<std::size_t> point = propose_compiled();
        if (!point) break;
        give(*point);
        given.push_back(*point);
    }
    return given;
}

void BaseStrategy::give(std::size_t point) {
    check(is_fresh(point), "a strategy gave a point twice");
    const std::size_t hole = place_[point];
    fresh_[hole] = fresh_.back();
    place_[fresh_[hole]] = hole;
    fresh_.pop_back();
    place_[point] = kGone;
    ++pending_;
}

void BaseStrategy::report(std::size_t point, std::optional<double> time_us) {
    check(point < domain_.size, "a report of a point outside the domain");
    if (reported_[point]) return;
    // Stored trials of an earlier run may be reported although no ask() returned them.
    if (is_fresh(point)) give(point);
    --pending_;
    reported_[point] = true;
    times_us_[point] = time_us;
    if (time_us) worked_us_.push_back(*time_us);
    heard(point, time_us);
}

std::optional<Outlook> BaseStrategy::outlook() {
    if (worked_us_.empty()) return std::nullopt;
    const std::size_t left = fresh_.size() + pending_;
    if (left == 0) return Outlook{};
    if (tries_all()) return std::nullopt;
    const std::size_t more = std::min(left, worked_us_.size());  // assumes as many further draws as there were points tried
    const std::optional<double> modelled = expected_gain();
    return Outlook{.gain = modelled ? *modelled : gain_of_more_draws(worked_us_, more), .left = left};
}

std::size_t BaseStrategy::promising_fresh() {
    constexpr int kHandful = 16;
    std::size_t best = random_fresh();
    std::optional<double> best_prior = domain_.prior(best);
    for (int i = 1; best_prior && i < kHandful; ++i) {
        const std::size_t other = random_fresh();
        const std::optional<double> prior = domain_.prior(other);
        if (!prior || *prior >= *best_prior) continue;
        best = other;
        best_prior = prior;
    }
    return best;
}

}  // namespace autotune::tuner
