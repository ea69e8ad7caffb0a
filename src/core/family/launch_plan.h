#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "src/core/problem/dtype.h"

namespace autotune {

struct Dim3 {
    std::uint32_t x = 1, y = 1, z = 1;
    bool operator==(const Dim3&) const = default;
};

// ---- Arguments: data, never addresses. src/jit turns them into kernel parameters in this order. ----

// Device address of Problem::tensors[index] + offset; 0 if the tensor is absent (then there must be no offset)
struct TensorArg {
    int index = 0;
    std::size_t offset_bytes = 0;
};
struct ScalarArg {  // the value of Problem::scalars[index] in this call, in its type
    int index = 0;
};
struct WorkspaceArg {  // The device address of the workspace plus an offset.
    std::size_t offset_bytes = 0;
};
struct I32Arg {
    std::int32_t value = 0;
};
struct I64Arg {
    std::int64_t value = 0;
};
struct F32Arg {
    float value = 0;
};
// A tensor map (CUtensorMap, 128 bytes, passed by value) of a tensor, encoded by src/jit. Dimension 0 is the contiguous one.
// strides_bytes[i] is the distance along dimension i + 1. tensor -1: an array in the workspace that starts at
// `workspace_offset_bytes` and has elements of type `workspace_type`.
struct TensorMapArg {
    int tensor = 0;
    std::size_t workspace_offset_bytes = 0;
    DType workspace_type = DType::f16;
    int rank = 2;
    std::array<std::uint64_t, 5> dims{};
    std::array<std::uint64_t, 4> strides_bytes{};
    std::array<std::uint32_t, 5> box{};
    int tma_swizzle_bytes = 0;     // 0, 32, 64, 128
    int l2_promotion_bytes = 128;  // 0, 64, 128, 256
};
// Only in an op's reference plan: the addresses to which the reference writes the expected values (f64) and the allowed errors
// (f64) of a test's output, dense and in the logical order of the tensor's elements.
struct ExpectedArg {
    int output = 0;  // index into OpTest::outputs
};
struct BoundArg {
    int output = 0;
};

using Argument = std::variant<TensorArg, ScalarArg, WorkspaceArg, I32Arg, I64Arg, F32Arg, TensorMapArg, ExpectedArg, BoundArg>;

// One kernel launch. `entry` is appended to the instance's symbol: "" for the main kernel, "_reduce" for a second one.
struct LaunchStep {
    std::string entry;
    Dim3 grid;
    Dim3 block;
    Dim3 cluster;  // {1,1,1}: no cluster attribute
    std::size_t dynamic_smem_bytes = 0;
    bool programmatic_dependent = false;  // the PDL attribute
    std::vector<Argument> arguments;
};

// A copy into a __constant__ or __device__ array of the code, which launches read. It is not timed.
struct SymbolWrite {
    std::string symbol;
    Argument from;  // a tensor or the workspace
    std::size_t bytes = 0;
    std::size_t before_step = 0;
};

// How one config is launched for one problem: the steps in order, on one stream. A plan without steps is legal (there is nothing
// to do).
struct LaunchPlan {
    std::vector<LaunchStep> steps;
    std::size_t workspace_bytes = 0;
    // Leading bytes that must be zero before the first launch; each launch sets them to zero again
    std::size_t workspace_zero_bytes = 0;
    bool deterministic = true;                    // the same input gives the same bits
    std::vector<SymbolWrite> symbol_writes = {};  // in the order of their steps
};

}  // namespace autotune
