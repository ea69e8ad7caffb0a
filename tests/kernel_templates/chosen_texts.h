#pragma once

#include <string>
#include <vector>

#include "src/catalogue/catalogue.h"

namespace autotune::test {

// One text of a family that the tests compile.
struct ChosenText {
    std::string arch;
    Problem problem;
    Config config;
    bool fits = true;  // whether it must compile without spills
};

inline const std::vector<std::string> kArchs = {"sm_80", "sm_86", "sm_89", "sm_90a", "sm_120"};

// AUTOTUNE_EVERY_CONFIG=1, set by the soak test: no choice is made.
bool compiles_all();

// The rows of pair_cover(), or all of them.
std::vector<std::size_t> covering(const std::vector<std::vector<std::string>>& rows);

// Texts of the family for `arch`; over all of kArchs they hold
// - every pair of values of two parameters that any named config has, on the first example that the family takes and, for f32, on
//   the first of each way to multiply;
// - the same for sums in f16, of the configs that are legal with these alone;
// - every pair of attributes (types, layout, alignment, mask, ...) that any example has, each with the default config;
// - two or three legal configs that are no named ones and hold the most new pairs, which may spill;
// - sides of `if constexpr` and `#if` that none of these takes;
// and one text at least of each architecture. All configs are legal for their problem and architecture.
std::vector<ChosenText> chosen_texts(const Catalogue& catalogue, const Family& family, const std::string& arch);

}  // namespace autotune::test
