// Compares the cost models of attention's families with the winners on an H200: a short search tries the candidates that they
// rank first.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "db/store/store.h"
#include "src/dispatch/rules/stored_winner.h"
#include "tests/support/embedded_catalogue.h"
#include "tuner/session/tune/candidates.h"

namespace autotune::tuner::attention_ranks_test {
namespace {

constexpr std::size_t kFirst = 40;

std::vector<Winner> shipped() {
    std::vector<Winner> all =
        db::Store::open({.path = ":memory:", .shipped = {AUTOTUNE_TEST_DATA "/../../db/winners"}}).list_shipped({});
    std::erase_if(all, [](const Winner& winner) { return !winner.class_key.starts_with("attention "); });
    return all;
}

// How many kernels of all families the models rank before that of `winner`, or before one that took as long in the same rounds.
// Configs that differ only in launch parameters count as one.
std::size_t place_of(const Catalogue& catalogue, const Winner& winner) {
    const Device device = *reference_device("sm_90a");
    Candidates candidates(catalogue, problem_of(catalogue, winner).value(), device, {});
    candidates.predict_all();
    std::map<std::string, double> kernels;
    for (const Candidates::Part& part : candidates.parts()) {
        for (std::size_t i = 0; i < part.points.size(); ++i) {
            const std::string kernel = std::string(part.family->name()) + part.space.compile_part(part.points[i]).to_string();
            const auto [place, is_new] = kernels.emplace(kernel, 1e30);
            place->second = std::min(place->second, candidates.predict_us(part.first + i).value_or(1e30));
        }
    }
    std::vector<Candidate> as_fast = {winner.candidate};
    for (const Finalist& finalist : winner.evidence.finalists)
        if (finalist.candidate && finalist.ratio < 1.005) as_fast.push_back(*finalist.candidate);
    double predicted_us = 1e30;
    for (const Candidate& candidate : as_fast) {
        const Candidates::Part& own = *candidates.part(candidate.family);
        const auto known = kernels.find(candidate.family + own.space.compile_part(candidate.config).to_string());
        if (known != kernels.end()) predicted_us = std::min(predicted_us, known->second);
    }
    return static_cast<std::size_t>(
        std::count_if(kernels.begin(), kernels.end(), [&](const auto& kernel) { return kernel.second < predicted_us; }));
}

TEST(CostModelsOfAttention, HaveTheWinnerAmongTheFirstFortyOnNineOfTenProblems) {
    const Catalogue& catalogue = test::embedded_catalogue();
    std::size_t problems = 0, found = 0;
    for (const Winner& winner : shipped()) {
        const std::size_t place = place_of(catalogue, winner);
        ++problems;
        if (place < kFirst)
            ++found;
        else
            std::printf("place %zu: %s %s\n", place, problem_of(catalogue, winner)->key().c_str(),
                        winner.candidate.to_string().c_str());
    }
    std::printf("%zu of %zu\n", found, problems);
    EXPECT_GE(10 * found, 9 * problems);
}

}  // namespace
}  // namespace autotune::tuner::attention_ranks_test
