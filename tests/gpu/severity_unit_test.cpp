#include <gtest/gtest.h>

#include "src/gpu/driver/driver.h"
#include "tests/support/gpu_gate.h"

namespace autotune::test {
namespace {

gpu::Severity severity(int code) {
    return gpu::DriverError(code, "name", "call").severity();
}

TEST(DriverError, ErrorsThatEndTheProcessAreSticky) {
    for (const int code : {226, 700, 702, 710, 714, 715, 716, 717, 718, 719, 721}) {
        EXPECT_EQ(severity(code), gpu::Severity::sticky) << code;
    }
}

TEST(DriverError, ErrorsOfAConfigLeaveTheContextAlive) {
    for (const int code : {1, 200, 209, 218, 222, 500, 701}) EXPECT_EQ(severity(code), gpu::Severity::refused) << code;
}

TEST(DriverError, OutOfMemoryIsAClassOfItsOwn) {
    EXPECT_EQ(severity(2), gpu::Severity::out_of_memory);
}

TEST(DriverError, DriverThatDoesNotAnswerIsLost) {
    for (const int code : {3, 34, 46, 100, 803, 999}) EXPECT_EQ(severity(code), gpu::Severity::lost) << code;
}

TEST(DriverError, MessageNamesCallNameAndCode) {
    const gpu::DriverError error(700, "CUDA_ERROR_ILLEGAL_ADDRESS", "cuStreamSynchronize");
    EXPECT_STREQ(error.what(), "cuStreamSynchronize failed: CUDA_ERROR_ILLEGAL_ADDRESS (700)");
    EXPECT_EQ(error.Error::code(), ErrorCode::driver);
}

TEST(GpuGate, NoDriverIsASkip) {
    EXPECT_EQ(gate_of({.load_error = "no library"}), Gate::skip);
}

TEST(GpuGate, NoDriverWhereAGpuIsRequiredIsAFailure) {
    EXPECT_EQ(gate_of({.load_error = "no library", .required = true}), Gate::fail);
}

TEST(GpuGate, CardThatIsPresentButBrokenIsAFailure) {
    EXPECT_EQ(gate_of({.driver_installed = true, .device_node = true, .load_error = "cuInit returned 999"}), Gate::fail);
    EXPECT_EQ(gate_of({.driver_installed = false, .device_node = true, .load_error = "no library"}), Gate::fail);
}

TEST(GpuGate, DriverWithoutAnyCardIsASkip) {
    EXPECT_EQ(gate_of({.driver_installed = true, .load_error = "no device"}), Gate::skip);
}

TEST(GpuGate, WorkingCardOpens) {
    EXPECT_EQ(gate_of({.driver_installed = true, .device_node = true}), Gate::open);
}

}  // namespace
}  // namespace autotune::test
