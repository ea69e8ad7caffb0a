#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <memory>

#include "src/gpu/driver/driver.h"
#include "src/gpu/nvrtc.h"
#include "tests/support/fake/fake_test.h"
#include "tests/support/interposer/interposer.h"

namespace autotune::test {
namespace {

// Runs the test again with the interposer preloaded. Returns true in that process.
bool in_counted_process(fake::Sandbox& sandbox) {
    return in_fake_process(sandbox, {.environment = {{"LD_PRELOAD", fake::interposer_library()}}});
}

TEST(Interposer, CountsAllocationsOpensAndMaps) {
    if (!kCanCount) GTEST_SKIP() << "a sanitizer counts allocations itself";
    fake::Sandbox sandbox;
    if (!in_counted_process(sandbox)) return;
    ASSERT_TRUE(interposer_is_loaded());
    start_counting();
    const auto owned = std::make_unique<std::array<char, 100>>();
    const int file = open("/dev/null", O_RDONLY);
    void* mapped = mmap(nullptr, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    const Counts counts = stop_counting();
    munmap(mapped, 4096);
    close(file);
    EXPECT_EQ(counts.allocations, 1) << owned.get();
    EXPECT_EQ(counts.opens, 1);
    EXPECT_EQ(counts.maps, 1);
}

TEST(Interposer, FindsNothingWhereNothingHappens) {
    if (!kCanCount) GTEST_SKIP() << "a sanitizer counts allocations itself";
    fake::Sandbox sandbox;
    if (!in_counted_process(sandbox)) return;
    start_counting();
    const Counts counts = stop_counting();
    EXPECT_EQ(counts.allocations + counts.frees + counts.opens + counts.maps + counts.ioctls, 0);
    EXPECT_TRUE(counts.driver_calls.empty());
}

TEST(Function, LaunchIsOneDriverCallAndNothingElse) {
    if (!kCanCount) GTEST_SKIP() << "a sanitizer counts allocations itself";
    fake::Sandbox sandbox;
    if (!in_counted_process(sandbox)) return;
    const auto driver = gpu::Driver::load();
    const gpu::Context context(driver, 0);
    const auto output = gpu::Nvrtc::load({})->compile({.text = "extern \"C\" __global__ void plain(float* data) {}",
                                                       .name = "plain.cu",
                                                       .headers = {},
                                                       .options = {"-arch=sm_90a"}});
    const gpu::Library library(driver, output.cubin);
    const gpu::Function function = library.function("plain");
    const gpu::Buffer buffer(driver, 64);
    const gpu::Stream stream(driver);
    gpu::DeviceAddress data = buffer.address();
    std::array<void*, 1> parameters{&data};
    LaunchStep step;
    step.cluster = {2, 1, 1};
    step.programmatic_dependent = true;
    start_counting();
    const int code = function.launch(step, parameters.data(), stream.handle());
    const Counts counts = stop_counting();
    EXPECT_EQ(code, 0);
    EXPECT_THAT(counts.driver_calls, ::testing::ElementsAre("cuLaunchKernelEx"));
    EXPECT_EQ(counts.allocations, 0);
    EXPECT_EQ(counts.opens + counts.maps + counts.ioctls, 0);
}

}  // namespace
}  // namespace autotune::test
