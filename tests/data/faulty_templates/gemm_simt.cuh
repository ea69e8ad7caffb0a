// A template with gemm/simt's parameters that has a fault in some configs. The tuner must survive, name and remember each fault
// (tests/tuner/verify/faulty_templates_gpu_test.cpp, which puts the family's first block above this). It computes one element
// after another; every loop ends by itself within kLongest_us.
#include "common/ptx.cuh"
#include "common/types.cuh"

namespace {

enum class Fault {
    none,
    out_of_resources,
    spill,
    illegal_address,
    misaligned_address,
    trap,
    spin,
    barrier,
    red_zone,
    one_element,
    one_in_a_hundred,
    nondeterministic,
    stale,
    unset_shared
};

// The fault in the order above, selected by parameters that have no other effect here. With two buffers there is no fault.
__device__ constexpr Fault fault_of(int depth, int pad, int width) {
    const int column = width == 1 ? 1 : width == 2 ? 2 : width == 4 ? 3 : 4;
    const int number = (depth == 32 ? 8 : 0) + (pad == 8 ? 4 : 0) + column;
    return depth == 8 || stages == 2 || number > static_cast<int>(Fault::unset_shared) ? Fault::none : static_cast<Fault>(number);
}
constexpr Fault fault = fault_of(block_k, smem_pad, vec);

constexpr int threads_n = block_n / thread_n;
constexpr int threads = block_m / thread_m * threads_n;
constexpr u64 kLongest_us = 8000000;

__device__ u64 now_ns() {
    u64 now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    return now;
}

__device__ void wait_us(u64 us) {
    const u64 begun = now_ns();
    while (now_ns() - begun < us * 1000) {
    }
}

// Evenly distributed, different at each call.
__device__ u32 dice() {
    const u64 mixed = (static_cast<u64>(clock64()) ^ now_ns()) * 0x9E3779B97F4A7C15ull;
    return static_cast<u32>((mixed ^ mixed >> 29) * 0xBF58476D1CE4E5B9ull >> 40);
}

// Occupies `count` registers at once: all are read before the barrier, and none can be used before the data read after it. Never
// negative.
template <int count>
__device__ f32 hold_registers(const void* from) {
    const volatile u32* const words = static_cast<const volatile u32*>(from);
    u32 held[count];
#pragma unroll
    for (int i = 0; i < count; ++i) held[i] = words[i];
    __syncthreads();
    f32 sum = static_cast<f32>(words[count]);
#pragma unroll
    for (int i = 0; i < count; ++i) sum = __fmaf_rn(sum, 0.5F, static_cast<f32>(held[i]));
    return sum;
}

// A barrier for two threads at which only one arrives.
__device__ void wait_for_nobody() {
    __shared__ __align__(8) u64 barrier;
    const u32 address = ptx::shared_address(&barrier);
    if (threadIdx.x == 0) {
        ptx::mbarrier_init(address, 2);
        ptx::mbarrier_arrive(address);
        const u64 begun = now_ns();
        while (!ptx::mbarrier_is_over(address, 0) && now_ns() - begun < kLongest_us * 1000) {
        }
    }
    __syncthreads();
}

__device__ void misbehave_before(const In* a) {
    if constexpr (fault == Fault::spill) {
        if (hold_registers<280>(a) < 0) asm volatile("trap;");
    }
    if constexpr (fault == Fault::illegal_address) *reinterpret_cast<volatile u32*>(16) = 1;
    if constexpr (fault == Fault::misaligned_address) {
        const u32 read = *reinterpret_cast<const volatile u32*>(reinterpret_cast<const char*>(a) + 1);
        asm volatile("" ::"r"(read));
    }
    if constexpr (fault == Fault::trap) asm volatile("trap;");
    if constexpr (fault == Fault::spin) wait_us(kLongest_us);
    if constexpr (fault == Fault::barrier) wait_for_nobody();
    // The config that is rarely wrong is the fastest, so only a check with many runs keeps it from winning.
    if constexpr (fault != Fault::one_in_a_hundred) wait_us(500);
}

// Added to the element in the middle.
__device__ f32 error_now() {
    if constexpr (fault == Fault::one_element) return 1;
    if constexpr (fault == Fault::one_in_a_hundred) return dice() % 100 == 0 ? 1 : 0;
    if constexpr (fault == Fault::nondeterministic) return static_cast<f32>(1 + dice() % 64);
    if constexpr (fault == Fault::unset_shared) {
        __shared__ f32 unset[1024];
        return const_cast<volatile f32*>(unset)[threadIdx.x];
    }
    return 0;
}

}  // namespace

extern "C" __global__ void __launch_bounds__(fault == Fault::out_of_resources ? 128 : threads)
    AUTOTUNE_ENTRY()(const In* a, const In* b, Out* c, float alpha, float beta, int m, int n, int k, i64 lda, i64 ldb, i64 ldc,
                     int batch, i64 stride_a, i64 stride_b, i64 stride_c, void*) {
    misbehave_before(a);
    if constexpr (fault == Fault::stale) return;
    const i64 tiles_n = (n + block_n - 1) / block_n;
    const i64 tiles = (m + block_m - 1) / block_m * tiles_n;
    for (i64 at = blockIdx.x; at < tiles * batch; at += gridDim.x) {
        const i64 which = at / tiles;
        const i64 first_row = at % tiles / tiles_n * block_m + static_cast<int>(threadIdx.x) / threads_n * thread_m;
        const i64 first_col = at % tiles_n * block_n + static_cast<int>(threadIdx.x) % threads_n * thread_n;
        for (i64 row = first_row; row < smaller<i64>(first_row + thread_m, m); ++row) {
            for (i64 col = first_col; col < smaller<i64>(first_col + thread_n, n); ++col) {
                Acc sum = zero_of<Acc>();
                for (i64 at_k = 0; at_k < k; ++at_k) {
                    const In left = a[which * stride_a + (trans_a ? at_k * lda + row : row * lda + at_k)];
                    const In right = b[which * stride_b + (trans_b ? col * ldb + at_k : at_k * ldb + col)];
                    sum = multiply_add(left, right, sum);
                }
                Out* const to = c + which * stride_c + row * ldc + col;
                f32 value = alpha * to_f32(sum);
                if (beta != 0.0F) value += beta * to_f32(*to);
                if (row == m / 2 && col == n / 2) value += error_now();
                *to = from_f32<Out>(value);
            }
        }
    }
    if constexpr (fault == Fault::red_zone) {
        if (blockIdx.x == 0 && threadIdx.x == 0) c[(batch - 1) * stride_c + (m - 1) * ldc + n] = from_f32<Out>(1.0F);
    }
}
