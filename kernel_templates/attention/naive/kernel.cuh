// The simplest attention, in three kernels: all scores to memory, a softmax of each row in place, and the product with the
// values. A thread computes one score, and one element of the output.
// clang-format off
#define AUTOTUNE_KERNEL ${symbol}
#define ATTENTION_PACKED ${packed}
#include "attention/device/call.cuh"
using Element = ${element_type};
constexpr bool tf32 = ${tf32};  // f32 is more exact
constexpr int d = ${d};
constexpr int dv = ${dv};
constexpr bool has_low = ${has_low};
constexpr bool has_high = ${has_high};
constexpr int align_q = ${align_q};
constexpr int align_k = ${align_k};
constexpr int align_v = ${align_v};
constexpr int align_o = ${align_o};
constexpr int block_q = ${block_q};
constexpr int block_k = ${block_k};
constexpr int row_threads = ${row_threads};
constexpr int out_rows = ${out_rows};
// clang-format on
// ---- end of parameters ----

namespace {

constexpr int out_columns = (dv + 31) / 32 * 32;  // the threads of an output row

// The position of a head among all heads of all batches.
struct Head {
    int b, head;
};
__device__ __forceinline__ Head head_of(int number, int q_heads) {
    return {number / q_heads, number % q_heads};
}

struct Largest {
    __device__ f32 operator()(f32 left, f32 right) const { return fmaxf(left, right); }
};
struct Sum {
    __device__ f32 operator()(f32 left, f32 right) const { return left + right; }
};

// A reduction whose result all threads of the block get.
template <class Join>
__device__ f32 joined(f32 mine, const Join& join) {
    __shared__ f32 shared[row_threads];
    __syncthreads();
    shared[threadIdx.x] = mine;
    __syncthreads();
    for (int step = row_threads / 2; step > 0; step /= 2) {
        if (threadIdx.x < step) shared[threadIdx.x] = join(shared[threadIdx.x], shared[threadIdx.x + step]);
        __syncthreads();
    }
    return shared[0];
}

}  // namespace

extern "C" __global__ void __launch_bounds__(block_q* block_k) AUTOTUNE_ENTRY(_scores)(ATTENTION_PARAMETERS, f32* scores) {
    const attention::Call<Element> call = ATTENTION_CALL;
    const int tiles_q = (q_len + block_q - 1) / block_q;
    const int tiles_k = (kv_len + block_k - 1) / block_k;
    const int number = blockIdx.x / (tiles_q * tiles_k);
    const int tile = blockIdx.x % (tiles_q * tiles_k);
    const int row = tile / tiles_k * block_q + threadIdx.x / block_k;
    const int key = tile % tiles_k * block_k + threadIdx.x % block_k;
    const Head at = head_of(number, q_heads);
    const attention::Call<Element> one = call.of_batch(at.b);
    if (row >= one.q_len || key >= one.kv_len) return;
    f32 score = attention::minus_infinity();
    if (one.mask<has_low, has_high>().sees(row, key)) {
        const Element* const a = one.q + one.q_strides.of_head(at.b, at.head) + row * q_row;
        const Element* const b = one.k + one.k_strides.of_head(at.b, at.head / group) + key * k_row;
        score = 0;
        for (int i = 0; i < d; ++i) score = multiply_add(a[i], b[i], score);
        score *= scale;
    }
    scores[(static_cast<i64>(number) * q_len + row) * kv_len + key] = score;
}

extern "C" __global__ void __launch_bounds__(row_threads) AUTOTUNE_ENTRY(_softmax)(ATTENTION_PARAMETERS, f32* scores) {
    const attention::Call<Element> call = ATTENTION_CALL;
    const i64 rows = static_cast<i64>(batches) * q_heads * q_len;
    for (i64 row = blockIdx.x; row < rows; row += gridDim.x) {
        const Head at = head_of(static_cast<int>(row / q_len), q_heads);
        const int in_head = static_cast<int>(row % q_len);
        const attention::Call<Element> one = call.of_batch(at.b);
        if (in_head >= one.q_len) continue;
        f32* const x = scores + row * kv_len;
        f32 peak = attention::minus_infinity();
        for (int i = threadIdx.x; i < one.kv_len; i += row_threads) peak = fmaxf(peak, x[i]);
        peak = joined(peak, Largest());
        if (peak == attention::minus_infinity()) peak = 0;
        f32 sum = 0;
        for (int i = threadIdx.x; i < one.kv_len; i += row_threads) {
            const f32 weight = expf(x[i] - peak);
            x[i] = weight;
            sum += weight;
        }
        sum = joined(sum, Sum());
        const f32 inverse = attention::inverse_of(sum);
        for (int i = threadIdx.x; i < one.kv_len; i += row_threads) x[i] *= inverse;
        if (lse != nullptr && threadIdx.x == 0) lse[one.line_of_head(at.b, at.head) + in_head] = attention::log_sum_exp(peak, sum, 1.0F);
    }
}

extern "C" __global__ void __launch_bounds__(out_columns* out_rows) AUTOTUNE_ENTRY()(ATTENTION_PARAMETERS, const f32* weights) {
    const attention::Call<Element> call = ATTENTION_CALL;
    const int tiles = (q_len + out_rows - 1) / out_rows;
    const int number = blockIdx.x / tiles;
    const int row = blockIdx.x % tiles * out_rows + threadIdx.x / out_columns;
    const int column = threadIdx.x % out_columns;
    const Head at = head_of(number, q_heads);
    const attention::Call<Element> one = call.of_batch(at.b);
    if (row >= one.q_len || column >= dv) return;
    const Element* const values = one.v + one.v_strides.of_head(at.b, at.head / group) + column;
    const f32* const weight = weights + (static_cast<i64>(number) * q_len + row) * kv_len;
    f32 sum = 0;
    for (int key = 0; key < one.kv_len; ++key) sum = __fmaf_rn(weight[key], to_f32(values[key * v_row]), sum);
    one.o[one.o_strides.of_head(at.b, at.head) + row * o_row + column] = from_f32<Element>(sum);
}
