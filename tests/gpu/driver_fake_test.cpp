#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <fstream>

#include "src/gpu/driver/driver.h"
#include "src/gpu/nvml.h"
#include "src/gpu/nvrtc.h"
#include "tests/support/fake/fake_test.h"

namespace autotune::test {
namespace {

using fake::Sandbox;

constexpr const char* kTinySource = R"(
#define AUTOTUNE_KERNEL tiny_plain_0
constexpr int block_m = 16;
// ---- end of parameters ----
extern "C" __global__ void AUTOTUNE_KERNEL(float* data, int count) {}
extern "C" __global__ void __launch_bounds__(256) AUTOTUNE_ENTRY(_second)(float* data) {}
)";

gpu::Nvrtc::Output compile_tiny(const std::string& arch = "sm_90a") {
    const auto nvrtc = gpu::Nvrtc::load({});
    return nvrtc->compile({.text = kTinySource, .name = "tiny.cu", .headers = {}, .options = {"-arch=" + arch}});
}

int launch_tiny(const gpu::Function& function, const gpu::Buffer& buffer, gpu::StreamHandle stream) {
    gpu::DeviceAddress data = buffer.address();
    int count = 4;
    std::array<void*, 2> parameters{&data, &count};
    LaunchStep step;
    step.block = {32, 1, 1};
    return function.launch(step, parameters.data(), stream);
}

// A driver, a context, a tiny kernel and a buffer for it.
struct Ready {
    std::shared_ptr<const gpu::Driver> driver = gpu::Driver::load();
    gpu::Context context{driver, 0};
    gpu::Library library{driver, compile_tiny().cubin};
    gpu::Function function = library.function("tiny_plain_0");
    gpu::Buffer buffer{driver, 64};
    gpu::Stream stream{driver};
};

// The code of the DriverError that `body` throws; 0 if it throws none.
template <typename F>
int driver_code(F&& body) {
    try {
        body();
    } catch (const gpu::DriverError& error) {
        return error.code();
    }
    return 0;
}

std::string no_gpu_message(const std::function<void()>& body) {
    try {
        body();
    } catch (const Error& error) {
        return error.code() == ErrorCode::no_gpu ? error.what() : std::string("another error: ") + error.what();
    }
    return "no error";
}

std::string load_message() {
    return no_gpu_message([] { gpu::Driver::load(); });
}

TEST(Driver, KnowsAnH200FromAttributesWithoutAContext) {
    fake_test(
        "",
        [] {
            const Device device = gpu::Driver::load()->device(0);
            EXPECT_EQ(device.identity.key(), "cc9.0-sm132-l2_60-mem144-bus6144");
            EXPECT_EQ(device.identity.name, "NVIDIA H200");
            EXPECT_EQ(device.limits.smem_per_block_bytes, 232448);
            EXPECT_DOUBLE_EQ(device.clock_mhz, 1980);
            EXPECT_NEAR(device.memory_gb_per_s, 4917, 1);
        },
        [](const fake::Sandbox& sandbox) { EXPECT_EQ(sandbox.count_calls("cuDevicePrimaryCtxRetain"), 0); });
}

TEST(Driver, UuidIsSpelledAsNvidiaSmiSpellsIt) {
    fake_test("", [] { EXPECT_EQ(gpu::Driver::load()->uuid(0), "GPU-fa4e0000-0000-0000-0000-000000000000"); });
}

TEST(Driver, MigSliceIsADeviceOfItsOwn) {
    fake_test("device name=\"NVIDIA H200 MIG 1g.18gb\" sms=16 memory_mib=18000", [] {
        const auto driver = gpu::Driver::load();
        EXPECT_EQ(driver->uuid(0).substr(0, 4), "MIG-");
        EXPECT_EQ(driver->device(0).identity.sm_count, 16);
    });
}

TEST(Driver, UnknownOrdinalNamesTheRange) {
    fake_test("device cc=9.0\ndevice cc=8.0 sms=108", [] {
        const auto driver = gpu::Driver::load();
        EXPECT_EQ(driver->device(1).identity.cc(), 80);
        EXPECT_EQ(no_gpu_message([&] { (void)driver->device(2); }), "no device 2: this machine has 2 (0 to 1)");
    });
}

TEST(Driver, MissingLibraryIsNoDriver) {
    fake_test({"", {.driver = fake::Use::none}}, [] {
        EXPECT_FALSE(gpu::Driver::installed());
        EXPECT_NE(load_message().find("no NVIDIA driver"), std::string::npos);
    });
}

TEST(Driver, StubLibraryIsNamedAsSuch) {
    fake_test("driver init=34", [] {
        EXPECT_TRUE(gpu::Driver::installed());
        EXPECT_NE(load_message().find("link-time stub"), std::string::npos);
    });
}

TEST(Driver, OlderThanCuda124IsRefused) {
    fake_test("driver version=12030", [] {
        EXPECT_EQ(load_message(),
                  "the NVIDIA driver supports CUDA 12.3, and at least CUDA 12.4 is needed: install a driver of release 550 or "
                  "newer (CUDA "
                  "12.4)");
    });
}

TEST(Driver, OfCuda124Works) {
    fake_test("driver version=12040\nnvrtc version=12.4", [] {
        Ready ready;
        EXPECT_EQ(ready.driver->version(), 12040);
    });
}

// Expects an error with this remedy for this result of cuInit.
void expect_advice(const std::string& advice) {
    const int code = std::atoi(std::getenv("AUTOTUNE_TEST_CODE"));
    try {
        gpu::Driver::load();
        FAIL() << "loaded";
    } catch (const Error& error) {
        EXPECT_EQ(error.code(), gpu::is_in_use(code) ? ErrorCode::gpu_in_use : ErrorCode::no_gpu);
        EXPECT_NE(std::string(error.what()).find("(" + std::to_string(code) + "); "), std::string::npos) << error.what();
        EXPECT_NE(std::string(error.what()).find(advice), std::string::npos) << error.what();
    }
}

TEST(Driver, EachCodeOfCuInitHasItsRemedy) {
    const std::vector<std::pair<int, std::string>> remedies = {
        {2, "check `ulimit -v` and the memory limit of the container"},
        {46, "allow several processes with `nvidia-smi -c DEFAULT`"},
        {100, "check nvidia-smi and CUDA_VISIBLE_DEVICES"},
        {101, "CUDA_VISIBLE_DEVICES names a device that is not there, or a MIG device that was removed: check `nvidia-smi -L`"},
        {304, "check dmesg for Xid errors, the nvidia-uvm module and device permissions"},
        {802,
         "the fabric manager of this NVSwitch machine is not ready: start the service nvidia-fabricmanager, of the same release "
         "as "
         "the driver, and wait until `nvidia-smi -q` shows the fabric state Completed"},
        {803, "the kernel module and libcuda.so.1 are of different driver releases: reboot, or reinstall the driver"},
        {804,
         "a libcuda.so.1 of the package cuda-compat was found, which works with data centre GPUs alone and not with this kernel "
         "module: remove its folder (often /usr/local/cuda/compat) from LD_LIBRARY_PATH, or install a newer driver"},
        {805, "the MPS daemon does not answer: start it with `nvidia-cuda-mps-control -d`"},
        {807, "the MPS daemon does not answer"},
        {808, "the MPS server serves as many processes as it can: wait until one ends"},
        {999, "the driver does not answer"}};
    if (std::getenv("AUTOTUNE_TEST_CODE") != nullptr) {
        const int code = std::atoi(std::getenv("AUTOTUNE_TEST_CODE"));
        for (const auto& [known, advice] : remedies) {
            if (known == code) expect_advice(advice);
        }
        return;
    }
    for (const auto& [code, advice] : remedies) {
        Sandbox sandbox("driver init=" + std::to_string(code));
        EXPECT_FALSE(in_fake_process(sandbox, {.environment = {{"AUTOTUNE_TEST_CODE", std::to_string(code)}}}));
    }
}

// The error is not "no driver", because one is installed and must be repaired.
TEST(Driver, OneThatCannotBeOpenedIsNotAnAbsentOne) {
    Sandbox sandbox;
    if (std::getenv("AUTOTUNE_TEST_IN_FAKE") == nullptr) {
        (void)sandbox.run({"/bin/true"}, {.driver = fake::Use::none});
        std::ofstream(sandbox.folder() / "lib200/libcuda.so.1") << std::string(4096, 'x');
    }
    if (!in_fake_process(sandbox, {.driver = fake::Use::none})) return;
    EXPECT_TRUE(gpu::Driver::installed());
    EXPECT_NE(load_message().find("the NVIDIA driver cannot be opened: "), std::string::npos) << load_message();
    EXPECT_NE(load_message().find("invalid ELF header; reinstall it, or repair what the loader names"), std::string::npos);
}

TEST(Driver, TooOldDriverSaysSo) {
    fake_test("driver init=35", [] { EXPECT_NE(load_message().find("too old"), std::string::npos); });
}

TEST(Driver, NoDeviceSaysSo) {
    fake_test("driver init=100", [] { EXPECT_NE(load_message().find("CUDA_VISIBLE_DEVICES"), std::string::npos); });
}

TEST(Driver, DeadDriverSaysWhereToLook) {
    fake_test("driver init=999",
              [] { EXPECT_NE(load_message().find("CUDA_ERROR_UNKNOWN (999); the driver does not answer"), std::string::npos); });
}

TEST(Buffer, ReturnsWhatWasUploaded) {
    fake_test(
        "",
        [] {
            const auto driver = gpu::Driver::load();
            const gpu::Context context(driver, 0);
            gpu::Buffer buffer(driver, 16);
            buffer.fill_bytes(7);
            const std::array<std::byte, 2> sent{std::byte{1}, std::byte{2}};
            buffer.upload(sent, 4);
            std::array<std::byte, 16> back{};
            buffer.download(back);
            EXPECT_EQ(back[3], std::byte{7});
            EXPECT_EQ(back[4], std::byte{1});
            EXPECT_EQ(back[5], std::byte{2});
            EXPECT_EQ(back[6], std::byte{7});
        },
        [](const fake::Sandbox& sandbox) {
            EXPECT_EQ(sandbox.count_calls("leak"), 0);
            EXPECT_EQ(sandbox.count_calls("BUG"), 0);
        });
}

TEST(Buffer, RangeBeyondItsEndIsOurBug) {
    fake_test("", [] {
        const auto driver = gpu::Driver::load();
        const gpu::Context context(driver, 0);
        gpu::Buffer buffer(driver, 16);
        std::array<std::byte, 8> host{};
        EXPECT_THROW(buffer.upload(host, 9), Error);
        EXPECT_THROW(buffer.download(host, 9), Error);
    });
}

TEST(Buffer, MoreThanTheCardHasIsOutOfMemoryAndTheContextLives) {
    fake_test("", [] {
        const auto driver = gpu::Driver::load();
        const gpu::Context context(driver, 0);
        try {
            const gpu::Buffer buffer(driver, std::size_t{1} << 45);
            FAIL() << "the allocation succeeded";
        } catch (const gpu::DriverError& error) {
            EXPECT_EQ(error.severity(), gpu::Severity::out_of_memory);
        }
        EXPECT_NO_THROW(gpu::Buffer(driver, 16));
    });
}

TEST(Buffer, MovedFromBufferFreesNothing) {
    fake_test(
        "",
        [] {
            const auto driver = gpu::Driver::load();
            const gpu::Context context(driver, 0);
            gpu::Buffer first(driver, 16);
            gpu::Buffer second(std::move(first));
            gpu::Buffer third;
            third = std::move(second);
            EXPECT_EQ(third.bytes(), 16u);
            EXPECT_EQ(first.address(), 0u);
        },
        [](const fake::Sandbox& sandbox) {
            EXPECT_EQ(sandbox.count_calls("cuMemFree"), 1);
            EXPECT_EQ(sandbox.count_calls("BUG"), 0);
        });
}

TEST(Context, IdsAreNotReused) {
    fake_test("", [] {
        const auto driver = gpu::Driver::load();
        EXPECT_FALSE(gpu::current_context(*driver).has_value());
        std::uint64_t first = 0;
        {
            const gpu::Context context(driver, 0);
            first = gpu::current_context(*driver).value().id;
        }
        EXPECT_FALSE(gpu::current_context(*driver).has_value());
        const gpu::Context context(driver, 0);
        EXPECT_NE(gpu::current_context(*driver).value().id, first);
    });
}

TEST(Library, FindsKernelsByName) {
    fake_test("", [] {
        Ready ready;
        EXPECT_NO_THROW(ready.library.function("tiny_plain_0_second"));
        EXPECT_EQ(driver_code([&] { ready.library.function("tiny_plain_0_third"); }), 500);
        EXPECT_GT(ready.function.info().registers, 0);
        EXPECT_GT(ready.function.blocks_per_sm(128, 0), 0);
    });
}

TEST(Library, TheDriverIsAskedOnceForAKernelOfAContext) {
    fake_test(
        "rule on=cuFuncSetAttribute nth=2 do=return code=1",
        [] {
            const Ready ready;
            const auto answer = [&](unsigned threads, std::size_t smem_bytes) {
                LaunchStep step;
                step.block = {threads, 1, 1};
                step.dynamic_smem_bytes = smem_bytes;
                return driver_code([&] { ready.library.ready("tiny_plain_0", step); });
            };
            EXPECT_EQ(answer(32, 60000), 0);
            EXPECT_EQ(answer(32, 60000), 0);
            EXPECT_EQ(answer(64, 100), 0);
            EXPECT_EQ(answer(2048, 100), 701);
            EXPECT_EQ(answer(32, 100000), 1) << "more shared memory than before is a question";
            EXPECT_EQ(answer(32, 100000), 0);
        },
        [](const fake::Sandbox& sandbox) {
            EXPECT_EQ(sandbox.count_calls("cuLibraryGetKernel"), 2);  // Ready makes one of the two calls
            EXPECT_EQ(sandbox.count_calls("cuFuncLoad"), 1);
        });
}

TEST(Library, LoadsAKernelBeforeAStepNeedsIt) {
    fake_test(
        "",
        [] {
            const Ready ready;
            const std::uint64_t context = gpu::current_context(*ready.driver)->id;
            EXPECT_TRUE(ready.library.load("tiny_plain_0_second", context));
            EXPECT_FALSE(ready.library.load("tiny_plain_0_third", context));
            ready.library.ready("tiny_plain_0_second", {}, context);
        },
        [](const fake::Sandbox& sandbox) { EXPECT_EQ(sandbox.count_calls("cuFuncLoad"), 1); });
}

TEST(Library, CubinOfAnotherArchitectureIsRefused) {
    fake_test("", [] {
        const auto driver = gpu::Driver::load();
        const gpu::Context context(driver, 0);
        EXPECT_EQ(driver_code([&] { gpu::Library(driver, compile_tiny("sm_80").cubin); }), 209);
        const std::vector<std::byte> garbage(128, std::byte{1});
        EXPECT_EQ(driver_code([&] { gpu::Library(driver, garbage); }), 200);
    });
}

TEST(Function, DynamicSharedMemoryNeedsTheOptIn) {
    fake_test("", [] {
        Ready ready;
        LaunchStep step;
        step.block = {32, 1, 1};
        step.dynamic_smem_bytes = 100000;
        gpu::DeviceAddress data = ready.buffer.address();
        int count = 4;
        std::array<void*, 2> parameters{&data, &count};
        EXPECT_EQ(ready.function.launch(step, parameters.data(), ready.stream.handle()), 1);
        ready.function.allow_dynamic_smem(100000);
        EXPECT_EQ(ready.function.launch(step, parameters.data(), ready.stream.handle()), 0);
        EXPECT_EQ(driver_code([&] { ready.function.allow_dynamic_smem(300000); }), 1);
    });
}

// One plan of a kernel launches small clusters, another large ones.
TEST(Library, AKernelThatWasLoadedBeforeAllowsLargeClusters) {
    fake_test("", [] {
        Ready ready;
        gpu::DeviceAddress data = ready.buffer.address();
        int count = 4;
        std::array<void*, 2> parameters{&data, &count};
        LaunchStep step;
        step.block = {32, 1, 1};
        step.cluster.x = 8;
        step.grid.x = 16;
        EXPECT_EQ(ready.library.ready("tiny_plain_0", step).launch(step, parameters.data(), ready.stream.handle()), 0);
        step.cluster.x = 16;
        EXPECT_EQ(ready.function.launch(step, parameters.data(), ready.stream.handle()), 912);
        EXPECT_EQ(ready.library.ready("tiny_plain_0", step).launch(step, parameters.data(), ready.stream.handle()), 0);
    });
}

TEST(Function, StickyErrorShowsAtTheNextCallAndStays) {
    fake_test("rule symbol=tiny do=return code=700", [] {
        Ready ready;
        EXPECT_EQ(launch_tiny(ready.function, ready.buffer, ready.stream.handle()), 0);
        EXPECT_EQ(driver_code([&] { ready.stream.synchronize(); }), 700);
        EXPECT_EQ(driver_code([&] { ready.context.synchronize(); }), 700);
        EXPECT_EQ(gpu::DriverError(700, "", "").severity(), gpu::Severity::sticky);
    });
}

TEST(Function, RefusedLaunchLeavesTheContextAlive) {
    fake_test("rule symbol=tiny nth=1 do=return code=701", [] {
        Ready ready;
        EXPECT_EQ(launch_tiny(ready.function, ready.buffer, ready.stream.handle()), 701);
        EXPECT_EQ(launch_tiny(ready.function, ready.buffer, ready.stream.handle()), 0);
        EXPECT_NO_THROW(ready.stream.synchronize());
    });
}

TEST(Function, HangHoldsASynchronisationUp) {
    fake_test("rule symbol=tiny do=hang seconds=0.3", [] {
        Ready ready;
        launch_tiny(ready.function, ready.buffer, ready.stream.handle());
        EXPECT_FALSE(ready.stream.idle());
        const auto start = std::chrono::steady_clock::now();
        ready.stream.synchronize();
        EXPECT_GT(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(), 0.25);
        EXPECT_TRUE(ready.stream.idle());
    });
}

TEST(Event, MeasuresTheScriptedTime) {
    fake_test("model noise=0\nrule symbol=tiny do=slow us=125", [] {
        Ready ready;
        gpu::Event from(ready.driver);
        gpu::Event to(ready.driver);
        from.record(ready.stream.handle());
        launch_tiny(ready.function, ready.buffer, ready.stream.handle());
        to.record(ready.stream.handle());
        to.synchronize();
        EXPECT_NEAR(gpu::elapsed_us(from, to), 125, 0.01);
    });
}

TEST(Graph, ReplaysWhatWasCaptured) {
    fake_test(
        "",
        [] {
            Ready ready;
            const gpu::Graph graph = gpu::Graph::capture(ready.driver, ready.stream, [&] {
                EXPECT_TRUE(gpu::is_capturing(*ready.driver, ready.stream.handle()));
                for (int i = 0; i < 3; ++i) launch_tiny(ready.function, ready.buffer, ready.stream.handle());
            });
            EXPECT_FALSE(gpu::is_capturing(*ready.driver, ready.stream.handle()));
            graph.launch(ready.stream.handle());
            graph.launch(ready.stream.handle());
            ready.stream.synchronize();
        },
        [](const fake::Sandbox& sandbox) {
            EXPECT_EQ(sandbox.count_calls("cuLaunchKernelEx"), 3);
            EXPECT_EQ(sandbox.count_calls("execute tiny_plain_0"), 6);
        });
}

TEST(Graph, AllocationInACaptureBreaksIt) {
    fake_test("", [] {
        Ready ready;
        EXPECT_EQ(driver_code([&] {
                      gpu::Graph::capture(ready.driver, ready.stream,
                                          [&] { EXPECT_EQ(driver_code([&] { gpu::Buffer(ready.driver, 16); }), 900); });
                  }),
                  901);
        EXPECT_NO_THROW(gpu::Graph::capture(ready.driver, ready.stream, [] {}));
    });
}

TEST(Graph, RelaxedModeLetsLoadsThrough) {
    fake_test("", [] {
        Ready ready;
        EXPECT_NO_THROW(gpu::Graph::capture(ready.driver, ready.stream, [&] {
            const gpu::RelaxedCapture relaxed(*ready.driver);
            gpu::Buffer(ready.driver, 16);
        }));
    });
}

TEST(Graph, ExceptionEndsTheCapture) {
    fake_test("", [] {
        Ready ready;
        EXPECT_THROW(gpu::Graph::capture(ready.driver, ready.stream, [] { throw std::runtime_error("stop"); }),
                     std::runtime_error);
        EXPECT_FALSE(gpu::is_capturing(*ready.driver, ready.stream.handle()));
    });
}

TEST(TensorMap, GeometryTheHardwareCannotDoIsRefused) {
    fake_test("", [] {
        const auto driver = gpu::Driver::load();
        TensorMapArg map;
        map.dims = {64, 64};
        map.strides_bytes = {128};
        map.box = {64, 64};
        map.tma_swizzle_bytes = 128;
        EXPECT_NO_THROW(gpu::encode_tensor_map(*driver, map, DType::f16, 0x1000));
        EXPECT_EQ(driver_code([&] { gpu::encode_tensor_map(*driver, map, DType::f16, 0x1008); }), 1);
        map.box = {64, 512};
        EXPECT_EQ(driver_code([&] { gpu::encode_tensor_map(*driver, map, DType::f16, 0x1000); }), 1);
    });
}

TEST(Nvml, ReadsClockPowerAndThrottleReasons) {
    fake_test("nvml clock=1410 power_w=350 throttle=4 temperature=61 processes=3", [] {
        const auto nvml = gpu::Nvml::load();
        ASSERT_NE(nvml, nullptr);
        const Conditions now = nvml->conditions("GPU-any");
        EXPECT_EQ(now.sm_clock_mhz, 1410);
        EXPECT_EQ(now.power_w, 350);
        EXPECT_EQ(now.temperature_c, 61);
        EXPECT_EQ(now.throttle_reasons, gpu::kSoftwarePowerCap);
        EXPECT_EQ(nvml->power_limit_w("GPU-any"), 700);
        EXPECT_EQ(nvml->other_processes("GPU-any", 100000001), 2);
    });
}

TEST(Nvml, ManyProcessesAreCountedInASecondAsk) {
    fake_test("nvml processes=40", [] { EXPECT_EQ(gpu::Nvml::load()->other_processes("GPU-any", 1), 40); });
}

TEST(Nvml, ReadingThatTheCardLacksIsUnknown) {
    fake_test("nvml power_w=none", [] {
        const Conditions now = gpu::Nvml::load()->conditions("GPU-any");
        EXPECT_EQ(now.power_w, std::nullopt);
        EXPECT_TRUE(now.sm_clock_mhz.has_value());
    });
}

TEST(Nvml, MissingLibraryIsNotAnError) {
    fake_test({"", {.nvml = fake::Use::none}}, [] { EXPECT_EQ(gpu::Nvml::load(), nullptr); });
}

TEST(Nvrtc, NewerThanTheDriverIsNotTaken) {
    fake_test("", [] {
        EXPECT_EQ(gpu::Nvrtc::load({.driver_major = 13})->version(), "13.0");
        try {
            EXPECT_EQ(gpu::Nvrtc::load({.driver_major = 12})->version().substr(0, 3), "12.");  // a machine may have one
        } catch (const Error& error) {
            EXPECT_NE(
                std::string(error.what())
                    .find(
                        "libnvrtc.so.13) was found, but the driver supports CUDA 12 and cannot load kernels of a newer compiler"),
                std::string::npos)
                << error.what();
        }
    });
}

TEST(Nvrtc, OneThatIsNamedIsNotTakenEitherIfItIsNewerThanTheDriver) {
    fake_test("", [] {
        try {
            gpu::Nvrtc::load({.explicit_path = "libnvrtc.so.13", .driver_major = 12});
            FAIL() << "loaded";
        } catch (const Error& error) {
            EXPECT_EQ(error.code(), ErrorCode::no_compiler);
            EXPECT_EQ(std::string(error.what()).find("AUTOTUNE_NVRTC: NVRTC 13.0 ("), 0U) << error.what();
        }
    });
}

TEST(Nvrtc, OwnCacheCameWith129) {
    fake_test("nvrtc version=12.8", [] { EXPECT_FALSE(gpu::Nvrtc::load({})->has_own_cache()); });
}

TEST(Fake, MisspeltScriptEndsTheProcess) {
    Sandbox sandbox("rule do=wibble");
    const auto outcome =
        sandbox.run({std::filesystem::read_symlink("/proc/self/exe").string(), "--gtest_filter=Driver.NoDeviceSaysSo"},
                    {.environment = {{"AUTOTUNE_TEST_IN_FAKE", "1"}}});
    EXPECT_EQ(outcome.exit_code, 97);
    EXPECT_NE(outcome.err.find("line 1"), std::string::npos);
}

TEST(Fake, VanishedDriverStaysAway) {
    Sandbox sandbox("rule symbol=tiny do=vanish persist=1");
    if (std::getenv("AUTOTUNE_TEST_IN_FAKE") == nullptr) {
        EXPECT_FALSE(in_fake_process(sandbox));
        EXPECT_FALSE(in_fake_process(sandbox, {.environment = {{"AUTOTUNE_TEST_SECOND", "1"}}}));
        return;
    }
    if (std::getenv("AUTOTUNE_TEST_SECOND") != nullptr) {
        EXPECT_NE(load_message().find("999"), std::string::npos);
        return;
    }
    Ready ready;
    launch_tiny(ready.function, ready.buffer, ready.stream.handle());
    EXPECT_EQ(driver_code([&] { ready.stream.synchronize(); }), 999);
    EXPECT_EQ(gpu::DriverError(999, "", "").severity(), gpu::Severity::lost);
}

}  // namespace
}  // namespace autotune::test
