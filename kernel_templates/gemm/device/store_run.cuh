#pragma once
// Finishes a gemm: alpha times a run of sums, plus beta times C, rounded once. Needs common/types.cuh.

namespace {

// `valid` of `width` neighbouring elements of a row of C exist; the others are not read. REQUIRES: `c` is aligned to the run.
template <int width, class Out>
__device__ __forceinline__ Pack<Out, width> read_run(const Out* c, int valid) {
    if (valid >= width) return load_pack<Out, width>(c);
    Pack<Out, width> run;
#pragma unroll
    for (int j = 0; j < width; ++j) {
        if (j < valid) run.at[j] = c[j];
    }
    return run;
}

// `before` are the old values of C, which are ignored if beta is 0.
template <int width, class Acc, class Out>
__device__ __forceinline__ void store_run(const Acc* sums, const Pack<Out, width>& before, Out* c, f32 alpha, f32 beta, int valid) {
    if (valid <= 0) return;
    const bool is_whole = valid >= width;
    Pack<Out, width> pack;
#pragma unroll
    for (int j = 0; j < width; ++j) {
        f32 value = alpha * to_f32(sums[j]);
        if (beta != 0.0F) value += beta * to_f32(before.at[j]);
        pack.at[j] = from_f32<Out>(value);
        if (!is_whole && j < valid) c[j] = pack.at[j];
    }
    if (is_whole) store_pack<Out, width>(c, pack);
}

// Reads the old values of C itself.
template <int width, class Acc, class Out>
__device__ __forceinline__ void store_run(const Acc* sums, Out* c, f32 alpha, f32 beta, int valid) {
    if (valid <= 0) return;  // Returns before the read: otherwise the compiler reads all of a tile first, and spills.
    Pack<Out, width> before;
    if (beta != 0.0F) before = read_run<width>(c, valid);
    store_run<width>(sums, before, c, alpha, beta, valid);
}

}  // namespace
