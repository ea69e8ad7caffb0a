#include "src/core/space/search_space.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>

#include "src/core/error.h"
#include "src/core/space/config_domain.h"
#include "src/core/space/config_list.h"
#include "tests/support/spread_configs.h"

namespace autotune {
namespace {

using ::testing::HasSubstr;

// Tiles of up to 2048 elements; `group` is a launch parameter.
SearchSpace tiles() {
    SearchSpace space;
    space.parameters = {{"block_m", {16, 32, 64}, ParameterKind::compile, "rows"},
                        {"block_n", {16, 32, 64}, ParameterKind::compile, "columns"},
                        {"group", {1, 2}, ParameterKind::launch, "raster"}};
    space.constraints = {
        {"tile is too large", {"block_m", "block_n"}, [](const Config& c) { return c["block_m"] * c["block_n"] <= 2048; }},
        {"groups need tall tiles", {"group", "block_m"}, [](const Config& c) { return c["group"] == 1 || c["block_m"] > 16; }}};
    space.default_config = {{"block_m", 32}, {"block_n", 32}, {"group", 1}};
    return space;
}

TEST(SearchSpace, SaysWhatIsOutsideOfItsDomains) {
    const std::vector<Parameter> parameters = tiles().parameters;
    const auto why = [&](const Config& config) { return why_outside_domain(parameters, config).value_or(""); };
    EXPECT_EQ(why({{"block_m", 16}, {"block_n", 64}, {"group", 2}}), "");
    EXPECT_EQ(why({{"group", 2}, {"block_n", 64}, {"block_m", 16}}), "");  // another order
    EXPECT_EQ(why({{"block_m", 0}, {"block_n", 64}, {"group", 2}}), "block_m=0 is not one of 16, 32, 64");
    EXPECT_EQ(why({{"block_m", 16}, {"block_n", 64}}), "parameter 'group' has no value");
    EXPECT_EQ(why({{"block_m", 16}, {"block_n", 64}, {"group", 2}, {"stages", 2}}), "there is no parameter 'stages'");
    EXPECT_EQ(why({{"block_m", 16}, {"block_n", 64}, {"stages", 2}}), "there is no parameter 'stages'");
    EXPECT_EQ(why({{"block_m", 16}, {"block_m", 16}, {"block_n", 64}, {"group", 2}}), "a parameter is given twice");
}

// A space of 10 parameters with 5 values: 9.8 million points.
SearchSpace wide(std::size_t constraint_start) {
    SearchSpace space;
    for (char name = 'a'; name <= 'j'; ++name) {
        space.parameters.push_back({std::string(1, name), {1, 2, 3, 4, 5}, ParameterKind::compile, ""});
    }
    for (std::size_t i = constraint_start; i + 1 < space.parameters.size(); ++i) {
        const std::string left = space.parameters[i].name;
        const std::string right = space.parameters[i + 1].name;
        space.constraints.push_back(
            {left + " is above " + right, {left, right}, [left, right](const Config& c) { return c[left] <= c[right]; }});
    }
    return space;
}

TEST(SearchSpace, ReportsWhyAConfigWasDropped) {
    const SearchSpace space = tiles();
    EXPECT_EQ(space.why_not({{"block_m", 64}, {"block_n", 64}, {"group", 1}}), "tile is too large");
    EXPECT_EQ(space.why_not({{"block_m", 16}, {"block_n", 64}, {"group", 2}}), "groups need tall tiles");
}

TEST(SearchSpace, NamesTheFirstReasonInDeclaredOrder) {
    SearchSpace space = tiles();
    space.constraints.push_back({"never", {"block_m"}, [](const Config&) { return false; }});
    EXPECT_EQ(space.why_not({{"block_m", 64}, {"block_n", 64}, {"group", 1}}), "tile is too large");
}

TEST(SearchSpace, NamesUnknownMissingForeignAndRepeatedParameters) {
    const SearchSpace space = tiles();
    EXPECT_THAT(space.why_not({{"block_m", 16}, {"block_n", 16}, {"group", 1}, {"warps", 4}}).value(), HasSubstr("'warps'"));
    EXPECT_THAT(space.why_not({{"block_m", 16}, {"group", 1}}).value(), HasSubstr("'block_n'"));
    EXPECT_EQ(space.why_not({{"block_m", 17}, {"block_n", 16}, {"group", 1}}), "block_m=17 is not one of 16, 32, 64");
    EXPECT_THAT(space.why_not({{"group", 1}, {"block_m", 16}, {"block_n", 16}, {"group", 2}}).value(), HasSubstr("twice"));
}

TEST(SearchSpace, EnumeratesExactlyTheLegalConfigsInLexicographicOrder) {
    const SearchSpace space = tiles();
    const std::vector<Config> configs = space.enumerate();
    EXPECT_EQ(configs.size(), 13U);  // of 18 points 2 are too large, and 3 are groups of flat tiles
    EXPECT_TRUE(std::is_sorted(configs.begin(), configs.end()));
    EXPECT_TRUE(std::all_of(configs.begin(), configs.end(), [&](const Config& config) { return space.contains(config); }));
}

TEST(SearchSpace, EnumerateKeepsPinsAndStopsAtTheLimit) {
    const SearchSpace space = tiles();
    for (const Config& config : space.enumerate({{"block_n", 64}})) EXPECT_EQ(config["block_n"], 64);
    EXPECT_EQ(space.enumerate({{"block_n", 64}}).size(), 3U);
    EXPECT_EQ(space.enumerate({}, 4).size(), 4U);
    EXPECT_TRUE(space.enumerate({}, 0).empty());
}

TEST(SearchSpace, ASampleIsFromTheWholeSpaceAndInOrder) {
    SearchSpace space = wide(8);  // 7.8 million points remain without those where i is above j.
    space.default_config = space.enumerate({}, 1).front();
    space.named = {
        {"last",
         space.canonical({{"a", 5}, {"b", 5}, {"c", 5}, {"d", 5}, {"e", 5}, {"f", 5}, {"g", 5}, {"h", 5}, {"i", 5}, {"j", 5}})}};
    const std::vector<Config> some = space.sample({{"a", 3}, {"b", 2}}, 1000);
    ASSERT_EQ(some.size(), 1000U) << "neither default nor named config is as pinned";
    EXPECT_TRUE(std::is_sorted(some.begin(), some.end()));
    EXPECT_EQ(std::adjacent_find(some.begin(), some.end()), some.end());
    EXPECT_EQ(some, space.sample({{"a", 3}, {"b", 2}}, 1000));
    for (const std::int64_t value : {1, 2, 3, 4, 5}) {
        const auto has = [&](const Config& config) { return config["c"] == value; };
        EXPECT_NEAR(static_cast<double>(std::count_if(some.begin(), some.end(), has)), 200, 60) << "c=" << value;
    }
    for (const Config& config : some) EXPECT_TRUE(space.contains(config)) << config.to_string();
    const std::vector<Config> open = space.sample({}, 10);
    EXPECT_THAT(open, ::testing::SizeIs(::testing::AllOf(::testing::Ge(11U), ::testing::Le(12U))));
    EXPECT_EQ(open.front(), space.default_config);
    EXPECT_EQ(open.back(), space.named[0].config);
}

TEST(SearchSpace, ASampleOfASmallSpaceIsAllOfIt) {
    const SearchSpace space = tiles();
    const std::vector<Config> all = space.enumerate();
    EXPECT_EQ(space.sample({}, all.size()), all);
    EXPECT_TRUE(space.sample({{"warps", 4}}, 10).empty());
}

// ---- lists ----

TEST(ConfigList, HoldsWhatItWasMadeOf) {
    const SearchSpace space = tiles();
    const std::vector<Config> all = space.enumerate();
    const ConfigList list(space.parameters, all);
    ASSERT_EQ(list.size(), all.size());
    Config read = list[0];
    for (std::size_t i = 0; i < all.size(); ++i) {
        EXPECT_EQ(list[i], all[i]);
        list.read(i, read);
        EXPECT_EQ(read, all[i]);
        EXPECT_EQ(list.find(all[i]), i);
    }
    EXPECT_EQ(list.find({{"block_m", 16}}), std::nullopt) << "another space's";
}

TEST(ConfigList, InsertsOnceAndInOrder) {
    const SearchSpace space = tiles();
    std::vector<Config> all = space.enumerate();
    const Config missing = all[1];
    all.erase(all.begin() + 1);
    ConfigList list(space.parameters, all);
    EXPECT_EQ(list.find(missing), std::nullopt);
    list.insert(missing);
    list.insert(missing);
    EXPECT_EQ(list.size(), all.size() + 1);
    EXPECT_EQ(list.find(missing), 1U);
}

TEST(ConfigList, OfASpaceWithoutParametersHasOne) {
    const ConfigList list = list_sample(SearchSpace(), {}, 10);
    ASSERT_EQ(list.size(), 1U);
    EXPECT_TRUE(list[0].empty());
    EXPECT_EQ(list.find({}), 0U);
}

TEST(SpreadConfigs, LieAtEqualDistancesInTheOrderOfEnumeration) {
    const std::vector<Config> all = tiles().enumerate();
    EXPECT_EQ(test::spread_configs(tiles(), 3), (std::vector<Config>{all[0], all[4], all[8], all[12]}));
    EXPECT_EQ(test::spread_configs(tiles(), 1), std::vector<Config>{all[0]});
    EXPECT_EQ(test::spread_configs(tiles(), 13), all);
}

TEST(SearchSpace, APinThatFitsNoParameterOrValueLeavesNothing) {
    EXPECT_TRUE(tiles().enumerate({{"block_q", 64}}).empty());
    EXPECT_TRUE(tiles().enumerate({{"block_m", 65}}).empty());
}

TEST(SearchSpace, CountsEveryPointOnceUnderItsFirstReason) {
    const SpaceCount count = tiles().count();
    EXPECT_EQ(count.points, 18U);
    EXPECT_EQ(count.legal, 13U);
    EXPECT_EQ(count.instances, 8U);
    EXPECT_EQ(count.dropped.at("tile is too large"), 2U);
    EXPECT_EQ(count.dropped.at("groups need tall tiles"), 3U);
}

TEST(SearchSpace, CountsByDeclaredOrderWhenALaterParameterDecides) {
    SearchSpace space = tiles();
    std::swap(space.constraints[0], space.constraints[1]);
    space.constraints.push_back({"no tall tiles", {"block_m"}, [](const Config& c) { return c["block_m"] < 64; }});
    std::rotate(space.constraints.begin(), space.constraints.begin() + 1, space.constraints.end());
    const SpaceCount count = space.count();  // the constraints in order: too large, no tall tiles, groups
    EXPECT_EQ(count.dropped.at("tile is too large"), 2U);
    EXPECT_EQ(count.dropped.at("no tall tiles"), 4U);
    EXPECT_EQ(count.dropped.at("groups need tall tiles"), 3U);
    EXPECT_EQ(count.legal, 9U);
}

TEST(SearchSpace, WalksTenMillionPointsInNoTime) {
    const auto start = std::chrono::steady_clock::now();
    EXPECT_EQ(wide(0).count().legal, 1001U);  // non-decreasing words: C(14, 4)
    EXPECT_EQ(wide(0).enumerate().size(), 1001U);
    EXPECT_EQ(wide(5).count().points, 9765625U);  // pruned late: 3125 x C(9, 4) legal
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
    EXPECT_LT(elapsed.count(), 3.0);  // it takes 0.1 s on an idle machine, and more under sanitizers
}

TEST(SearchSpace, AConstraintThatReadsWhatItDoesNotNeedIsOurBug) {
    SearchSpace space = tiles();
    space.constraints.push_back({"reads more", {"block_m"}, [](const Config& c) { return c["block_n"] > 0; }});
    EXPECT_THROW(space.enumerate(), Error);
}

TEST(SearchSpace, ASpaceWithoutParametersHasOneConfig) {
    EXPECT_EQ(SearchSpace{}.enumerate().size(), 1U);
    EXPECT_EQ(SearchSpace{}.count().legal, 1U);
}

TEST(SearchSpace, NeighboursAreLegalAndDifferInOneParameterOrInATiedPair) {
    const SearchSpace space = tiles();
    const Config start = {{"block_m", 32}, {"block_n", 64}, {"group", 1}};
    const std::vector<Config> near = space.neighbours(start);
    for (const Config& config : near) {
        EXPECT_TRUE(space.contains(config));
        EXPECT_NE(config, start);
    }
    // 64x32 is two steps away: 64x64, between them, is too large.
    EXPECT_THAT(near, ::testing::Contains(Config{{"block_m", 64}, {"block_n", 32}, {"group", 1}}));
    EXPECT_THAT(near, ::testing::Not(::testing::Contains(Config{{"block_m", 64}, {"block_n", 64}, {"group", 1}})));
}

TEST(SearchSpace, CanonicalRestoresTheDeclaredOrder) {
    const Config shuffled = {{"group", 1}, {"block_n", 64}, {"block_m", 16}};
    EXPECT_TRUE(tiles().contains(shuffled));
    EXPECT_EQ(tiles().canonical(shuffled).to_string(), "block_m=16 block_n=64 group=1");
}

TEST(SearchSpace, AConfigOfAnotherStateIsAdoptedWhereThatIsLegal) {
    SearchSpace space = tiles();
    space.default_config = {{"block_m", 32}, {"block_n", 32}, {"group", 2}};
    const std::optional<Config> adopted = space.adopt({{"block_n", 64}, {"forgotten", 3}});
    ASSERT_TRUE(adopted.has_value());
    EXPECT_EQ(adopted->to_string(), "block_m=32 block_n=64 group=2");
    // 64 rows are too large with the default's 64 columns, but not with the smallest number of columns.
    space.default_config = {{"block_m", 16}, {"block_n", 64}, {"group", 1}};
    EXPECT_EQ(space.adopt({{"block_m", 64}})->to_string(), "block_m=64 block_n=16 group=1");
    EXPECT_EQ(space.adopt({{"block_m", 64}, {"block_n", 64}}), std::nullopt);
    EXPECT_EQ(space.adopt({{"block_n", 63}}), std::nullopt);
}

TEST(SearchSpace, CompilePartLeavesLaunchParametersOut) {
    EXPECT_EQ(tiles().compile_part({{"block_m", 16}, {"block_n", 64}, {"group", 2}}).to_string(), "block_m=16 block_n=64");
}

}  // namespace
}  // namespace autotune
