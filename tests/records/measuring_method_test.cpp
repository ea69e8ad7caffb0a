#include "src/records/measuring_method.h"

#include <gtest/gtest.h>

namespace autotune {
namespace {

TEST(MeasuringMethodTest, IsReadFromItsText) {
    for (const bool l2_warm : {false, true}) {
        for (const int streams : {1, 2}) {
            const MeasuringMethod read = MeasuringMethod::of(MeasuringMethod{l2_warm, streams}.text());
            EXPECT_EQ(read.l2_warm, l2_warm);
            EXPECT_EQ(read.streams, streams);
        }
    }
}

// Databases and shipped winners contain these words.
TEST(MeasuringMethodTest, HasTheWordsOfStoredWinners) {
    EXPECT_EQ(MeasuringMethod{}.text(), "stream-2 l2=cold data=normal");
    EXPECT_EQ((MeasuringMethod{.l2_warm = true, .streams = 2}.text()), "stream-2 l2=warm data=normal streams=2");
    EXPECT_EQ(measuring_scheme("stream-2 l2=cold data=normal"), "stream-2");
    EXPECT_EQ(measuring_scheme("itself"), "itself");
}

}  // namespace
}  // namespace autotune
