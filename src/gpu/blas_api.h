#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "src/gpu/driver/driver.h"
#include "src/gpu/shared_library.h"

namespace autotune::gpu {

// The part of cuBLAS's and cuBLASLt's ABI that we need, because the packages that we build against have neither header. Values
// are those of cublas_api.h, cublasLt.h and library_types.h, the same in CUDA 12 and 13.
namespace blas {

enum Status : int { kSuccess = 0, kNotSupported = 15 };
enum Operation : int { kPlain = 0, kTransposed = 1 };
enum DataType : int { kR32F = 0, kR64F = 1, kR16F = 2, kR16BF = 14, kR8E4M3 = 28, kR8E5M2 = 29 };
enum ComputeType : int { kCompute16F = 64, kCompute32F = 68, kCompute64F = 70, kCompute32FFastTf32 = 77 };
constexpr int kGemmDefault = -1;
enum Property : int { kMajor = 0, kMinor = 1, kPatch = 2 };

enum LayoutAttribute : int { kBatchCount = 5, kBatchOffset = 6 };
enum DescriptorAttribute : int {
    kTransA = 3,
    kTransB = 4,
    kEpilogue = 7,   // kAddBias
    kBias = 8,       // the address of one element for each row of the column-major result
    kScaleOfA = 17,  // address of one f32, or of as many as the scale mode requires
    kScaleOfB = 18,
    kScaleOfD = 20,
    kAmaxOfD = 21,
    kFastAccumulation = 25,  // one byte, for fp8 products: 1 keeps all sums in the tensor core
    kBiasType = 26,
    kScaleModeOfA = 31,
    kScaleModeOfB = 32
};
enum Epilogue : int { kAddBias = 4 };
enum PreferenceAttribute : int {
    kMaxWorkspaceBytes = 1,
    kMinAlignmentA = 5,
    kMinAlignmentB = 6,
    kMinAlignmentC = 7,
    kMinAlignmentD = 8
};

using Handle = struct HandleTag*;
using LtHandle = struct LtHandleTag*;
using LtDescriptor = struct LtDescriptorTag*;
using LtLayout = struct LtLayoutTag*;
using LtPreference = struct LtPreferenceTag*;

struct LtAlgorithm {
    std::array<std::uint64_t, 8> data;
};
struct LtHeuristic {
    LtAlgorithm algorithm;
    std::size_t workspace_bytes;
    int state;
    float waves;
    std::array<int, 4> reserved;
};

struct Api {
    int (*create)(Handle*) = nullptr;
    int (*destroy)(Handle) = nullptr;
    int (*get_property)(int, int*) = nullptr;
    int (*set_stream)(Handle, StreamHandle) = nullptr;
    int (*set_workspace)(Handle, void*, std::size_t) = nullptr;
    int (*gemm_ex)(Handle, int, int, int, int, int, const void*, const void*, int, int, const void*, int, int, const void*, void*,
                   int, int, int, int) = nullptr;
    int (*gemm_strided_batched_ex)(Handle, int, int, int, int, int, const void*, const void*, int, int, long long, const void*,
                                   int, int, long long, const void*, void*, int, int, long long, int, int, int) = nullptr;

    int (*lt_create)(LtHandle*) = nullptr;
    int (*lt_destroy)(LtHandle) = nullptr;
    int (*lt_desc_create)(LtDescriptor*, int, int) = nullptr;
    int (*lt_desc_destroy)(LtDescriptor) = nullptr;
    int (*lt_desc_set)(LtDescriptor, int, const void*, std::size_t) = nullptr;
    int (*lt_layout_create)(LtLayout*, int, std::uint64_t, std::uint64_t, std::int64_t) = nullptr;
    int (*lt_layout_destroy)(LtLayout) = nullptr;
    int (*lt_layout_set)(LtLayout, int, const void*, std::size_t) = nullptr;
    int (*lt_preference_create)(LtPreference*) = nullptr;
    int (*lt_preference_destroy)(LtPreference) = nullptr;
    int (*lt_preference_set)(LtPreference, int, const void*, std::size_t) = nullptr;
    int (*lt_heuristics)(LtHandle, LtDescriptor, LtLayout, LtLayout, LtLayout, LtLayout, LtPreference, int, LtHeuristic*,
                         int*) = nullptr;
    int (*lt_matmul)(LtHandle, LtDescriptor, const void*, const void*, LtLayout, const void*, LtLayout, const void*, const void*,
                     LtLayout, void*, LtLayout, const LtAlgorithm*, void*, std::size_t, StreamHandle) = nullptr;

    // False if an entry point is missing.
    bool bind(const SharedLibrary& cublas, const SharedLibrary& lt);
};

// The name of a status, such as "CUBLAS_STATUS_NOT_SUPPORTED" for 15.
std::string status_name(int status);
// Throws Error{driver} naming the call unless status is success.
void throw_if_failed(int status, const char* call);

}  // namespace blas

}  // namespace autotune::gpu
