#include "tuner/measure/energy_meter.h"

#include <gtest/gtest.h>

namespace autotune::tuner::energy_meter_test {
namespace {

TEST(EnergyMeter, CountsBetweenJumpsOfTheCounterAlone) {
    EnergyMeter meter;
    // A launch takes 2 J, each reading is one launch, and the counter is updated every third reading.
    for (int launches = 0; launches <= 20; ++launches) meter.read(100 + 2.0 * (launches / 3 * 3), launches);
    ASSERT_TRUE(meter.joules_per_launch().has_value());
    EXPECT_DOUBLE_EQ(*meter.joules_per_launch(), 2);
}

TEST(EnergyMeter, OneJumpOrAnUnknownCounterGivesNothing) {
    EnergyMeter meter;
    meter.read(std::nullopt, 0);
    meter.read(5, 1);
    meter.read(6, 2);
    meter.read(6, 3);
    EXPECT_EQ(meter.joules_per_launch(), std::nullopt);
}

}  // namespace
}  // namespace autotune::tuner::energy_meter_test
