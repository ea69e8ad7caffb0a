#include "src/core/problem/device.h"

#include <gtest/gtest.h>

#include <climits>
#include <map>

#include "src/core/error.h"
#include "src/core/problem/device_key.h"

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
    EXPECT_EQ(h200.key(), "cc9.0-sm132-l2_60-mem144-bus6016");
}

// How much the driver reserves varies: an H100 of 81,559 MiB has 81,090 MiB under another driver.
TEST(Device, KeyHoldsMemoryRoundedUpToEightGib) {
    DeviceIdentity h100{9, 0, 132, 50, 79, 5120, "NVIDIA H100 80GB HBM3"};
    EXPECT_EQ(h100.key(), "cc9.0-sm132-l2_50-mem80-bus5120");
    DeviceIdentity after = h100;
    after.memory_gib = 80;
    EXPECT_EQ(after.key(), h100.key());
    EXPECT_TRUE(are_one_device(h100, after));
    EXPECT_FALSE(have_same_chip(h100, after));
    after.memory_gib = 81;
    EXPECT_FALSE(are_one_device(h100, after));
    EXPECT_TRUE(have_same_chip(h100, after));
    after.l2_mib = 60;
    EXPECT_FALSE(have_same_chip(h100, after));
    for (const auto& [reported, labelled] : std::map<int, int>{{140, 144}, {144, 144}, {1, 8}, {24, 24}, {0, 0}, {-5, -5}})
        EXPECT_EQ(labelled_memory_gib(reported), labelled) << reported;
    EXPECT_EQ(labelled_memory_gib(INT_MAX), INT_MAX);
}

TEST(Device, KeysOfOlderVersionsAreReadAsTodays) {
    EXPECT_EQ(todays_device_key("cc9.0-sm132-l2_60-mem140-bus6144"), "cc9.0-sm132-l2_60-mem144-bus6144");
    EXPECT_EQ(todays_device_key("cc9.0-sm132-l2_60-mem144-bus6144"), "cc9.0-sm132-l2_60-mem144-bus6144");
    for (const char* text :
         {"", "cc9.0", "cc9.0-sm132-l2_60-mem140-bus6144x", "cc9.0-sm132-l2_60-mem99999999999-bus1", "' OR 1=1"})
        EXPECT_EQ(todays_device_key(text), text);
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
