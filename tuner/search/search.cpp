#include "tuner/search/search.h"

#include <array>
#include <utility>

#include "src/core/error.h"
#include "tuner/search/search_domain.h"
#include "tuner/search/strategies/strategies.h"

namespace autotune::tuner {
namespace {

using Maker = std::unique_ptr<Strategy> (*)(const Domain&, std::uint64_t);

constexpr std::array<std::pair<std::string_view, Maker>, 7> kStrategies{{
    {"model", &make_model},
    {"greedy", &make_greedy},
    {"annealing", &make_annealing},
    {"genetic", &make_genetic},
    {"differential", &make_differential},
    {"random", &make_random},
    {"exhaustive", &make_exhaustive},
}};

// Trying a space with this few instances completely takes no longer than a search with its final rounds.
constexpr std::size_t kExhaustiveInstances = 64;
constexpr std::size_t kExhaustivePoints = 512;

constexpr std::string_view kAuto = "auto";

Maker maker_of(std::string_view name) {
    std::string known(kAuto);
    for (const auto& [known_name, maker] : kStrategies) {
        if (name == known_name) return maker;
        known += ", " + std::string(known_name);
    }
    if (name == kAuto) return kStrategies.front().second;
    throw Error(ErrorCode::usage, "unknown search strategy '" + std::string(name) + "'; known: " + known);
}

bool is_small(const Domain& domain) {
    return domain.size <= kExhaustivePoints && count_instances(domain) <= kExhaustiveInstances;
}

}  // namespace

std::vector<std::string> strategy_names() {
    std::vector<std::string> names;
    for (const auto& [name, maker] : kStrategies) names.emplace_back(name);
    return names;
}

void require_strategy(std::string_view name) {
    maker_of(name);
}

std::unique_ptr<Strategy> make_strategy(std::string_view name, const Domain& domain, std::uint64_t seed) {
    if (name == kAuto) name = is_small(domain) ? "exhaustive" : kStrategies.front().first;
    return maker_of(name)(domain, seed);
}

}  // namespace autotune::tuner
