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

// Whether a value is rendered into the source (a different cubin) or passed at launch (the same cubin).
enum class ParameterKind : std::uint8_t { compile, launch };

struct Parameter {
    std::string name;                  // the same word in the template, the database and the command line; ^[a-z][a-z0-9_]*$
    std::vector<std::int64_t> values;  // the declared domain, ascending
    ParameterKind kind = ParameterKind::compile;
    std::string about;  // one line for `autotune families`
};

// A rule with its reason. It is evaluated as soon as every parameter in `needs` has a value, so that enumeration prunes early,
// and its results are cached by those values: `holds` is a pure function that reads no other parameter of the config (another
// name throws Error{internal}).
struct Constraint {
    std::string reason;              // why a config that breaks it is dropped: "tiles exceed shared memory"
    std::vector<std::string> needs;  // parameters that `holds` reads
    std::function<bool(const Config&)> holds;
};

struct NamedConfig {
    std::string name;  // the name under which people know it: "mma_m16n8k16_mma2x4_warp4x4_stage3"
    Config config;
};

// How many configs of the cross product are dropped for each reason (the first failing one in declared order), and how many are
// left.
struct SpaceCount {
    std::uint64_t points = 0;
    std::uint64_t legal = 0;
    std::uint64_t instances = 0;  // the number of distinct compile parts among the legal configs
    std::map<std::string, std::uint64_t> dropped;
};

// A family's parameters, rules and well-known points for one problem on one device. A plain value.
class SearchSpace {
  public:
    int version = 1;  // raised when the meaning of a parameter changes; part of the template identity
    std::vector<Parameter> parameters;
    std::vector<Constraint> constraints;
    Config default_config;  // is legal and runs if nothing is known about the problem; empty if no config is legal
    std::vector<NamedConfig> named;

    const Parameter* find(std::string_view name) const;

    // The first reason, in declared order, why `config` is not in the space (unknown or missing parameter, value outside the
    // domain, constraint); nullopt if it is legal.
    std::optional<std::string> why_not(const Config& config) const;
    bool contains(const Config& config) const { return !why_not(config); }

    // All legal configs in lexicographic order of the values' positions. `pins` fixes parameters to one value. Stops after
    // `limit` results.
    std::vector<Config> enumerate(const Config& pins = {}, std::size_t limit = SIZE_MAX) const;
    // The first legal config; nullopt if there is none.
    std::optional<Config> first() const;
    // As enumerate(), but if more than `limit` configs are legal, a sample of that size from the whole space, the same every
    // time, plus the default and the legal named configs. REQUIRES: the values of each parameter are ascending.
    std::vector<Config> sample(const Config& pins, std::size_t limit) const;
    SpaceCount count() const;

    // Legal configs that differ from `config` in one parameter (all its values), or by one step in each of two compile parameters
    // that a constraint ties together. Deterministic order.
    std::vector<Config> neighbours(const Config& config) const;

    // `config` with its parameters in declared order, as enumerate() returns them: only in this form are equal candidates
    // recognised as equal. Unknown parameters are left out.
    Config canonical(const Config& config) const;

    // Adapts a `config` that was made for another version of this space: missing parameters get the default's values, or, if that
    // is not legal, the first of their domains; unknown parameters are left out. nullopt if neither is legal.
    std::optional<Config> adopt(const Config& config) const;

    // The compile parameters only: configs with the same ones share one instance.
    Config compile_part(const Config& config) const;
};

}  // namespace autotune
