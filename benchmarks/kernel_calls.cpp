// Measures what a call of a user's kernel costs beside a call of a built-in op (benchmarks/README.md): both add two arrays of f32
// that are so small that the host and the launch decide. Exits with 1 if an answer is wrong.
#include <unistd.h>

#include <algorithm>
#include <array>
#include <autotune/autotune.hpp>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include "src/core/error.h"
#include "src/gpu/driver/driver.h"

namespace autotune::kernel_calls {
namespace {

constexpr std::int64_t kLength = 1024;
constexpr int kCalls = 2000, kRounds = 31, kLaunchesOfGraph = 200;

constexpr const char* kSource = R"cu(
extern "C" __global__ void plus(const float* a, const float* b, float* c, int n) {
    const int i = blockIdx.x * threads + threadIdx.x;
    if (i < n) c[i] = a[i] + b[i];
}
extern "C" __global__ void plus_reference(const double* a, const double* b, double* c, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) c[i] = a[i] + b[i];
}
)cu";

constexpr const char* kFile = R"toml(format = 1
[op]
name = "plus"
extents = ["n"]
examples = ["1024"]
flops = "1.0 * n"
[[tensor]]
name = "a"
dtype = "f32"
shape = ["n"]
access = "in"
[[tensor]]
name = "b"
dtype = "f32"
shape = ["n"]
access = "in"
[[tensor]]
name = "c"
dtype = "f32"
shape = ["n"]
access = "out"
[[parameter]]
name = "threads"
values = [128, 256]
[[step]]
kernel = "plus"
grid = ["ceil_div(n, threads)"]
block = ["threads"]
args = ["a", "b", "c", "i32: n"]
[check]
reference = { kernel = "plus_reference", grid = ["ceil_div(n, 128)"], block = ["128"], args = ["a", "b", "c", "i32: n"] }
)toml";

double now_us() {
    return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// One way to call a kernel that adds the arrays.
struct Way {
    const char* name;
    std::function<void()> call;
    std::vector<double> host_us{}, graph_us{};
};

double median(std::vector<double> values) {
    std::sort(values.begin(), values.end());
    return values[values.size() / 2];
}

int run() {
    const auto driver = gpu::Driver::load();
    const gpu::Context context(driver, 0);
    const gpu::Stream stream(driver);
    std::array<gpu::Buffer, 3> buffers;
    for (gpu::Buffer& each : buffers) each = gpu::Buffer(driver, kLength * sizeof(float));
    std::vector<float> values(kLength);
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
    buffers[0].upload(std::as_bytes(std::span(values)));
    buffers[1].upload(std::as_bytes(std::span(values)));
    const auto at = [&](std::size_t i) { return reinterpret_cast<void*>(buffers[i].address()); };

    std::string pattern = (std::filesystem::temp_directory_path() / "autotune-kernel-calls-XXXXXX").string();
    const std::filesystem::path folder = ::mkdtemp(pattern.data());
    std::ofstream(folder / "plus.cu") << kSource;
    std::ofstream(folder / "plus.toml") << kFile;
    const Handle handle;
    const Kernel kernel(handle, (folder / "plus.toml").string());
    std::filesystem::remove_all(folder);

    Description users = kernel.problem(), built_in("add");
    for (Description* each : {&users, &built_in})
        for (const char* name : {"a", "b", "c"}) each->tensor(name, AUTOTUNE_F32, {kLength});
    const OpPlan users_plan = kernel.plan(users), built_in_plan(handle, built_in);
    const std::array<const void*, 3> addresses = {at(0), at(1), at(2)};
    const autotune_call call = {sizeof(autotune_call), addresses.data(), 3, nullptr, 0, nullptr, 0};
    const autotune_problem users_problem = users.problem(), built_in_problem = built_in.problem();
    const auto good = [](autotune_status status) { throw_if_failed(status); };
    std::vector<Way> ways = {
        {"C plan, built-in", [&] { good(autotune_run(built_in_plan.get(), &call, stream.handle())); }},
        {"C plan, user's", [&] { good(autotune_run(users_plan.get(), &call, stream.handle())); }},
        {"C one call, built-in", [&] { good(autotune_tuned(handle.get(), &built_in_problem, &call, stream.handle())); }},
        {"C one call, user's", [&] { good(autotune_tuned(handle.get(), &users_problem, &call, stream.handle())); }},
        {"C++ plan, built-in",
         [&] {
             built_in_plan.run({at(0), at(1), at(2)}, {}, stream.handle());
         }},
        {"C++ plan, user's",
         [&] {
             users_plan.run({at(0), at(1), at(2)}, {}, stream.handle());
         }},
        {"C++ one call, built-in",
         [&] {
             tuned(handle, built_in, {at(0), at(1), at(2)}, {}, stream.handle());
         }},
        {"C++ one call, user's",
         [&] {
             kernel(users, {at(0), at(1), at(2)}, {}, stream.handle());
         }},
    };
    bool is_right = true;
    std::vector<gpu::Graph> graphs;
    for (Way& way : ways) {
        way.call();
        stream.synchronize();
        graphs.push_back(gpu::Graph::capture(driver, stream, [&] {
            for (int i = 0; i < kLaunchesOfGraph; ++i) way.call();
        }));
        buffers[2].fill_bytes(0xff, stream.handle());
        graphs.back().launch(stream.handle());
        stream.synchronize();
        std::vector<float> sums(kLength);
        buffers[2].download(std::as_writable_bytes(std::span(sums)));
        for (std::size_t i = 0; i < sums.size(); ++i) is_right = is_right && sums[i] == 2 * values[i];
    }
    for (int round = 0; round < kRounds; ++round) {  // the ways alternate, so that all of them see the same machine
        for (std::size_t i = 0; i < ways.size(); ++i) {
            double begun = now_us();
            for (int k = 0; k < kCalls; ++k) {
                ways[i].call();
                if (k % 200 == 199) {  // a full queue would make calls wait
                    const double waited = now_us();
                    stream.synchronize();
                    begun += now_us() - waited;
                }
            }
            ways[i].host_us.push_back((now_us() - begun) / kCalls);
            begun = now_us();
            for (int k = 0; k < 10; ++k) graphs[i].launch(stream.handle());
            stream.synchronize();
            ways[i].graph_us.push_back((now_us() - begun) / (10 * kLaunchesOfGraph));
        }
    }
    std::printf("%-24s %12s %16s\n", "a sum of 1024 f32", "host us/call", "graph us/launch");
    for (const Way& way : ways) std::printf("%-24s %12.3f %16.3f\n", way.name, median(way.host_us), median(way.graph_us));
    for (std::size_t i = 0; i < ways.size(); i += 2)
        std::printf("%-24s %12.3f %16.3f\n", (std::string(ways[i + 1].name) + " / built-in").c_str(),
                    median(ways[i + 1].host_us) / median(ways[i].host_us),
                    median(ways[i + 1].graph_us) / median(ways[i].graph_us));
    std::printf("answers: %s\n", is_right ? "right" : "WRONG");
    return is_right ? 0 : 1;
}

}  // namespace
}  // namespace autotune::kernel_calls

int main() {
    try {
        return autotune::kernel_calls::run();
    } catch (const std::exception& error) {
        std::fprintf(stderr, "kernel_calls: %s\n", error.what());
        return 2;
    }
}
