#include "tools/cli/problem_words.h"

#include <algorithm>

#include "tools/cli/arguments.h"

namespace autotune::cli {
namespace {

bool has(const std::vector<Trait>& traits, const Trait& trait) {
    return std::find(traits.begin(), traits.end(), trait) != traits.end();
}

// A trait that says of every problem what its element type says already.
bool repeats_dtype(const std::vector<Problem>& problems, const std::string& name) {
    return std::all_of(problems.begin(), problems.end(),
                       [&](const Problem& problem) { return trait_or_nothing(problem, name) == dtype_text(problem); });
}

}  // namespace

std::string dtype_text(const Problem& problem) {
    std::vector<std::string> names;
    for (const Operand& operand : problem.operands) names.emplace_back(to_string(operand.dtype));
    const bool alike = std::all_of(names.begin(), names.end(), [&](const std::string& name) { return name == names.front(); });
    if (alike && !names.empty()) names.resize(1);
    return join(names, ",");
}

std::vector<Trait> own_traits(const Problem& problem) {
    std::vector<Trait> own;
    for (const Trait& trait : problem.traits) {
        const bool repeats = std::any_of(problem.operands.begin(), problem.operands.end(), [&](const Operand& operand) {
            return operand.name == trait.name && to_string(operand.dtype) == trait.value;
        });
        if (!repeats) own.push_back(trait);
    }
    return own;
}

std::vector<Trait> shared_traits(const std::vector<Problem>& problems) {
    std::vector<Trait> shared;
    for (const Trait& trait : own_traits(problems.front())) {
        const auto agrees = [&](const Problem& problem) { return has(problem.traits, trait); };
        if (std::all_of(problems.begin(), problems.end(), agrees)) shared.push_back(trait);
    }
    return shared;
}

std::vector<std::string> differing_traits(const std::vector<Problem>& problems) {
    const std::vector<Trait> shared = shared_traits(problems);
    std::vector<std::string> names;
    for (const Problem& problem : problems) {
        for (const Trait& trait : own_traits(problem)) {
            const auto same_name = [&](const Trait& other) { return other.name == trait.name; };
            const bool known = std::find(names.begin(), names.end(), trait.name) != names.end();
            if (!known && std::none_of(shared.begin(), shared.end(), same_name) && !repeats_dtype(problems, trait.name))
                names.push_back(trait.name);
        }
    }
    return names;
}

std::string trait_or_nothing(const Problem& problem, const std::string& name) {
    for (const Trait& trait : problem.traits) {
        if (trait.name == name) return trait.value;
    }
    return "";
}

std::string traits_text(const std::vector<Trait>& traits) {
    std::vector<std::string> words;
    for (const Trait& trait : traits) words.push_back(trait.name + "=" + trait.value);
    return join(words, " ");
}

std::vector<std::string> short_names(const std::vector<Problem>& problems) {
    const std::vector<std::string> traits = differing_traits(problems);
    const std::string first = dtype_text(problems.front());
    const bool one_dtype =
        std::all_of(problems.begin(), problems.end(), [&](const Problem& problem) { return dtype_text(problem) == first; });
    std::vector<std::string> names;
    for (const Problem& problem : problems) {
        names.push_back(problem.shape());
        if (!one_dtype) names.back() += " " + dtype_text(problem);
        for (const std::string& trait : traits) names.back() += " " + trait_or_nothing(problem, trait);
    }
    return names;
}

}  // namespace autotune::cli
