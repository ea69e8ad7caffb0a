#include <array>
#include <cstring>

#include "src/gpu/nvml.h"
#include "src/gpu/nvrtc.h"
#include "tests/support/gpu_gate.h"
#include "tests/support/nvrtc_for_tests.h"

namespace autotune::test {
namespace {

using OnDevice = GpuTest;

constexpr const char* kAddOne = R"(
extern "C" __global__ void add_one(int* data, int count) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) data[i] += 1;
}
)";

gpu::Library compile(const std::shared_ptr<const gpu::Driver>& driver, const Device& device) {
    const auto nvrtc = gpu::Nvrtc::load(nvrtc_search(driver->version() / 1000));
    const auto output =
        nvrtc->compile({.text = kAddOne, .name = "add_one.cu", .headers = {}, .options = {"-arch=" + device.arch()}});
    EXPECT_TRUE(output.ok) << output.log;
    return gpu::Library(driver, output.cubin);
}

int launch_add_one(const gpu::Function& function, gpu::DeviceAddress data, int count, gpu::StreamHandle stream) {
    std::array<void*, 2> parameters{&data, &count};
    LaunchStep step;
    step.grid = {static_cast<std::uint32_t>((count + 255) / 256), 1, 1};
    step.block = {256, 1, 1};
    return function.launch(step, parameters.data(), stream);
}

std::vector<int> download(const gpu::Buffer& buffer, std::size_t count) {
    std::vector<int> host(count);
    buffer.download(std::as_writable_bytes(std::span(host)));
    return host;
}

TEST_F(OnDevice, IdentityIsPlausible) {
    EXPECT_GE(device().identity.cc(), 80);
    EXPECT_GT(device().identity.sm_count, 0);
    EXPECT_GT(device().identity.l2_mib, 0);
    EXPECT_GT(device().identity.memory_gib, 0);
    EXPECT_GT(device().clock_mhz, 500);
    EXPECT_GT(device().memory_gb_per_s, 100);
    EXPECT_EQ(driver()->uuid(0).size(), 40u);
}

TEST_F(OnDevice, BufferReturnsWhatWasUploaded) {
    gpu::Buffer buffer(driver(), 4096);
    buffer.fill_bytes(0);
    const std::vector<int> sent(512, 41);
    buffer.upload(std::as_bytes(std::span(sent)), 2048);
    const std::vector<int> back = download(buffer, 1024);
    EXPECT_EQ(back[511], 0);
    EXPECT_EQ(back[512], 41);
}

TEST_F(OnDevice, KernelRunsThroughLibraryAndFunction) {
    gpu::Buffer buffer(driver(), 1000 * sizeof(int));
    buffer.fill_bytes(0);
    const gpu::Library library = compile(driver(), device());
    const gpu::Function function = library.function("add_one");
    function.force_load();
    const gpu::Stream stream(driver());
    ASSERT_EQ(launch_add_one(function, buffer.address(), 1000, stream.handle()), 0);
    stream.synchronize();
    EXPECT_EQ(download(buffer, 1000), std::vector<int>(1000, 1));
    EXPECT_GT(function.info().registers, 0);
    EXPECT_GT(function.blocks_per_sm(256, 0), 0);
}

TEST_F(OnDevice, MissingKernelIsRefusedAndTheContextLives) {
    const gpu::Library library = compile(driver(), device());
    try {
        library.function("no_such_kernel");
        FAIL() << "found";
    } catch (const gpu::DriverError& error) {
        EXPECT_EQ(error.severity(), gpu::Severity::refused);
    }
    EXPECT_NO_THROW(gpu::Buffer(driver(), 16));
}

TEST_F(OnDevice, GraphReplaysCapturedLaunches) {
    gpu::Buffer buffer(driver(), sizeof(int));
    buffer.fill_bytes(0);
    const gpu::Library library = compile(driver(), device());
    const gpu::Function function = library.function("add_one");
    const gpu::Stream stream(driver());
    const gpu::Graph graph = gpu::Graph::capture(driver(), stream, [&] {
        EXPECT_TRUE(gpu::is_capturing(*driver(), stream.handle()));
        for (int i = 0; i < 5; ++i) EXPECT_EQ(launch_add_one(function, buffer.address(), 1, stream.handle()), 0);
    });
    graph.launch(stream.handle());
    graph.launch(stream.handle());
    stream.synchronize();
    EXPECT_EQ(download(buffer, 1).front(), 10);
}

TEST_F(OnDevice, LoadInRelaxedModeDoesNotBreakACapture) {
    const gpu::Stream stream(driver());
    EXPECT_NO_THROW(gpu::Graph::capture(driver(), stream, [&] {
        const gpu::RelaxedCapture relaxed(*driver());
        compile(driver(), device()).function("add_one").force_load();
    }));
}

TEST_F(OnDevice, EventsMeasureTime) {
    gpu::Buffer buffer(driver(), std::size_t{64} << 20);
    const gpu::Library library = compile(driver(), device());
    const gpu::Function function = library.function("add_one");
    const gpu::Stream stream(driver());
    gpu::Event from(driver());
    gpu::Event to(driver());
    from.record(stream.handle());
    launch_add_one(function, buffer.address(), 16 << 20, stream.handle());
    to.record(stream.handle());
    to.synchronize();
    EXPECT_TRUE(to.done());
    EXPECT_GT(gpu::elapsed_us(from, to), 1);
}

TEST_F(OnDevice, TensorMapIsEncoded) {
    if (device().identity.cc_major < 9) GTEST_SKIP() << "tensor maps exist from compute capability 9.0 on";
    const gpu::Buffer buffer(driver(), 64 * 64 * 2);
    TensorMapArg map;
    map.dims = {64, 64};
    map.strides_bytes = {128};
    map.box = {64, 64};
    map.tma_swizzle_bytes = 128;
    const gpu::TensorMap encoded = gpu::encode_tensor_map(*driver(), map, DType::f16, buffer.address());
    EXPECT_NE(encoded.words, gpu::TensorMap{}.words);
    map.box = {64, 1024};
    EXPECT_THROW(gpu::encode_tensor_map(*driver(), map, DType::f16, buffer.address()), gpu::DriverError);
}

TEST_F(OnDevice, TooMuchSharedMemoryIsRefused) {
    const gpu::Library library = compile(driver(), device());
    const gpu::Function function = library.function("add_one");
    EXPECT_NO_THROW(function.allow_dynamic_smem(static_cast<std::size_t>(device().limits.smem_per_block_bytes)));
    EXPECT_THROW(function.allow_dynamic_smem(std::size_t{1} << 20), gpu::DriverError);
}

TEST_F(OnDevice, OversizedAllocationLeavesTheContextAlive) {
    EXPECT_THROW(gpu::Buffer(driver(), std::size_t{1} << 44), gpu::DriverError);
    EXPECT_NO_THROW(gpu::Buffer(driver(), 1 << 20));
}

TEST_F(OnDevice, NvmlKnowsTheSameCard) {
    const auto nvml = gpu::Nvml::load();
    if (nvml == nullptr) GTEST_SKIP() << "no NVML here: readings are unknown";
    EXPECT_TRUE(nvml->conditions(driver()->uuid(0)).sm_clock_mhz.has_value());
    EXPECT_FALSE(nvml->driver_version().empty());
}

}  // namespace
}  // namespace autotune::test
