#pragma once

#include <algorithm>
#include <cstddef>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace autotune::test {

using Words = std::vector<std::string>;
using Pairs = std::set<std::pair<std::string, std::string>>;

inline Pairs pairs_of(const Words& row) {
    Pairs pairs;
    for (const std::string& one : row)
        for (const std::string& other : row)
            if (one <= other) pairs.emplace(one, other);
    return pairs;
}

// The positions, ascending, of a few rows that together have every pair of words that any row has. None of them can be left out.
// A fault of a text nearly always depends on one value of a parameter, or on one pair of values.
inline std::vector<std::size_t> pair_cover(const std::vector<Words>& rows) {
    std::vector<Pairs> left;  // pairs of each row that no picked row holds
    for (const Words& row : rows) left.push_back(pairs_of(row));
    std::vector<std::size_t> picked;
    std::map<std::pair<std::string, std::string>, int> held;  // the number of picked rows that have a pair
    const auto fewer = [](const Pairs& one, const Pairs& other) { return one.size() < other.size(); };
    for (auto most = std::max_element(left.begin(), left.end(), fewer); most != left.end() && !most->empty();
         most = std::max_element(left.begin(), left.end(), fewer)) {
        picked.push_back(static_cast<std::size_t>(most - left.begin()));
        const Pairs newly = *most;
        for (Pairs& pairs : left)
            for (const auto& pair : newly) pairs.erase(pair);
        for (const auto& pair : pairs_of(rows[picked.back()])) ++held[pair];
    }
    // A row that was picked early is not needed if the later ones together have all its pairs.
    std::erase_if(picked, [&](std::size_t at) {
        const Pairs pairs = pairs_of(rows[at]);
        if (!std::all_of(pairs.begin(), pairs.end(), [&](const auto& pair) { return held[pair] > 1; })) return false;
        for (const auto& pair : pairs) --held[pair];
        return true;
    });
    std::sort(picked.begin(), picked.end());
    return picked;
}

}  // namespace autotune::test
