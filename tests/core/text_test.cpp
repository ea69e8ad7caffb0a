#include "src/core/text.h"

#include <gmock/gmock.h>

#include "src/core/integer_math.h"

namespace autotune {
namespace {

using ::testing::ElementsAre;

TEST(Text, SplitKeepsEmptyParts) {
    EXPECT_THAT(split("a,,b,", ','), ElementsAre("a", "", "b", ""));
    EXPECT_THAT(split("", ','), ElementsAre(""));
}

TEST(Text, JoinIsTheOtherWay) {
    EXPECT_EQ(join({"a", "", "b"}), "a, , b");
    EXPECT_EQ(join({"", "x"}, "/"), "/x");
    EXPECT_EQ(join({}), "");
}

TEST(IntegerMath, RoundsUp) {
    EXPECT_EQ(ceil_div(0, 8), 0);
    EXPECT_EQ(ceil_div(8, 8), 1);
    EXPECT_EQ(ceil_div(9, 8), 2);
    EXPECT_EQ(round_up(9, 8), 16);
    EXPECT_EQ(round_up(std::int64_t{1} << 40, 3), 1099511627778);
}

}  // namespace
}  // namespace autotune
