#pragma once
// Computes C from the partial sums that split-K left in the workspace: f32, rows padded to four elements, added in the order of
// the parts. Needs common/types.cuh and reads_c.

// A thread computes four elements of a row.
extern "C" __global__ void __launch_bounds__(256)
    AUTOTUNE_ENTRY(_reduce)(const f32* partial, f32* c, float alpha, float beta, int m, int n, i64 ldc, int batch, i64 stride_c,
                            int split_k) {
    if constexpr (!reads_c) beta = 0;
    const int quads = (n + 3) / 4;
    const i64 count = static_cast<i64>(batch) * m * quads;
    const i64 index = blockIdx.x * 256ll + threadIdx.x;
    if (index >= count) return;
    const float4* from = reinterpret_cast<const float4*>(partial) + index;
    float4 sum = from[0];
    for (int split = 1; split < split_k; ++split) {
        const float4 next = from[split * count];
        sum = make_float4(sum.x + next.x, sum.y + next.y, sum.z + next.z, sum.w + next.w);
    }
    const i64 row = index / quads;
    const int col = static_cast<int>(index % quads) * 4;
    f32* to = c + row / m * stride_c + row % m * ldc + col;
    const float values[4] = {alpha * sum.x, alpha * sum.y, alpha * sum.z, alpha * sum.w};
#pragma unroll
    for (int e = 0; e < 4; ++e) {
        if (col + e >= n) break;
        to[e] = beta != 0 ? values[e] + beta * to[e] : values[e];
    }
}
