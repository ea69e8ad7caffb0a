#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "src/core/error.h"
#include "src/jit/render.h"

namespace autotune::jit {
namespace {

using ::testing::HasSubstr;

const std::string kEnd = "// ---- end of parameters ----\n";

std::string message_of(const std::string& text, const std::vector<Binding>& bindings) {
    try {
        fill(text, "gemm/mma/kernel.cuh", bindings, "sym");
    } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::internal);
        return error.what();
    }
    return "";
}

TEST(Fill, ReplacesIntegersDtypesAndTheSymbol) {
    const std::string text =
        "#define K ${symbol}\nusing In = ${in_type}; constexpr int a = ${a}, b = ${b_2};\n" + kEnd + "body\n";
    EXPECT_EQ(fill(text, "f", {{"in_type", DType::bf16}, {"a", std::int64_t{128}}, {"b_2", std::int64_t{-3}}}, "gemm_mma_12"),
              "#define K gemm_mma_12\nusing In = bf16; constexpr int a = 128, b = -3;\n" + kEnd + "body\n");
}

TEST(Fill, ReplacesEveryOccurrenceOfAName) {
    EXPECT_EQ(fill("${symbol} ${a}${a}\n" + kEnd, "f", {{"a", std::int64_t{7}}}, "s"), "s 77\n" + kEnd);
}

TEST(Fill, KeepsATextWithoutAFinalNewlineAsItIs) {
    EXPECT_EQ(fill("${symbol}\n" + kEnd + "x", "f", {}, "s"), "s\n" + kEnd + "x");
}

TEST(Fill, ThrowsWithFileAndLineForAnUnknownName) {
    EXPECT_THAT(message_of("${symbol}\nint a = ${nothing};\n" + kEnd, {}),
                AllOf(HasSubstr("gemm/mma/kernel.cuh:2"), HasSubstr("${nothing}")));
}

TEST(Fill, ThrowsForABindingThatNoPlaceholderAsksFor) {
    EXPECT_THAT(message_of("${symbol}\n" + kEnd, {{"block_m", std::int64_t{1}}}), HasSubstr("block_m"));
}

TEST(Fill, ThrowsIfTheSymbolIsNotAskedFor) {
    EXPECT_THAT(message_of("int a;\n" + kEnd, {}), HasSubstr("symbol"));
}

TEST(Fill, ThrowsWithTheLineOfAPlaceholderBelowTheFirstBlock) {
    EXPECT_THAT(message_of("${symbol}\n" + kEnd + "\nint a = ${symbol};\n", {}), HasSubstr("kernel.cuh:4"));
}

TEST(Fill, ThrowsIfTheEndOfTheBlockIsMissing) {
    EXPECT_THAT(message_of("${symbol}\n", {}), HasSubstr("end of parameters"));
}

TEST(Fill, ThrowsForAPlaceholderThatIsNotClosed) {
    EXPECT_THAT(message_of("${symbol}\n${a\n" + kEnd, {}), HasSubstr("kernel.cuh:2"));
}

TEST(Fill, ThrowsForAPlaceholderThatIsNoName) {
    EXPECT_THAT(message_of("${symbol} ${Block M}\n" + kEnd, {}), HasSubstr("kernel.cuh:1"));
}

TEST(Fill, ThrowsForANameThatIsBoundTwice) {
    EXPECT_THAT(message_of("${symbol} ${a}\n" + kEnd, {{"a", std::int64_t{1}}, {"a", std::int64_t{2}}}), HasSubstr("twice"));
}

TEST(Fill, ThrowsForABindingThatTriesToBeTheSymbol) {
    EXPECT_THAT(message_of("${symbol}\n" + kEnd, {{"symbol", std::int64_t{1}}}), HasSubstr("twice"));
}

}  // namespace
}  // namespace autotune::jit
