// The reference of every softmax family, independent of them: a block for each row, in f64, in three passes.
#include "common/types.cuh"
// clang-format off
#define AUTOTUNE_KERNEL ${symbol}
using Element = ${element_type};
// clang-format on
// ---- end of parameters ----

namespace {

constexpr int most_threads = 256;

struct Bounds {
    f64 relative, per_exponent, least, lse;
};

__device__ f64 infinity() {
    return __longlong_as_double(0x7FF0000000000000LL);
}

struct Largest {
    __device__ f64 operator()(f64 left, f64 right) const { return left < right ? right : left; }
};
struct Sum {
    __device__ f64 operator()(f64 left, f64 right) const { return left + right; }
};

// The joined value, returned to every thread of the block.
template <class Join>
__device__ f64 joined(f64 mine, const Join& join) {
    __shared__ f64 shared[most_threads];
    __syncthreads();
    shared[threadIdx.x] = mine;
    __syncthreads();
    for (int step = most_threads / 2; step > 0; step /= 2) {
        if (threadIdx.x < step) shared[threadIdx.x] = join(shared[threadIdx.x], shared[threadIdx.x + step]);
        __syncthreads();
    }
    return shared[0];
}

// A row whose values are all -inf has no weight: its results are 0, and the logarithm of its sum is -inf. In a row with a NaN or
// +inf all results are NaN.
__device__ void judge_row(const Element* x, i64 cols, f64 scale, const Bounds& bounds, f64* y, f64* y_bound, f64* lse,
                          f64* lse_bound) {
    f64 peak = -infinity();
    for (i64 i = threadIdx.x; i < cols; i += blockDim.x) peak = Largest()(peak, scale * to_f64(x[i]));
    peak = joined(peak, Largest());
    const f64 origin = peak == -infinity() ? 0.0 : peak;
    f64 sum = 0;
    for (i64 i = threadIdx.x; i < cols; i += blockDim.x) sum += exp(scale * to_f64(x[i]) - origin);
    sum = joined(sum, Sum());
    for (i64 i = threadIdx.x; i < cols; i += blockDim.x) {
        const f64 exponent = scale * to_f64(x[i]) - origin;
        const f64 value = sum == 0.0 ? 0.0 : exp(exponent) / sum;
        y[i] = value;
        y_bound[i] =
            value == 0.0 ? bounds.least : value * (bounds.relative + bounds.per_exponent * fabs(exponent)) + bounds.least;
    }
    if (lse != nullptr && threadIdx.x == 0) {
        *lse = sum == 0.0 ? -infinity() : origin + log(sum);
        *lse_bound = bounds.lse * (1.0 + (sum == 0.0 ? 0.0 : fabs(origin)));
    }
}

__device__ void judge(const Element* x, f64* y, f64* y_bound, f64* lse, f64* lse_bound, i64 rows, i64 cols, i64 ldx, f64 scale,
                      const Bounds& bounds) {
    for (i64 row = blockIdx.x; row < rows; row += gridDim.x) {
        const bool wanted = lse != nullptr;
        judge_row(x + row * ldx, cols, scale, bounds, y + row * cols, y_bound + row * cols, wanted ? lse + row : nullptr,
                  wanted ? lse_bound + row : nullptr);
    }
}

}  // namespace

extern "C" __global__ void AUTOTUNE_ENTRY()(const Element* x, f64* expected, f64* bound, i64 rows, i64 cols, i64 ldx, float scale,
                                            float relative, float per_exponent, float least, float lse_relative) {
    judge(x, expected, bound, nullptr, nullptr, rows, cols, ldx, scale, {relative, per_exponent, least, lse_relative});
}

extern "C" __global__ void AUTOTUNE_ENTRY(_lse)(const Element* x, f64* expected, f64* bound, f64* expected_lse, f64* bound_lse,
                                                i64 rows, i64 cols, i64 ldx, float scale, float relative, float per_exponent,
                                                float least, float lse_relative) {
    judge(x, expected, bound, expected_lse, bound_lse, rows, cols, ldx, scale, {relative, per_exponent, least, lse_relative});
}
