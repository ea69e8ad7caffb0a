#include "kernel_templates/named_configs.h"

#include <utility>

#include "src/core/error.h"

namespace autotune {

Config config_of(const std::vector<Parameter>& parameters, std::initializer_list<std::int64_t> values) {
    check(parameters.size() == values.size(), "a config that is written down has a value for each parameter");
    Config config;
    const std::int64_t* value = values.begin();
    for (const Parameter& parameter : parameters) config.set(parameter.name, *value++);
    return config;
}

std::vector<NamedConfig> legal_ones(std::vector<NamedConfig> named, const SearchSpace& space) {
    std::erase_if(named, [&](const NamedConfig& entry) { return !space.contains(entry.config); });
    return named;
}

}  // namespace autotune
