// Tensor maps that a kernel makes, field by field, in shared memory, and another kernel uses from global memory: tensormap.replace,
// tensormap.cp_fenceproxy and fence.proxy.tensormap of sm_90a. After common/hopper.cuh.
#pragma once

namespace hopper {

// Values of the fields elemtype and swizzle_mode.
constexpr int map_type_u8 = 0, map_type_f16 = 6, map_type_f32 = 7, map_type_bf16 = 10;
template <class Element>
__device__ constexpr int map_type_of() {
    if (sizeof(Element) == 1) return map_type_u8;
    return is_same<Element, f32> ? map_type_f32 : is_same<Element, f16> ? map_type_f16 : map_type_bf16;
}
__device__ constexpr int map_swizzle(int bytes) { return bytes == 128 ? 3 : bytes == 64 ? 2 : bytes == 32 ? 1 : 0; }

// Extents in elements, the contiguous one first; strides in bytes, from one row and from one matrix to the next.
struct MapFields {
    const void* base;
    u32 extents[3];
    u64 strides[2];
    u32 box[2];
};
__device__ __forceinline__ MapFields map_fields(const void* base, int columns, int rows, int batch, i64 row_bytes, i64 batch_bytes,
                                                int box_columns, int box_rows) {
    return {base,
            {static_cast<u32>(columns), static_cast<u32>(rows), static_cast<u32>(batch)},
            {static_cast<u64>(row_bytes), static_cast<u64>(batch_bytes)},
            {static_cast<u32>(box_columns), static_cast<u32>(box_rows)}};
}

template <int ordinal>
__device__ __forceinline__ void replace_dimension(u32 map, u32 extent, u32 box) {
    asm volatile("tensormap.replace.tile.global_dim.shared::cta.b1024.b32 [%0], %1, %2;" ::"r"(map), "n"(ordinal), "r"(extent) : "memory");
    asm volatile("tensormap.replace.tile.box_dim.shared::cta.b1024.b32 [%0], %1, %2;" ::"r"(map), "n"(ordinal), "r"(box) : "memory");
    asm volatile("tensormap.replace.tile.element_stride.shared::cta.b1024.b32 [%0], %1, %2;" ::"r"(map), "n"(ordinal), "r"(1u) : "memory");
}
template <int ordinal>
__device__ __forceinline__ void replace_stride(u32 map, u64 bytes) {
    asm volatile("tensormap.replace.tile.global_stride.shared::cta.b1024.b64 [%0], %1, %2;" ::"r"(map), "n"(ordinal), "l"(bytes) : "memory");
}

// Makes a map and publishes it at `to` in global memory. A block of one warp calls this. REQUIRES: no kernel uses a map at `to`
// meanwhile.
template <int type, int swizzle_bytes>
__device__ __forceinline__ void make_map(TensorMap* to, const MapFields& fields) {
    alignas(128) __shared__ u32 words[32];
    const u32 scratch = smem_address(words), lane = threadIdx.x;
    asm volatile("st.shared.u32 [%0], %1;" ::"r"(scratch + lane * 4), "r"(0u) : "memory");
    __syncwarp();
    if (lane == 0) {
        asm volatile("tensormap.replace.tile.global_address.shared::cta.b1024.b64 [%0], %1;" ::"r"(scratch), "l"(fields.base) : "memory");
        asm volatile("tensormap.replace.tile.rank.shared::cta.b1024.b32 [%0], %1;" ::"r"(scratch), "r"(2u) : "memory");  // less one
        replace_dimension<0>(scratch, fields.extents[0], fields.box[0]);
        replace_dimension<1>(scratch, fields.extents[1], fields.box[1]);
        replace_dimension<2>(scratch, fields.extents[2], 1);
        replace_stride<0>(scratch, fields.strides[0]);
        replace_stride<1>(scratch, fields.strides[1]);
        asm volatile("tensormap.replace.tile.elemtype.shared::cta.b1024.b32 [%0], %1;" ::"r"(scratch), "n"(type) : "memory");
        asm volatile("tensormap.replace.tile.interleave_layout.shared::cta.b1024.b32 [%0], %1;" ::"r"(scratch), "n"(0) : "memory");
        asm volatile("tensormap.replace.tile.swizzle_mode.shared::cta.b1024.b32 [%0], %1;" ::"r"(scratch), "n"(map_swizzle(swizzle_bytes))
                     : "memory");
        asm volatile("tensormap.replace.tile.fill_mode.shared::cta.b1024.b32 [%0], %1;" ::"r"(scratch), "n"(0) : "memory");
    }
    __syncwarp();
    asm volatile("tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%0], [%1], 128;" ::"l"(to),
                 "r"(scratch)
                 : "memory");
}

// Called by each thread that uses a map made by another kernel, after that kernel has ended.
__device__ __forceinline__ void acquire_map(const TensorMap* map) {
    asm volatile("fence.proxy.tensormap::generic.acquire.gpu [%0], 128;" ::"l"(map) : "memory");
}

}  // namespace hopper
