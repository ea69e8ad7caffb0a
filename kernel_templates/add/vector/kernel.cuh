// c = a + b, where each thread reads from and writes to global memory. A thread processes `unroll` runs of `vec` neighbouring
// elements, with all loads before the first store. A block processes one tile of threads * vec * unroll elements, or several one
// after another.
#include "common/dependent_launch.cuh"
#include "common/global_access.cuh"
#include "common/types.cuh"
#include "add/device/sum.cuh"
// clang-format off
#define AUTOTUNE_KERNEL ${symbol}
using Element = ${element_type};
constexpr int align_a = ${align_a};
constexpr int align_b = ${align_b};
constexpr int align_c = ${align_c};
constexpr int vec = ${vec};
constexpr int access_bytes = ${access_bytes};
constexpr int unroll = ${unroll};
constexpr int threads = ${threads};
constexpr int load_hint = ${load_hint};
constexpr int store_hint = ${store_hint};
constexpr bool grid_stride = ${grid_stride};
// clang-format on
// ---- end of parameters ----

namespace {

constexpr int element_bytes = static_cast<int>(sizeof(Element));
constexpr int run_bytes = vec * element_bytes;
constexpr int run_words = run_bytes < 4 ? 1 : run_bytes / 4;
constexpr int step = threads * vec;  // elements from one run of a thread to its next
constexpr int tile = step * unroll;
static_assert(access_bytes >= element_bytes && access_bytes <= run_bytes && run_bytes % access_bytes == 0,
              "accesses hold whole elements of one run");

// Neighbouring elements as 32-bit words; a single 16-bit element is in the low half.
struct Run {
    u32 words[run_words];
};

// Loads one access, whose first element is number `at` of the run.
template <int bytes>
__device__ __forceinline__ void load_access(Run& run, const Element* from, int at) {
    const Element* const source = from + at;
    const int word = at * element_bytes / 4;
    if constexpr (bytes == 16) {
        uint4 value;
        global::Load<load_hint>::run(value, source);
        run.words[word] = value.x, run.words[word + 1] = value.y, run.words[word + 2] = value.z, run.words[word + 3] = value.w;
    } else if constexpr (bytes == 8) {
        uint2 value;
        global::Load<load_hint>::run(value, source);
        run.words[word] = value.x, run.words[word + 1] = value.y;
    } else if constexpr (bytes == 4) {
        global::Load<load_hint>::run(run.words[word], source);
    } else {
        u16 value;
        global::Load<load_hint>::run(value, source);
        run.words[word] = at % 2 == 0 ? value : run.words[word] | static_cast<u32>(value) << 16;
    }
}

template <int bytes>
__device__ __forceinline__ void store_access(const Run& run, Element* to, int at) {
    Element* const target = to + at;
    const int word = at * element_bytes / 4;
    if constexpr (bytes == 16) {
        const uint4 value = {run.words[word], run.words[word + 1], run.words[word + 2], run.words[word + 3]};
        global::Store<store_hint>::run(target, value);
    } else if constexpr (bytes == 8) {
        const uint2 value = {run.words[word], run.words[word + 1]};
        global::Store<store_hint>::run(target, value);
    } else if constexpr (bytes == 4) {
        global::Store<store_hint>::run(target, run.words[word]);
    } else {
        global::Store<store_hint>::run(target, static_cast<u16>(run.words[word] >> at % 2 * 16));
    }
}

// Loads a run whose first `valid` elements exist. A whole run is loaded in accesses as wide as alignment allows, any other run
// element by element.
template <int align>
__device__ __forceinline__ void load_run(Run& run, const Element* from, i64 valid) {
    constexpr int bytes = smaller(access_bytes, align);
    if (valid >= vec) {
#pragma unroll
        for (int at = 0; at < vec; at += bytes / element_bytes) load_access<bytes>(run, from, at);
    } else {
#pragma unroll
        for (int at = 0; at < vec; ++at) {
            if (at % 2 == 0 || element_bytes == 4) run.words[at * element_bytes / 4] = 0;
            if (at < valid) load_access<element_bytes>(run, from, at);
        }
    }
}

__device__ __forceinline__ void store_run(const Run& run, Element* to, i64 valid) {
    constexpr int bytes = smaller(access_bytes, align_c);
    if (valid >= vec) {
#pragma unroll
        for (int at = 0; at < vec; at += bytes / element_bytes) store_access<bytes>(run, to, at);
    } else {
#pragma unroll
        for (int at = 0; at < vec; ++at) {
            if (at < valid) store_access<element_bytes>(run, to, at);
        }
    }
}

// This thread's share of a tile, from its first element on; `valid` elements exist from there to the end of the arrays.
__device__ __forceinline__ void add_tile(const Element* a, const Element* b, Element* c, i64 valid) {
    Run left[unroll];
    Run right[unroll];
#pragma unroll
    for (int i = 0; i < unroll; ++i) {
        load_run<align_a>(left[i], a + i * step, valid - i * step);
        load_run<align_b>(right[i], b + i * step, valid - i * step);
    }
#pragma unroll
    for (int i = 0; i < unroll; ++i) {
        Run sum;
#pragma unroll
        for (int word = 0; word < run_words; ++word) sum.words[word] = sum_of_words<Element>(left[i].words[word], right[i].words[word]);
        store_run(sum, c + i * step, valid - i * step);
    }
}

}  // namespace

// grid.y is above 1 only if a block processes one tile and there are more tiles than grid.x allows.
extern "C" __global__ void __launch_bounds__(threads)
    AUTOTUNE_ENTRY()(const Element* a, const Element* b, Element* c, i64 n) {
    const i64 block = blockIdx.x + static_cast<i64>(gridDim.x) * blockIdx.y;
    const i64 stride = grid_stride ? static_cast<i64>(gridDim.x) * tile : 0;
    i64 tile_at = block * tile;
    dependent_launch::let_next_grid_start();
    dependent_launch::wait_for_earlier_grids();
    do {
        const i64 at = tile_at + threadIdx.x * vec;
        // A compile-time constant; otherwise a whole tile would check for every run whether it exists.
        if (tile_at + tile <= n) {
            add_tile(a + at, b + at, c + at, tile);
        } else {
            add_tile(a + at, b + at, c + at, n - at);
        }
        tile_at += stride;
    } while (grid_stride && tile_at < n);
}
