#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "src/core/error.h"
#include "src/core/space/config.h"
#include "src/core/space/search_space.h"

// A family writes each of its parameters once, as a row of its table. The table is a macro (gemm/dot/geometry.h):
//
//     #define GEMM_DOT_PARAMETERS(ROW) ROW(threads, 64, compile, "threads a block", 64, 128, 256) ROW(...) ...
//
//     struct ResolvedConfig {
//         AUTOTUNE_RESOLVED_CONFIG(GEMM_DOT_PARAMETERS)
//         std::int64_t warps() const { return threads / 32; }
//     };
//
// A row has: the name; the value for configs that do not give one, so that configs written before the parameter existed keep
// their meaning; compile or launch; one line for `autotune families`; and the values, ascending, or a std::vector of them. A
// table may contain the rows of another one. It is a macro because C++20 has no other way to make a member, its name as text and
// its place in the space from one spelling.
//
// Declares a member for each row, initialised with the row's value, and the functions that the templates below use.
#define AUTOTUNE_RESOLVED_CONFIG(TABLE)                              \
    TABLE(AUTOTUNE_MEMBER_OF_ROW)                                    \
    static std::vector<::autotune::Parameter> parameters() {         \
        return AUTOTUNE_PARAMETERS(TABLE);                           \
    }                                                                \
    template <class Self, class Visit>                               \
    static void for_each_parameter(Self& self, const Visit& visit) { \
        TABLE(AUTOTUNE_VISIT_OF_ROW)                                 \
    }

// The parameters of one table, for a family that has only some of a struct's parameters.
#define AUTOTUNE_PARAMETERS(TABLE)       \
    std::vector<::autotune::Parameter> { \
        TABLE(AUTOTUNE_PARAMETER_OF_ROW) \
    }

// A config with the parameters of one table only.
#define AUTOTUNE_CONFIG(TABLE, resolved) [](const auto& of) { return ::autotune::Config{TABLE(AUTOTUNE_ENTRY_OF_ROW)}; }(resolved)

#define AUTOTUNE_MEMBER_OF_ROW(name, otherwise, kind, about, ...) std::int64_t name = otherwise;
#define AUTOTUNE_PARAMETER_OF_ROW(name, otherwise, kind, about, ...) \
    {#name, {__VA_ARGS__}, ::autotune::ParameterKind::kind, about},
#define AUTOTUNE_VISIT_OF_ROW(name, ...) visit(std::string_view(#name), self.name);
#define AUTOTUNE_ENTRY_OF_ROW(name, ...) {#name, of.name},

namespace autotune {

// Reads parameters of a config one after another. Each search starts after the parameter that was read last, so that reading in
// about the declared order compares each name once; rules read configs a million times.
class ConfigReader {
  public:
    explicit ConfigReader(const Config& config) : values_(config.values()) {}
    std::optional<std::int64_t> find(std::string_view name) {
        for (std::size_t looked_at = 0; looked_at < values_.size(); ++looked_at, ++next_) {
            if (next_ >= values_.size()) next_ = 0;
            if (values_[next_].first == name) return values_[next_++].second;
        }
        return std::nullopt;
    }

  private:
    const std::vector<std::pair<std::string, std::int64_t>>& values_;
    std::size_t next_ = 0;
};

// Sets the members of the parameters that the config has. Rules get configs in which some parameters have no value yet, and read
// only those that they name.
template <class Resolved>
void read_config(Resolved& to, const Config& config) {
    ConfigReader reader(config);
    Resolved::for_each_parameter(to, [&reader](std::string_view name, std::int64_t& value) {
        if (const std::optional<std::int64_t> found = reader.find(name)) value = *found;
    });
}

template <class Resolved>
Resolved resolve(const Config& config) {
    Resolved resolved;
    read_config(resolved, config);
    return resolved;
}

// Makes constraints from predicates on a resolved config.
template <class ResolvedConfig>
constexpr auto rules_by() {
    return [](auto holds) -> std::function<bool(const Config&)> {
        return [holds = std::move(holds)](const Config& c) { return holds(resolve<ResolvedConfig>(c)); };
    };
}

// All parameters of the struct, in the order of its table.
template <class Resolved>
Config config_from(const Resolved& resolved) {
    Config config;
    Resolved::for_each_parameter(resolved, [&config](std::string_view name, std::int64_t value) { config.set(name, value); });
    return config;
}

// The values from `first` to `last`, for a row of a table.
inline std::vector<std::int64_t> values_in_steps(std::int64_t first, std::int64_t last, std::int64_t step) {
    std::vector<std::int64_t> values;
    for (std::int64_t value = first; value <= last; value += step) values.push_back(value);
    return values;
}

// The parameter with this name, for a family that changes the values of a parameter of its table. REQUIRES: it exists (throws
// Error{internal} otherwise).
inline Parameter& parameter_of(std::vector<Parameter>& all, std::string_view name) {
    for (Parameter& parameter : all)
        if (parameter.name == name) return parameter;
    internal_error("no parameter has the name " + std::string(name));
}

// A config from values in the order of the table, of which the last ones may be left out: families write their named configs this
// way. Throws Error{internal} if there are more values than parameters.
template <class Resolved>
Config config_with(std::initializer_list<std::int64_t> values) {
    Resolved resolved;
    const std::int64_t* next = values.begin();
    Resolved::for_each_parameter(resolved, [&](std::string_view, std::int64_t& value) {
        if (next != values.end()) value = *next++;
    });
    check(next == values.end(), "a config that is written down has a value for each parameter at most");
    return config_from(resolved);
}

}  // namespace autotune
