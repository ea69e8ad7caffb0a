// The reference of every attention family, independent of them. A block takes eight queries of a head and goes twice over the
// keys that they see, in f64: first for the peak of the scores, then for the weights and weighted values.
#define ATTENTION_PACKED ${packed}
#include "attention/device/call.cuh"
// clang-format off
#define AUTOTUNE_KERNEL ${symbol}
using Element = ${element_type};
constexpr int d = ${d};
constexpr int dv = ${dv};
constexpr bool has_low = ${has_low};
constexpr bool has_high = ${has_high};
// clang-format on
// ---- end of parameters ----

namespace {

constexpr int threads = 256;
constexpr int rows = 8;               // rows for each block
constexpr int groups = threads / dv;  // this many groups of threads share the keys in the weighted sums

struct Bounds {
    f64 weight, per_product, per_exponent, least_weight, output, least, lse;
};

struct Answers {
    f64 *o, *o_bound, *lse, *lse_bound;  // lse may be null
};

__device__ f64 infinity() {
    return __longlong_as_double(0x7FF0000000000000LL);
}
__device__ bool is_finite(f64 x) {
    return fabs(x) < infinity();
}

// The largest number of all threads, returned to each of them.
__device__ f64 largest_of(f64 mine, f64* shared) {
    __syncthreads();
    shared[threadIdx.x] = mine;
    __syncthreads();
    for (int step = threads / 2; step > 0; step /= 2) {
        if (threadIdx.x < step) shared[threadIdx.x] = fmax(shared[threadIdx.x], shared[threadIdx.x + step]);
        __syncthreads();
    }
    return shared[0];
}

struct Shared {
    f64 q[rows][d];
    f64 weights[rows][threads];
    f64 line[threads];
    f64 sums[threads];
};

// Scores of one key with all rows of the block: scale q k, and scale |q||k|.
struct Scores {
    f64 x[rows], magnitude[rows];

    __device__ void compute(const Shared& shared, const Element* k, f64 scale) {
#pragma unroll
        for (int r = 0; r < rows; ++r) x[r] = magnitude[r] = 0;
        for (int i = 0; i < d; ++i) {
            const f64 value = to_f64(k[i]);
#pragma unroll
            for (int r = 0; r < rows; ++r) {
                x[r] = fma(shared.q[r][i], value, x[r]);
                magnitude[r] += fabs(shared.q[r][i] * value);
            }
        }
#pragma unroll
        for (int r = 0; r < rows; ++r) {
            x[r] *= scale;
            magnitude[r] *= scale;
        }
    }
};

struct Tile {
    const Element *k, *v;  // the keys and values of the head
    i64 k_row, v_row;
    int first, count;  // rows
    attention::Mask<has_low, has_high> mask;
    f64 scale;
};

__device__ void judge(Shared& shared, const Tile& tile, const Bounds& bounds, const Answers& to, i64 line) {
    const int begin = tile.mask.first_key(tile.first);
    const int end = tile.mask.end_key(tile.first + tile.count - 1);
    f64 peak[rows], product[rows], exponent[rows];
#pragma unroll
    for (int r = 0; r < rows; ++r) {
        peak[r] = -infinity();
        product[r] = exponent[r] = 0;
    }
    for (int key = begin + static_cast<int>(threadIdx.x); key < end; key += threads) {
        Scores scores;
        scores.compute(shared, tile.k + key * tile.k_row, tile.scale);
#pragma unroll
        for (int r = 0; r < rows; ++r) {
            if (r >= tile.count || !tile.mask.sees(tile.first + r, key) || !is_finite(scores.x[r])) continue;
            peak[r] = fmax(peak[r], scores.x[r]);
            product[r] = fmax(product[r], scores.magnitude[r]);
            exponent[r] = fmax(exponent[r], fabs(scores.x[r]));
        }
    }
    // One copy of the code for all rows, because eight compile for half a second longer. Arrays that such a loop indexes live in
    // memory, so it works on copies.
    f64 peak_of[rows], product_of[rows], exponent_of[rows], of_scores_of[rows];
#pragma unroll
    for (int r = 0; r < rows; ++r) {
        peak_of[r] = peak[r];
        product_of[r] = product[r];
        exponent_of[r] = exponent[r];
    }
#pragma unroll 1
    for (int r = 0; r < rows; ++r) {
        const f64 largest = largest_of(peak_of[r], shared.line);
        peak_of[r] = largest == -infinity() ? 0.0 : largest;
        const f64 largest_product = largest_of(product_of[r], shared.line);
        of_scores_of[r] = bounds.per_product * largest_product + bounds.per_exponent * largest_of(exponent_of[r], shared.line);
    }
    f64 of_scores[rows];
#pragma unroll
    for (int r = 0; r < rows; ++r) {
        peak[r] = peak_of[r];
        of_scores[r] = of_scores_of[r];
    }

    f64 sum[rows], value_sum[rows], magnitude[rows];
#pragma unroll
    for (int r = 0; r < rows; ++r) sum[r] = value_sum[r] = magnitude[r] = 0;
    const int group = threadIdx.x / dv;
    const int column = threadIdx.x % dv;
    for (int first = begin; first < end; first += threads) {
        const int key = first + static_cast<int>(threadIdx.x);
        __syncthreads();
        if (key < end) {
            Scores scores;
            scores.compute(shared, tile.k + key * tile.k_row, tile.scale);
#pragma unroll
            for (int r = 0; r < rows; ++r) {
                const f64 x = scores.x[r];
                const bool is_seen = r < tile.count && tile.mask.sees(tile.first + r, key);
                f64 weight = 0;
                if (is_seen) weight = x == -infinity() ? 0.0 : is_finite(x) ? exp(x - peak[r]) : infinity() - infinity();
                shared.weights[r][threadIdx.x] = is_seen ? weight : -1.0;
                sum[r] += weight;
            }
        }
        __syncthreads();
        if (group >= groups) continue;
        const int count = end - first < threads ? end - first : threads;
        for (int i = group; i < count; i += groups) {
            const f64 value = to_f64(tile.v[(first + i) * tile.v_row + column]);
#pragma unroll
            for (int r = 0; r < rows; ++r) {
                const f64 weight = shared.weights[r][i];
                if (weight == -1.0) continue;  // the key is not seen, so its value does not matter
                value_sum[r] += weight * value;
                magnitude[r] += (weight * (bounds.weight + of_scores[r]) + bounds.least_weight) * fabs(value);
            }
        }
    }

    f64 sum_of[rows], value_sum_of[rows], magnitude_of[rows];
#pragma unroll
    for (int r = 0; r < rows; ++r) {
        sum_of[r] = sum[r];
        value_sum_of[r] = value_sum[r];
        magnitude_of[r] = magnitude[r];
    }
#pragma unroll 1
    for (int r = 0; r < tile.count; ++r) {
        __syncthreads();
        shared.line[threadIdx.x] = sum_of[r];
        __syncthreads();
        f64 total = 0;
        for (int i = 0; i < threads; ++i) total += shared.line[i];
        __syncthreads();
        shared.line[threadIdx.x] = value_sum_of[r];
        shared.sums[threadIdx.x] = magnitude_of[r];
        __syncthreads();
        const f64 inverse = total == 0.0 ? 0.0 : 1.0 / total;
        if (threadIdx.x < dv) {
            f64 value = 0, error = 0;
            for (int g = 0; g < groups; ++g) {
                value += shared.line[g * dv + threadIdx.x];
                error += shared.sums[g * dv + threadIdx.x];
            }
            const i64 at = (line + r) * dv + threadIdx.x;
            to.o[at] = value * inverse;
            to.o_bound[at] = error * inverse + bounds.output * fabs(value * inverse) + bounds.least;
        }
        if (threadIdx.x == 0 && to.lse != nullptr) {
            const f64 lse = total == 0.0 ? -infinity() : peak_of[r] + log(total);
            to.lse[line + r] = lse;
            to.lse_bound[line + r] = of_scores_of[r] + bounds.lse * (1.0 + (total == 0.0 ? 0.0 : fabs(lse)));
        }
    }
}

}  // namespace

extern "C" __global__ void AUTOTUNE_ENTRY()(ATTENTION_PARAMETERS, f64* o_right, f64* o_bound, f64* lse_right, f64* lse_bound,
                                            int has_lse, f32 weight, f32 per_product, f32 per_exponent, f32 least_weight,
                                            f32 output, f32 least, f32 lse_relative) {
    __shared__ Shared shared;
    const attention::Call<Element> call = ATTENTION_CALL;
    const Bounds bounds = {weight, per_product, per_exponent, least_weight, output, least, lse_relative};
    const Answers to = {o_right, o_bound, has_lse != 0 ? lse_right : nullptr, lse_bound};
    const int tiles_of_head = (q_len + rows - 1) / rows;
    const i64 tiles = static_cast<i64>(batches) * q_heads * tiles_of_head;
    for (i64 at = blockIdx.x; at < tiles; at += gridDim.x) {
        const i64 line = at / tiles_of_head;  // the number of the head among the heads of all batches
        const int head = static_cast<int>(line % q_heads);
        const int b = static_cast<int>(line / q_heads);
        const int first = static_cast<int>(at % tiles_of_head) * rows;
        const attention::Call<Element> one = call.of_batch(b);
        const int count = one.q_len - first < rows ? one.q_len - first : rows;
        if (count <= 0) continue;
        __syncthreads();
        for (int i = threadIdx.x; i < rows * d; i += threads) {
            const int row = first + (i / d < count ? i / d : 0);
            shared.q[i / d][i % d] = to_f64(one.q[one.q_strides.of_head(b, head) + row * one.q_strides.row + i % d]);
        }
        __syncthreads();
        const Tile tile = {one.k + one.k_strides.of_head(b, head / group),
                           one.v + one.v_strides.of_head(b, head / group),
                           k_row,
                           v_row,
                           first,
                           count,
                           one.mask<has_low, has_high>(),
                           static_cast<f64>(scale)};
        judge(shared, tile, bounds, to, one.line_of_head(b, head) + first);
    }
}
