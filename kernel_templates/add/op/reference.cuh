// The reference of every add family, independent of them: sums in f64. Their rounding error does not change the result of
// rounding to a narrower type.
#define AUTOTUNE_KERNEL ${symbol}
#include "common/types.cuh"
using Element = ${element_type};
// ---- end of parameters ----

extern "C" __global__ void AUTOTUNE_ENTRY()(const Element* a, const Element* b, f64* expected, f64* bound, float value, float floor,
                                            i64 n) {
    const i64 step = static_cast<i64>(gridDim.x) * blockDim.x;
    for (i64 i = static_cast<i64>(blockIdx.x) * blockDim.x + threadIdx.x; i < n; i += step) {
        const f64 sum = to_f64(a[i]) + to_f64(b[i]);
        expected[i] = sum;
        bound[i] = value * fabs(sum) + floor;
    }
}
