#pragma once

#include <algorithm>
#include <cstddef>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace autotune::test {

using Words = std::vector<std::string>;

// The positions, ascending, of a few rows that together contain every pair of words that any row contains. An error in a text
// nearly always depends on one value of a parameter, or on the values of two.
inline std::vector<std::size_t> pair_cover(const std::vector<Words>& rows) {
    using Pairs = std::set<std::pair<std::string, std::string>>;
    std::vector<Pairs> left;  // pairs of each row that no picked row contains
    for (const Words& row : rows) {
        Pairs& pairs = left.emplace_back();
        for (const std::string& one : row)
            for (const std::string& other : row)
                if (one <= other) pairs.emplace(one, other);
    }
    std::vector<std::size_t> picked;
    const auto fewer = [](const Pairs& one, const Pairs& other) { return one.size() < other.size(); };
    for (auto most = std::max_element(left.begin(), left.end(), fewer); most != left.end() && !most->empty();
         most = std::max_element(left.begin(), left.end(), fewer)) {
        picked.push_back(static_cast<std::size_t>(most - left.begin()));
        const Pairs held = *most;
        for (Pairs& pairs : left)
            for (const auto& pair : held) pairs.erase(pair);
    }
    std::sort(picked.begin(), picked.end());
    return picked;
}

}  // namespace autotune::test
