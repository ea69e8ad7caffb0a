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
// parameters are all set fails. Verdicts of a constraint are remembered by the values it reads, so each combination is asked
// once: a product of 10^7 points with a dozen constraints walks in tens of milliseconds. REQUIRES: the space outlives the walk.
class SpaceWalk {
  public:
    // Parameters in `pins` keep that one value. A pin that the space does not know, or outside its domain, leaves nothing to
    // visit.
    SpaceWalk(const SearchSpace& space, const Config& pins);

    // Called with the position of each parameter in its domain; false ends the walk.
    using Visitor = std::function<bool(const std::vector<std::size_t>&)>;
    // Every legal config in lexicographic order of positions.
    void visit_legal(const Visitor& visitor);

    // Adds up what visit_legal would see and, for the rest, the first constraint in declared order that fails.
    SpaceCount count();

    Config config_at(const std::vector<std::size_t>& positions) const;

  private:
    struct Rule {
        const Constraint* constraint = nullptr;
        std::size_t index = 0;              // in declared order
        std::vector<std::size_t> needs;     // parameter indices
        std::vector<std::size_t> strides;   // stride of each need in `verdicts`
        std::vector<std::int8_t> verdicts;  // kUnknown, 0 or 1; empty: too many combinations to remember
    };

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
    std::vector<std::vector<Rule>> rules_;           // level l: decidable once parameters 0..l-1 are set
    std::vector<std::size_t> least_rule_from_;       // lowest declared index among rules of level l and deeper
    std::vector<std::size_t> positions_;
    Config names_;                              // every parameter, at any value: what config_at() fills in
    std::vector<std::uint64_t> dropped_;        // per constraint
    std::vector<std::uint64_t> instance_keys_;  // one number per compile part of a legal config
    std::uint64_t legal_ = 0;
};

}  // namespace autotune
