#include "tuner/session/tune/learned_errors.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <string>
#include <utility>

namespace autotune::tuner {
namespace {

constexpr double kZeroWeight = 3;    // weight, in observations, of the assumption that an effect is 0
constexpr double kHalfAsNear = 0.5;  // trials this much slower than the fastest count half
// Trials slower than the fastest by this factor say little about the candidates that matter
constexpr double kFarthest = 2;
constexpr double kMostOfProblem = 30;  // the trials of one problem count together as at most this many observations
constexpr double kRemembered = 0.95;   // factor for the weight of earlier knowledge, at each new problem
constexpr double kMostWeight = 60;
constexpr int kFitSweeps = 40;

using Key = std::pair<std::string, std::int64_t>;  // a parameter's value; the empty name is the family as a whole

struct Observation {
    std::vector<std::size_t> effects;  // that apply
    double log_ratio = 0, weight = 0;
};

// Indices of effects by their keys. An unknown key is added with effect 0 and weight 0.
class Effects {
  public:
    explicit Effects(std::vector<CostCorrection::Effect>& all) : all_(all) {
        for (std::size_t i = 0; i < all.size(); ++i) places_[{all[i].parameter, all[i].value}] = i;
    }
    std::size_t of(const Key& key) {
        const auto [place, is_new] = places_.try_emplace(key, all_.size());
        if (is_new) all_.push_back({.parameter = key.first, .value = key.second});
        return place->second;
    }

  private:
    std::vector<CostCorrection::Effect>& all_;
    std::map<Key, std::size_t> places_;
};

std::vector<Observation> observations_of(const SearchSpace& space, std::span<const Prediction> predictions, Effects& effects) {
    double best_us = std::numeric_limits<double>::infinity();
    for (const Prediction& one : predictions) best_us = std::min(best_us, one.time_us);
    std::vector<Observation> observations;
    double weights = 0;
    for (const Prediction& one : predictions) {
        if (!(one.predicted_us > 0) || !(one.time_us > 0) || one.time_us > kFarthest * best_us) continue;
        Observation observation;
        observation.effects.push_back(effects.of({"", 0}));
        for (const autotune::Parameter& parameter : space.parameters) {
            const auto value = one.config.find(parameter.name);
            if (value && parameter.values.size() > 1) observation.effects.push_back(effects.of({parameter.name, *value}));
        }
        observation.log_ratio = std::clamp(std::log(one.time_us / one.predicted_us), -records::kMaxEffect, records::kMaxEffect);
        const double behind = (one.time_us / best_us - 1) / kHalfAsNear;
        observation.weight = 1 / (1 + behind * behind);
        weights += observation.weight;
        observations.push_back(std::move(observation));
    }
    for (Observation& one : observations) one.weight *= std::min(1.0, kMostOfProblem / weights);
    return observations;
}

// An effect that was never observed counts as 0, with the weight of that assumption: once, not again at each problem.
double known_weight(const CostCorrection::Effect& effect) {
    return effect.weight > 0 ? kRemembered * effect.weight : kZeroWeight;
}

}  // namespace

LearnedErrors::LearnedErrors(const SearchSpace& space, const CostCorrection& correction) {
    std::map<std::string, std::vector<std::pair<std::int64_t, double>>> by_name;
    for (const CostCorrection::Effect& one : correction.effects) {
        if (one.parameter.empty()) whole_ = one.effect;
        by_name[one.parameter].emplace_back(one.value, one.effect);
    }
    for (std::size_t place = 0; place < space.parameters.size(); ++place) {
        const auto known = by_name.find(space.parameters[place].name);
        if (known == by_name.end()) continue;
        Parameter parameter{.place = place, .values = space.parameters[place].values, .effects = {}};
        parameter.effects.resize(parameter.values.size());
        for (const auto& [value, effect] : known->second) {
            const auto at = std::lower_bound(parameter.values.begin(), parameter.values.end(), value);
            if (at != parameter.values.end() && *at == value)
                parameter.effects[static_cast<std::size_t>(at - parameter.values.begin())] = effect;
        }
        parameters_.push_back(std::move(parameter));
    }
}

double LearnedErrors::factor(const Config& config) const {
    if (parameters_.empty() && whole_ == 0) return 1;
    double log_factor = whole_;
    const auto& values = config.values();
    for (const Parameter& parameter : parameters_) {
        if (parameter.place >= values.size()) continue;
        const auto at = std::lower_bound(parameter.values.begin(), parameter.values.end(), values[parameter.place].second);
        if (at != parameter.values.end())
            log_factor += parameter.effects[static_cast<std::size_t>(at - parameter.values.begin())];
    }
    return std::exp(std::clamp(log_factor, -records::kMaxEffect, records::kMaxEffect));
}

void learn(CostCorrection& correction, const SearchSpace& space, std::span<const Prediction> predictions) {
    Effects places(correction.effects);
    const std::vector<Observation> observations = observations_of(space, predictions, places);
    if (observations.empty()) return;
    std::vector<CostCorrection::Effect>& effects = correction.effects;
    const std::vector<CostCorrection::Effect> before = effects;
    std::vector<double> left;  // part of each observation that no effect explains
    for (const Observation& one : observations) {
        left.push_back(one.log_ratio);
        for (const std::size_t effect : one.effects) left.back() -= effects[effect].effect;
    }
    std::vector<double> weights(effects.size());
    for (const Observation& one : observations)
        for (const std::size_t effect : one.effects) weights[effect] += one.weight;
    std::vector<std::vector<std::size_t>> rows(effects.size());
    for (std::size_t row = 0; row < observations.size(); ++row)
        for (const std::size_t effect : observations[row].effects) rows[effect].push_back(row);
    for (int sweep = 0; sweep < kFitSweeps; ++sweep) {
        for (std::size_t e = 0; e < effects.size(); ++e) {
            const double known = known_weight(before[e]);
            double sum = known * before[e].effect;
            for (const std::size_t row : rows[e]) sum += observations[row].weight * (left[row] + effects[e].effect);
            const double next = sum / (known + weights[e]);
            for (const std::size_t row : rows[e]) left[row] -= next - effects[e].effect;
            effects[e].effect = std::clamp(next, -records::kMaxEffect, records::kMaxEffect);
        }
    }
    double squares = 0, weight = 0;
    for (std::size_t row = 0; row < observations.size(); ++row) {
        squares += observations[row].weight * left[row] * left[row];
        weight += observations[row].weight;
    }
    for (std::size_t e = 0; e < effects.size(); ++e)
        effects[e].weight = std::min(kMostWeight, known_weight(before[e]) + weights[e]);
    const double deviation = std::min(std::sqrt(squares / weight), records::kMaxEffect);
    // the weight of this problem in a running mean over problems
    const double share = 1.0 / (std::min(correction.problems, 9) + 1);
    correction.deviation += share * (deviation - correction.deviation);
    ++correction.problems;
    correction.trials += static_cast<int>(observations.size());
}

}  // namespace autotune::tuner
