#pragma once

#include <cstdint>
#include <memory>

#include "tuner/search/search.h"

// One factory function per strategy; callers use make_strategy() in tuner/search/search.h.
namespace autotune::tuner {

std::unique_ptr<Strategy> make_model(const Domain& domain, std::uint64_t seed);
std::unique_ptr<Strategy> make_exhaustive(const Domain& domain, std::uint64_t seed);
std::unique_ptr<Strategy> make_random(const Domain& domain, std::uint64_t seed);
std::unique_ptr<Strategy> make_greedy(const Domain& domain, std::uint64_t seed);
std::unique_ptr<Strategy> make_annealing(const Domain& domain, std::uint64_t seed);
std::unique_ptr<Strategy> make_genetic(const Domain& domain, std::uint64_t seed);
std::unique_ptr<Strategy> make_differential(const Domain& domain, std::uint64_t seed);

}  // namespace autotune::tuner
