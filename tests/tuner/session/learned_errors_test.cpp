// A cost model's errors, learned from the trials of earlier problems.
#include "tuner/session/tune/learned_errors.h"

#include <gtest/gtest.h>

#include <cmath>

#include "src/core/statistics/random.h"

namespace autotune::tuner::learned_errors_test {
namespace {

SearchSpace space_of_two() {
    SearchSpace space;
    space.parameters = {{.name = "block_m", .values = {64, 128, 256}, .kind = ParameterKind::compile, .about = {}},
                        {.name = "stages", .values = {2, 3, 4}, .kind = ParameterKind::launch, .about = {}}};
    return space;
}

Config config(std::int64_t block_m, std::int64_t stages) {
    Config made;
    made.set("block_m", block_m);
    made.set("stages", stages);
    return made;
}

// The model predicts times 10 % too long for all, but 30 % too short for blocks of 256.
std::vector<Prediction> trials(const SearchSpace& space, double scale_us, double noise, std::uint64_t seed) {
    Random random(seed);
    std::vector<Prediction> made;
    for (const std::int64_t block_m : space.parameters[0].values) {
        for (const std::int64_t stages : space.parameters[1].values) {
            const double truth = 0.9 * (block_m == 256 ? 1.3 / 0.9 : 1);
            const double wobble = 1 + noise * (2 * random.uniform() - 1);
            made.push_back({config(block_m, stages), scale_us, scale_us * truth * wobble});
        }
    }
    return made;
}

CostCorrection learned_from(int problems, const SearchSpace& space, double noise = 0.01) {
    CostCorrection correction;
    for (int i = 0; i < problems; ++i)
        learn(correction, space, trials(space, 10.0 * (i + 1), noise, static_cast<std::uint64_t>(i)));
    return correction;
}

TEST(LearnedErrors, KnowNothingAtFirst) {
    EXPECT_EQ(LearnedErrors().factor(config(64, 2)), 1);
    EXPECT_EQ(LearnedErrors(space_of_two(), {}).factor(config(64, 2)), 1);
}

TEST(LearnedErrors, AreHalfKnownAfterFourProblems) {
    const SearchSpace space = space_of_two();
    const LearnedErrors errors(space, learned_from(4, space));
    EXPECT_GT(errors.factor(config(256, 3)) / errors.factor(config(64, 3)), std::sqrt(1.3 / 0.9));
}

TEST(LearnedErrors, OrderCandidatesAsManyEarlierProblemsWent) {
    const SearchSpace space = space_of_two();
    const LearnedErrors errors(space, learned_from(20, space));
    EXPECT_NEAR(errors.factor(config(256, 3)) / errors.factor(config(64, 3)), 1.3 / 0.9, 0.05);
    EXPECT_NEAR(errors.factor(config(128, 2)) / errors.factor(config(64, 4)), 1, 0.02);
}

TEST(LearnedErrors, OfOneProblemAreBelievedInPart) {
    const SearchSpace space = space_of_two();
    const LearnedErrors errors(space, learned_from(1, space));
    const double ratio = errors.factor(config(256, 3)) / errors.factor(config(64, 3));
    EXPECT_GT(ratio, 1.02);
    EXPECT_LT(ratio, 1.3);
}

TEST(LearnedErrors, ShrinkWithWhatTheyExplain) {
    const SearchSpace space = space_of_two();
    const CostCorrection few = learned_from(1, space), many = learned_from(8, space);
    EXPECT_EQ(many.problems, 8);
    EXPECT_EQ(many.trials, 72);
    EXPECT_LT(many.deviation, few.deviation);
}

TEST(LearnedErrors, TakeNoLessonFromTrialsThatAreFarBehind) {
    const SearchSpace space = space_of_two();
    CostCorrection correction;
    learn(correction, space, std::vector<Prediction>{{config(64, 2), 10, 10}, {config(256, 2), 10, 21}});
    EXPECT_EQ(correction.trials, 1);
    learn(correction, space, std::vector<Prediction>{{config(64, 2), 0, 10}});
    EXPECT_EQ(correction.problems, 1) << "no prediction, no problem";
}

TEST(LearnedErrors, ForgetParametersThatTheSpaceDoesNotKnow) {
    const SearchSpace space = space_of_two();
    CostCorrection correction;
    correction.effects = {{"gone", 1, 1.0, 9}, {"block_m", 32, 1.0, 9}, {"block_m", 64, 0.5, 9}};
    const LearnedErrors errors(space, correction);
    EXPECT_NEAR(errors.factor(config(64, 2)), std::exp(0.5), 1e-12);
    EXPECT_EQ(errors.factor(config(128, 2)), 1);
}

TEST(LearnedErrors, AreTextThatReadsBackAsTheSame) {
    const std::vector<CostCorrection::Effect> effects = {{"", 0, -0.0225, 31}, {"block_m", 128, 0.013, 12.5}};
    EXPECT_EQ(records::effects_to_text(effects), "=0:-0.0225:31 block_m=128:0.013:12.5");
    EXPECT_EQ(records::effects_from_text("=0:-0.0225:31 block_m=128:0.013:12.5"), effects);
    EXPECT_EQ(records::effects_from_text(""), std::vector<CostCorrection::Effect>{});
    for (const char* text :
         {"block_m", "block_m=128", "block_m=128:0.1", "block_m=x:0.1:2", "block_m=1:0.1:2:3", "a=1:0.1:2  b=1:1:1"})
        EXPECT_EQ(records::effects_from_text(text), std::nullopt) << text;
}

}  // namespace
}  // namespace autotune::tuner::learned_errors_test
