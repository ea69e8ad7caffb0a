#include "src/core/space/config_domain.h"

#include <algorithm>
#include <cstddef>

namespace autotune {
namespace {

bool is_in_domain(const Parameter& parameter, std::int64_t value) {
    return std::find(parameter.values.begin(), parameter.values.end(), value) != parameter.values.end();
}

// Stored configs have their parameters in declared order. Then one comparison per parameter is enough.
bool is_point_in_declared_order(const std::vector<Parameter>& parameters, const Config& config) {
    return std::equal(parameters.begin(), parameters.end(), config.values().begin(), config.values().end(),
                      [](const Parameter& parameter, const auto& held) {
                          return parameter.name == held.first && is_in_domain(parameter, held.second);
                      });
}

std::string outside(const Parameter& parameter, std::int64_t value) {
    std::string allowed;
    for (const std::int64_t entry : parameter.values) allowed += (allowed.empty() ? "" : ", ") + std::to_string(entry);
    return parameter.name + "=" + std::to_string(value) + " is not one of " + allowed;
}

}  // namespace

std::optional<std::string> why_outside_domain(const std::vector<Parameter>& parameters, const Config& config) {
    if (is_point_in_declared_order(parameters, config)) return std::nullopt;
    for (const auto& [name, value] : config.values()) {
        const bool is_known = std::any_of(parameters.begin(), parameters.end(),
                                          [&, &wanted = name](const Parameter& each) { return each.name == wanted; });
        if (!is_known) return "there is no parameter '" + name + "'";
    }
    for (const Parameter& parameter : parameters) {
        const std::optional<std::int64_t> value = config.find(parameter.name);
        if (!value) return "parameter '" + parameter.name + "' has no value";
        if (!is_in_domain(parameter, *value)) return outside(parameter, *value);
    }
    if (config.values().size() != parameters.size()) return "a parameter is given twice";
    return std::nullopt;
}

}  // namespace autotune
