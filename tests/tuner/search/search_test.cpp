#include "tuner/search/search.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <ctime>
#include <functional>
#include <limits>
#include <numeric>
#include <set>

#include "src/core/error.h"
#include "src/core/statistics/random.h"
#include "tests/support/sanitizer.h"
#include "tuner/search/search_domain.h"

namespace autotune::tuner::search_test {
namespace {

struct Grid {
    std::vector<Parameter> parameters;
    std::vector<Config> points;
    operator DomainPart() const { return {parameters, {parameters, points}}; }
};

// A grid of `extents` whose points are all legal; the last parameter is a launch parameter.
Grid grid(const std::vector<int>& extents) {
    Grid part;
    for (std::size_t p = 0; p < extents.size(); ++p) {
        Parameter parameter{.name = std::string(1, static_cast<char>('a' + p)), .values = {}, .kind = {}, .about = {}};
        for (int v = 0; v < extents[p]; ++v) parameter.values.push_back(v);
        parameter.kind = p + 1 == extents.size() ? ParameterKind::launch : ParameterKind::compile;
        part.parameters.push_back(parameter);
    }
    std::vector<std::int64_t> values(extents.size(), 0);
    while (true) {
        Config config;
        for (std::size_t p = 0; p < extents.size(); ++p) config.set(part.parameters[p].name, values[p]);
        part.points.push_back(config);
        std::size_t p = extents.size();
        while (p > 0 && ++values[p - 1] == extents[p - 1]) values[--p] = 0;
        if (p == 0) return part;
    }
}

double bowl(const std::vector<int>& coordinates) {
    double sum = 10;
    for (std::size_t p = 1; p < coordinates.size(); ++p)
        sum += (coordinates[p] - 2.0) * (coordinates[p] - 2.0) * static_cast<double>(p);
    return sum;
}

std::optional<double> bowl_with_holes(const Domain& domain, std::size_t point) {
    if (point % 7 == 3) return std::nullopt;
    return bowl(domain.coordinates(point));
}

// ---- tests of every strategy ----

class EveryStrategy : public testing::TestWithParam<std::string> {
  protected:
    Domain domain_ = make_domain({grid({4, 3, 5, 2})});
};

TEST_P(EveryStrategy, GivesEveryPointExactlyOnce) {
    const auto strategy = make_strategy(GetParam(), domain_, 1);
    std::set<std::size_t> given;
    while (!strategy->exhausted()) {
        const std::vector<std::size_t> points = strategy->ask(1);
        ASSERT_EQ(points.size(), 1u);
        EXPECT_TRUE(given.insert(points[0]).second);
        strategy->report(points[0], bowl_with_holes(domain_, points[0]));
    }
    EXPECT_EQ(given.size(), domain_.size);
    EXPECT_TRUE(strategy->ask(5).empty());
}

TEST_P(EveryStrategy, GivesEveryPointOnceWhenManyAreTriedAtATimeAndReportedBackwards) {
    const auto strategy = make_strategy(GetParam(), domain_, 2);
    std::set<std::size_t> given;
    for (int turn = 0; turn < 1'000 && !strategy->exhausted(); ++turn) {
        std::vector<std::size_t> points = strategy->ask(15);
        ASSERT_FALSE(points.empty());
        for (const std::size_t point : points) EXPECT_TRUE(given.insert(point).second);
        std::reverse(points.begin(), points.end());
        for (const std::size_t point : points) strategy->report(point, bowl_with_holes(domain_, point));
    }
    EXPECT_EQ(given.size(), domain_.size);
}

TEST_P(EveryStrategy, IsTheSameUnderTheSameSeed) {
    std::vector<std::size_t> orders[2];
    for (std::vector<std::size_t>& order : orders) {
        const auto strategy = make_strategy(GetParam(), domain_, 3);
        while (!strategy->exhausted()) {
            for (const std::size_t point : strategy->ask(3)) {
                order.push_back(point);
                strategy->report(point, bowl_with_holes(domain_, point));
            }
        }
    }
    EXPECT_EQ(orders[0], orders[1]);
}

TEST_P(EveryStrategy, TriesSeedsFirstInTheirOrder) {
    domain_.seeds = {17, 4, 17, 99};
    const auto strategy = make_strategy(GetParam(), domain_, 4);
    EXPECT_EQ(strategy->ask(3), (std::vector<std::size_t>{17, 4, 99}));
}

TEST_P(EveryStrategy, SurvivesASpaceWhereEverythingFails) {
    const auto strategy = make_strategy(GetParam(), domain_, 5);
    std::size_t given = 0;
    while (!strategy->exhausted()) {
        for (const std::size_t point : strategy->ask(4)) {
            ++given;
            strategy->report(point, std::nullopt);
        }
    }
    EXPECT_EQ(given, domain_.size);
}

TEST_P(EveryStrategy, TakesReportsOfPointsItNeverGave) {
    const auto strategy = make_strategy(GetParam(), domain_, 6);
    strategy->report(11, 5.0);
    strategy->report(11, 5.0);
    std::set<std::size_t> given;
    while (!strategy->exhausted()) {
        for (const std::size_t point : strategy->ask(1)) {
            given.insert(point);
            strategy->report(point, bowl_with_holes(domain_, point));
        }
    }
    EXPECT_EQ(given.count(11), 0u);
    EXPECT_EQ(given.size(), domain_.size - 1);
}

TEST_P(EveryStrategy, WorksWithOnePoint) {
    const Domain one = make_domain({grid({1, 1})});
    const auto strategy = make_strategy(GetParam(), one, 7);
    EXPECT_EQ(strategy->ask(8), std::vector<std::size_t>{0});
    EXPECT_TRUE(strategy->exhausted());
}

TEST_P(EveryStrategy, KnowsItsName) {
    EXPECT_EQ(make_strategy(GetParam(), domain_, 1)->name(), GetParam());
}

INSTANTIATE_TEST_SUITE_P(Search, EveryStrategy, testing::ValuesIn(strategy_names()),
                         [](const auto& strategy) { return strategy.param; });

// ---- differences between strategies ----

std::size_t tries_to_optimum(const std::string& name, const Domain& domain, std::uint64_t seed) {
    const auto strategy = make_strategy(name, domain, seed);
    for (std::size_t tries = 1;; ++tries) {
        const std::size_t point = strategy->ask(1).at(0);
        const double time_us = bowl(domain.coordinates(point));
        if (time_us == 10) return tries;
        strategy->report(point, time_us);
    }
}

TEST(Search, DirectedStrategiesFindTheBottomOfABowlInATenthOfItsPoints) {
    const Domain domain = make_domain({grid({6, 6, 6, 6})});
    for (const std::string& name : strategy_names()) {
        if (name == "random" || name == "exhaustive") continue;
        std::vector<std::size_t> tries;
        for (std::uint64_t seed = 1; seed <= 11; ++seed) tries.push_back(tries_to_optimum(name, domain, seed));
        std::sort(tries.begin(), tries.end());
        EXPECT_LT(tries[5], domain.size / 10) << name;
    }
}

TEST(Search, AutoWalksASmallDomainInFull) {
    EXPECT_EQ(make_strategy("auto", make_domain({grid({4, 4, 4, 8})}), 1)->name(), "exhaustive");
    EXPECT_EQ(make_strategy("auto", make_domain({grid({5, 4, 4, 8})}), 1)->name(), strategy_names().front());
}

TEST(Search, ExhaustiveFollowsThePrior) {
    Domain domain = make_domain({grid({3, 2})});
    domain.prior = [](std::size_t point) { return point == 4 ? std::optional<double>() : -static_cast<double>(point); };
    EXPECT_EQ(make_strategy("exhaustive", domain, 1)->ask(6), (std::vector<std::size_t>{5, 3, 2, 1, 0, 4}));
}

TEST(Search, AnUnknownStrategyIsAUsageErrorThatListsTheKnownOnes) {
    try {
        make_strategy("gradient", make_domain({grid({2, 2})}), 1);
        FAIL();
    } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::usage);
        for (const std::string& name : strategy_names()) EXPECT_NE(std::string(error.what()).find(name), std::string::npos);
    }
}

TEST(Search, AnAskIsCheapAtTwentyThousandPoints) {
    if (test::kIsSanitized) GTEST_SKIP() << "times mean nothing under a sanitizer";
    const Domain domain = make_domain({grid({10, 10, 10, 5, 4})});
    for (const std::string& name : strategy_names()) {
        const auto strategy = make_strategy(name, domain, 1);
        // Processor time of this thread, because the machine may be busy.
        const std::clock_t start = std::clock();
        for (int i = 0; i < 150; ++i) {
            const std::size_t point = strategy->ask(1).at(0);
            strategy->report(point, bowl(domain.coordinates(point)));
        }
        const double taken_ms = 1e3 * static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
        EXPECT_LT(taken_ms / 150, 5.0) << name << ", mean milliseconds of an ask and its report";
    }
}

TEST(Search, TheModelSavesCompilesByTryingLaunchParametersOfKnownInstancesFirst) {
    // Eight launch values for each of 96 instances; the best value is the same for all.
    const Domain domain = make_domain({grid({6, 4, 4, 8})});
    std::set<std::size_t> instances;
    const auto strategy = make_strategy("model", domain, 1);
    for (int i = 0; i < 60; ++i) {
        const std::size_t point = strategy->ask(1).at(0);
        instances.insert(domain.instance(point));
        strategy->report(point, bowl(domain.coordinates(point)));
    }
    EXPECT_LT(instances.size(), 45u);
}

// For 3^6 x 4 points the prior predicts that the highest values are best; the last parameter is a launch parameter.
TEST(Search, TheModelBeginsWithWhatThePriorSaysIsBestOneAloneOfThoseAlike) {
    Domain domain = make_domain({grid({3, 3, 3, 3, 3, 3, 4})});
    const auto expected_us = [&domain](std::size_t point) {
        const std::vector<int> at = domain.coordinates(point);
        return 100.0 - std::accumulate(at.begin() + 1, at.end(), 0);
    };
    domain.prior = expected_us;
    const std::vector<std::size_t> first = make_strategy("model", domain, 1)->ask(7);
    ASSERT_EQ(first.size(), 7u);
    EXPECT_EQ(expected_us(first[0]), 100.0 - 6 * 2 - 3) << "the best expected";
    const std::vector<std::size_t> expected = {first[0], first[1], first[2],
                                               first[4], first[5], first[6]};  // first[3] is a guess
    for (std::size_t i = 0; i < expected.size(); ++i) {
        EXPECT_GE(expected_us(expected[i]), expected_us(expected[i == 0 ? 0 : i - 1]));
        for (std::size_t j = 0; j < i; ++j) {
            const std::vector<int> left = domain.coordinates(domain.instance(expected[i]));
            const std::vector<int> right = domain.coordinates(domain.instance(expected[j]));
            EXPECT_GE(std::inner_product(left.begin(), left.end(), right.begin(), 0, std::plus<>(), std::not_equal_to<>()), 4);
        }
    }
}

// Too many points for the model to cover: it still covers the points with the best prior.
TEST(Search, TheModelFindsTheBestExpectedOfAHundredThousandPointsInItsFirstAsks) {
    Domain domain = make_domain({grid({10, 10, 10, 10, 5, 2})});
    const auto time_us = [&domain](std::size_t point) {
        const std::vector<int> at = domain.coordinates(point);
        double sum = 10;
        for (std::size_t p = 1; p < at.size(); ++p) sum += (9 - at[p]) * (p == 3 ? 0.5 : 1);
        return sum;
    };
    // Wrong by a fifth near the best points.
    domain.prior = [&](std::size_t point) { return time_us(point) * (domain.coordinates(point)[3] == 9 ? 1.2 : 1); };
    const auto strategy = make_strategy("model", domain, 1);
    double best_us = 1e9;
    for (int i = 0; i < 6; ++i) {
        const std::size_t point = strategy->ask(1).at(0);
        best_us = std::min(best_us, time_us(point));
        strategy->report(point, time_us(point));
    }
    double optimum_us = 1e9;
    for (std::size_t point = 0; point < domain.size; ++point) optimum_us = std::min(optimum_us, time_us(point));
    EXPECT_LE(best_us, 1.05 * optimum_us);
}

TEST(Search, TheModelFollowsAGoodPrior) {
    Domain domain = make_domain({grid({8, 8, 8, 8})});
    domain.prior = [&domain](std::size_t point) {
        return std::optional(bowl(domain.coordinates(point)) * (1 + 0.2 * static_cast<double>(point % 5)));
    };
    std::vector<std::size_t> tries;
    for (std::uint64_t seed = 1; seed <= 9; ++seed) tries.push_back(tries_to_optimum("model", domain, seed));
    std::sort(tries.begin(), tries.end());
    EXPECT_LT(tries[4], 30u);
}

// ---- domains ----

TEST(SearchDomain, NeighboursDifferInOneParameterOrByOneStepInTwo) {
    const Domain domain = make_domain({grid({3, 4})});
    const std::vector<std::size_t> neighbours = domain.neighbours(0);  // (0, 0)
    EXPECT_EQ(std::set<std::size_t>(neighbours.begin(), neighbours.end()), (std::set<std::size_t>{4, 8, 1, 2, 3, 5}));
}

TEST(SearchDomain, PointsThatDifferInALaunchParameterShareAnInstance) {
    const Domain domain = make_domain({grid({3, 4})});
    EXPECT_EQ(domain.instance(0), domain.instance(3));
    EXPECT_NE(domain.instance(3), domain.instance(4));
    EXPECT_EQ(count_instances(domain), 3u);
}

TEST(SearchDomain, PartsAreNumberedOneAfterAnotherAndNeverMix) {
    const Domain domain = make_domain({grid({3, 4}), grid({2, 2, 2})});
    EXPECT_EQ(domain.size, 20u);
    for (const std::size_t neighbour : domain.neighbours(11)) EXPECT_LT(neighbour, 12u);
    for (const std::size_t neighbour : domain.neighbours(12)) EXPECT_GE(neighbour, 12u);
    EXPECT_NE(domain.instance(0), domain.instance(12));
}

TEST(SearchDomain, CoordinatesHaveAColumnPerNameAndSayWhereAParameterIsMissing) {
    const Domain domain = make_domain({grid({3, 4}), grid({2, 2, 2})});
    EXPECT_EQ(domain.coordinates(7), (std::vector<int>{0, 1, 3, -1}));
    EXPECT_EQ(domain.coordinates(19), (std::vector<int>{1, 1, 1, 1}));
}

// ---- the gain expected from continuing ----

// Tries points of a domain one at a time until the strategy expects less than `target`; the number of points, and the best time.
struct Stopped {
    std::size_t tried = 0;
    double best = 0;
};
Stopped try_until(Strategy& strategy, double target, const std::function<std::optional<double>(std::size_t)>& time_of) {
    Stopped stopped{.best = std::numeric_limits<double>::infinity()};
    while (!strategy.exhausted()) {
        for (const std::size_t point : strategy.ask(1)) {
            const std::optional<double> time_us = time_of(point);
            strategy.report(point, time_us);
            ++stopped.tried;
            stopped.best = std::min(stopped.best, time_us.value_or(stopped.best));
        }
        const std::optional<Outlook> outlook = strategy.outlook();
        if (outlook && outlook->gain < target) break;
    }
    return stopped;
}

TEST(Outlook, IsUnknownUntilAPointHasWorked) {
    const Grid part = grid({5, 5, 3});
    const Domain domain = make_domain({part});
    for (const std::string& name : strategy_names()) {
        const std::unique_ptr<Strategy> strategy = make_strategy(name, domain, 1);
        EXPECT_FALSE(strategy->outlook()) << name;
        strategy->report(strategy->ask(1).at(0), std::nullopt);
        EXPECT_FALSE(strategy->outlook()) << name;
        strategy->report(strategy->ask(1).at(0), 10);
        EXPECT_EQ(strategy->outlook().has_value(), name != "exhaustive") << "it is there to try all";
        if (!strategy->outlook()) continue;
        EXPECT_EQ(strategy->outlook()->left, domain.size - 2) << name;
        EXPECT_GT(strategy->outlook()->gain, 0) << name;
    }
}

TEST(Outlook, IsNothingOnceAllWasTried) {
    const Grid part = grid({3, 2});
    const Domain domain = make_domain({part});
    for (const std::string& name : strategy_names()) {
        const std::unique_ptr<Strategy> strategy = make_strategy(name, domain, 1);
        const Stopped stopped = try_until(*strategy, 0, [&](std::size_t point) { return bowl(domain.coordinates(point)); });
        EXPECT_EQ(stopped.tried, domain.size) << name;
        EXPECT_EQ(strategy->outlook()->gain, 0) << name;
    }
}

// A few equal times must not end a walk of some dozen points.
TEST(Outlook, EndsNoWalkOfASmallSpace) {
    const Grid part = grid({4, 3, 2});
    const Domain domain = make_domain({part});
    const std::unique_ptr<Strategy> strategy = make_strategy("auto", domain, 1);
    EXPECT_EQ(try_until(*strategy, 0.005, [](std::size_t) { return 10; }).tried, domain.size);
}

TEST(Outlook, OfAModelEndsASearchLongBeforeTheSpaceAndNearItsBest) {
    const Grid part = grid({9, 9, 9, 3});
    const Domain domain = make_domain({part});
    int near = 0;
    constexpr int kSearches = 10;
    for (int seed = 1; seed <= kSearches; ++seed) {
        const std::unique_ptr<Strategy> strategy = make_strategy("model", domain, static_cast<std::uint64_t>(seed));
        const Stopped stopped = try_until(*strategy, 0.005, [&](std::size_t point) { return bowl(domain.coordinates(point)); });
        EXPECT_LT(stopped.tried, domain.size / 8) << seed;
        EXPECT_GE(stopped.tried, 10u) << seed;
        near += stopped.best <= 10 * 1.02 ? 1 : 0;
    }
    EXPECT_GE(near, 9);
}

// From seeds alone the model does not know how well it predicts their neighbours.
TEST(Outlook, OfAModelWaitsUntilAFewOfItsOwnIdeasWereTried) {
    const Grid part = grid({9, 9, 9, 3});
    Domain domain = make_domain({part});
    for (std::size_t seed = 0; seed < 20; ++seed) domain.seeds.push_back(seed * 97 % domain.size);
    const std::unique_ptr<Strategy> strategy = make_strategy("model", domain, 1);
    EXPECT_GE(try_until(*strategy, 0.9, [](std::size_t) { return 10; }).tried, 26U);
}

// Beside cliffs that depend on two parameters the model always expects the best point left to be a percent or two better. While
// expected improvements were summed, and failed ones were forgotten after 15 points, such searches took 360 trials on average.
TEST(Outlook, OfAModelThatIsOftenWrongIsCorrectedByWhatCameTrue) {
    const Grid part = grid({6, 6, 6, 4, 4, 3, 2, 2});
    const Domain domain = make_domain({part});
    std::size_t tried = 0;
    constexpr std::uint64_t kSearches = 2;
    for (std::uint64_t seed = 1; seed <= kSearches; ++seed) {
        const auto chance = [&](std::uint64_t a, std::uint64_t b) {
            return Random(a * 1'000'003 + b * 101 + seed * 77).uniform();
        };
        const auto rugged_us = [&](std::size_t point) {
            const std::vector<int> at = domain.coordinates(point);
            double logarithm = 0.005 * chance(1, point);
            for (std::size_t d = 0; d < at.size(); ++d) {
                const std::uint64_t here = 16 * d + static_cast<std::uint64_t>(at[d]);
                logarithm += 0.02 * chance(2, here);
                for (std::size_t e = 0; e < d; ++e) {
                    const std::uint64_t there = 16 * e + static_cast<std::uint64_t>(at[e]);
                    if (chance(3, 16 * d + e) < 0.3 && chance(4, 256 * here + there) < 0.2) logarithm += 0.25;
                }
            }
            return std::optional(10 * std::exp(logarithm));
        };
        tried += try_until(*make_strategy("model", domain, seed), 0.005, rugged_us).tried;
    }
    EXPECT_LT(tried, 220 * kSearches);
}

// For cost models that err by a few percent for each value and each pair of values. When the model's expectation was not
// corrected, and improvements of 30 % were looked for here too, these twelve searches ended 4.1 % above the best with 0.4 %
// expected.
TEST(Outlook, OfAModelBesideACostModelIsAboutWhatIsLeft) {
    const Domain plain = make_domain({grid({6, 6, 6, 4, 4, 3})});
    double left = 0;
    std::size_t tried = 0;
    constexpr int kSearches = 12;
    for (std::uint64_t seed = 1; seed <= kSearches; ++seed) {
        const auto chance = [&](std::uint64_t a, std::uint64_t b) {
            return Random(a * 1'000'003 + b * 101 + seed * 77).uniform();
        };
        std::vector<double> predicted_us, times_us;
        for (std::size_t point = 0; point < plain.size; ++point) {
            const std::vector<int> at = plain.coordinates(point);
            double predicted = 0, error = 0;
            for (std::size_t d = 0; d < at.size(); ++d) {
                const std::uint64_t here = 16 * d + static_cast<std::uint64_t>(at[d]);
                if (d > 0) predicted += 0.15 * chance(1, here);
                error += 0.08 * (chance(2, here) - 0.5);
                for (std::size_t e = 0; e < d; ++e)
                    error += 0.06 * (chance(4, 256 * here + 16 * e + static_cast<std::uint64_t>(at[e])) - 0.5);
            }
            predicted_us.push_back(10 * std::exp(predicted));
            times_us.push_back(predicted_us.back() * std::exp(error));
        }
        Domain domain = plain;
        domain.prior = [&](std::size_t point) { return std::optional(predicted_us[point]); };
        const Stopped stopped = try_until(*make_strategy("model", domain, seed), 0.005,
                                          [&](std::size_t point) { return std::optional(times_us[point]); });
        left += stopped.best / *std::min_element(times_us.begin(), times_us.end()) - 1;
        tried += stopped.tried;
    }
    EXPECT_LT(left / kSearches, 0.012);
    EXPECT_LT(tried, 50U * kSearches);
}

// The time depends on a parameter that is compiled in and, by up to 5 %, on one that is not.
TEST(CompiledPoints, AreGivenOfInstancesThatAreKnownWhileTheyMayImprove) {
    const Grid part = grid({8, 8, 6});
    const Domain domain = make_domain({part});
    const auto time_us = [&](std::size_t point) {
        const std::vector<int> at = domain.coordinates(point);
        return 10 + std::abs(at[1] - 3) + std::abs(at[2] - 5) + 0.1 * std::abs(at[3] - 4);
    };
    const std::unique_ptr<Strategy> strategy = make_strategy("model", domain, 1);
    EXPECT_TRUE(strategy->ask_compiled(3).empty()) << "no instance is known";
    std::set<std::size_t> known;
    double best_us = 1e9;
    for (int i = 0; i < 20; ++i) {
        for (const std::size_t point : strategy->ask(1)) {
            known.insert(domain.instance(point));
            best_us = std::min(best_us, time_us(point));
            strategy->report(point, time_us(point));
        }
    }
    std::size_t extra = 0;
    const double best_before_us = best_us;
    for (std::vector<std::size_t> points = strategy->ask_compiled(1); !points.empty(); points = strategy->ask_compiled(1)) {
        ASSERT_LT(++extra, domain.size);
        EXPECT_TRUE(known.contains(domain.instance(points.front())));
        best_us = std::min(best_us, time_us(points.front()));
        strategy->report(points.front(), time_us(points.front()));
    }
    EXPECT_LE(best_us, best_before_us);
    EXPECT_GT(extra, 0U);
    EXPECT_LT(extra, 60U) << "it ends when no more is expected";
}

// With an accurate cost model a few candidates are enough; with an uninformative one it takes longer.
TEST(Outlook, EndsASearchSoonerTheBetterTheCostModelIs) {
    const Grid part = grid({9, 9, 9, 3});
    Domain domain = make_domain({part});
    const auto time_of = [&](std::size_t point) { return std::optional(bowl(domain.coordinates(point))); };
    const auto tried_with = [&](const std::function<std::optional<double>(std::size_t)>& prior) {
        std::size_t tried = 0;
        for (std::uint64_t seed = 1; seed <= 5; ++seed) {
            Domain informed = domain;
            informed.prior = prior;
            tried += try_until(*make_strategy("model", informed, seed), 0.005, time_of).tried;
        }
        return tried;
    };
    EXPECT_LT(tried_with(time_of), tried_with([](std::size_t) { return std::nullopt; }));
}

// ---- traits ----

TEST(Traits, TellPowersOfTwoWhereThereAreOtherValuesToo) {
    Grid part;
    part.parameters = {{.name = "width", .values = {16, 32, 48, 64, 96}, .kind = {}, .about = {}},
                       {.name = "depth", .values = {1, 2, 4}, .kind = {}, .about = {}},
                       {.name = "count", .values = {1, 2, 3, 4, 5}, .kind = {}, .about = {}}};
    for (const std::int64_t width : part.parameters[0].values) {
        for (const std::int64_t depth : part.parameters[1].values) {
            Config config;
            config.set("width", width);
            config.set("depth", depth);
            config.set("count", 1 + depth);
            part.points.push_back(config);
        }
    }
    const Domain domain = make_domain({part});
    for (std::size_t point = 0; point < domain.size; ++point) {
        const std::int64_t width = part.points[point]["width"];
        const bool is_power = width == 16 || width == 32 || width == 64;
        EXPECT_EQ(domain.traits(point), std::vector<int>{is_power ? 1 : 0}) << width << ": depths all are, and counts are small";
    }
}

}  // namespace
}  // namespace autotune::tuner::search_test
