// PTX instructions as functions: `cvt.rn.f16.f32 %0, %1` is cvt_rn_f16_f32(operand 0, operand 1). Operands have the order of the
// instruction's text, with vectors flattened. A missing instruction is a compile error that names it.
#pragma once

namespace host_cuda::ptx {

inline unsigned char* shared(u32 address) {
    return host_cuda_shared + static_cast<int>(address);
}

// ---- numbers ----

inline float flushed(float value) {
    return __builtin_fabsf(value) < 1.17549435e-38F ? __builtin_copysignf(0.0F, value) : value;
}
inline void ex2_approx_ftz_f32(float& to, float x) {
    to = flushed(exp2f(flushed(x)));
}
inline void lg2_approx_ftz_f32(float& to, float x) {
    to = log2f(flushed(x));
}
inline void rcp_approx_ftz_f32(float& to, float x) {
    to = flushed(1.0F / flushed(x));
}
inline void sqrt_approx_f32(float& to, float x) {
    to = __builtin_sqrtf(x);
}
inline void cvt_f32_f16(float& to, u16 from) {
    to = host_cuda_machine->from_half(from);
}
inline void cvt_rn_f16_f32(u16& to, float from) {
    to = host_cuda_machine->to_half(static_cast<double>(from));
}
inline void cvt_rn_bf16_f32(u16& to, float from) {
    to = host_cuda_machine->to_bfloat(static_cast<double>(from));
}
inline u32 pair_of(u16 high, u16 low) {
    return static_cast<u32>(high) << 16 | low;
}
inline void cvt_rn_f16x2_f32(u32& to, float high, float low) {
    to = pair_of(host_cuda_machine->to_half(static_cast<double>(high)), host_cuda_machine->to_half(static_cast<double>(low)));
}
inline void cvt_rn_bf16x2_f32(u32& to, float high, float low) {
    to = pair_of(host_cuda_machine->to_bfloat(static_cast<double>(high)), host_cuda_machine->to_bfloat(static_cast<double>(low)));
}
inline void cvt_rn_satfinite_e4m3x2_f32(u16& to, float high, float low) {
    to = static_cast<u16>(host_cuda_machine->to_e4m3(high) << 8 | host_cuda_machine->to_e4m3(low));
}
inline void cvt_rn_satfinite_e5m2x2_f32(u16& to, float high, float low) {
    to = static_cast<u16>(host_cuda_machine->to_e5m2(high) << 8 | host_cuda_machine->to_e5m2(low));
}
inline void cvt_rz_f32_f64(float& to, double from) {
    to = static_cast<float>(from);
    if (__builtin_fabs(static_cast<double>(to)) > __builtin_fabs(from)) to = host_cuda_bits<float>(host_cuda_bits<u32>(to) - 1);
}
inline void fma_rn_f16(u16& to, u16 a, u16 b, u16 c) {
    const auto value = [](u16 bits) { return static_cast<double>(host_cuda_machine->from_half(bits)); };
    to = host_cuda_machine->to_half(value(a) * value(b) + value(c));
}
inline void fma_rn_f16x2(u32& to, u32 a, u32 b, u32 c) {
    u16 low, high;
    fma_rn_f16(low, static_cast<u16>(a), static_cast<u16>(b), static_cast<u16>(c));
    fma_rn_f16(high, static_cast<u16>(a >> 16), static_cast<u16>(b >> 16), static_cast<u16>(c >> 16));
    to = pair_of(high, low);
}
inline void add_rn_f16x2(u32& to, u32 left, u32 right) {
    fma_rn_f16x2(to, left, 0x3C003C00U, right);  // left * 1 + right
}
inline u16 fma_of_bfloats(u32 a, u32 b, u32 c) {
    const auto value = [](u32 bits) { return static_cast<double>(host_cuda_bits<float>(bits << 16)); };
    return host_cuda_machine->to_bfloat(value(a) * value(b) + value(c));
}
inline void fma_rn_bf16x2(u32& to, u32 a, u32 b, u32 c) {
    to = pair_of(fma_of_bfloats(a >> 16, b >> 16, c >> 16), fma_of_bfloats(a & 0xFFFF, b & 0xFFFF, c & 0xFFFF));
}
inline void mov_b32(u16& low, u16& high, u32 from) {
    low = static_cast<u16>(from);
    high = static_cast<u16>(from >> 16);
}
inline void mov_b32(u32& to, u16 low, u16 high) {
    to = pair_of(high, low);
}
inline void mov_b32(u32& to, u32 from) {
    to = from;
}
inline void setp_eq_b32(bool& to, u32 left, u32 right) {
    to = left == right;
}
inline void setp_ne_b32(bool& to, u32 left, u32 right) {
    to = left != right;
}
inline void selp_u32(u32& to, u32 yes, u32 no, bool condition) {
    to = condition ? yes : no;
}

// ---- memory ----

inline void st_shared_v4_b32(u32 at, u32 x, u32 y, u32 z, u32 w) {
    *reinterpret_cast<uint4*>(shared(at)) = {x, y, z, w};
}
template <class Word>
inline void ld_shared_v4_b32(Word& x, Word& y, Word& z, Word& w, u32 at) {
    const uint4 four = *reinterpret_cast<const uint4*>(shared(at));
    x = four.x, y = four.y, z = four.z, w = four.w;
}
inline void ld_shared_v4_f32(float& x, float& y, float& z, float& w, u32 at) {
    const float4 four = *reinterpret_cast<const float4*>(shared(at));
    x = four.x, y = four.y, z = four.z, w = four.w;
}
inline void ld_volatile_shared_v4_f32(float& x, float& y, float& z, float& w, u32 at) {
    ld_shared_v4_f32(x, y, z, w, at);
}
inline void ld_volatile_global_v4_f32(float& x, float& y, float& z, float& w, const void* from) {
    const float4 four = *static_cast<const float4*>(from);
    x = four.x, y = four.y, z = four.z, w = four.w;
}
inline void ld_shared_v2_u32(u32& x, u32& y, u32 at) {
    const uint2 two = *reinterpret_cast<const uint2*>(shared(at));
    x = two.x, y = two.y;
}
inline void ld_shared_u16(u16& to, u32 at) {
    to = *reinterpret_cast<const u16*>(shared(at));
}
inline void st_shared_u16(u32 at, u16 bits) {
    *reinterpret_cast<u16*>(shared(at)) = bits;
}
inline void ld_shared_u32(u32& to, u32 at) {
    to = *reinterpret_cast<const u32*>(shared(at));
}
inline void st_shared_b32(u32 at, u32 word) {
    *reinterpret_cast<u32*>(shared(at)) = word;
}

inline void atom_acq_rel_gpu_global_inc_u32(u32& before, void* at, u32 last) {
    before = atomicInc(static_cast<u32*>(at), last);
}

#define HOST_CUDA_LOADS(name)                                                     \
    inline void name##_u16(u16& to, const void* from) {                           \
        to = *static_cast<const u16*>(from);                                      \
    }                                                                             \
    inline void name##_u32(u32& to, const void* from) {                           \
        to = *static_cast<const u32*>(from);                                      \
    }                                                                             \
    inline void name##_v2_u32(u32& x, u32& y, const void* from) {                 \
        const uint2 two = *static_cast<const uint2*>(from);                       \
        x = two.x, y = two.y;                                                     \
    }                                                                             \
    inline void name##_v4_u32(u32& x, u32& y, u32& z, u32& w, const void* from) { \
        const uint4 four = *static_cast<const uint4*>(from);                      \
        x = four.x, y = four.y, z = four.z, w = four.w;                           \
    }
#define HOST_CUDA_STORES(name)                                        \
    inline void name##_u16(void* to, u16 value) {                     \
        *static_cast<u16*>(to) = value;                               \
    }                                                                 \
    inline void name##_u32(void* to, u32 value) {                     \
        *static_cast<u32*>(to) = value;                               \
    }                                                                 \
    inline void name##_v2_u32(void* to, u32 x, u32 y) {               \
        *static_cast<uint2*>(to) = {x, y};                            \
    }                                                                 \
    inline void name##_v4_u32(void* to, u32 x, u32 y, u32 z, u32 w) { \
        *static_cast<uint4*>(to) = {x, y, z, w};                      \
    }
HOST_CUDA_LOADS(ld_global)
HOST_CUDA_LOADS(ld_global_cs)
HOST_CUDA_LOADS(ld_global_L1_no_allocate)
HOST_CUDA_LOADS(ld_global_L1_no_allocate_L2_256B)
HOST_CUDA_STORES(st_global)
HOST_CUDA_STORES(st_global_cs)
#undef HOST_CUDA_LOADS
inline void ld_global_L1_no_allocate_L2_128B_v4_b32(u32& x, u32& y, u32& z, u32& w, const void* from) {
    ld_global_v4_u32(x, y, z, w, from);
}
inline void ld_global_L1_no_allocate_L2_cache_hint_L2_128B_v4_b32(u32& x, u32& y, u32& z, u32& w, const void* from, u64) {
    ld_global_v4_u32(x, y, z, w, from);
}
inline void createpolicy_fractional_L2_evict_first_b64(u64& policy, double) {
    policy = 0;
}
inline void prefetch_global_L2(const void*) {}
#undef HOST_CUDA_STORES

inline void cp_async_cg_shared_global_L2_128B(u32 to, const void* from, int bytes, int valid) {
    host_cuda_machine->copy_async(shared(to), from, bytes, valid);
}
inline void cp_async_ca_shared_global_L2_128B(u32 to, const void* from, int bytes, int valid) {
    host_cuda_machine->copy_async(shared(to), from, bytes, valid);
}
inline void cp_async_cg_shared_global_L2_128B(u32 to, const void* from, int bytes, bool ignores) {
    host_cuda_machine->copy_async(shared(to), from, bytes, ignores ? 0 : bytes);
}
inline void cp_async_commit_group() {
    host_cuda_machine->commit_copies();
}
inline void cp_async_wait_group(int pending) {
    host_cuda_machine->wait_for_copies(pending);
}

inline void bar_sync(int id, int threads) {
    host_cuda_machine->barrier(id, threads);
}

inline void bar_arrive(int id, int threads) {
    host_cuda_machine->arrive(id, threads);
}
inline void trap() {
    host_cuda_machine->trap();
}

// ---- mbarrier ----

inline MBarrier& mbarrier(u32 at) {
    return *reinterpret_cast<MBarrier*>(shared(at));
}
inline void mbarrier_init_shared_b64(u32 at, u32 arrivals) {
    mbarrier(at).begin(arrivals);
}
inline void mbarrier_arrive_shared_b64(u64& state, u32 at) {
    state = mbarrier(at).phase;
    mbarrier(at).arrive();
}
inline void mbarrier_test_wait_parity_shared_b64(bool& over, u32 at, u32 parity) {
    over = mbarrier(at).phase != parity;
    if (!over) host_cuda_machine->wait_a_turn();
}

// ---- fragments ----

inline void load_matrices(u32& a, u32& b, u32& c, u32& d, u32 at, bool transposed) {
    u32 to[4];
    host_cuda_machine->load_matrices(to, shared(at), transposed);
    a = to[0], b = to[1], c = to[2], d = to[3];
}
inline void ldmatrix_sync_aligned_m8n8_x4_shared_b16(u32& a, u32& b, u32& c, u32& d, u32 at) {
    load_matrices(a, b, c, d, at, false);
}
inline void ldmatrix_sync_aligned_m8n8_x4_trans_shared_b16(u32& a, u32& b, u32& c, u32& d, u32 at) {
    load_matrices(a, b, c, d, at, true);
}

#define HOST_CUDA_MMA(name, type)                                                                                          \
    inline void name(float& d0, float& d1, float& d2, float& d3, u32 a0, u32 a1, u32 a2, u32 a3, u32 b0, u32 b1, float c0, \
                     float c1, float c2, float c3) {                                                                       \
        float sums[4] = {c0, c1, c2, c3};                                                                                  \
        const u32 a[4] = {a0, a1, a2, a3}, b[2] = {b0, b1};                                                                \
        host_cuda_machine->multiply(Multiplier::type, sums, a, b);                                                         \
        d0 = sums[0], d1 = sums[1], d2 = sums[2], d3 = sums[3];                                                            \
    }
HOST_CUDA_MMA(mma_sync_aligned_m16n8k16_row_col_f32_f16_f16_f32, f16)
HOST_CUDA_MMA(mma_sync_aligned_m16n8k16_row_col_f32_bf16_bf16_f32, bf16)
HOST_CUDA_MMA(mma_sync_aligned_m16n8k8_row_col_f32_tf32_tf32_f32, tf32)
#undef HOST_CUDA_MMA
inline void mma_sync_aligned_m16n8k16_row_col_f16_f16_f16_f16(u32& d0, u32& d1, u32 a0, u32 a1, u32 a2, u32 a3, u32 b0, u32 b1,
                                                              u32 c0, u32 c1) {
    u32 sums[2] = {c0, c1};
    const u32 a[4] = {a0, a1, a2, a3}, b[2] = {b0, b1};
    host_cuda_machine->multiply_f16(sums, a, b);
    d0 = sums[0], d1 = sums[1];
}

}  // namespace host_cuda::ptx

#include "ptx_sm90.h"
