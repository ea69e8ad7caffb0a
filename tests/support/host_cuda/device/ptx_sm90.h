// The additional instructions of sm_90: mbarriers that count bytes, bulk copies, wgmma, and clusters of one block.
#pragma once

namespace host_cuda::ptx {

// The sink `_` in an instruction's text.
struct Sink {};

// ---- mbarrier ----

inline void mbarrier_init_shared_cta_b64(u32 at, u32 arrivals) {
    mbarrier(at).begin(arrivals);
}
inline void mbarrier_arrive_shared_cta_b64(Sink, u32 at) {
    mbarrier(at).arrive();
    host_cuda_machine->pause();
}
inline void mbarrier_arrive_expect_tx_shared_cta_b64(Sink, u32 at, u32 bytes) {
    mbarrier(at).expect(bytes);
    mbarrier(at).arrive();
}
inline void mbarrier_expect_tx_relaxed_cta_shared_cta_b64(u32 at, u32 bytes) {
    mbarrier(at).expect(bytes);
}
inline void mbarrier_try_wait_parity_shared_cta_b64(bool& over, u32 at, u32 parity) {
    mbarrier_test_wait_parity_shared_b64(over, at, parity);
}
inline void mbarrier_try_wait_parity_shared_b64(bool& over, u32 at, u32 parity) {
    mbarrier_test_wait_parity_shared_b64(over, at, parity);
}
inline void mbarrier_try_wait_parity_acquire_cluster_shared_cta_b64(bool& over, u32 at, u32 parity) {
    mbarrier_test_wait_parity_shared_b64(over, at, parity);
}

// ---- instructions without effect if threads run one at a time ----

inline void fence_mbarrier_init_release_cluster() {}
inline void fence_proxy_async() {}
inline void fence_proxy_async_shared_cta() {}
inline void griddepcontrol_wait() {}
inline void griddepcontrol_launch_dependents() {}
inline void setmaxnreg_dec_sync_aligned_u32(int) {}
inline void setmaxnreg_inc_sync_aligned_u32(int) {}
inline void prefetch_tensormap(const void*) {}
template <class... Operands>
inline void cp_async_bulk_prefetch_tensor_3d_L2_global_tile(const Operands&...) {}
inline void wgmma_fence_sync_aligned() {}

// ---- tensor maps made by a kernel: in shared memory, in the machine's own form ----

inline TensorMap& map_at(u32 at) {
    if (at % 128 != 0) trap();
    return *reinterpret_cast<TensorMap*>(shared(at));
}
inline void tensormap_replace_tile_global_address_shared_cta_b1024_b64(u32 at, const void* base) {
    map_at(at).base = static_cast<unsigned char*>(const_cast<void*>(base));
}
inline void tensormap_replace_tile_rank_shared_cta_b1024_b32(u32 at, u32 less_one) {
    map_at(at).rank = static_cast<u16>(less_one + 1);
}
inline void tensormap_replace_tile_global_dim_shared_cta_b1024_b32(u32 at, int ordinal, u32 extent) {
    map_at(at).extents[ordinal] = extent;
}
inline void tensormap_replace_tile_box_dim_shared_cta_b1024_b32(u32 at, int ordinal, u32 extent) {
    map_at(at).boxes[ordinal] = extent;
}
inline void tensormap_replace_tile_element_stride_shared_cta_b1024_b32(u32, int, u32 stride) {
    if (stride != 1) trap();
}
inline void tensormap_replace_tile_global_stride_shared_cta_b1024_b64(u32 at, int ordinal, u64 bytes) {
    map_at(at).strides[ordinal] = bytes;
}
inline void tensormap_replace_tile_elemtype_shared_cta_b1024_b32(u32 at, int type) {
    constexpr u16 sizes[] = {1, 2, 4, 4, 8, 8, 2, 4, 4, 8, 2};  // u8, u16, u32, s32, u64, s64, f16, f32, f32 flushed, f64, bf16
    map_at(at).element_bytes = sizes[type];
}
inline void tensormap_replace_tile_interleave_layout_shared_cta_b1024_b32(u32, int layout) {
    if (layout != 0) trap();
}
inline void tensormap_replace_tile_swizzle_mode_shared_cta_b1024_b32(u32 at, int mode) {
    map_at(at).swizzle_bytes = static_cast<u16>(mode == 0 ? 0 : 16 << mode);
}
inline void tensormap_replace_tile_fill_mode_shared_cta_b1024_b32(u32, int mode) {
    if (mode != 0) trap();
}
inline void tensormap_cp_fenceproxy_global_shared_cta_tensormap_generic_release_gpu_sync_aligned(void* to, u32 from, int bytes) {
    __builtin_memcpy(to, &map_at(from), static_cast<unsigned long>(bytes));
}
inline void fence_proxy_tensormap_generic_acquire_gpu(const void*, int) {}

// ---- memory ----

inline void st_shared_v4_f32(u32 at, float x, float y, float z, float w) {
    *reinterpret_cast<float4*>(shared(at)) = {x, y, z, w};
}
inline void st_shared_v4_u32(u32 at, u32 x, u32 y, u32 z, u32 w) {
    *reinterpret_cast<uint4*>(shared(at)) = {x, y, z, w};
}
inline void st_shared_v2_f32(u32 at, float x, float y) {
    *reinterpret_cast<float2*>(shared(at)) = {x, y};
}
inline void st_shared_v2_u32(u32 at, u32 x, u32 y) {
    *reinterpret_cast<uint2*>(shared(at)) = {x, y};
}
inline void st_shared_v2_b32(u32 at, u32 x, u32 y) {
    st_shared_v2_u32(at, x, y);
}
inline void ld_shared_v2_f32(float& x, float& y, u32 at) {
    const float2 two = *reinterpret_cast<const float2*>(shared(at));
    x = two.x, y = two.y;
}
template <class Word>
inline void ld_shared_v4_u32(Word& x, Word& y, Word& z, Word& w, u32 at) {
    ld_shared_v4_b32(x, y, z, w, at);
}
template <class Word>
inline void ld_shared_v2_b32(Word& x, Word& y, u32 at) {
    const uint2 two = *reinterpret_cast<const uint2*>(shared(at));
    x = static_cast<Word>(two.x), y = static_cast<Word>(two.y);
}
inline void st_shared_u32(u32 at, u32 word) {
    st_shared_b32(at, word);
}
inline void st_volatile_shared_u32(u32 at, u32 word) {
    st_shared_b32(at, word);
}
inline void ld_volatile_shared_u32(u32& to, u32 at) {
    ld_shared_u32(to, at);
}
inline void st_shared_f32(u32 at, float value) {
    *reinterpret_cast<float*>(shared(at)) = value;
}
inline void ld_shared_f32(float& to, u32 at) {
    to = *reinterpret_cast<const float*>(shared(at));
}
inline void ld_global_f32(float& to, const void* from) {
    to = *static_cast<const float*>(from);
}
inline void cp_async_cg_shared_global(u32 to, const void* from, int bytes, int valid) {
    host_cuda_machine->copy_async(shared(to), from, bytes, valid);
}
inline void cp_async_ca_shared_global(u32 to, const void* from, int bytes) {
    host_cuda_machine->copy_async(shared(to), from, bytes, bytes);
}
inline void cp_async_mbarrier_arrive_noinc_shared_cta_b64(u32 at) {
    host_cuda_machine->commit_copies();
    host_cuda_machine->wait_for_copies(0);
    mbarrier(at).arrive();
}
inline void red_relaxed_gpu_global_add_v4_f32(float* to, float x, float y, float z, float w) {
    float4& sums = *reinterpret_cast<float4*>(to);
    sums = {sums.x + x, sums.y + y, sums.z + z, sums.w + w};
}
inline void red_release_gpu_global_add_s32(int* to, int more) {
    *to += more;
}
inline void ld_acquire_gpu_global_s32(int& to, const int* from) {
    to = *from;
}

// ---- clusters of one block ----

inline u32 cluster_ctarank() {
    return 0;
}
inline void mov_u32(u32& to, u32 from) {
    to = from;
}
inline void mapa_shared_cluster_u32(u32& to, u32 address, u32 rank) {
    to = address;
    if (rank != 0) trap();
}
inline void mbarrier_arrive_shared_cluster_b64(Sink, u32 at) {
    mbarrier(at).arrive();
}
inline void st_shared_cluster_v2_f32(u32 at, float x, float y) {
    st_shared_v2_f32(at, x, y);
}
inline void st_async_shared_cluster_mbarrier_complete_tx_bytes_v4_f32(u32 at, float x, float y, float z, float w, u32 barrier) {
    st_shared_v4_f32(at, x, y, z, w);
    mbarrier(barrier).complete(16);
}
inline void st_async_shared_cluster_mbarrier_complete_tx_bytes_v2_b32(u32 at, u32 x, u32 y, u32 barrier) {
    st_shared_v2_u32(at, x, y);
    mbarrier(barrier).complete(8);
}
inline void barrier_cluster_arrive_relaxed_aligned() {}
inline void barrier_cluster_arrive_release_aligned() {}
inline void barrier_cluster_wait_acquire_aligned() {
    constexpr int cluster = -1;
    host_cuda_machine->barrier(cluster, 0);
}

// ---- bulk copies ----

inline BulkCopy box(const void* map, u32 at) {
    BulkCopy copy;
    copy.map = static_cast<const TensorMap*>(map);
    copy.shared = at;
    return copy;
}
inline void load_box(u32 to, const void* map, u32 barrier, int x, int y, int z, int w) {
    BulkCopy copy = box(map, to);
    copy.at[0] = x, copy.at[1] = y, copy.at[2] = z, copy.at[3] = w;
    copy.barrier = &mbarrier(barrier);
    host_cuda_machine->copy_bulk(copy);
}
inline void cp_async_bulk_tensor_3d_shared_cluster_global_mbarrier_complete_tx_bytes_L2_cache_hint(u32 to, const void* map, int x,
                                                                                                   int y, int z, u32 barrier,
                                                                                                   u64) {
    load_box(to, map, barrier, x, y, z, 0);
}
inline void cp_async_bulk_tensor_4d_shared_cluster_global_mbarrier_complete_tx_bytes_L2_cache_hint(u32 to, const void* map, int x,
                                                                                                   int y, int z, int w,
                                                                                                   u32 barrier, u64) {
    load_box(to, map, barrier, x, y, z, w);
}
inline void cp_async_bulk_tensor_3d_shared_cluster_global_mbarrier_complete_tx_bytes_multicast_cluster_L2_cache_hint(
    u32 to, const void* map, int x, int y, int z, u32 barrier, u16 ranks, u64) {
    if (ranks != 1) trap();
    load_box(to, map, barrier, x, y, z, 0);
}
inline void store_box(const void* map, int x, int y, int z, int w, u32 from) {
    BulkCopy copy = box(map, from);
    copy.at[0] = x, copy.at[1] = y, copy.at[2] = z, copy.at[3] = w;
    host_cuda_machine->copy_bulk(copy);
}
inline void cp_async_bulk_tensor_3d_global_shared_cta_bulk_group(const void* map, int x, int y, int z, u32 from) {
    store_box(map, x, y, z, 0, from);
}
inline void cp_async_bulk_tensor_3d_global_shared_cta_bulk_group_L2_cache_hint(const void* map, int x, int y, int z, u32 from,
                                                                               u64) {
    store_box(map, x, y, z, 0, from);
}
inline void cp_async_bulk_tensor_4d_global_shared_cta_bulk_group(const void* map, int x, int y, int z, int w, u32 from) {
    store_box(map, x, y, z, w, from);
}
inline void copy_bytes(u32 at, const void* global, u32 bytes, MBarrier* barrier, bool adds) {
    BulkCopy copy;
    copy.shared = at;
    copy.global = static_cast<unsigned char*>(const_cast<void*>(global));
    copy.bytes = bytes;
    copy.barrier = barrier;
    copy.adds = adds;
    host_cuda_machine->copy_bulk(copy);
}
inline void cp_async_bulk_shared_cluster_global_mbarrier_complete_tx_bytes(u32 to, const void* from, u32 bytes, u32 barrier) {
    copy_bytes(to, from, bytes, &mbarrier(barrier), false);
}
inline void cp_async_bulk_shared_cluster_global_mbarrier_complete_tx_bytes_L2_cache_hint(u32 to, const void* from, u32 bytes,
                                                                                         u32 barrier, u64) {
    copy_bytes(to, from, bytes, &mbarrier(barrier), false);
}
inline void cp_async_bulk_global_shared_cta_bulk_group(void* to, u32 from, u32 bytes) {
    copy_bytes(from, to, bytes, nullptr, false);
}
inline void cp_async_bulk_global_shared_cta_bulk_group_L2_cache_hint(void* to, u32 from, u32 bytes, u64) {
    copy_bytes(from, to, bytes, nullptr, false);
}
inline void cp_reduce_async_bulk_global_shared_cta_bulk_group_add_f32(void* to, u32 from, u32 bytes) {
    copy_bytes(from, to, bytes, nullptr, true);
}
inline void cp_async_bulk_commit_group() {
    host_cuda_machine->commit_bulk();
}
inline void cp_async_bulk_wait_group(int pending) {
    host_cuda_machine->wait_for_bulk(pending);
}
inline void cp_async_bulk_wait_group_read(int pending) {
    host_cuda_machine->wait_for_bulk(pending);
}

// ---- fragments ----

inline void stmatrix_sync_aligned_m8n8_x4_shared_b16(u32 at, u32 a, u32 b, u32 c, u32 d) {
    host_cuda_machine->store_matrices(shared(at), {a, b, c, d}, false);
}
inline void stmatrix_sync_aligned_m8n8_x4_trans_shared_b16(u32 at, u32 a, u32 b, u32 c, u32 d) {
    host_cuda_machine->store_matrices(shared(at), {a, b, c, d}, true);
}

inline void movmatrix_sync_aligned_m8n8_trans_b16(u32& to, u32 from) {
    const Lanes<u32> all(0xFFFFFFFFU, "movmatrix", from);
    const int row = lane() / 4, column = lane() % 4 * 2;
    const auto element = [&](int of_row, int of_column) {
        return all.at(of_row * 4 + of_column / 2) >> of_column % 2 * 16 & 0xFFFF;
    };
    to = element(column, row) | element(column + 1, row) << 16;
}

inline void wgmma_commit_group_sync_aligned() {
    host_cuda_machine->commit_products();
}
inline void wgmma_wait_group_sync_aligned(int pending) {
    host_cuda_machine->wait_for_products(pending);
}

// The operands of the instruction's text: sums, A as a descriptor or four registers, B's descriptor, whether to add to the sums,
// two signs, and for 16-bit types whether an operand in shared memory is transposed. The sums are one array.
template <int n, bool has_half_sums, class... Operands>
inline void multiply_group(Multiplier left, Multiplier right, const Operands&... operands) {
    constexpr int words = has_half_sums ? n / 4 : n / 2, rest = static_cast<int>(sizeof...(Operands)) - words;
    const void* const at[] = {static_cast<const void*>(&operands)...};
    const void* const* next = at + words;
    const auto number = [&] { return *static_cast<const int*>(*next++) != 0; };
    const auto descriptor = [&] { return *static_cast<const u64*>(*next++); };
    const bool has_transposes = left == Multiplier::f16 || left == Multiplier::bf16;
    GroupProduct product{};
    product.left = left, product.right = right, product.n = n, product.has_half_sums = has_half_sums;
    product.sums = const_cast<void*>(at[0]);
    for (int i = 1; i < words; ++i)
        if (static_cast<const u32*>(at[i]) != static_cast<const u32*>(at[0]) + i) trap();
    product.a_is_register = rest > 7;
    if (product.a_is_register) {
        for (u32& word : product.a) word = *static_cast<const u32*>(*next++);
    } else {
        product.a_descriptor = descriptor();
    }
    product.b_descriptor = descriptor();
    product.accumulates = *static_cast<const bool*>(*next++);
    const bool is_positive = number();
    if (!number() || !is_positive) trap();
    product.a_transposed = has_transposes && !product.a_is_register && number();
    product.b_transposed = has_transposes && number();
    host_cuda_machine->multiply_group(product);
}

#define HOST_CUDA_WGMMA(name, n, halves, left, right)                                \
    template <class... Operands>                                                     \
    inline void wgmma_mma_async_sync_aligned_##name(const Operands&... operands) {   \
        multiply_group<n, halves>(Multiplier::left, Multiplier::right, operands...); \
    }
#define HOST_CUDA_WGMMA_OF_HALVES(n)                              \
    HOST_CUDA_WGMMA(m64n##n##k16_f32_f16_f16, n, false, f16, f16) \
    HOST_CUDA_WGMMA(m64n##n##k16_f32_bf16_bf16, n, false, bf16, bf16)
#define HOST_CUDA_WGMMA_OF(n)                                         \
    HOST_CUDA_WGMMA_OF_HALVES(n)                                      \
    HOST_CUDA_WGMMA(m64n##n##k16_f16_f16_f16, n, true, f16, f16)      \
    HOST_CUDA_WGMMA(m64n##n##k8_f32_tf32_tf32, n, false, tf32, tf32)  \
    HOST_CUDA_WGMMA(m64n##n##k32_f32_e4m3_e4m3, n, false, e4m3, e4m3) \
    HOST_CUDA_WGMMA(m64n##n##k32_f32_e4m3_e5m2, n, false, e4m3, e5m2) \
    HOST_CUDA_WGMMA(m64n##n##k32_f32_e5m2_e4m3, n, false, e5m2, e4m3) \
    HOST_CUDA_WGMMA(m64n##n##k32_f32_e5m2_e5m2, n, false, e5m2, e5m2)
HOST_CUDA_WGMMA_OF(16)
HOST_CUDA_WGMMA_OF(32)
HOST_CUDA_WGMMA_OF(48)
HOST_CUDA_WGMMA_OF(64)
HOST_CUDA_WGMMA_OF(80)
HOST_CUDA_WGMMA_OF(96)
HOST_CUDA_WGMMA_OF(112)
HOST_CUDA_WGMMA_OF(128)
HOST_CUDA_WGMMA_OF(144)
HOST_CUDA_WGMMA_OF(160)
HOST_CUDA_WGMMA_OF(176)
HOST_CUDA_WGMMA_OF(192)
HOST_CUDA_WGMMA_OF(208)
HOST_CUDA_WGMMA_OF(224)
HOST_CUDA_WGMMA_OF(240)
HOST_CUDA_WGMMA_OF(256)
HOST_CUDA_WGMMA_OF_HALVES(24)
HOST_CUDA_WGMMA_OF_HALVES(40)
HOST_CUDA_WGMMA_OF_HALVES(56)
HOST_CUDA_WGMMA_OF_HALVES(72)
HOST_CUDA_WGMMA_OF_HALVES(88)
HOST_CUDA_WGMMA_OF_HALVES(104)
HOST_CUDA_WGMMA_OF_HALVES(120)
HOST_CUDA_WGMMA_OF_HALVES(136)
HOST_CUDA_WGMMA_OF_HALVES(152)
HOST_CUDA_WGMMA_OF_HALVES(168)
HOST_CUDA_WGMMA_OF_HALVES(184)
HOST_CUDA_WGMMA_OF_HALVES(200)
HOST_CUDA_WGMMA_OF_HALVES(216)
HOST_CUDA_WGMMA_OF_HALVES(232)
HOST_CUDA_WGMMA_OF_HALVES(248)
#undef HOST_CUDA_WGMMA_OF
#undef HOST_CUDA_WGMMA_OF_HALVES
#undef HOST_CUDA_WGMMA

}  // namespace host_cuda::ptx
