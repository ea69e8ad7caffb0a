// Measures what driver calls alone cost the host, without the library (benchmarks/README.md).
#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "src/core/error.h"
#include "src/gpu/driver/driver_api.h"
#include "src/gpu/library_folders.h"
#include "src/gpu/nvrtc.h"

namespace autotune::driver_cost {
namespace {

constexpr int kRounds = 400, kCalls = 64;  // so few calls never fill the stream's queue
constexpr int kLoads = 60;
constexpr unsigned kSmem = 200 << 10;

constexpr const char* kSource = R"(
struct alignas(64) Map { unsigned long long words[16]; };
extern "C" __global__ void few(const void* a, const void* b, void* c, int m, int n, int k) {}
extern "C" __global__ void many(const __grid_constant__ Map a, const __grid_constant__ Map b, const __grid_constant__ Map c, void* d,
                                int n0, int n1, int n2, int n3, int n4, int n5, int n6, int n7, float alpha, float beta) {}
extern "C" __global__ void large(float* x, int n) {
    extern __shared__ float tile[];
#pragma unroll
    for (int i = 0; i < 2048; ++i) tile[threadIdx.x] = tile[(threadIdx.x * 7 + i) & 1023] * x[i] + 1.5f;
    if (n > 0) x[0] = tile[n];
}
)";

double now_us() {
    return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double cost_us(const std::function<void()>& work) {
    const double begun = now_us();
    work();
    return now_us() - begun;
}

void check_code(int code, const char* call) {
    if (code != 0) throw Error(ErrorCode::driver, std::string(call) + " answered " + std::to_string(code));
}

void print(const char* name, std::vector<double> us) {
    std::sort(us.begin(), us.end());
    const auto at = [&](double part) { return us[static_cast<std::size_t>(part * static_cast<double>(us.size() - 1))]; };
    std::printf("%-58s %9.2f %9.2f %9.2f %9.2f\n", name, us.front(), at(0.5), at(0.99), us.back());
}

class Bench {
  public:
    Bench()
        : driver_(gpu::Driver::load()),
          context_(driver_, 0),
          stream_(driver_),
          launch_(reinterpret_cast<PFN_cuLaunchKernel_v4000>(::dlsym(::dlopen("libcuda.so.1", RTLD_NOW), "cuLaunchKernel"))) {
        const auto nvrtc = gpu::Nvrtc::load(
            {{}, gpu::library_folders([](const char* name) { return std::getenv(name); }), driver_->version() / 1000});
        const std::string arch = "--gpu-architecture=" + driver_->device(0).arch();
        gpu::Nvrtc::Output output = nvrtc->compile({kSource, "driver_cost.cu", {}, {arch}});
        if (!output.ok || launch_ == nullptr) throw Error(ErrorCode::driver, "no cuLaunchKernel, or NVRTC says: " + output.log);
        cubin_ = std::move(output.cubin);
    }

    void run() {
        std::printf("%-58s %9s %9s %9s %9s\n", "us a call", "least", "p50", "p99", "most");
        launches();
        loads();
        beside_loads();
    }

  private:
    const gpu::Driver::Api& api() const { return driver_->api(); }

    CUlibrary load() const {
        CUlibrary library = nullptr;
        check_code(api().library_load_data(&library, cubin_.data(), nullptr, nullptr, 0, nullptr, nullptr, 0),
                   "cuLibraryLoadData");
        return library;
    }

    CUfunction function(CUlibrary library, const char* name) const {
        CUkernel kernel = nullptr;
        CUfunction function = nullptr;
        check_code(api().library_get_kernel(&kernel, library, name), "cuLibraryGetKernel");
        check_code(api().kernel_get_function(&function, kernel), "cuKernelGetFunction");
        return function;
    }

    // Prints the mean of a round of calls, after a synchronisation.
    void print_rounds(const char* name, const std::function<int()>& call) const {
        std::vector<double> us;
        for (int round = 0; round < kRounds; ++round) {
            stream_.synchronize();
            const double begun = now_us();
            for (int i = 0; i < kCalls; ++i) check_code(call(), name);
            us.push_back((now_us() - begun) / kCalls);
        }
        print(name, std::move(us));
    }

    static CUlaunchAttribute programmatic() {
        CUlaunchAttribute attribute{};
        attribute.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
        attribute.value.programmaticStreamSerializationAllowed = 1;
        return attribute;
    }

    static CUlaunchAttribute cluster() {
        CUlaunchAttribute attribute{};
        attribute.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
        attribute.value.clusterDim.x = 2;
        attribute.value.clusterDim.y = attribute.value.clusterDim.z = 1;
        return attribute;
    }

    std::function<int()> extended(CUfunction function, void** parameters, std::vector<CUlaunchAttribute> attributes,
                                  unsigned smem) const {
        return [this, function, parameters, smem, attributes = std::move(attributes)]() mutable {
            CUlaunchConfig config{};
            config.gridDimX = 2;
            config.gridDimY = config.gridDimZ = config.blockDimY = config.blockDimZ = 1;
            config.blockDimX = 128;
            config.sharedMemBytes = smem;
            config.hStream = stream_.handle();
            config.attrs = attributes.data();
            config.numAttrs = static_cast<unsigned>(attributes.size());
            return static_cast<int>(api().launch_kernel_ex(&config, function, parameters, nullptr));
        };
    }

    void launches() const {
        CUlibrary library = load();
        const CUfunction few = function(library, "few"), many = function(library, "many");
        for (const CUfunction each : {few, many})
            check_code(api().func_set_attribute(each, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, kSmem),
                       "cuFuncSetAttribute");
        gpu::TensorMap map;
        std::uint64_t word = 0;
        std::vector<void*> of_few(6, &word), of_many(14, &word);
        std::fill_n(of_many.begin(), 3, &map);
        print_rounds("cuLaunchKernel, 6 words", [&] {
            return static_cast<int>(launch_(few, 2, 1, 1, 128, 1, 1, 0, stream_.handle(), of_few.data(), nullptr));
        });
        print_rounds("cuLaunchKernel, 3 tensor maps and 11 words", [&] {
            return static_cast<int>(launch_(many, 2, 1, 1, 128, 1, 1, 0, stream_.handle(), of_many.data(), nullptr));
        });
        print_rounds("cuLaunchKernel, 6 words, the default stream",
                     [&] { return static_cast<int>(launch_(few, 2, 1, 1, 128, 1, 1, 0, nullptr, of_few.data(), nullptr)); });
        std::array<std::uint64_t, 5> packed{};  // holds three addresses and three ints
        std::size_t packed_bytes = 36;
        std::array<void*, 5> extra = {CU_LAUNCH_PARAM_BUFFER_POINTER, packed.data(), CU_LAUNCH_PARAM_BUFFER_SIZE, &packed_bytes,
                                      CU_LAUNCH_PARAM_END};
        print_rounds("cuLaunchKernel, 6 words in one buffer", [&] {
            return static_cast<int>(launch_(few, 2, 1, 1, 128, 1, 1, 0, stream_.handle(), nullptr, extra.data()));
        });
        print_rounds("cuLaunchKernelEx, 6 words", extended(few, of_few.data(), {}, 0));
        print_rounds("cuLaunchKernelEx, 3 tensor maps and 11 words", extended(many, of_many.data(), {}, 0));
        print_rounds("  and 200 KB of shared memory", extended(many, of_many.data(), {}, kSmem));
        print_rounds("  and programmatic", extended(many, of_many.data(), {programmatic()}, kSmem));
        print_rounds("  and a cluster of 2", extended(many, of_many.data(), {cluster()}, kSmem));
        print_rounds("  and both", extended(many, of_many.data(), {cluster(), programmatic()}, kSmem));
        stream_.synchronize();
        api().library_unload(library);
    }

    // Times the steps of a kernel's first use.
    void loads() const {
        std::vector<double> of_load, of_function, of_read, of_raise, of_force, first, second;
        std::vector<CUlibrary> libraries;
        for (int i = 0; i < kLoads; ++i) {
            CUfunction large = nullptr;
            int registers = 0;
            of_load.push_back(cost_us([&] { libraries.push_back(load()); }));
            of_function.push_back(cost_us([&] { large = function(libraries.back(), "large"); }));
            of_read.push_back(cost_us([&] {
                check_code(api().func_get_attribute(&registers, CU_FUNC_ATTRIBUTE_NUM_REGS, large), "cuFuncGetAttribute");
            }));
            of_raise.push_back(cost_us([&] {
                check_code(api().func_set_attribute(large, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, kSmem),
                           "cuFuncSetAttribute");
            }));
            if (api().func_load != nullptr)
                of_force.push_back(cost_us([&] { check_code(api().func_load(large), "cuFuncLoad"); }));
            const auto launch = extended(function(libraries.back(), "few"), six_.data(), {}, 0);
            first.push_back(cost_us([&] { check_code(launch(), "few"); }));
            second.push_back(cost_us([&] { check_code(launch(), "few"); }));
        }
        stream_.synchronize();
        print("cuLibraryLoadData", of_load);
        print("cuLibraryGetKernel and cuKernelGetFunction", of_function);
        print("cuFuncGetAttribute, the first", of_read);
        print("cuFuncSetAttribute, shared memory", of_raise);
        print("cuFuncLoad", of_force);
        print("the first launch of another kernel of it", first);
        print("the second", second);
        for (CUlibrary each : libraries) api().library_unload(each);
    }

    // Times calls of other threads while one thread loads kernels all the time.
    void beside_loads() const {
        CUlibrary library = load();
        const CUfunction few = function(library, "few");
        std::atomic<bool> ends = false;
        std::atomic<int> count = 0;
        std::vector<std::thread> loaders;
        const auto serve = [&] {
            context_.make_current();
            while (!ends) {
                CUlibrary each = load();
                if (api().func_load != nullptr) api().func_load(function(each, "large"));
                ++count;
                api().library_unload(each);
            }
        };
        for (int i = 0; i < 4; ++i) loaders.emplace_back(serve);
        const auto measure = [&](const char* name, const std::function<int()>& call) {
            std::vector<double> us;
            for (int i = 0; i < 2000; ++i) {
                us.push_back(cost_us([&] { check_code(call(), name); }));
                if (i % kCalls == 0) stream_.synchronize();
            }
            print(name, std::move(us));
        };
        int value = 0;
        CUcontext current = nullptr;
        CUstreamCaptureStatus capturing{};
        measure("beside loads: cuCtxGetCurrent", [&] { return static_cast<int>(api().ctx_get_current(&current)); });
        measure("beside loads: cuStreamIsCapturing",
                [&] { return static_cast<int>(api().stream_is_capturing(static_cast<CUstream>(stream_.handle()), &capturing)); });
        measure("beside loads: cuLibraryGetKernel and cuKernelGetFunction",
                [&] { return function(library, "few") == few ? 0 : 1; });
        measure("beside loads: cuFuncGetAttribute",
                [&] { return static_cast<int>(api().func_get_attribute(&value, CU_FUNC_ATTRIBUTE_NUM_REGS, few)); });
        measure("beside loads: cuLaunchKernelEx", extended(few, six_.data(), {}, 0));
        ends = true;
        for (std::thread& each : loaders) each.join();
        stream_.synchronize();
        std::printf("%d loads meanwhile\n", count.load());
        api().library_unload(library);
    }

    std::shared_ptr<const gpu::Driver> driver_;
    gpu::Context context_;
    gpu::Stream stream_;
    PFN_cuLaunchKernel_v4000 launch_;
    std::vector<std::byte> cubin_;
    std::uint64_t zero_ = 0;
    mutable std::vector<void*> six_ = std::vector<void*>(6, &zero_);
};

}  // namespace
}  // namespace autotune::driver_cost

int main() {
    try {
        autotune::driver_cost::Bench().run();
        return 0;
    } catch (const autotune::Error& error) {
        std::fprintf(stderr, "%s\n", error.what());
        return error.code() == autotune::ErrorCode::no_gpu ? 3 : 1;
    }
}
