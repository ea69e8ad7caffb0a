#include "src/core/spelling.h"

#include <gtest/gtest.h>

namespace autotune {
namespace {

const std::vector<std::string> kTypes = {"f16", "bf16", "f32", "f64", "e4m3", "e5m2", "i32", "i8"};

TEST(Spelling, ElementTypesHaveTheNamesOfTorchNumPyAndC) {
    const std::vector<std::pair<const char*, const char*>> names = {{"fp16", "f16"},
                                                                    {"half", "f16"},
                                                                    {"float16", "f16"},
                                                                    {"torch.float16", "f16"},
                                                                    {"FP16", "f16"},
                                                                    {" f16 ", "f16"},
                                                                    {"bfloat16", "bf16"},
                                                                    {"BF16", "bf16"},
                                                                    {"torch.bfloat16", "bf16"},
                                                                    {"float32", "f32"},
                                                                    {"fp32", "f32"},
                                                                    {"float", "f32"},
                                                                    {"single", "f32"},
                                                                    {"double", "f64"},
                                                                    {"fp8", "e4m3"},
                                                                    {"float8_e4m3fn", "e4m3"},
                                                                    {"fp8_e4m3", "e4m3"},
                                                                    {"fp8e5m2", "e5m2"},
                                                                    {"torch.float8_e5m2", "e5m2"},
                                                                    {"int8", "i8"},
                                                                    {"int32", "i32"},
                                                                    {"E4M3", "e4m3"}};
    for (const auto& [text, word] : names) EXPECT_EQ(known_word(text, kTypes), word) << text;
}

TEST(Spelling, AWordThatIsAllowedAsItStandsIsThatWord) {
    EXPECT_EQ(known_word("fp8", {"f16", "fp8"}), "fp8");
    EXPECT_EQ(known_word("e4m3", {"f16", "fp8"}), "fp8") << "the compute type of both fp8 formats has one name";
}

TEST(Spelling, CaseBlanksAndDashesDoNotMatter) {
    EXPECT_EQ(known_word("NT", {"nn", "nt"}), "nt");
    EXPECT_EQ(known_word("\tnt\n", {"nn", "nt"}), "nt");
    EXPECT_EQ(known_word("\xc2\xa0nt\xc2\xa0", {"nn", "nt"}), "nt") << "no-break spaces come with copied text";
    EXPECT_EQ(known_word("causal-bottom-right", {"causal", "causal_bottom_right"}), "causal_bottom_right");
    EXPECT_EQ(known_word("SM90A", {"sm_80", "sm_90a"}), "sm_90a");
}

TEST(Spelling, WhatSpellsNoWordComesBackTrimmed) {
    EXPECT_EQ(known_word(" f17 ", kTypes), "f17");
    EXPECT_EQ(known_word("", kTypes), "");
    EXPECT_EQ(known_word("x", {}), "x");
}

TEST(Spelling, AShapeMayHaveCapitalsTimesSignsAndBlanks) {
    for (const char* text : {"64x64x64", "64X64X64", "64×64×64", " 64 x 64 x 64 ", "64 X 64×64",
                             "64\tx64x\xc2\xa0"
                             "64"})
        EXPECT_EQ(plain_shape(text), "64x64x64") << text;
    EXPECT_EQ(plain_shape("16 * 64 X 64x64"), "16*64x64x64");
    EXPECT_EQ(plain_shape("64, 128 x 64x64"), "64,128x64x64");
    EXPECT_EQ(plain_shape("64 64 64"), "64 64 64");
    EXPECT_EQ(plain_shape(""), "");
}

TEST(Spelling, NumbersWithoutXAreAShapeWithX) {
    for (const char* text : {"64,64,64", "64 64 64", "64;64;64", "64*64*64", "64, 64, 64", "(64, 64, 64)", "[64,64,64]"})
        EXPECT_EQ(shape_with_x(text, 3), "64x64x64") << text;
    for (const char* text : {"64,64", "64x64x64", "64,64,a", "", ","}) EXPECT_EQ(shape_with_x(text, 3), std::nullopt) << text;
}

TEST(Nearest, FindsASlipOfTheFingers) {
    EXPECT_EQ(nearest("shpae", {"shape", "seed"}), "shape");
    EXPECT_EQ(nearest("tuen", {"tune", "bench"}), "tune");
    EXPECT_EQ(nearest("hgem", {"hgemm", "sgemm"}), "hgemm");
    EXPECT_EQ(nearest("atention", {"add", "attention"}), "attention");
    EXPECT_EQ(nearest("HGMEM", {"hgemm"}), "hgemm");
    EXPECT_EQ(nearest("--OP", {"--op"}), "--op") << "the same word in other letters";
}

TEST(Nearest, TheOnlyWordThatBeginsSoIsMeantToo) {
    EXPECT_EQ(nearest("compl", {"compile", "completion"}), "completion");
    EXPECT_EQ(nearest("com", {"compile", "completion"}), "");
}

TEST(Nearest, EditsAreBoundedByTheLengthOfTheWord) {
    EXPECT_EQ(nearest("xy", {"x", "xyz", "ab"}), "") << "two letters are like everything";
    EXPECT_EQ(nearest("--xy", {"--op", "--db"}), "");
    EXPECT_EQ(nearest("abc", {"add", "ada"}), "") << "two edits of three letters";
    EXPECT_EQ(nearest("f17", {"f16", "bf16"}), "") << "a number is no slip of the fingers";
    EXPECT_EQ(nearest("sm_70", {"sm_80", "sm_90a"}), "");
    EXPECT_EQ(nearest("completely", {"tune", "bench"}), "");
    EXPECT_EQ(nearest(std::string(10u << 20, 'x'), {"tune"}), "");
}

TEST(Nearest, IsSaidInBrackets) {
    EXPECT_EQ(did_you_mean("tuen", {"tune"}), " (did you mean tune?)");
    EXPECT_EQ(did_you_mean("xy", {"xyz"}), "");
}

}  // namespace
}  // namespace autotune
