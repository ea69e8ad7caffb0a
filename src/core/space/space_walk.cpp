#include "src/core/space/space_walk.h"

#include <algorithm>
#include <cmath>

#include "src/core/error.h"

namespace autotune {
namespace {

constexpr std::int8_t kUnknown = -1;
constexpr std::uint64_t kMostSteps = 50'000'000;  // some seconds
// A remembered verdict takes one byte. A constraint with more verdicts than this is evaluated every time.
constexpr std::size_t kMostRememberedVerdicts = std::size_t{1} << 20;

std::size_t parameter_index(const SearchSpace& space, const std::string& name) {
    const auto found = std::find_if(space.parameters.begin(), space.parameters.end(),
                                    [&](const Parameter& entry) { return entry.name == name; });
    check(found != space.parameters.end(), "a constraint needs the unknown parameter '" + name + "'");
    return static_cast<std::size_t>(found - space.parameters.begin());
}

std::vector<std::size_t> allowed_positions(const Parameter& parameter, const Config& pins) {
    const std::optional<std::int64_t> pin = pins.find(parameter.name);
    std::vector<std::size_t> positions;
    for (std::size_t i = 0; i < parameter.values.size(); ++i) {
        if (!pin || parameter.values[i] == *pin) positions.push_back(i);
    }
    return positions;
}

bool knows_all(const SearchSpace& space, const Config& pins) {
    return std::all_of(pins.values().begin(), pins.values().end(),
                       [&](const auto& pin) { return space.find(pin.first) != nullptr; });
}

}  // namespace

SpaceWalk::SpaceWalk(const SearchSpace& space, const Config& pins) : space_(space) {
    const std::size_t depth = space.parameters.size();
    const bool is_empty = !knows_all(space, pins);
    for (const Parameter& parameter : space.parameters) {
        choices_.push_back(is_empty ? std::vector<std::size_t>{} : allowed_positions(parameter, pins));
        names_.set(parameter.name, 0);
    }
    positions_.resize(depth);
    rules_.resize(depth + 1);
    for (std::size_t i = 0; i < space.constraints.size(); ++i) add_rule(space.constraints[i], i);
    least_rule_from_.assign(depth + 2, space.constraints.size());
    for (std::size_t level = depth + 1; level-- > 0;) {
        least_rule_from_[level] = least_rule_from_[level + 1];
        if (!rules_[level].empty()) least_rule_from_[level] = std::min(least_rule_from_[level], rules_[level].front().index);
    }
}

void SpaceWalk::add_rule(const Constraint& constraint, std::size_t index) {
    Rule rule;
    rule.constraint = &constraint;
    rule.index = index;
    std::size_t combinations = 1;
    std::size_t level = 0;
    for (const std::string& name : constraint.needs) {
        const std::size_t parameter = parameter_index(space_, name);
        rule.needs.push_back(parameter);
        rule.strides.push_back(combinations);
        if (combinations <= kMostRememberedVerdicts) combinations *= space_.parameters[parameter].values.size();
        level = std::max(level, parameter + 1);
    }
    if (combinations <= kMostRememberedVerdicts) rule.verdicts.assign(combinations, kUnknown);
    rules_[level].push_back(std::move(rule));
}

bool SpaceWalk::ask(const Rule& rule) const {
    Config seen;
    for (const std::size_t parameter : rule.needs) {
        const Parameter& declared = space_.parameters[parameter];
        seen.set(declared.name, declared.values[positions_[parameter]]);
    }
    return rule.constraint->holds(seen);
}

bool SpaceWalk::holds(Rule& rule) {
    if (rule.verdicts.empty()) return ask(rule);
    std::size_t slot = 0;
    for (std::size_t i = 0; i < rule.needs.size(); ++i) slot += rule.strides[i] * positions_[rule.needs[i]];
    std::int8_t& verdict = rule.verdicts[slot];
    if (verdict == kUnknown) verdict = ask(rule) ? 1 : 0;
    return verdict == 1;
}

void SpaceWalk::step() {
    if (++steps_ <= kMostSteps) return;
    double points = 1;
    for (const auto& positions : choices_) points *= static_cast<double>(positions.size());
    throw Error(ErrorCode::usage,
                "the space has about 10^" + std::to_string(static_cast<int>(std::log10(points))) +
                    " points, and its rules cut off too few of them early: a walk stopped after 50 million "
                    "steps. Give parameters fewer values, use ranges with larger steps, or order the parameters so "
                    "that rules apply sooner");
}

void SpaceWalk::visit_legal(const Visitor& visitor) {
    steps_ = 0;
    visit_from(0, visitor);
}

bool SpaceWalk::visit_from(std::size_t level, const Visitor& visitor) {
    for (Rule& rule : rules_[level]) {
        if (!holds(rule)) return true;
    }
    step();
    if (level == choices_.size()) return visitor(positions_);
    for (const std::size_t position : choices_[level]) {
        positions_[level] = position;
        if (!visit_from(level + 1, visitor)) return false;
    }
    return true;
}

SpaceCount SpaceWalk::count() {
    dropped_.assign(space_.constraints.size(), 0);
    instance_keys_.clear();
    legal_ = 0;
    steps_ = 0;
    count_from(0, space_.constraints.size());

    SpaceCount result;
    result.points = points_below(0);
    result.legal = legal_;
    std::sort(instance_keys_.begin(), instance_keys_.end());
    result.instances =
        static_cast<std::uint64_t>(std::unique(instance_keys_.begin(), instance_keys_.end()) - instance_keys_.begin());
    for (std::size_t i = 0; i < dropped_.size(); ++i) {
        if (dropped_[i] != 0) result.dropped[space_.constraints[i].reason] += dropped_[i];
    }
    return result;
}

std::size_t SpaceWalk::first_broken_at(std::size_t level, std::size_t first_broken) {
    for (Rule& rule : rules_[level]) {
        if (rule.index >= first_broken) break;
        if (!holds(rule)) return rule.index;
    }
    return first_broken;
}

void SpaceWalk::count_from(std::size_t level, std::size_t first_broken) {
    first_broken = first_broken_at(level, first_broken);
    if (level == choices_.size()) {
        count_leaf(first_broken);
        return;
    }
    // All rules of deeper levels are declared after the first broken one, so the whole subtree has this reason. In a very large
    // space it gets this reason anyway.
    const bool is_broken = first_broken < dropped_.size();
    if (is_broken && (least_rule_from_[level + 1] >= first_broken || steps_ > kMostSteps / 2)) {
        dropped_[first_broken] += points_below(level);
        return;
    }
    step();
    for (const std::size_t position : choices_[level]) {
        positions_[level] = position;
        count_from(level + 1, first_broken);
    }
}

void SpaceWalk::count_leaf(std::size_t first_broken) {
    if (first_broken < dropped_.size()) {
        ++dropped_[first_broken];
        return;
    }
    ++legal_;
    std::uint64_t key = 0;
    for (std::size_t i = 0; i < positions_.size(); ++i) {
        const Parameter& parameter = space_.parameters[i];
        if (parameter.kind == ParameterKind::compile) key = key * parameter.values.size() + positions_[i];
    }
    // Launch parameters that come last produce runs of equal keys: each run is stored once.
    if (instance_keys_.empty() || instance_keys_.back() != key) instance_keys_.push_back(key);
}

std::uint64_t SpaceWalk::points_below(std::size_t level) const {
    std::uint64_t points = 1;
    for (std::size_t i = level; i < choices_.size(); ++i) points *= choices_[i].size();
    return points;
}

Config SpaceWalk::config_at(const std::vector<std::size_t>& positions) const {
    Config config = names_;
    for (std::size_t i = 0; i < positions.size(); ++i) config.set_at(i, space_.parameters[i].values[positions[i]]);
    return config;
}

}  // namespace autotune
