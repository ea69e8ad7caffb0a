#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numbers>
#include <numeric>
#include <optional>
#include <unordered_map>
#include <unordered_set>

#include "tuner/search/strategies/base.h"
#include "tuner/search/strategies/coordinates.h"
#include "tuner/search/strategies/strategies.h"
#include "tuner/search/strategies/surrogate.h"
#include "tuner/search/strategies/walk.h"

namespace autotune::tuner {
namespace {

// Chosen on the recorded spaces and on ten synthetic ones (docs/results/search.md); none is sensitive to a factor of 1.5.
constexpr std::size_t kStarts = 5;  // points before the model is used
// If a space is too large, the model covers the points with the best prior and as many random ones.
constexpr std::size_t kExpected = 4'000;
constexpr std::size_t kApart = 4;      // parameters in which a search's first instances must differ
constexpr std::size_t kGuessed = 4;    // one in this many of the first points is random, because the prior may be wrong
constexpr double kRefitGrowth = 1.15;  // rates are fitted again when the observations have grown by this factor
constexpr std::size_t kMostObservations = 256, kMostColumns = 20'000;  // keeps an ask near 3 ms
constexpr double kKnownInstanceBonus = 1.0;  // in log improvement, for points whose instance is already compiled
// A point that needs no compilation is measured while the GPU would wait for compilers, if at least this share of the best time
// is expected of it.
constexpr double kLeastCompiledGain = 0.0005;
constexpr double kFailureStep = 0.1;   // a failed point counts as slower than predicted by this, in speeds of the first point
constexpr std::size_t kPatience = 60;  // evaluations without progress, after which every second point comes from the local walk
constexpr double kProgress = 0.001;
constexpr std::size_t kWalkStarts = 4;
// Improvement is expected over a speed this much above the best one. With plain expected improvement a search spends tens of
// evaluations on points that are predicted to be a percent better, because they differ only in parameters that hardly matter.
constexpr double kMargin = 0.3;
// A cost model already distinguishes points that differ by this much. On three spaces of an H200 with its predictions, the best
// of 60 trials was 0.44 % behind the best of 150 with a margin of 0.3, 0.31 % with 0.08 and 0.21 % with 0.03 (mean of 48
// searches).
constexpr double kInformedMargin = 0.05;
constexpr double kMarginHalfLife = 20;  // evaluations without progress after which the margin is halved
// After this many evaluations without progress, and again after each kStallAgain more, each parameter of the best point is varied
// once. The model may have seen a parameter only in points where the parameter does not matter, or where another parameter hides
// its effect.
constexpr std::size_t kStall = 5, kStallAgain = 25;
// The expected gain is that of the best of the most promising points. Each point counts to the extent that the points before it
// do not predict its time. The number of these points is the number of trials, within these limits.
constexpr std::size_t kLeastOutlookPoints = 16, kOutlookPoints = 64;
constexpr int kOutlookSteps = 48;  // steps of the integral over improvements
// The expected gain is multiplied by the share of earlier expected improvements that came true. At the start of a search, an
// expected gain of this size counts as having come true.
constexpr double kTrustedGain = 0.02;
constexpr double kBeliefHalfLife = 40;  // after this many points, what came true of an expectation counts half
// At first the model is too sure of itself. After some 40 trials, three times the expected gain came true with made-up errors of
// cost models, and ten times on recorded spaces with cliffs. There the last trials give a better estimate: if times have an
// exponential tail, doubling the number of trials again gains what the last doubling gained. So the gain is at least the
// geometric mean of the two estimates (docs/results/search.md has the calibration, and the spaces that it was not fitted to).
constexpr double kTooSure = 3;
constexpr double kTooSureHalfLife = 40;  // tested points after which half of that excess is left
// Without a cost model it is surer still, and knows of no neighbour that a cost model would have put first. So its word counts
// only after each parameter of the best point was varied this often since that point was found.
constexpr int kRoundsAlone = 2;
constexpr double kUnknownGain = 0.02;     // until then
constexpr double kLeastProgress = 0.005;  // assumed where the last trials brought nothing
// So many points given on the model's word are reported before its outlook counts: a model of seeds alone knows of no neighbours.
constexpr int kLeastTested = 6;

// Logarithm of the expected improvement on `best` (Jones, Schonlau, Welch 1998), by its asymptote if the density underflows.
double log_improvement(const Belief& belief, double best) {
    const double z = (best - belief.mean) / belief.deviation;
    const double log_root_two_pi = std::log(2 * std::numbers::pi) / 2;
    if (z < -6) return std::log(belief.deviation) - z * z / 2 - 2 * std::log(-z) - log_root_two_pi;
    const double density = std::exp(-z * z / 2 - log_root_two_pi);
    return std::log(belief.deviation) + std::log(z * std::erfc(-z / std::numbers::sqrt2) / 2 + density);
}

double expected_improvement(const Belief& belief, double best) {
    return std::exp(log_improvement(belief, best)) * (1 - belief.failure);
}

// The value that the process models: the negative speed, relative to a reference, because it minimises. Logarithms of times, in
// which spaces span a factor of ten, would weight slow points too much: with them gemm_rtx3090 needs a third more evaluations.
double value_of(double time_us, double reference_us) {
    return -reference_us / time_us;
}

// The prior as centred values, for use as a trend; empty if its predictions are all alike.
std::vector<float> trend_of(const Domain& domain) {
    std::vector<std::size_t> known;
    std::vector<double> prior_us(domain.size);
    double log_sum = 0;
    for (std::size_t point = 0; point < domain.size; ++point) {
        const std::optional<double> prior = domain.prior(point);
        if (!prior || *prior <= 0) continue;
        prior_us[point] = *prior;
        log_sum += std::log(*prior);
        known.push_back(point);
    }
    if (known.empty()) return {};
    const double reference_us = std::exp(log_sum / static_cast<double>(known.size()));
    std::vector<float> trend(domain.size, 0);
    double sum = 0;
    for (const std::size_t point : known) {
        trend[point] = static_cast<float>(value_of(prior_us[point], reference_us));
        sum += static_cast<double>(trend[point]);
    }
    const float mean = static_cast<float>(sum / static_cast<double>(known.size()));
    for (const std::size_t point : known) trend[point] -= mean;
    const bool differs =
        std::any_of(known.begin(), known.end(), [&](std::size_t point) { return std::abs(trend[point]) > 1e-3f; });
    return differs ? trend : std::vector<float>();
}

// The best kExpected points in the order of a trend; none without a trend.
std::vector<std::size_t> expected_order(const std::vector<float>& trend) {
    std::vector<std::size_t> order(trend.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    const auto last = order.begin() + static_cast<std::ptrdiff_t>(std::min(kExpected, order.size()));
    std::partial_sort(order.begin(), last, order.end(), [&](std::size_t left, std::size_t right) {
        return std::pair(trend[left], left) < std::pair(trend[right], right);
    });
    order.erase(last, order.end());
    return order;
}

// Model-guided search: a Gaussian process of speed predicts where improvement is likely. Every given point counts as observed at
// its predicted value until it is reported, so that many can be tried at a time. When the model makes no progress, every second
// point comes from a local walk with restarts, which does not depend on the model.
class Model final : public BaseStrategy {
  public:
    Model(const Domain& domain, std::uint64_t seed) : Model(domain, seed, trend_of(domain)) {}

  protected:
    std::optional<std::size_t> propose() override {
        if (given_++ < kStarts || std::isinf(best_)) return begin_with();
        absorb();
        if (since_progress_ > kPatience && given_ % 2 == 0) return walk_on();
        if (given_ % 2 == 0) {
            if (const auto column = along_an_axis()) return trust(*column);
        }
        const std::optional<std::size_t> column = most_promising([](std::size_t) { return true; });
        if (!column) return promising_fresh();
        return trust(*column);
    }

    // Beside the best points, of which the surrogate knows all neighbours, a few measurements tell the best launch parameters.
    std::optional<std::size_t> propose_compiled() override {
        if (given_ < kStarts || std::isinf(best_)) return std::nullopt;
        absorb();
        const auto column =
            most_promising([this](std::size_t point) { return known_instances_.contains(domain().instance(point)); });
        if (!column) return std::nullopt;
        const Belief belief = surrogate_.belief(*column);
        if (expected_improvement(belief, best_) < -best_ * kLeastCompiledGain) return std::nullopt;
        const std::size_t point = surrogate_.columns()[*column];
        extra_.insert(point);
        pending_.push_back({.point = point, .value = belief.mean, .kind = Observation::Kind::pending});
        return point;
    }

    void heard(std::size_t point, std::optional<double> time_us) override {
        known_instances_.insert(domain().instance(point));
        compare_with_belief(point, time_us);
        if (walked_.erase(point) > 0) walk_.heard(point, time_us);
        const bool is_extra = extra_.erase(point) > 0;
        if (!is_extra) ++since_progress_;
        if (time_us) {
            if (std::isinf(best_)) reference_us_ = *time_us;
            const double value = value_of(*time_us, reference_us_);
            if (value < best_ * (1 + kProgress)) since_progress_ = 0;
            if (value < best_) {
                best_ = value;
                best_point_ = point;
                axes_.clear();
                axis_rounds_ = 0;
                next_round_ = kStall;
            }
            worst_ = std::max(worst_, value);
            history_.push_back({.point = point, .value = value, .kind = Observation::Kind::worked});
        } else {
            const auto believed = believed_.find(point);
            const double middle = std::isinf(best_) ? -1 : (best_ + worst_) / 2;
            history_.push_back({.point = point,
                                .value = believed == believed_.end() ? middle : believed->second.mean + kFailureStep,
                                .kind = Observation::Kind::failed});
        }
        believed_.erase(point);
        if (is_extra) best_after_.pop_back();
        best_after_.push_back(best_);
    }

    std::optional<double> expected_gain() override {
        if (std::isinf(best_) || history_.size() < kStarts) return 1;
        absorb();
        const double believed = -improvement_left() / best_ * (came_true_ + kTrustedGain) / (expected_sum_ + kTrustedGain);
        const double too_sure = 1 + (kTooSure - 1) * std::exp2(-tested_ / kTooSureHalfLife);
        const double gain = std::max(too_sure * believed, std::sqrt(believed * (gain_of_last_doubling() + kLeastProgress)));
        if (tested_ < kLeastTested && fresh_count() > 0) return 1;
        const bool is_unknown = expected_.empty() && axis_rounds_ < kRoundsAlone && fresh_count() > 0;
        return std::min(is_unknown ? std::max(gain, kUnknownGain) : gain, 1.0);
    }

  private:
    Model(const Domain& domain, std::uint64_t seed, std::vector<float> trend)
        : BaseStrategy("model", domain, seed),
          coordinates_(domain),
          features_(coordinates_.with_traits(domain)),
          expected_(expected_order(trend)),
          surrogate_(features_, std::move(trend)),
          walk_(this->domain(), random()),
          begun_(domain.seeds) {}

    // The next point with the best prior, skipping those similar to earlier ones; every few times, or without a prior, a random
    // point.
    std::size_t begin_with() {
        while (begun_.size() % kGuessed != kGuessed - 1 && next_expected_ < expected_.size()) {
            const std::size_t point = expected_[next_expected_++];
            if (is_fresh(point) && std::none_of(begun_.begin(), begun_.end(), [&](auto other) { return alike(point, other); })) {
                return begun_.emplace_back(point);
            }
        }
        return begun_.emplace_back(promising_fresh());
    }

    // Compares instances only, because launch parameters are a detail.
    bool alike(std::size_t left, std::size_t right) const {
        const auto from = coordinates_.of(domain().instance(left)), to = coordinates_.of(domain().instance(right));
        return std::inner_product(from.begin(), from.end(), to.begin(), std::size_t{0}, std::plus<>(), std::not_equal_to<>()) <
               kApart;
    }

    // Updates the surrogate with the reports since the last ask and with the points in progress.
    void absorb() {
        std::erase_if(pending_, [&](const Observation& one) { return !guessed_.contains(one.point) && is_reported(one.point); });
        if (surrogate_.columns().empty() || history_.size() >= next_fit_) {
            surrogate_.fit(telling_history(), interesting_columns());
            next_fit_ = static_cast<std::size_t>(std::ceil(static_cast<double>(history_.size()) +
                                                           static_cast<double>(surrogate_.observed()) * (kRefitGrowth - 1)));
            guessed_.clear();
        } else {
            for (; absorbed_ < history_.size(); ++absorbed_) {
                if (guessed_.erase(history_[absorbed_].point) > 0) {
                    surrogate_.revise(history_[absorbed_]);
                } else {
                    surrogate_.observe(history_[absorbed_]);
                }
            }
        }
        absorbed_ = history_.size();
        std::erase_if(pending_, [&](const Observation& one) { return is_reported(one.point); });
        for (const Observation& one : pending_) {
            if (guessed_.insert(one.point).second) surrogate_.observe(one);
        }
    }

    // All observations or, if there are too many, the best half and an even selection of the rest.
    std::vector<Observation> telling_history() const {
        if (history_.size() <= kMostObservations) return history_;
        std::vector<Observation> sorted = history_;
        std::stable_sort(sorted.begin(), sorted.end(),
                         [](const Observation& left, const Observation& right) { return left.value < right.value; });
        constexpr std::size_t half = kMostObservations / 2;
        std::vector<Observation> kept(sorted.begin(), sorted.begin() + half);
        for (std::size_t i = 0; i < half; ++i) kept.push_back(sorted[half + i * (sorted.size() - half) / half]);
        return kept;
    }

    // Every fresh point; or those with the best prior, as many random ones as can be kept up to date, and all neighbours of the
    // best points known.
    std::vector<std::size_t> interesting_columns() {
        if (fresh_count() <= kMostColumns) {
            std::vector<std::size_t> columns(fresh().begin(), fresh().end());
            std::sort(columns.begin(), columns.end());
            return columns;
        }
        constexpr std::size_t kBestOfAll = 20;
        std::unordered_set<std::size_t> chosen;
        for (const std::size_t point : expected_) {
            if (is_fresh(point)) chosen.insert(point);
        }
        while (chosen.size() < 2 * kExpected) chosen.insert(random_fresh());
        std::vector<Observation> best = history_;
        std::stable_sort(best.begin(), best.end(),
                         [](const Observation& left, const Observation& right) { return left.value < right.value; });
        if (best.size() > kBestOfAll) best.resize(kBestOfAll);
        for (const Observation& one : best) {
            for (const std::size_t neighbour : domain().neighbours(one.point)) {
                if (is_fresh(neighbour)) chosen.insert(neighbour);
            }
        }
        std::vector<std::size_t> columns(chosen.begin(), chosen.end());
        std::sort(columns.begin(), columns.end());
        return columns;
    }

    // By how much doubling the number of trials improved the best time, as the logarithm: half of what the last two doublings
    // did.
    double gain_of_last_doubling() const {
        const double before = best_after_[best_after_.size() / 4];
        return std::isinf(before) ? 0 : std::log(best_ / before) / 2;
    }

    // Counts the point of a column as observed at its predicted value.
    std::size_t trust(std::size_t column) {
        const std::size_t point = surrogate_.columns()[column];
        const Belief belief = surrogate_.belief(column);
        believed_[point] = belief;
        pending_.push_back({.point = point, .value = belief.mean, .kind = Observation::Kind::pending});
        return point;
    }

    // Updates the share of predicted improvement that came true. REQUIRES: best_ does not include this point yet.
    void compare_with_belief(std::size_t point, std::optional<double> time_us) {
        const auto believed = believed_.find(point);
        if (believed == believed_.end() || std::isinf(best_)) return;
        const double fading = std::exp2(-1 / kBeliefHalfLife);
        expected_sum_ *= fading;
        came_true_ *= fading;
        expected_sum_ += expected_improvement(believed->second, best_) / -best_;
        ++tested_;
        if (time_us) came_true_ += std::max(0.0, best_ - value_of(*time_us, reference_us_)) / -best_;
    }

    // A point that may improve on the best one.
    struct Promise {
        double improvement = 0;  // expected
        Belief belief;
        std::size_t point = 0;
    };

    // The most promising of the fresh points and of those still being tried, best first.
    std::vector<Promise> most_promising_ones() {
        std::vector<Promise> all;
        for (const auto& [point, belief] : believed_) all.push_back({expected_improvement(belief, best_), belief, point});
        const std::span<const std::size_t> columns = surrogate_.columns();
        for (std::size_t column = 0; column < columns.size(); ++column) {
            if (!is_fresh(columns[column])) continue;
            const Belief belief = surrogate_.belief(column);
            all.push_back({expected_improvement(belief, best_), belief, columns[column]});
        }
        const std::size_t count = std::min({kOutlookPoints, std::max(kLeastOutlookPoints, history_.size()), all.size()});
        std::partial_sort(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(count), all.end(),
                          [](const Promise& left, const Promise& right) {
                              return std::pair(-left.improvement, left.point) < std::pair(-right.improvement, right.point);
                          });
        all.resize(count);
        return all;
    }

    // The improvement that the best of the most promising points is expected to be, in values: the integral over improvements of
    // the chance that any of them is larger. A sum over the points would count twice what one of them alone can bring.
    double improvement_left() {
        const std::vector<Promise> promising = most_promising_ones();
        std::vector<double> share;  // for each point, the part of its chance that the points before it do not count already
        double most = 0;
        for (std::size_t i = 0; i < promising.size(); ++i) {
            double known = 0;
            for (std::size_t j = 0; j < i; ++j)
                known = std::max(known, surrogate_.similarity(promising[i].point, promising[j].point));
            const Belief& belief = promising[i].belief;
            share.push_back((1 - known * known) * (1 - belief.failure));
            most = std::max(most, best_ - belief.mean + 4 * belief.deviation);
        }
        double sum = 0;
        for (int step = 0; step < kOutlookSteps; ++step) {
            const double value = best_ - most * (step + 0.5) / kOutlookSteps;
            double log_none = 0;
            for (std::size_t i = 0; i < promising.size(); ++i) {
                const Belief& belief = promising[i].belief;
                const double slower = std::erfc((value - belief.mean) / belief.deviation / std::numbers::sqrt2) / 2;
                log_none += share[i] * std::log(std::max(slower, std::numeric_limits<double>::min()));
            }
            sum -= std::expm1(log_none);
        }
        return sum * most / kOutlookSteps;
    }

    // For the next parameter of the best point, in random order: the most promising of the points that differ only in it.
    std::optional<std::size_t> along_an_axis() {
        if (axes_.empty()) {
            if (since_progress_ < next_round_) return std::nullopt;
            next_round_ = since_progress_ + kStallAgain;
            axes_.resize(coordinates_.dimensions());
            std::iota(axes_.begin(), axes_.end(), std::size_t{0});
            random().shuffle(std::span(axes_));
        }
        while (!axes_.empty()) {
            const std::size_t axis = axes_.back();
            axes_.pop_back();
            const auto column = most_promising([&](std::size_t point) { return differs_in(axis, point); });
            if (axes_.empty()) ++axis_rounds_;
            if (column) return column;
        }
        return std::nullopt;
    }

    bool differs_in(std::size_t axis, std::size_t point) const {
        const auto at = coordinates_.of(point), best = coordinates_.of(best_point_);
        for (std::size_t d = 0; d < at.size(); ++d)
            if ((at[d] != best[d]) != (d == axis)) return false;
        return true;
    }

    // The value that a point must beat.
    double target() const {
        const double margin = expected_.empty() ? kMargin : kInformedMargin;
        return best_ * (1 + margin * std::exp2(-static_cast<double>(since_progress_) / kMarginHalfLife));
    }

    // The most promising of the new columns that `is_wanted` accepts.
    template <class Wanted>
    std::optional<std::size_t> most_promising(const Wanted& is_wanted) {
        std::optional<std::size_t> chosen;
        Belief leader;
        double top = -std::numeric_limits<double>::infinity();
        const double to_beat = target();
        const std::span<const std::size_t> columns = surrogate_.columns();
        for (std::size_t column = 0; column < columns.size(); ++column) {
            if (!is_fresh(columns[column]) || !is_wanted(columns[column])) continue;
            const Belief belief = surrogate_.belief(column);
            const bool is_cheap = known_instances_.contains(domain().instance(columns[column]));
            // Most columns are rejected here, before the expensive part: those that are slower, more certain and likelier to fail
            // than the leader, and not cheaper.
            if (!is_cheap && chosen && belief.mean >= leader.mean && belief.deviation <= leader.deviation &&
                belief.failure >= leader.failure) {
                continue;
            }
            const double score =
                log_improvement(belief, to_beat) + std::log1p(-belief.failure) + (is_cheap ? kKnownInstanceBonus : 0);
            if (score <= top) continue;
            top = score;
            chosen = column;
            leader = belief;
        }
        return chosen;
    }

    std::size_t walk_on() {
        std::optional<std::size_t> point = walk_.next([this](std::size_t other) { return is_fresh(other); });
        if (!point) {
            if (walk_starts_++ % kWalkStarts == 0) walk_.restart();
            point = promising_fresh();
        }
        walked_.insert(*point);
        return *point;
    }

    Coordinates coordinates_, features_;
    std::vector<std::size_t> expected_;
    Surrogate surrogate_;
    Walk walk_;
    std::vector<std::size_t> begun_;  // the points that the search began with
    std::size_t next_expected_ = 0;
    std::vector<Observation> history_;
    std::vector<double> best_after_;                    // the best value after each report, but for those of extra points
    std::vector<Observation> pending_;                  // given by the model, not reported
    std::unordered_set<std::size_t> guessed_;           // points that the surrogate contains with their predicted value
    std::unordered_map<std::size_t, Belief> believed_;  // for each point that the model proposed, its prediction at that time
    std::unordered_set<std::size_t> known_instances_;   // instances compiled for a reported point
    std::unordered_set<std::size_t> walked_;            // given by the walk, not reported
    std::unordered_set<std::size_t> extra_;             // given because they need no compilation, not reported
    std::size_t best_point_ = 0;
    std::vector<std::size_t> axes_;  // parameters of the best point still to be varied in this round
    std::size_t next_round_ = kStall;
    int axis_rounds_ = 0;  // that ended since the best point was found
    std::size_t given_ = 0, absorbed_ = 0, next_fit_ = 0, since_progress_ = 0, walk_starts_ = 0;
    // Expected and actual improvement of the reported points, as shares of the best time
    double expected_sum_ = 0, came_true_ = 0;
    int tested_ = 0;           // points whose improvement was expected, and which were reported
    double reference_us_ = 0;  // the first time heard
    double best_ = std::numeric_limits<double>::infinity();
    double worst_ = -std::numeric_limits<double>::infinity();
};

}  // namespace

std::unique_ptr<Strategy> make_model(const Domain& domain, std::uint64_t seed) {
    return std::make_unique<Model>(domain, seed);
}

}  // namespace autotune::tuner
