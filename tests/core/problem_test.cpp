#include "src/core/problem/problem.h"

#include <gtest/gtest.h>

#include "src/core/error.h"
#include "src/core/space/config.h"
#include "src/core/statistics/trial.h"

namespace autotune {
namespace {

Problem batched() {
    Problem problem;
    problem.op = "gemm";
    problem.extents = {{"m", 512}, {"n", 256}, {"k", 64}, {"batch", 16}};
    problem.attributes = {{"a", "f16"}, {"layout", "nn"}};
    return problem;
}

TEST(Problem, ShapeLeadsWithABatchAboveOne) {
    Problem problem = batched();
    EXPECT_EQ(problem.shape(), "16*512x256x64");
    problem.extents[3].value = 1;
    EXPECT_EQ(problem.shape(), "512x256x64");
}

TEST(Problem, KeyIsTheClassAndTheShape) {
    EXPECT_EQ(batched().class_key(), "gemm a=f16 layout=nn");
    EXPECT_EQ(batched().key(), "gemm a=f16 layout=nn 16*512x256x64");
}

TEST(Problem, AnUndeclaredNameIsOurBug) {
    EXPECT_EQ(batched().extent("k"), 64);
    EXPECT_THROW(batched().extent("q"), Error);
    EXPECT_THROW(batched().word("q"), Error);
    EXPECT_THROW(batched().tensor("q"), Error);
}

TEST(Problem, AttributesAreWordsIntegersOrNumbersAndTheKeyReadsBack) {
    Problem problem = batched();
    problem.attributes = {{"mask", "causal"}, {"window", 128}, {"scale", 0.125}, {"exact", 0.1}};
    EXPECT_EQ(problem.class_key(), "gemm mask=causal window=128 scale=0.125 exact=0.1");
    EXPECT_EQ(problem.word("mask"), "causal");
    EXPECT_EQ(problem.integer("window"), 128);
    EXPECT_EQ(problem.number("scale"), 0.125);
    EXPECT_THROW(problem.word("window"), Error);
    EXPECT_THROW(problem.number("window"), Error);
}

TEST(Scalar, BitsAreTheValuesOwnAndZeros) {
    EXPECT_EQ((Scalar{"alpha", 1.0F}).bits(), 0x3f800000U);
    EXPECT_EQ((Scalar{"count", std::int32_t{-1}}).bits(), 0xffffffffU);
    EXPECT_EQ((Scalar{"seed", std::uint64_t{1} << 63}).bits(), std::uint64_t{1} << 63);
    EXPECT_EQ((Scalar{"alpha", 0.5F}).number(), 0.5);
}

// Shipped winners have these keys, so another spelling would lose the winners.
TEST(Problem, AlignmentAndWordsKeepTheirPlaces) {
    Problem problem = batched();
    problem.attributes = {{"a", "f16"}, {"align", "16,8,2"}};
    problem.extents = {{"n", 65536}};
    EXPECT_EQ(problem.key(), "gemm a=f16 align=16,8,2 65536");
}

TEST(AlignmentClass, IsTheLargestPowerOfTwoUpToSixteen) {
    EXPECT_EQ(alignment_class(0), 16);
    EXPECT_EQ(alignment_class(2), 2);
    EXPECT_EQ(alignment_class(24), 8);
    EXPECT_EQ(alignment_class(4096), 16);
    EXPECT_EQ(alignment_class(-4), 4);
}

TEST(Config, PrintsItsValuesInOrder) {
    const Config config = {{"block_m", 128}, {"stages", 3}};
    EXPECT_EQ(config.to_string(), "block_m=128 stages=3");
    EXPECT_EQ(Config{}.to_string(), "");
}

TEST(Config, FindsSetsAndRefusesUnknownNames) {
    Config config = {{"block_m", 128}};
    config.set("block_m", 64);
    config.set("stages", 2);
    EXPECT_EQ(config["block_m"], 64);
    EXPECT_EQ(config.find("stages"), 2);
    EXPECT_EQ(config.find("warps"), std::nullopt);
    EXPECT_THROW(config["warps"], Error);
}

TEST(TrialStatus, EveryStatusParsesFromItsOwnWord) {
    for (int i = 0; i <= static_cast<int>(TrialStatus::out_of_memory); ++i) {
        const auto status = static_cast<TrialStatus>(i);
        EXPECT_EQ(parse_trial_status(to_string(status)), status);
    }
    EXPECT_EQ(parse_trial_status("fine"), std::nullopt);
}

TEST(Origin, EveryOriginParsesFromItsOwnWord) {
    for (const Origin origin : {Origin::exact, Origin::shipped, Origin::near, Origin::fallback}) {
        EXPECT_EQ(parse_origin(to_string(origin)), origin);
    }
    EXPECT_EQ(to_string(Origin::fallback), "default");
}

}  // namespace
}  // namespace autotune
