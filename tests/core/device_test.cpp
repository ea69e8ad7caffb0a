#include "src/core/device.h"

#include <gtest/gtest.h>

#include "src/core/error.h"

namespace autotune {
namespace {

TEST(Device, ArchOfNamesTheExactTarget) {
    EXPECT_EQ(arch_of(8, 0), "sm_80");
    EXPECT_EQ(arch_of(8, 6), "sm_86");
    EXPECT_EQ(arch_of(8, 7), "sm_87");
    EXPECT_EQ(arch_of(8, 9), "sm_89");
    EXPECT_EQ(arch_of(9, 0), "sm_90a");
    EXPECT_EQ(arch_of(10, 0), "sm_100a");
    EXPECT_EQ(arch_of(10, 3), "sm_103a");
    EXPECT_EQ(arch_of(12, 0), "sm_120");
    EXPECT_EQ(arch_of(12, 1), "sm_121");
}

TEST(Device, RefusesGpusOlderThanAmpere) {
    try {
        arch_of(7, 5);
        FAIL() << "7.5 was accepted";
    } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::no_gpu);
        EXPECT_NE(std::string(error.what()).find("7.5"), std::string::npos);
    }
}

TEST(Device, KeyHoldsTheSiliconAndNotTheName) {
    const DeviceIdentity h200 = reference_device("sm_90a").value().identity;
    EXPECT_EQ(h200.key(), "cc9.0-sm132-l2_60-mem140-bus6016");
}

TEST(Device, EveryKnownArchHasAReferenceDeviceOfThatArch) {
    for (const std::string& arch : known_archs()) {
        const Device device = reference_device(arch).value();
        EXPECT_EQ(device.arch(), arch);
        EXPECT_GT(device.clock_mhz, 0);
        EXPECT_GE(device.limits.smem_per_sm_bytes, device.limits.smem_per_block_bytes);
        EXPECT_GE(device.tensor_flop_per_clock_sm(), 512);
    }
}

TEST(Device, ReferenceDeviceTakesTheArchWithoutItsSuffix) {
    EXPECT_EQ(reference_device("sm_90").value().arch(), "sm_90a");
    EXPECT_FALSE(reference_device("sm_70").has_value());
    EXPECT_FALSE(reference_device("").has_value());
}

TEST(Device, SharedMemoryLimitsAreTheOptInOnes) {
    EXPECT_EQ(reference_device("sm_90a").value().limits.smem_per_block_bytes, 232448);
    EXPECT_EQ(reference_device("sm_89").value().limits.smem_per_block_bytes, 101376);
}

}  // namespace
}  // namespace autotune
