// The reference of every family of attention's gradients, independent of them, in f64: first delta of each row; then a block
// takes four queries and goes over the keys that they see, for dq, or four keys and goes over the queries that see them, for dk
// and dv.
#include "attention_bwd/device/bwd_call.cuh"
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

constexpr int threads = 128;
constexpr int rows = 4;                                               // rows for each block
constexpr int columns = ((d > dv ? d : dv) + threads - 1) / threads;  // columns for each thread
using attention::Strides;

struct Bounds {
    f64 weight, product, exponent, output, least;
};

struct Delta {
    f64 value, size;
};

struct Shared {
    f64 left[rows][d], right[rows][dv];  // the block's own rows: of q and do, or of k and v
    f64 p[rows][threads], p_error[rows][threads], ps[rows][threads], ps_error[rows][threads];
};

// The logarithm of a row's sum, and its delta.
struct RowFacts {
    f64 lse;
    Delta delta;
};

// Products of the block's rows with another row, and of their absolute values.
struct Products {
    f64 value[rows], size[rows];

    template <int n>
    __device__ void of(const f64 (&own)[rows][n], const Element* other) {
#pragma unroll
        for (int r = 0; r < rows; ++r) value[r] = size[r] = 0;
#pragma unroll 1
        for (int i = 0; i < n; ++i) {
            const f64 factor = to_f64(other[i]);
#pragma unroll
            for (int r = 0; r < rows; ++r) {
                const f64 term = own[r][i] * factor;
                value[r] += term;
                size[r] += fabs(term);
            }
        }
    }
};

// Evaluates the thread's other row against the block's rows; pairs that do not see each other have no weight.
__device__ void judge_rows(Shared& shared, const bool (&is_seen)[rows], const Element* left, const Element* right,
                           const RowFacts (&facts)[rows], f64 scale, const Bounds& bounds) {
    bool any = false;
#pragma unroll
    for (int r = 0; r < rows; ++r) any = any || is_seen[r];
    Products scores, dp;
    if (any) {
        scores.of(shared.left, left);
        dp.of(shared.right, right);
    }
#pragma unroll
    for (int r = 0; r < rows; ++r) {
        f64 p = 0, p_error = 0, ps = 0, ps_error = 0;
        if (is_seen[r]) {
            const f64 x = scale * scores.value[r], s = dp.value[r] - facts[r].delta.value;
            const f64 off =
                bounds.weight + bounds.exponent * (fabs(x) + fabs(facts[r].lse)) + bounds.product * scale * scores.size[r];
            p = exp(x - facts[r].lse);
            p_error = p * off;
            ps = p * s;
            ps_error = p * (off * fabs(s) + bounds.product * (dp.size[r] + facts[r].delta.size));
        }
        shared.p[r][threadIdx.x] = p;
        shared.p_error[r][threadIdx.x] = p_error;
        shared.ps[r][threadIdx.x] = ps;
        shared.ps_error[r][threadIdx.x] = ps_error;
    }
}

// Sums of a column over all rows that the block visits.
struct ColumnSums {
    f64 value[rows], error[rows];

    __device__ void clear() {
        for (int r = 0; r < rows; ++r) value[r] = error[r] = 0;
    }
    __device__ void store(f64* to, f64* bound, i64 first, int count, int width, int column, f64 scale,
                          const Bounds& bounds) const {
        for (int r = 0; r < count; ++r) {
            const f64 right = value[r] * scale;
            to[(first + r) * width + column] = right;
            bound[(first + r) * width + column] = error[r] * scale + bounds.output * fabs(right) + bounds.least;
        }
    }
};

__device__ f64 minus_infinity() {
    return -__longlong_as_double(0x7FF0000000000000LL);
}

__device__ void add(ColumnSums& sums, const f64 (&weights)[rows][threads], const f64 (&errors)[rows][threads], int i,
                    f64 factor) {
#pragma unroll
    for (int r = 0; r < rows; ++r) {
        sums.value[r] += weights[r][i] * factor;
        sums.error[r] += errors[r][i] * fabs(factor);
    }
}

}  // namespace

#define OUTPUTS                                                                                                          \
    Delta *deltas, f64 *dq_right, f64 *dq_bound, f64 *dk_right, f64 *dk_bound, f64 *dv_right, f64 *dv_bound, f32 weight, \
        f32 product, f32 exponent, f32 output, f32 least

extern "C" __global__ void AUTOTUNE_ENTRY(_delta)(ATTENTION_BWD_PARAMETERS, OUTPUTS) {
    __shared__ f64 value[threads], size[threads];
    const i64 all = static_cast<i64>(batches) * q_heads * q_len;
    for (i64 line = blockIdx.x; line < all; line += gridDim.x) {
        const i64 row = line % q_len, head = line / q_len % q_heads, b = line / q_len / q_heads;
        value[threadIdx.x] = size[threadIdx.x] = 0;
#pragma unroll 1
        for (int i = threadIdx.x; i < dv; i += threads) {
            const f64 term = to_f64(o[b * o_batch + head * o_head + row * o_row + i]) *
                             to_f64(d_o[b * do_batch + head * do_head + row * do_row + i]);
            value[threadIdx.x] += term;
            size[threadIdx.x] += fabs(term);
        }
        __syncthreads();
        if (threadIdx.x == 0) {
            Delta sum = {0, 0};
#pragma unroll 1
            for (int i = 0; i < threads; ++i) {
                sum.value += value[i];
                sum.size += size[i];
            }
            deltas[line] = sum;
        }
        __syncthreads();
    }
}

extern "C" __global__ void AUTOTUNE_ENTRY(_queries)(ATTENTION_BWD_PARAMETERS, OUTPUTS) {
    __shared__ Shared shared;
    const attention::BwdCall<Element> call = ATTENTION_BWD_CALL;
    const auto mask = call.forward.mask<has_low, has_high>();
    const Bounds bounds = {weight, product, exponent, output, least};
    const int tiles_of_head = (q_len + rows - 1) / rows;
    const i64 tiles = static_cast<i64>(batches) * q_heads * tiles_of_head;
    for (i64 at = blockIdx.x; at < tiles; at += gridDim.x) {
        const i64 line = at / tiles_of_head;  // the number of the head among the heads of all batches
        const int head = static_cast<int>(line % q_heads), b = static_cast<int>(line / q_heads);
        const int first = static_cast<int>(at % tiles_of_head) * rows;
        const int count = min(q_len - first, rows);
        __syncthreads();
        for (int r = 0; r < count; ++r) {
            const Element* const query = q + call.forward.q_strides.of_head(b, head) + (first + r) * q_row;
            const Element* const gradient = d_o + call.do_strides.of_head(b, head) + (first + r) * do_row;
#pragma unroll 1
            for (int i = threadIdx.x; i < d; i += threads) shared.left[r][i] = to_f64(query[i]);
#pragma unroll 1
            for (int i = threadIdx.x; i < dv; i += threads) shared.right[r][i] = to_f64(gradient[i]);
        }
        ColumnSums sums[columns];
        for (int c = 0; c < columns; ++c) sums[c].clear();
        const Element* const keys = k + call.forward.k_strides.of_head(b, head / group);
        const Element* const values = v + call.forward.v_strides.of_head(b, head / group);
        const int end = mask.end_key(first + count - 1);
        for (int begin = mask.first_key(first); begin < end; begin += threads) {
            const int key = begin + static_cast<int>(threadIdx.x);
            __syncthreads();
            bool is_seen[rows];
            RowFacts facts[rows];
#pragma unroll
            for (int r = 0; r < rows; ++r) {
                const i64 row = line * q_len + first + r;
                is_seen[r] = r < count && key < end && mask.sees(first + r, key) && lse[row] != minus_infinity();
                if (is_seen[r]) facts[r] = {lse[row], deltas[row]};
            }
            judge_rows(shared, is_seen, keys + key * k_row, values + key * v_row, facts, scale, bounds);
            __syncthreads();
            const int here = min(end - begin, threads);
            for (int c = 0; c < columns; ++c) {
                const int column = c * threads + static_cast<int>(threadIdx.x);
                if (column >= d) continue;
#pragma unroll 1
                for (int i = 0; i < here; ++i)
                    add(sums[c], shared.ps, shared.ps_error, i, to_f64(keys[(begin + i) * k_row + column]));
            }
        }
        for (int c = 0; c < columns; ++c) {
            const int column = c * threads + static_cast<int>(threadIdx.x);
            if (column < d) sums[c].store(dq_right, dq_bound, line * q_len + first, count, d, column, scale, bounds);
        }
    }
}

extern "C" __global__ void AUTOTUNE_ENTRY()(ATTENTION_BWD_PARAMETERS, OUTPUTS) {
    __shared__ Shared shared;
    const attention::BwdCall<Element> call = ATTENTION_BWD_CALL;
    const auto mask = call.forward.mask<has_low, has_high>();
    const auto seen = attention::seen_from_keys(mask, q_len);
    const Bounds bounds = {weight, product, exponent, output, least};
    const int kv_heads = q_heads / group;
    const int tiles_of_head = (kv_len + rows - 1) / rows;
    const i64 tiles = static_cast<i64>(batches) * kv_heads * tiles_of_head;
    for (i64 at = blockIdx.x; at < tiles; at += gridDim.x) {
        const i64 line = at / tiles_of_head;  // the number of the head of keys among those of all batches
        const int kv_head = static_cast<int>(line % kv_heads), b = static_cast<int>(line / kv_heads);
        const int first = static_cast<int>(at % tiles_of_head) * rows;
        const int count = min(kv_len - first, rows);
        __syncthreads();
        for (int r = 0; r < count; ++r) {
            const Element* const key = k + call.forward.k_strides.of_head(b, kv_head) + (first + r) * k_row;
            const Element* const value = v + call.forward.v_strides.of_head(b, kv_head) + (first + r) * v_row;
#pragma unroll 1
            for (int i = threadIdx.x; i < d; i += threads) shared.left[r][i] = to_f64(key[i]);
#pragma unroll 1
            for (int i = threadIdx.x; i < dv; i += threads) shared.right[r][i] = to_f64(value[i]);
        }
        ColumnSums of_keys[columns], of_values[columns];
        for (int c = 0; c < columns; ++c) {
            of_keys[c].clear();
            of_values[c].clear();
        }
        for (int head = kv_head * group; head < (kv_head + 1) * group; ++head) {
            const Element* const queries = q + call.forward.q_strides.of_head(b, head);
            const Element* const gradients = d_o + call.do_strides.of_head(b, head);
            const i64 first_line = (static_cast<i64>(b) * q_heads + head) * q_len;
            const int end = seen.end_key(first + count - 1);
            for (int begin = seen.first_key(first); begin < end; begin += threads) {
                const int row = begin + static_cast<int>(threadIdx.x);
                __syncthreads();
                bool is_seen[rows];
                RowFacts facts[rows];
#pragma unroll
                for (int r = 0; r < rows; ++r) {
                    is_seen[r] =
                        r < count && row < end && mask.sees(row, first + r) && lse[first_line + row] != minus_infinity();
                    if (is_seen[r]) facts[r] = {lse[first_line + row], deltas[first_line + row]};
                }
                judge_rows(shared, is_seen, queries + row * q_row, gradients + row * do_row, facts, scale, bounds);
                __syncthreads();
                const int here = min(end - begin, threads);
                for (int c = 0; c < columns; ++c) {
                    const int column = c * threads + static_cast<int>(threadIdx.x);
#pragma unroll 1
                    for (int i = 0; i < here; ++i) {
                        if (column < d)
                            add(of_keys[c], shared.ps, shared.ps_error, i, to_f64(queries[(begin + i) * q_row + column]));
                        if (column < dv)
                            add(of_values[c], shared.p, shared.p_error, i, to_f64(gradients[(begin + i) * do_row + column]));
                    }
                }
            }
        }
        for (int c = 0; c < columns; ++c) {
            const int column = c * threads + static_cast<int>(threadIdx.x);
            if (column < d) of_keys[c].store(dk_right, dk_bound, line * kv_len + first, count, d, column, scale, bounds);
            if (column < dv) of_values[c].store(dv_right, dv_bound, line * kv_len + first, count, dv, column, 1.0, bounds);
        }
    }
}
