// The reference of every negate family: y = -x in f64, which represents it exactly.
#define AUTOTUNE_KERNEL ${symbol}
#include "common/types.cuh"
using Element = ${element_type};
// ---- end of parameters ----

extern "C" __global__ void AUTOTUNE_ENTRY()(const Element* x, f64* expected, f64* bound, i64 n) {
    const i64 i = static_cast<i64>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i >= n) return;
    expected[i] = -to_f64(x[i]);
    bound[i] = 0;  // the bits must be equal
}
