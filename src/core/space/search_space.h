#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "src/core/space/config.h"

namespace autotune {

// Whether a value is rendered into the source (another cubin) or passed at launch (the same cubin).
enum class ParameterKind : std::uint8_t { compile, launch };

struct Parameter {
    std::string name;                  // ^[a-z][a-z0-9_]*$, the same word in the template, the database and the command line
    std::vector<std::int64_t> values;  // the declared domain, ascending
    ParameterKind kind = ParameterKind::compile;
    std::string about;  // one line for `autotune families`
};

// A rule with its reason. Evaluated as soon as every parameter in `needs` has a value, so enumeration prunes early, and
// remembered by those values: `holds` is a pure function that reads nothing else of the config (another name throws
// Error{internal}).
struct Constraint {
    std::string reason;              // why a config that breaks it is dropped: "tiles exceed shared memory"
    std::vector<std::string> needs;  // parameters that `holds` reads
    std::function<bool(const Config&)> holds;
};

struct NamedConfig {
    std::string name;  // the name that people search for: "mma_m16n8k16_mma2x4_warp4x4_stage3"
    Config config;
};

// How many configs of the cross product each reason dropped (the first reason in declared order that fails), and what is left.
struct SpaceCount {
    std::uint64_t points = 0;
    std::uint64_t legal = 0;
    std::uint64_t instances = 0;  // distinct compile-time parts among the legal
    std::map<std::string, std::uint64_t> dropped;
};

// A family's parameters, rules and well-known points for one problem on one device. A plain value.
class SearchSpace {
  public:
    int version = 1;  // raised when the meaning of a parameter changes; part of the template identity
    std::vector<Parameter> parameters;
    std::vector<Constraint> constraints;
    Config default_config;  // legal; what runs when nothing is known; empty if no config is legal
    std::vector<NamedConfig> named;

    const Parameter* find(std::string_view name) const;

    // First reason, in declared order, why `config` is not in the space (unknown or missing parameter, value outside the
    // domain, constraint); nullopt if it is legal.
    std::optional<std::string> why_not(const Config& config) const;
    bool contains(const Config& config) const { return !why_not(config); }

    // All legal configs in lexicographic order of parameter positions. `pins` fixes parameters to one value.
    // Stops after `limit` results.
    std::vector<Config> enumerate(const Config& pins = {}, std::size_t limit = SIZE_MAX) const;
    // The first of them; nullopt if no config is legal.
    std::optional<Config> first() const;
    // As enumerate(), but where more than `limit` configs are legal a sample of so many from the whole space, the same every
    // time, with the default and the legal named configs beside it. REQUIRES: the values of each parameter are ascending.
    std::vector<Config> sample(const Config& pins, std::size_t limit) const;
    SpaceCount count() const;

    // Legal configs that differ from `config` in one parameter (all its values), or in two adjacent steps of compile parameters
    // that constraints tie together. Deterministic order.
    std::vector<Config> neighbours(const Config& config) const;

    // `config` with its parameters in declared order, as enumerate() gives them: candidates compare equal only in this form.
    // Parameters that the space does not know are left out.
    Config canonical(const Config& config) const;

    // `config` of another state of this space: parameters that it lacks get the default's values, or where that is not legal the
    // first of their domains, and those that the space does not know are left out. nullopt if neither is legal.
    std::optional<Config> adopt(const Config& config) const;

    // The compile-time part alone: configs that agree on it share one instance.
    Config compile_part(const Config& config) const;
};

}  // namespace autotune
