#include "src/core/space/search_space.h"

#include <algorithm>
#include <utility>

#include "src/core/space/config_domain.h"
#include "src/core/space/config_list.h"
#include "src/core/space/space_walk.h"

namespace autotune {
namespace {

// Adds a changed config if it is legal.
struct LegalSink {
    const SearchSpace& space;
    std::vector<Config>& out;

    void offer(const Config& changed) const {
        if (space.contains(changed)) out.push_back(changed);
    }
};

bool tied(const SearchSpace& space, const Parameter& left, const Parameter& right) {
    const auto needs = [](const Constraint& constraint, const std::string& name) {
        return std::find(constraint.needs.begin(), constraint.needs.end(), name) != constraint.needs.end();
    };
    return std::any_of(space.constraints.begin(), space.constraints.end(), [&](const Constraint& constraint) {
        return needs(constraint, left.name) && needs(constraint, right.name);
    });
}

// The values one position below and one above the config's own value.
std::vector<std::int64_t> adjacent_values(const Parameter& parameter, std::int64_t value) {
    std::vector<std::int64_t> values;
    const auto at = std::find(parameter.values.begin(), parameter.values.end(), value);
    if (at == parameter.values.end()) return values;
    if (at != parameter.values.begin()) values.push_back(*(at - 1));
    if (at + 1 != parameter.values.end()) values.push_back(*(at + 1));
    return values;
}

void offer_single_steps(const SearchSpace& space, const Config& config, const LegalSink& sink) {
    for (std::size_t i = 0; i < space.parameters.size(); ++i) {
        Config changed = config;
        for (const std::int64_t value : space.parameters[i].values) {
            if (value == config.values()[i].second) continue;
            changed.set_at(i, value);
            sink.offer(changed);
        }
    }
}

void offer_double_step(const SearchSpace& space, const Config& config, std::pair<std::size_t, std::size_t> pair,
                       const LegalSink& sink) {
    const auto [first, second] = pair;
    for (const std::int64_t left : adjacent_values(space.parameters[first], config.values()[first].second)) {
        for (const std::int64_t right : adjacent_values(space.parameters[second], config.values()[second].second)) {
            Config changed = config;
            changed.set_at(first, left);
            changed.set_at(second, right);
            sink.offer(changed);
        }
    }
}

}  // namespace

const Parameter* SearchSpace::find(std::string_view name) const {
    const auto found =
        std::find_if(parameters.begin(), parameters.end(), [&](const Parameter& parameter) { return parameter.name == name; });
    return found == parameters.end() ? nullptr : &*found;
}

std::optional<std::string> SearchSpace::why_not(const Config& config) const {
    if (auto reason = why_outside_domain(parameters, config)) return reason;
    for (const Constraint& constraint : constraints) {
        if (!constraint.holds(config)) return constraint.reason;
    }
    return std::nullopt;
}

std::optional<Config> SearchSpace::first() const {
    std::vector<Config> found = enumerate({}, 1);
    if (found.empty()) return std::nullopt;
    return std::move(found.front());
}

std::vector<Config> SearchSpace::enumerate(const Config& pins, std::size_t limit) const {
    std::vector<Config> configs;
    if (limit == 0) return configs;
    SpaceWalk walk(*this, pins);
    walk.visit_legal([&](const std::vector<std::size_t>& positions) {
        configs.push_back(walk.config_at(positions));
        return configs.size() < limit;
    });
    return configs;
}

std::vector<Config> SearchSpace::sample(const Config& pins, std::size_t limit) const {
    const ConfigList list = list_sample(*this, pins, limit);
    std::vector<Config> configs;
    configs.reserve(list.size());
    for (std::size_t i = 0; i < list.size(); ++i) configs.push_back(list[i]);
    return configs;
}

SpaceCount SearchSpace::count() const {
    return SpaceWalk(*this, {}).count();
}

std::vector<Config> SearchSpace::neighbours(const Config& config) const {
    std::vector<Config> found;
    const Config start = canonical(config);
    if (start.values().size() != parameters.size()) return found;
    const LegalSink sink{*this, found};
    offer_single_steps(*this, start, sink);
    for (std::size_t i = 0; i < parameters.size(); ++i) {
        for (std::size_t j = i + 1; j < parameters.size(); ++j) {
            const bool both_compile =
                parameters[i].kind == ParameterKind::compile && parameters[j].kind == ParameterKind::compile;
            if (both_compile && tied(*this, parameters[i], parameters[j])) offer_double_step(*this, start, {i, j}, sink);
        }
    }
    return found;
}

Config SearchSpace::canonical(const Config& config) const {
    Config ordered;
    for (const Parameter& parameter : parameters) {
        if (const auto value = config.find(parameter.name)) ordered.set(parameter.name, *value);
    }
    return ordered;
}

std::optional<Config> SearchSpace::adopt(const Config& config) const {
    Config adopted = canonical(default_config);
    for (const auto& [name, value] : config.values()) {
        if (find(name) != nullptr) adopted.set(name, value);
    }
    if (contains(adopted)) return adopted;
    for (const Parameter& parameter : parameters) {
        if (!config.find(parameter.name)) adopted.set(parameter.name, parameter.values.front());
    }
    return contains(adopted) ? std::optional(std::move(adopted)) : std::nullopt;
}

Config SearchSpace::compile_part(const Config& config) const {
    Config part;
    for (const Parameter& parameter : parameters) {
        if (parameter.kind != ParameterKind::compile) continue;
        if (const auto value = config.find(parameter.name)) part.set(parameter.name, *value);
    }
    return part;
}

}  // namespace autotune
