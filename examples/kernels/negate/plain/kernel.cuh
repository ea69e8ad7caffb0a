// y = -x, one element a thread.
#include "common/types.cuh"
// clang-format off
#define AUTOTUNE_KERNEL ${symbol}
constexpr int threads = ${threads};
// clang-format on
// ---- end of parameters ----

extern "C" __global__ void __launch_bounds__(threads) AUTOTUNE_ENTRY()(const f32* x, f32* y, i64 n) {
    const i64 i = static_cast<i64>(blockIdx.x) * threads + threadIdx.x;
    if (i < n) y[i] = -x[i];
}
