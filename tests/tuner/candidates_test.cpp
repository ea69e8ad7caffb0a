// What may be tried of a problem, and what a search begins with.
#include "tuner/candidates.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

namespace autotune::tuner {
namespace {

class SearchSeeds : public testing::Test {
  protected:
    Catalogue catalogue_ = Catalogue::embedded();
    Candidates candidates_{
        catalogue_, catalogue_.problem({.op = "hgemm", .shape = "256x256x256", .options = {}}), *reference_device("sm_90a"), {}};
    std::vector<std::size_t> seeds_ = candidates_.all_seeds({7});

    bool contains(const Candidate& candidate) const {
        return std::find(seeds_.begin(), seeds_.end(), candidates_.find(candidate).value()) != seeds_.end();
    }
};

TEST_F(SearchSeeds, BeginWithWhatIsGiven) {
    EXPECT_EQ(seeds_.front(), 7U);
}

TEST_F(SearchSeeds, HoldNothingTwice) {
    EXPECT_EQ(std::set<std::size_t>(seeds_.begin(), seeds_.end()).size(), seeds_.size());
}

TEST_F(SearchSeeds, HoldEveryFamilysDefault) {
    for (const Candidates::Part& part : candidates_.parts())
        EXPECT_TRUE(contains({std::string(part.family->name()), part.space.default_config})) << part.family->name();
}

TEST_F(SearchSeeds, HoldWhatTheCostModelsSayIsBest) {
    std::size_t best = 0;
    for (std::size_t point = 0; point < candidates_.size(); ++point) {
        if (candidates_.predict_us(point) < candidates_.predict_us(best)) best = point;
    }
    EXPECT_NE(std::find(seeds_.begin(), seeds_.end(), best), seeds_.end());
}

TEST_F(SearchSeeds, HoldTheNamedConfigsThatTheyRankBest) {
    const Candidates::Part& wgmma = *candidates_.part("gemm/wgmma");
    const auto predicted_us = [&](const NamedConfig& named) {
        return candidates_.predict_us(candidates_.find({"gemm/wgmma", named.config}).value());
    };
    const auto best =
        std::min_element(wgmma.space.named.begin(), wgmma.space.named.end(),
                         [&](const auto& left, const auto& right) { return predicted_us(left) < predicted_us(right); });
    EXPECT_TRUE(contains({"gemm/wgmma", best->config})) << best->name;
}

// Ten that differ in a launch parameter alone would be one guess.
TEST_F(SearchSeeds, DifferInMoreThanHowTheyAreLaunched) {
    std::set<std::pair<const Family*, std::string>> instances;
    for (const std::size_t point : seeds_) {
        const Candidates::Part& part = candidates_.part_of(point);
        Config compiled;
        for (const Parameter& parameter : part.space.parameters) {
            if (parameter.kind == ParameterKind::compile)
                compiled.set(parameter.name, part.points[point - part.first][parameter.name]);
        }
        instances.emplace(part.family, compiled.to_string());
    }
    EXPECT_GE(instances.size(), 16U);
}

}  // namespace
}  // namespace autotune::tuner
