// c = a + b, one element per step: a thread adds `unroll` elements that are a block apart.
#include "common/types.cuh"
// clang-format off
#define AUTOTUNE_KERNEL ${symbol}
using Element = ${element_type};         // facts of the problem
constexpr int align_a = ${align_a};
constexpr int align_b = ${align_b};
constexpr int align_c = ${align_c};
constexpr int threads = ${threads};      // compile parameters, under their own names
constexpr int unroll = ${unroll};
// clang-format on
// ---- end of parameters ----
static_assert(threads % 32 == 0, "whole warps");

extern "C" __global__ void __launch_bounds__(threads) AUTOTUNE_ENTRY()(const Element* a, const Element* b, Element* c, i64 n) {
    const i64 first = static_cast<i64>(blockIdx.x) * threads * unroll + threadIdx.x;
#pragma unroll
    for (int i = 0; i < unroll; ++i) {
        const i64 at = first + i * threads;
        if (at < n) c[at] = from_f32<Element>(to_f32(a[at]) + to_f32(b[at]));
    }
}
