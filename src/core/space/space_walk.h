#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "src/core/space/config.h"
#include "src/core/space/search_space.h"

namespace autotune {

// Walks the cross product of a space depth first, in declared order, and leaves a subtree as soon as a constraint whose
// parameters are all set fails. A constraint's results are cached by the values it reads, so it is evaluated once per
// combination: a product of 10^7 points with a dozen constraints takes tens of milliseconds. REQUIRES: the space outlives the
// walk.
class SpaceWalk {
  public:
    // Parameters in `pins` keep that one value. With a pin of an unknown parameter, or outside the domain, nothing is visited.
    SpaceWalk(const SearchSpace& space, const Config& pins);

    // Called with the position of each parameter's value in its domain; returning false ends the walk.
    using Visitor = std::function<bool(const std::vector<std::size_t>&)>;
    // Visits every legal config, in lexicographic order of positions. Throws Error{usage}, as count() does, for a space in which
    // a walk of 50 million steps does not reach the end.
    void visit_legal(const Visitor& visitor);

    // Counts the configs that visit_legal() would visit and, for the others, the first constraint in declared order that fails.
    SpaceCount count();

    Config config_at(const std::vector<std::size_t>& positions) const;

  private:
    struct Rule {
        const Constraint* constraint = nullptr;
        std::size_t index = 0;              // in declared order
        std::vector<std::size_t> needs;     // parameter indices
        std::vector<std::size_t> strides;   // for each parameter of `needs`, its stride in `verdicts`
        std::vector<std::int8_t> verdicts;  // kUnknown, 0 or 1; empty if there are too many combinations to cache
    };

    void step();
    void add_rule(const Constraint& constraint, std::size_t index);
    bool holds(Rule& rule);
    bool ask(const Rule& rule) const;
    bool visit_from(std::size_t level, const Visitor& visitor);
    void count_from(std::size_t level, std::size_t first_broken);
    std::size_t first_broken_at(std::size_t level, std::size_t first_broken);
    void count_leaf(std::size_t first_broken);
    std::uint64_t points_below(std::size_t level) const;

    const SearchSpace& space_;
    std::vector<std::vector<std::size_t>> choices_;  // allowed positions per parameter
    std::vector<std::vector<Rule>> rules_;           // rules of level l can be decided once parameters 0..l-1 are set
    std::vector<std::size_t> least_rule_from_;       // the lowest declared index among the rules of level l and deeper
    std::vector<std::size_t> positions_;
    Config names_;                              // has the names of all parameters; config_at() fills in the values
    std::vector<std::uint64_t> dropped_;        // per constraint
    std::vector<std::uint64_t> instance_keys_;  // one number for each compile part of a legal config
    std::uint64_t legal_ = 0;
    std::uint64_t steps_ = 0;
};

}  // namespace autotune
