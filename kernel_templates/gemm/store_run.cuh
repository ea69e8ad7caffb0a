#pragma once
// The end of a gemm: alpha times a run of sums, plus beta times what C holds, rounded once. Needs common/types.cuh.

namespace {

// `valid` of `width` neighbouring elements of a row of C exist. C is not read where beta is 0. REQUIRES: `c` is aligned to the run.
template <int width, class Acc, class Out>
__device__ __forceinline__ void store_run(const Acc* sums, Out* c, f32 alpha, f32 beta, int valid) {
    if (valid <= 0) return;
    const bool is_whole = valid >= width;
    Pack<Out, width> old;
    if (beta != 0.0F && is_whole) old = load_pack<Out, width>(c);
    Pack<Out, width> pack;
#pragma unroll
    for (int j = 0; j < width; ++j) {
        f32 value = alpha * to_f32(sums[j]);
        if (beta != 0.0F) {
            if (!is_whole && j < valid) old.at[j] = c[j];
            value += beta * to_f32(old.at[j]);
        }
        pack.at[j] = from_f32<Out>(value);
        if (!is_whole && j < valid) c[j] = pack.at[j];
    }
    if (is_whole) store_pack<Out, width>(c, pack);
}

}  // namespace
