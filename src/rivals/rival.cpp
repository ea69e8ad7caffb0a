#include "src/rivals/rival.h"

#include <set>

#include "src/rivals/registry.h"

namespace autotune {

std::vector<std::unique_ptr<Rival>> rivals_of(std::string_view op) {
    for (const RivalsOfOp& entry : rival_registry()) {
        if (entry.op == op) return entry.make();
    }
    return {};
}

std::vector<std::string> rival_names() {
    std::set<std::string> names;
    for (const RivalsOfOp& entry : rival_registry()) {
        for (const auto& rival : entry.make()) names.emplace(rival->name());
    }
    return {names.begin(), names.end()};
}

std::vector<std::string> rivals_in_tunes(const Problem& problem) {
    std::vector<std::string> names;
    for (const auto& rival : rivals_of(problem.op)) {
        if (rival->joins_tunes() && rival->refuses(problem).empty()) names.emplace_back(rival->name());
    }
    return names;
}

}  // namespace autotune
