// A kernel file with everything that a launch may need besides kernels, on the scripted driver: a symbol, a preparation, loops,
// zeros, copies, data from a file, and more shared memory than a launch gets unasked.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/support/fake/fake_run.h"

namespace autotune::kernel_steps_fake_test {
namespace {

using fake::Outcome;
using fake::RunOptions;
using fake::Sandbox;
using nlohmann::json;
using testing::HasSubstr;

constexpr const char* kSource = R"cu(
#ifndef tile
#define tile 4
#endif
__constant__ float table[2000];
extern __shared__ float staged[];
__global__ void derive(const float* x, float* slopes, int n) {
    for (int i = 0; i < n; ++i) slopes[i] = x[i] * 2;
}
// The scripted driver computes nothing of this.
__global__ void pass_over(const void* from, float* to, const float* slopes, int n, int shift) {
    const int i = blockIdx.x * blockDim.x * tile + threadIdx.x;
    if (i < n) to[i] = static_cast<const float*>(from)[i] + slopes[i] * table[i % 2000] + shift;
}
__global__ void sum_up(const float* from, float* sums, int n) {
    if (threadIdx.x < n) atomicAdd(&sums[0], from[threadIdx.x] + staged[0]);
}
__global__ void reference(const unsigned* keys, double* sorted, double* sums, int n) {
    for (int i = 0; i < n; ++i) sorted[i] = keys[i], sums[0] += keys[i];
}
)cu";

constexpr const char* kFile = R"toml(format = 1
[op]
name = "mixed"
extents = ["n"]
examples = ["20000"]
flops = "2.0 * n"
[[tensor]]
name = "keys"
dtype = "u32"
shape = ["n"]
access = "in"
fill = { integers = { low = 0, high = 4000000000 } }
[[tensor]]
name = "X"
dtype = "f32"
shape = ["n"]
access = "in"
fill = { npy = "x.npy" }
[[tensor]]
name = "slopes"
dtype = "f32"
shape = ["n"]
access = "in"
[[tensor]]
name = "weights"
dtype = "f32"
shape = [2000]
access = "in"
symbol = "table"
[[tensor]]
name = "sorted"
dtype = "f32"
shape = ["n"]
access = "out"
[[tensor]]
name = "sums"
dtype = "f32"
shape = ["n"]
access = "inout"
reset = "zero"
[[tensor]]
name = "rest"
dtype = "u8"
shape = ["n"]
access = "inout"
fill = "integers"
check = false
[[workspace]]
name = "other"
dtype = "f32"
elements = "n"
zero = "each"
[[parameter]]
name = "tile"
values = [1, 2, 4]
default = 2
[[prepare]]
kernel = "derive"
grid = [1]
block = [1]
args = ["X", "slopes", "i32: n"]
[[step]]
kernel = "pass_over"
grid = ["ceil_div(n, 128 * tile)"]
block = [128]
args = [{ pick = "pass == 0 ? 0 : 1 + pass % 2", of = ["keys", "sorted", "other"] }, { pick = "pass % 2", of = ["other", "sorted"] }, "slopes", "i32: n", "i32: 4 * pass"]
repeat = 3
index = "pass"
[[step]]
copy = { from = "other", to = "sorted" }
[[step]]
kernel = "sum_up"
grid = [1]
block = [256]
smem = 65536
args = ["sorted", "sums", "i32: n"]
[[step]]
zero = "rest"
[check]
exact = false
[check.reference]
kernel = "reference"
grid = [1]
block = [1]
args = ["keys", "sorted", "sums", "i32: n"]
)toml";

std::string npy_of_floats(std::size_t count) {
    std::string header = "{'descr': '<f4', 'fortran_order': False, 'shape': (" + std::to_string(count) + ",), }";
    while ((10 + header.size() + 1) % 64 != 0) header += ' ';
    header += '\n';
    std::string text = "\x93NUMPY";
    text += std::string{1, 0};
    text += static_cast<char>(header.size() % 256);
    text += static_cast<char>(header.size() / 256);
    return text + header + std::string(count * 4, '\0');
}

Outcome run(const Sandbox& machine, const std::vector<std::string>& words) {
    RunOptions options;
    options.timeout_s = 110;
    return machine.autotune(words, options);
}

TEST(KernelStepsOnFake, FileWithAllKindsOfStepsAndDataIsTunedVerifiedAndStored) {
    Sandbox machine;
    const std::string file = (machine.folder() / "mixed.toml").string();
    std::ofstream(machine.folder() / "mixed.cu") << kSource;
    std::ofstream(machine.folder() / "x.npy", std::ios::binary) << npy_of_floats(20000);
    std::ofstream(file) << kFile;
    const Outcome checked = run(machine, {"check", file});
    EXPECT_EQ(checked.exit_code, 0) << checked.out << checked.err;

    const Outcome tuned = run(machine, {"tune", "--kernel", file, "--budget", "5s,3t", "--json"});
    ASSERT_EQ(tuned.exit_code, 0) << tuned.err << tuned.out;
    const json said = json::parse(tuned.out, nullptr, false);
    EXPECT_EQ(said["winner"]["family"], "user_mixed/main");
    EXPECT_EQ(said["evidence"]["failed"].get<int>(), 0) << tuned.out;
    EXPECT_EQ(machine.count_calls("BUG"), 0);
    EXPECT_GT(machine.count_calls("cuLibraryGetGlobal table"), 0);
    EXPECT_GT(machine.count_calls("cuMemcpyDtoDAsync 8000"), 0) << "the symbol's content";
    EXPECT_GT(machine.count_calls("cuFuncSetAttribute 65536"), 0) << "shared memory above 48 KiB";
    const auto calls = machine.calls();
    const auto has = [&](const std::string& what) {
        return std::any_of(calls.begin(), calls.end(), [&](const std::string& call) {
            return call.find("execute user_mixed") != std::string::npos && call.find(what) != std::string::npos;
        });
    };
    for (const char* entry : {"_derive", "_autotune_zero_step", "_autotune_copy_step", "_sum_up"})
        EXPECT_TRUE(has(entry)) << entry;
    EXPECT_GT(machine.count_calls("execute autotune_copy"), 0) << "resets of timed launches, and the file's content";
}

TEST(KernelStepsOnFake, FileOfAnotherShapeIsToldAndNothingStored) {
    Sandbox machine;
    const std::string file = (machine.folder() / "mixed.toml").string();
    std::ofstream(machine.folder() / "mixed.cu") << kSource;
    std::ofstream(machine.folder() / "x.npy", std::ios::binary) << npy_of_floats(1999);
    std::ofstream(file) << kFile;
    const Outcome checked = run(machine, {"check", file});
    EXPECT_EQ(checked.exit_code, 2);
    EXPECT_THAT(checked.out, HasSubstr("x.npy has the shape [1999], and tensor X has [20000] (on example 20000)"));
    const Outcome tuned = run(machine, {"tune", "--kernel", file, "--budget", "5s,3t"});
    EXPECT_NE(tuned.exit_code, 0);
    EXPECT_THAT(tuned.err, HasSubstr("x.npy has the shape [1999]"));
}

// The outputs are integers, which another run finds poisoned with other bytes.
constexpr const char* kTemplate = R"cu(
namespace ours {
template <const int tile, typename T>
__global__ void __launch_bounds__(128) twice(const T* from, T* to, int n) {
    for (int i = blockIdx.x * tile; i < n; ++i) to[i] = 2 * from[i];
}
}
template <typename T> __global__ void reference(const T* from, T* to, int n) {
    for (int i = 0; i < n; ++i) to[i] = 2 * from[i];
}
)cu";
constexpr const char* kTemplateFile = R"toml(format = 1
[op]
name = "twice"
extents = ["n"]
examples = ["20000"]
[[tensor]]
name = "from"
dtype = "i32"
shape = ["n"]
access = "in"
fill = "integers"
[[tensor]]
name = "to"
dtype = "i32"
shape = ["n"]
access = "out"
[[parameter]]
name = "tile"
values = [1, 2, 4]
[[step]]
kernel = "ours::twice<tile, int>"
grid = ["ceil_div(n, tile)"]
block = [128]
args = ["from", "to", "i32: n"]
[check.reference]
kernel = "reference<int>"
grid = [1]
block = [1]
args = ["from", "to", "i32: n"]
[search]
trials = 3
)toml";

TEST(KernelStepsOnFake, TemplateWithIntegerOutputsIsTunedAndExported) {
    Sandbox machine;
    const std::string file = (machine.folder() / "twice.toml").string(), header = (machine.folder() / "twice_tuned.h").string();
    std::ofstream(machine.folder() / "twice.cu") << kTemplate;
    std::ofstream(file) << kTemplateFile;
    const Outcome tuned = run(machine, {"tune", "--kernel", file, "--json"});
    ASSERT_EQ(tuned.exit_code, 0) << tuned.err << tuned.out;
    const json said = json::parse(tuned.out, nullptr, false);
    EXPECT_EQ(said["evidence"]["failed"].get<int>(), 0) << tuned.out;
    EXPECT_EQ(said["evidence"]["tried"].get<int>(), 3) << "[search] limits the trials";
    EXPECT_GT(machine.count_calls("cuLibraryGetKernel _Z"), 0) << "instances of a template have mangled names";
    EXPECT_EQ(machine.count_calls("BUG"), 0);
    const Outcome written = run(machine, {"export", "--kernel", file, "--header", header});
    ASSERT_EQ(written.exit_code, 0) << written.err;
    std::stringstream text;
    text << std::ifstream(header).rdbuf();
    EXPECT_THAT(text.str(),
                HasSubstr("// ours::twice<" + std::to_string(said["winner"]["config"]["tile"].get<int>()) + ", int><<<dim3("));
}

}  // namespace
}  // namespace autotune::kernel_steps_fake_test
