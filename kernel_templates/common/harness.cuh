// Kernels for measuring and verifying. The same source serves every problem, because element types and layouts are run-time
// values. harness.h explains parameter lists, codes and layouts of results. A tune waits for this file to compile before its first
// trial, so loops that need no speed are not unrolled.
#include "common/dependent_launch.cuh"
#include "common/number_format.cuh"
#include "common/random.cuh"
#include "common/types.cuh"

namespace {

using autotune_number::Format;

// Extents and strides of a tensor; the last dimension is contiguous in the logical order.
struct Layout {
    i64 extent[5];
    i64 stride[5];

    __device__ i64 elements() const { return extent[0] * extent[1] * extent[2] * extent[3] * extent[4]; }
    // Distance of an element from the base. Dimensions of one element cost no division.
    __device__ i64 offset(i64 number) const {
        i64 at = 0;
#pragma unroll 1
        for (int i = 4; i >= 0; --i) {
            if (extent[i] == 1) continue;
            const i64 rest = number / extent[i];
            at += (number - rest * extent[i]) * stride[i];
            number = rest;
        }
        return at;
    }
    __device__ i64 span() const {
        i64 last = 0;
#pragma unroll 1
        for (int i = 0; i < 5; ++i) last += (extent[i] - 1) * stride[i];
        return elements() == 0 ? 0 : last + 1;
    }
    // Whether an element lies at this distance from the first one. REQUIRES: each stride is at least the span of the smaller ones.
    __device__ bool holds(i64 at) const {
        bool is_done[5] = {};
#pragma unroll 1
        for (int round = 0; round < 5; ++round) {
            int widest = -1;
            for (int i = 0; i < 5; ++i) {
                if (!is_done[i] && (widest < 0 || stride[i] > stride[widest])) widest = i;
            }
            is_done[widest] = true;
            if (stride[widest] == 0 || extent[widest] == 1) continue;
            const i64 number = at / stride[widest];
            at -= (number < extent[widest] ? number : extent[widest] - 1) * stride[widest];
        }
        return at == 0;
    }
};

struct Matrix {
    i64 rows, cols, ld, batch, batch_stride;

    __device__ i64 offset(i64 b, i64 row, i64 col) const { return b * batch_stride + row * ld + col; }
};

struct CompareResult {
    u64 violations;
    u64 first_wrong_complement;
    f64 max_ratio;
    f64 sum_error2;
    f64 sum_expected2;
    u64 nan_count;
    f64 max_accumulation;
    u64 expected_nan;
};

__device__ i64 first_index() {
    return static_cast<i64>(blockIdx.x) * blockDim.x + threadIdx.x;
}
__device__ i64 index_step() {
    return static_cast<i64>(gridDim.x) * blockDim.x;
}

__device__ f64 f64_from_bits(u64 bits) {
    return autotune_number::double_from(bits);
}
__device__ u64 bits_from_f64(f64 value) {
    return autotune_number::bits_of(value);
}
__device__ bool is_finite(f64 x) {
    return (bits_from_f64(x) & 0x7FF0000000000000ULL) != 0x7FF0000000000000ULL;
}

__device__ u64 load_bits(const void* data, const Format& format, i64 at) {
    switch (format.bits()) {
        case 8:
            return static_cast<const u8*>(data)[at];
        case 16:
            return static_cast<const u16*>(data)[at];
        case 32:
            return static_cast<const u32*>(data)[at];
        default:
            return static_cast<const u64*>(data)[at];
    }
}

__device__ f64 load_value(const void* data, const Format& format, i64 at) {
    return autotune_number::decode(format, load_bits(data, format, at));
}

__device__ void store_value(void* data, const Format& format, i64 at, f64 value) {
    const u64 bits = autotune_number::encode(format, value);
    switch (format.bits()) {
        case 8:
            static_cast<u8*>(data)[at] = static_cast<u8>(bits);
            break;
        case 16:
            static_cast<u16*>(data)[at] = static_cast<u16>(bits);
            break;
        case 32:
            static_cast<u32*>(data)[at] = static_cast<u32>(bits);
            break;
        default:
            static_cast<u64*>(data)[at] = bits;
    }
}

__device__ f64 rounded(const Format& format, f64 value) {
    return autotune_number::decode(format, autotune_number::encode(format, value));
}

// |out - expected|. It is 0 for equal infinities and for two NaNs, and infinite for a NaN on one side.
__device__ f64 error_of(f64 out, f64 expected) {
    const bool out_is_nan = out != out;
    const bool expected_is_nan = expected != expected;
    if (out_is_nan || expected_is_nan) return out_is_nan && expected_is_nan ? 0.0 : f64_from_bits(0x7FF0000000000000ULL);
    return out == expected ? 0.0 : fabs(out - expected);
}

// (error - rounding) / (bound - rounding) is the error that rounding does not explain, relative to what the bound allows for it.
__device__ f64 accumulation_ratio(f64 error, f64 bound, f64 rounding) {
    if (bound == 0.0 || error <= rounding || !is_finite(error)) return 0.0;
    return bound > rounding ? (error - rounding) / (bound - rounding) : 1e300;
}

__device__ void add_wrong(CompareResult& mine, u64 index) {
    ++mine.violations;
    if (~index > mine.first_wrong_complement) mine.first_wrong_complement = ~index;
    mine.max_ratio = 1e300;
}

// `bits`: the element as it is stored, whose value is `out`.
__device__ void add_element(CompareResult& mine, const Format& format, u64 bits, f64 expected, f64 bound, u64 index) {
    const bool is_exact = bound == 0.0;
    // Not every 64-bit integer is a double, so `expected` holds the bits.
    if (is_exact && format.is_integer() && format.bits() == 64) {
        if (bits_from_f64(expected) != bits) add_wrong(mine, index);
        return;
    }
    if (expected != expected) {
        ++mine.expected_nan;
        // A kernel gives another NaN than the poison, so this element was not written.
        if (bits == ~u64{0} >> (64 - format.bits())) {
            ++mine.nan_count;
            add_wrong(mine, index);
            return;
        }
    }
    const f64 out = autotune_number::decode(format, bits);
    const f64 error = error_of(out, is_exact ? rounded(format, expected) : expected);
    const f64 ratio = error == 0.0 ? 0.0 : is_exact || !is_finite(error) ? 1e300 : error / bound;
    if (out != out && expected == expected) ++mine.nan_count;
    if (ratio > 1.0) {
        ++mine.violations;
        if (~index > mine.first_wrong_complement) mine.first_wrong_complement = ~index;
    }
    if (ratio > mine.max_ratio) mine.max_ratio = ratio;
    const f64 accumulation = accumulation_ratio(error, bound, autotune_number::half_spacing(format, expected));
    if (accumulation > mine.max_accumulation) mine.max_accumulation = accumulation;
    if (is_finite(error) && is_finite(expected)) {
        mine.sum_error2 += error * error;
        mine.sum_expected2 += expected * expected;
    }
}

template <typename T>
__device__ T sum_of_warp(T value) {
    for (int step = 16; step > 0; step /= 2) value += __shfl_xor_sync(0xFFFFFFFFU, value, step);
    return value;
}

__device__ u64 max_of_warp(u64 value) {
    for (int step = 16; step > 0; step /= 2) {
        const u64 other = __shfl_xor_sync(0xFFFFFFFFU, value, step);
        if (other > value) value = other;
    }
    return value;
}

// One atomic for a warp's sums and maximum, because all go to the same address, where a card performs about one in a nanosecond. Counts of
// errors are rare. The bits of non-negative doubles are ordered like the numbers.
__device__ void publish(const CompareResult& mine, CompareResult* result) {
    if (mine.violations != 0) {
        atomicAdd(&result->violations, mine.violations);
        atomicMax(&result->first_wrong_complement, mine.first_wrong_complement);
    }
    if (mine.nan_count != 0) atomicAdd(&result->nan_count, mine.nan_count);
    if (mine.expected_nan != 0) atomicAdd(&result->expected_nan, mine.expected_nan);
    const u64 max_ratio = max_of_warp(bits_from_f64(mine.max_ratio));
    const u64 max_accumulation = max_of_warp(bits_from_f64(mine.max_accumulation));
    const f64 error2 = sum_of_warp(mine.sum_error2);
    const f64 expected2 = sum_of_warp(mine.sum_expected2);
    if (threadIdx.x % 32 == 0) {
        if (max_ratio != 0) atomicMax(reinterpret_cast<u64*>(&result->max_ratio), max_ratio);
        if (max_accumulation != 0) atomicMax(reinterpret_cast<u64*>(&result->max_accumulation), max_accumulation);
        atomicAdd(&result->sum_error2, error2);
        atomicAdd(&result->sum_expected2, expected2);
    }
}

__device__ u64 bytes_unlike(const u8* data, u64 bytes, u32 byte) {
    u64 changed = 0;
    for (u64 i = static_cast<u64>(first_index()); i < bytes; i += static_cast<u64>(index_step()))
        changed += data[i] != byte ? 1 : 0;
    return changed;
}

}  // namespace

extern "C" __global__ void autotune_fill(void* data, u64 format, int kind, f32 centre, f32 spread, i64 low, i64 high, i64 every,
                                         u64 through, u64 seed, int tensor, i64 extent0, i64 extent1, i64 extent2, i64 extent3, i64 extent4, i64 stride0, i64 stride1, i64 stride2, i64 stride3, i64 stride4) {
    const Layout layout = {{extent0, extent1, extent2, extent3, extent4}, {stride0, stride1, stride2, stride3, stride4}};
    const autotune_random::Fill fill = {kind, centre, spread, low, high, every, extent4};
#pragma unroll 1
    for (i64 i = first_index(); i < layout.elements(); i += index_step()) {
        const i64 line = i / extent4;
        const autotune_random::Place place = {seed, tensor, line / extent3, line % extent3, i % extent4};
        f64 value = 0.0;
        if (kind == autotune_random::kNan) {
            value = f64_from_bits(autotune_number::kQuietNan);
        } else if (autotune_random::is_kept(fill, place)) {
            value = autotune_random::number(fill, place);
            if (kind == autotune_random::kQuantised) value = rounded({through}, value);
        }
        store_value(data, {format}, layout.offset(i), value);
    }
}

extern "C" __global__ void autotune_poison(void* data, u64 bytes, u32 byte) {
    u8* const to = static_cast<u8*>(data);
    const u64 words = reinterpret_cast<u64>(to) % 16 == 0 ? bytes / 16 : 0;
    const u32 word = byte * 0x01010101U;
    for (u64 i = static_cast<u64>(first_index()); i < words; i += static_cast<u64>(index_step())) {
        reinterpret_cast<uint4*>(to)[i] = make_uint4(word, word, word, word);
    }
#pragma unroll 1
    for (u64 i = words * 16 + static_cast<u64>(first_index()); i < bytes; i += static_cast<u64>(index_step())) {
        to[i] = static_cast<u8>(byte);
    }
}

extern "C" __global__ void autotune_copy(const void* from, void* to, u64 bytes) {
    const bool is_aligned = (reinterpret_cast<u64>(from) | reinterpret_cast<u64>(to)) % 16 == 0;
    const u64 words = is_aligned ? bytes / 16 : 0;
    for (u64 i = static_cast<u64>(first_index()); i < words; i += static_cast<u64>(index_step()))
        static_cast<uint4*>(to)[i] = static_cast<const uint4*>(from)[i];
#pragma unroll 1
    for (u64 i = words * 16 + static_cast<u64>(first_index()); i < bytes; i += static_cast<u64>(index_step()))
        static_cast<u8*>(to)[i] = static_cast<const u8*>(from)[i];
}

// Fills the shared memory of the SMs on which its blocks run with the byte, for the next kernel to find.
extern "C" __global__ void autotune_poison_shared(u32 bytes, u32 byte) {
    extern __shared__ u32 shared_words[];
    volatile u32* const words = shared_words;
    for (u32 i = threadIdx.x; i < bytes / 4; i += blockDim.x) words[i] = byte * 0x01010101U;
}

extern "C" __global__ void autotune_redzone_check(const void* data, u64 bytes, u32 byte, u64* changed) {
    const u64 mine = bytes_unlike(static_cast<const u8*>(data), bytes, byte);
    if (mine != 0) atomicAdd(changed, mine);
}

// Checks the bytes between elements for changes.
extern "C" __global__ void autotune_gap_check(const void* data, u64 format, u32 byte, u64* changed, i64 extent0, i64 extent1, i64 extent2, i64 extent3, i64 extent4, i64 stride0, i64 stride1, i64 stride2, i64 stride3, i64 stride4) {
    const Layout layout = {{extent0, extent1, extent2, extent3, extent4}, {stride0, stride1, stride2, stride3, stride4}};
    const int size = Format{format}.bits() / 8;
    const u8* const bytes = static_cast<const u8*>(data);
    const i64 span = layout.span();
    u64 mine = 0;
#pragma unroll 1
    for (i64 i = first_index(); i < span; i += index_step()) {
        if (layout.holds(i)) continue;
#pragma unroll 1
        for (int part = 0; part < size; ++part) mine += bytes[i * size + part] != byte ? 1 : 0;
    }
    if (mine != 0) atomicAdd(changed, mine);
}

// A sum of hashes of (position, word) does not depend on the order of threads.
extern "C" __global__ void autotune_checksum(const void* data, u64 bytes, u64* sum) {
    const u8* const from = static_cast<const u8*>(data);
    const u64 words = reinterpret_cast<u64>(from) % 8 == 0 ? bytes / 8 : 0;
    u64 mine = 0;
    for (u64 i = static_cast<u64>(first_index()); i < words; i += static_cast<u64>(index_step())) {
        mine += autotune_random::mix(reinterpret_cast<const u64*>(from)[i] ^ autotune_random::mix(i));
    }
#pragma unroll 1
    for (u64 i = words * 8 + static_cast<u64>(first_index()); i < bytes; i += static_cast<u64>(index_step())) {
        mine += autotune_random::mix(from[i] ^ autotune_random::mix(~i));
    }
    mine = sum_of_warp(mine);
    if (threadIdx.x % 32 == 0) atomicAdd(sum, mine);
}

extern "C" __global__ void autotune_compare(const void* out, u64 format, const f64* expected, const f64* bound,
                                            CompareResult* result, i64 extent0, i64 extent1, i64 extent2, i64 extent3, i64 extent4, i64 stride0, i64 stride1, i64 stride2, i64 stride3, i64 stride4) {
    const Layout layout = {{extent0, extent1, extent2, extent3, extent4}, {stride0, stride1, stride2, stride3, stride4}};
    CompareResult mine = {};
#pragma unroll 1
    for (i64 i = first_index(); i < layout.elements(); i += index_step()) {
        const u64 bits = load_bits(out, {format}, layout.offset(i));
        add_element(mine, {format}, bits, expected[i], bound[i], static_cast<u64>(i));
    }
    publish(mine, result);
}

// Computes y += M x or, if `transposed`, y += M^T x, batch by batch in 64-bit integers, for dense x and y. Adds to `odd` the
// number of elements that are not integers, which count as 0. A warp processes a part of a row, or 32 columns of some rows.
extern "C" __global__ void autotune_project(const void* data, u64 format, int transposed, const i64* x, i64* y, u64* odd, i64 rows,
                                            i64 cols, i64 ld, i64 batch, i64 batch_stride) {
    const Matrix matrix = {rows, cols, ld, batch, batch_stride};
    const i64 along = transposed != 0 ? rows : cols;
    const i64 across = transposed != 0 ? (cols + 31) / 32 : rows;
    const i64 stretch = transposed != 0 ? 128 : 4096;
    const i64 stretches = (along + stretch - 1) / stretch;
    const int lane = static_cast<int>(threadIdx.x % 32);
    u64 mine_odd = 0;
#pragma unroll 1
    for (i64 i = first_index() / 32; i < stretches * across * batch; i += index_step() / 32) {
        const i64 b = i / (stretches * across);
        const i64 line = i / stretches % across;
        const i64 first = i % stretches * stretch;
        const i64 last = first + stretch < along ? first + stretch : along;
        const i64 col = line * 32 + lane;
        i64 sum = 0;
#pragma unroll 1
        for (i64 at = transposed != 0 ? first : first + lane; at < last; at += transposed != 0 ? 1 : 32) {
            if (transposed != 0 && col >= cols) break;
            const i64 from = transposed != 0 ? matrix.offset(b, at, col) : matrix.offset(b, line, at);
            const f64 value = load_value(data, {format}, from);
            const bool is_integer = value == static_cast<f64>(static_cast<i64>(value)) && fabs(value) < 9e15;
            if (is_integer) sum += static_cast<i64>(value) * x[b * along + at];
            mine_odd += is_integer ? 0 : 1;
        }
        if (transposed == 0) {
            for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(0xFFFFFFFFU, sum, step);
        }
        u64* const to = reinterpret_cast<u64*>(y) + (transposed != 0 ? b * cols + col : b * rows + line);
        if (transposed != 0 ? col < cols : lane == 0) atomicAdd(to, static_cast<u64>(sum));
    }
    if (mine_odd != 0) atomicAdd(odd, mine_odd);
}

// A fixed computation with a known result: every thread hashes its number `rounds` times.
extern "C" __global__ void autotune_canary(u64* sum, u32 rounds) {
    u64 x = static_cast<u64>(first_index());
#pragma unroll 1
    for (u32 i = 0; i < rounds; ++i) x = autotune_random::mix(x);
    atomicAdd(sum, x);
}

// A kernel for tests of hangs. It seems never to end, but it does.
extern "C" __global__ void autotune_spin_bounded(u64 nanoseconds, u64* spins) {
    u64 start;
    u64 now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(start));
    u64 count = 0;
    do {
        asm volatile("nanosleep.u32 1000;");
        asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
        ++count;
    } while (now - start < nanoseconds);
    if (first_index() == 0) atomicAdd(spins, count);
}

// Runs before a timed launch. It is small, has no shared memory, and lets nothing start before its end.
extern "C" __global__ void autotune_filler(f32* data) {
    data[first_index()] = data[first_index()] * 0.5F + 1.0F;
}

// The same, but it lets the next kernel start while it runs, as in a program whose launches all overlap.
extern "C" __global__ void autotune_trigger_filler(f32* data) {
    dependent_launch::wait_for_earlier_grids();
    dependent_launch::let_next_grid_start();
    data[first_index()] = data[first_index()] * 0.5F + 1.0F;
}
