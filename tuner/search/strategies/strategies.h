#pragma once

#include <cstdint>
#include <memory>

#include "tuner/search/search.h"

// One maker per strategy; make_strategy() in tuner/search/search.h is the door to them.
namespace autotune::tuner {

std::unique_ptr<Strategy> make_model(const Domain& domain, std::uint64_t seed);
std::unique_ptr<Strategy> make_exhaustive(const Domain& domain, std::uint64_t seed);
std::unique_ptr<Strategy> make_random(const Domain& domain, std::uint64_t seed);
std::unique_ptr<Strategy> make_greedy(const Domain& domain, std::uint64_t seed);
std::unique_ptr<Strategy> make_annealing(const Domain& domain, std::uint64_t seed);
std::unique_ptr<Strategy> make_genetic(const Domain& domain, std::uint64_t seed);
std::unique_ptr<Strategy> make_differential(const Domain& domain, std::uint64_t seed);

}  // namespace autotune::tuner
