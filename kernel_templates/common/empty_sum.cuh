// Fills outputs whose elements are empty sums, such as a product with K = 0, attention without keys, or the logarithm of the sum
// of an empty row. One source serves all ops, because element types and layouts are run-time values.
#include "common/number_format.cuh"
#include "common/types.cuh"
// clang-format off
#define AUTOTUNE_KERNEL ${symbol}
// clang-format on
// ---- end of parameters ----

namespace {

using autotune_number::Format;

__device__ f32 load_number(const void* data, const Format& format, i64 at) {
    const u64 bits = format.bits() == 8    ? static_cast<const u8*>(data)[at]
                     : format.bits() == 16 ? static_cast<const u16*>(data)[at]
                                           : static_cast<const u32*>(data)[at];
    return static_cast<f32>(autotune_number::decode(format, bits));
}

__device__ void store_number(void* data, const Format& format, i64 at, f32 value) {
    const u64 bits = autotune_number::encode(format, static_cast<f64>(value));
    if (format.bits() == 8)
        static_cast<u8*>(data)[at] = static_cast<u8>(bits);
    else if (format.bits() == 16)
        static_cast<u16*>(data)[at] = static_cast<u16>(bits);
    else
        static_cast<u32*>(data)[at] = static_cast<u32>(bits);
}

}  // namespace

// Computes out = (factor * out + value + bias[column]) * scale, rounded once to its type of at most 32 bits. If factor is 0, out
// is not read. bias and scale may be null. If `amax` is not null, it becomes the largest magnitude before the scale, if that is
// larger.
extern "C" __global__ void AUTOTUNE_ENTRY()(void* out, u64 format, i64 extent0, i64 extent1, i64 extent2, i64 extent3, i64 extent4,
                                            i64 stride0, i64 stride1, i64 stride2, i64 stride3, i64 stride4, f32 factor, f32 value,
                                            const void* bias, u64 bias_format, const f32* scale, f32* amax) {
    const i64 elements = extent0 * extent1 * extent2 * extent3 * extent4;
    const f32 by = scale == nullptr ? 1.0F : *scale;
    for (i64 i = static_cast<i64>(blockIdx.x) * blockDim.x + threadIdx.x; i < elements; i += static_cast<i64>(gridDim.x) * blockDim.x) {
        i64 rest = i;
        const i64 column = rest % extent4;
        i64 at = column * stride4;
        rest /= extent4;
        at += rest % extent3 * stride3;
        rest /= extent3;
        at += rest % extent2 * stride2;
        rest /= extent2;
        at += rest % extent1 * stride1 + rest / extent1 * stride0;
        f32 sum = value;
        if (factor != 0.0F) sum += factor * load_number(out, {format}, at);
        if (bias != nullptr) sum += load_number(bias, {bias_format}, column);
        // Bit patterns of magnitudes are ordered like the numbers, with NaN above all.
        if (amax != nullptr) atomicMax(reinterpret_cast<u32*>(amax), __float_as_uint(sum) & 0x7FFFFFFFU);
        store_number(out, {format}, at, sum * by);
    }
}
