// C = alpha A B + beta C on Hopper for products of a few microseconds: one tile of C per block, which TMA loads into an mbarrier
// ring and wgmma multiplies. The cost of such a launch is what it does before its first load and after its last multiplication.
// So one thread of a separate warp loads, no registers are reallocated, and C is written by 16-byte stores from registers, not by
// TMA.
// X is the operand on wgmma's M side, Y the one on its N side: A and B, or with swap_ab B^T and A^T (C^T = B^T A^T). K may be
// divided among `k_warpgroups` sets of warpgroups of a block and among the `cluster_k` blocks of a cluster. Each part adds and
// stores a share of the tile, from what the others send to shared memory, in the order of the parts.
#define AUTOTUNE_KERNEL ${symbol}
#include "common/types.cuh"
using In = ${in_type};
using Out = ${out_type};
using Acc = ${acc_type};
constexpr int trans_a = ${trans_a};  // 1: A is stored [K, M]
constexpr int trans_b = ${trans_b};  // 1: B is stored [N, K]
constexpr int align_a = ${align_a};  // bytes
constexpr int align_b = ${align_b};
constexpr int align_c = ${align_c};
constexpr int reads_c = ${reads_c};  // 0: beta is known to be 0; reading C is compiled out
constexpr int swap_ab = ${swap_ab};
constexpr int block_m = ${block_m};
constexpr int block_n = ${block_n};
constexpr int block_k = ${block_k};
constexpr int consumer_warpgroups = ${consumer_warpgroups};  // warpgroups along M
constexpr int k_warpgroups = ${k_warpgroups};        // sets of warpgroups that divide the K steps of the block
constexpr int cluster_m = ${cluster_m};      // blocks along M that share a tile of Y by multicast
constexpr int cluster_n = ${cluster_n};      // blocks along N that share a tile of X by multicast
constexpr int cluster_k = ${cluster_k};      // blocks that divide the K steps of the tile
constexpr int stages = ${stages};            // stages of the ring
constexpr int raster = ${raster};            // clusters that start one after the other lie along 0: M, 1: N
// ---- end of parameters ----
#include "common/dependent_launch.cuh"
#include "common/hopper.cuh"
#include "common/ptx.cuh"
#include "common/wgmma_eights.cuh"
#include "gemm/device/prefetch_c.cuh"

namespace {

using namespace hopper;

constexpr bool converts_pairs = false;
constexpr int x_mn_major = swap_ab ? 1 - trans_b : trans_a;
constexpr int y_k_major = swap_ab ? 1 - trans_a : trans_b;

constexpr int bands = block_m / (64 * consumer_warpgroups);         // m64 multiplications per consumer warpgroup
constexpr int sums_each = is_same<Acc, f16> ? 2 : 1;        // sums in a register
constexpr int accumulators = block_n / 2 / sums_each;       // registers of one band
constexpr int band_units = (block_n + 15) / 16;             // units of 16 columns in a band; the last may be half a unit
constexpr int group_threads = 128 * consumer_warpgroups;            // threads that share a stage
constexpr int math_threads = group_threads * k_warpgroups;
constexpr int parts = cluster_k * k_warpgroups;                 // parts of K
constexpr bool shares_tiles = cluster_m * cluster_n > 1;
constexpr bool in_cluster = shares_tiles || cluster_k > 1;
constexpr int notified_blocks = cluster_m + cluster_n - 1;  // blocks that load for this one

static_assert(sizeof(In) == 2 && sizeof(Out) == 2 && (is_same<Acc, f32> || (is_same<Acc, f16> && is_same<In, f16>)));
static_assert(align_a == 16 && align_b == 16, "operands are read in chunks of 16 bytes");
static_assert(block_m % (64 * consumer_warpgroups) == 0 && block_n % 8 == 0 && block_n <= 256 && block_k % 64 == 0);
static_assert(block_n % 16 == 0 || (y_k_major && is_same<Acc, f32> && k_warpgroups * cluster_k == 1));
static_assert(cluster_m * cluster_n * cluster_k <= 8, "a cluster has at most 8 blocks");
// A set of warpgroups releases a stage after its next one is full. If the number of stages is a multiple of k_warpgroups, each
// stage belongs to one set. Otherwise a set could run ahead of the others and mistake an old fill's parity for its own.
static_assert(stages > k_warpgroups && stages % k_warpgroups == 0);

// Operand tiles are slabs one swizzle span wide. K-major: slabs of rows along K. MN-major: slabs of block_k rows.
__device__ constexpr int span_of(int extent) { return extent % 64 == 0 ? 64 : extent % 32 == 0 ? 32 : 16; }
constexpr int span_x = 64;
constexpr int span_y = y_k_major ? 64 : span_of(block_n);
constexpr u32 bytes_x = block_m * block_k * 2;
constexpr u32 bytes_y = block_n * block_k * 2;
constexpr u32 stage_bytes = bytes_x + bytes_y;
static_assert(stage_bytes % 1024 == 0 && bytes_x % 1024 == 0, "swizzled tiles start at multiples of 1024 bytes");

}  // namespace

#include "gemm/device/pairs.cuh"

namespace {

using Register = RegisterOf<Acc>::Type;
constexpr int unit_registers = 8 / sums_each;
using Sums = Register[bands][band_units * unit_registers];

// A tile's sums are divided and stored in units of 16 columns, with eight sums per thread. These are columns 2 * (lane % 4) and
// the next of the first eight columns, in row lane / 4 and the row eight below; then the same of the second eight columns.
constexpr int columns = bands * band_units;
constexpr int columns_each = (columns + parts - 1) / parts;  // columns of each part; the last may have fewer
constexpr bool equal_shares = columns % parts == 0;
static_assert(equal_shares || k_warpgroups == 1, "sets of warpgroups store equal shares");
constexpr u32 unit_bytes = group_threads * unit_registers * 4;
constexpr u32 received_bytes = parts == 1 ? 0 : (parts - 1) * k_warpgroups * columns_each * unit_bytes;
constexpr int units_at_once = columns_each % 4 == 0 && block_n % 64 == 0 ? 4 : columns_each % 2 == 0 && block_n % 32 == 0 ? 2 : 1;
constexpr u32 staged_unit_bytes = 16 * 32 + 32;  // padded, so that neighbouring units of a row are in different banks
constexpr u32 staging_bytes = math_threads / 32 * units_at_once * staged_unit_bytes;
// Bytes that the other blocks send to block `k` of those that divide a tile's K.
__device__ __forceinline__ u32 remote_bytes(int k) {
    const int own = equal_shares ? columns_each : min(columns_each, max(0, columns - k * columns_each));
    return (parts - k_warpgroups) * k_warpgroups * own * unit_bytes;
}

struct Extents {
    int m, n, k;  // M and N in the multiplication's coordinates (exchanged with swap_ab)
};

struct Tile {
    int m0, n0, batch;
};

// This block's run of K steps.
struct Run {
    int first, count;
};

struct Areas {
    u32 tiles, received, staging;  // offsets in shared memory
    u32 full, empty, exchanged;    // barriers there
    __device__ __forceinline__ u32 x(int stage) const { return tiles + stage * stage_bytes; }
    __device__ __forceinline__ u32 y(int stage) const { return tiles + stage * stage_bytes + bytes_x; }
};

// ---- loads ----

// A block's position in its cluster. Blocks that divide a tile's K are neighbours.
struct Place {
    int m, n, k;
};
__device__ __forceinline__ Place place_of(int rank) {
    if constexpr (!shares_tiles) return {0, 0, rank};
    return {rank / cluster_k % cluster_m, rank / (cluster_k * cluster_m), cluster_k == 1 ? 0 : rank % cluster_k};
}
// A bit for each block at positions (0.., 0, 0).
constexpr unsigned along_m = ((1u << cluster_m * cluster_k) - 1) / ((1u << cluster_k) - 1);
// The block of the cluster at position (m, n, k).
__device__ __forceinline__ int rank_of(int m, int n, int k) { return (n * cluster_m + m) * cluster_k + k; }

// Loads one operand's part of a stage. Each of `shares` blocks loads one part for all blocks of `mask`.
template <bool k_major, int extent, int span, int shares>
__device__ __forceinline__ void load_operand(u32 destination, const TensorMap* map, u32 barrier, int mn, int k, int batch, int share,
                                             unsigned mask) {
    constexpr int rows = (k_major ? extent : block_k) / shares;
    constexpr int slabs = (k_major ? block_k : extent) / span;
#pragma unroll
    for (int slab = 0; slab < slabs; ++slab) {
        const u32 to = destination + (slab * shares + share) * (rows * span * 2);
        const int column = (k_major ? k : mn) + slab * span, row = (k_major ? mn : k) + share * rows;
        if constexpr (shares > 1)
            load_box_multicast(to, map, barrier, column, row, batch, policy_normal, static_cast<unsigned short>(mask));
        else
            load_box(to, map, barrier, column, row, batch, policy_normal);
    }
}

__device__ __forceinline__ void produce(const Areas& at, const TensorMap* x, const TensorMap* y, const Tile& tile, const Run& run,
                                        const Place& place) {
    unsigned mask_x = 0;
#pragma unroll
    for (int i = 0; i < cluster_n; ++i) mask_x |= 1u << rank_of(place.m, i, place.k);
    const unsigned mask_y = along_m << rank_of(0, place.n, place.k);
    int stage = 0;
    u32 parity = 1;
#pragma unroll 1
    for (int step = 0; step < run.count; ++step) {
        if (step >= stages) barrier_wait(at.empty + stage * 8, parity);
        const u32 full = at.full + stage * 8;
        barrier_expect(full, stage_bytes);
        const int k = (run.first + step) * block_k;
        load_operand<!x_mn_major, block_m, span_x, cluster_n>(at.x(stage), x, full, tile.m0, k, tile.batch, place.n, mask_x);
        load_operand<y_k_major, block_n, span_y, cluster_m>(at.y(stage), y, full, tile.n0, k, tile.batch, place.m, mask_y);
        if (++stage == stages) {
            stage = 0;
            parity ^= 1;
        }
    }
}

// Tells the blocks that load for this block that it has read a stage.
__device__ __forceinline__ void release(u32 empty, const Place& place) {
    const int lane = threadIdx.x % 32;
    if constexpr (shares_tiles) {
        const bool loads = lane < cluster_m * cluster_n && (lane % cluster_m == place.m || lane / cluster_m == place.n);
        if (loads) barrier_arrive_remote(empty, rank_of(lane, 0, place.k));
    } else {
        if (lane == 0) barrier_arrive(empty);
    }
}

// ---- multiplications ----

// Returns a value that is equal in all threads of a warp, through a shuffle: the compiler then knows that, and computes with it
// once per warp.
__device__ __forceinline__ int warp_uniform(int value) { return __shfl_sync(0xffffffffu, value, 0); }

// The matrix descriptors of a warpgroup's operands in stage 0. The others differ only in the low word, by a sixteenth of their
// distance in bytes: one addition. Computed from addresses, each would take ten instructions, longer than a multiplication of 64
// x 32.
struct Descriptors {
    u32 x, y;
};
// The upper word of a descriptor, which describes eight rows and their swizzle.
__device__ constexpr u64 upper_word(int span) { return static_cast<u64>(span | (span == 64 ? 1u : span == 32 ? 2u : 3u) << 30) << 32; }
constexpr u64 upper_x = upper_word(span_x), upper_y = upper_word(span_y);

__device__ __forceinline__ Descriptors first_descriptors(u32 tiles, int row0) {
    const u32 x = tiles + (x_mn_major ? row0 / 64 * (block_k * 128) : row0 * 128), y = tiles + bytes_x;
    return {static_cast<u32>(matrix_descriptor(x, x_mn_major ? block_k * 128 : 16, 1024, 128)),
            static_cast<u32>(matrix_descriptor(y, y_k_major ? 16 : block_k * span_y * 2, 8 * span_y * 2, span_y * 2))};
}

// The multiplications of one stage, issued and committed as one group.
__device__ __forceinline__ void multiply(Sums& acc, const Descriptors& first, int stage, bool fresh) {
    const u32 x = first.x + stage * (stage_bytes / 16), y = first.y + stage * (stage_bytes / 16);
    wgmma_fence();
#pragma unroll
    for (int kk = 0; kk < block_k / 16; ++kk) {
        const u32 slab = kk / 4, in_slab = kk % 4 * 32;  // position in a K-major tile
        const u32 to_y = y_k_major ? slab * (block_n * 128) + in_slab : kk * 16 * span_y * 2;
#pragma unroll
        for (int band = 0; band < bands; ++band) {
            const u32 to_x = x_mn_major ? band * (block_k * 128) + kk * 16 * 128 : slab * (block_m * 128) + band * (64 * 128) + in_slab;
            Wgmma<block_n, In, Acc, x_mn_major, 1 - y_k_major>::run(acc[band], upper_x | (x + to_x / 16), upper_y | (y + to_y / 16),
                                                                    fresh && kk == 0 ? 0 : 1);
        }
    }
    wgmma_commit();
}

// Clears the sums of a part without a step, if K has fewer steps than parts.
__device__ __forceinline__ void clear(Sums& acc) {
#pragma unroll
    for (int i = 0; i < bands * accumulators; ++i) acc[i / accumulators][i % accumulators] = Register{};
}

// ---- adding the parts of K ----

__device__ __forceinline__ void store_shared(u32 address, const float* r) {
    asm volatile("st.shared.v4.f32 [%0], {%1, %2, %3, %4};" ::"r"(address), "f"(r[0]), "f"(r[1]), "f"(r[2]), "f"(r[3]) : "memory");
}
__device__ __forceinline__ void store_shared(u32 address, const u32* r) {
    asm volatile("st.shared.v2.u32 [%0], {%1, %2};" ::"r"(address), "r"(r[0]), "r"(r[1]) : "memory");
}

constexpr int quad_registers = 4 / sums_each;  // registers per send instruction

// Address at which a thread finds quad `half` of owned unit `unit` from part `slot`.
__device__ __forceinline__ u32 received_at(u32 received, int group, int slot, int unit, int half, int thread) {
    return received + ((((group * (parts - 1) + slot) * columns_each + unit) * 2 + half) * group_threads + thread) * (quad_registers * 4);
}

// Sends every other part its share of this part's sums. The parts of this block read them after a barrier of its consumer
// threads.
__device__ __forceinline__ void send_shares(const Areas& at, const Place& place, int k_group, int thread, const Sums& acc) {
    const int part = place.k * k_warpgroups + k_group;
#pragma unroll
    for (int q = 0; q < columns; ++q) {
        const int owner = q / columns_each;
        if (owner == part) continue;
        const int slot = part < owner ? part : part - 1;
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const Register* r = &acc[q / band_units][q % band_units * unit_registers + half * quad_registers];
            const u32 to = received_at(at.received, owner % k_warpgroups, slot, q % columns_each, half, thread);
            if (cluster_k == 1 || owner / k_warpgroups == place.k)
                store_shared(to, r);
            else
                send_remote(to, at.exchanged, rank_of(place.m, place.n, owner / k_warpgroups), r);
        }
    }
}

// Unit `i` of those that this part owns. It is selected, not indexed: registers cannot be indexed, and separate code for each
// part would have to be fetched from memory at every launch.
__device__ __forceinline__ void select_unit(const Sums& acc, int part, int i, Register* own) {
#pragma unroll
    for (int owner = 0; owner < parts; ++owner) {
        const int unit = owner * columns_each + i;
        if (unit >= columns) continue;
        const Register* from = &acc[unit / band_units][unit % band_units * unit_registers];
#pragma unroll
        for (int r = 0; r < unit_registers; ++r) own[r] = owner == 0 || owner == part ? from[r] : own[r];
    }
}

__device__ __forceinline__ void widen(const Register* unit, float* sum) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        const Pair pair = pair_of(unit, i);
        sum[2 * i] = pair.low, sum[2 * i + 1] = pair.high;
    }
}

// Adds the eight sums of an owned unit over all parts, in order.
__device__ __forceinline__ void add_shares(const Areas& at, int part, int k_group, int thread, int unit, const Register* own, float* sum) {
#pragma unroll
    for (int i = 0; i < 8; ++i) sum[i] = 0.0f;
#pragma unroll
    for (int other = 0; other < parts; ++other) {
        Register r[unit_registers];
#pragma unroll
        for (int i = 0; i < unit_registers; ++i) r[i] = own[i];
        if (other != part) {
            const int slot = other < part ? other : other - 1;
            load_shared(received_at(at.received, k_group, slot, unit, 0, thread), r);
            load_shared(received_at(at.received, k_group, slot, unit, 1, thread), r + quad_registers);
        }
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const Pair pair = pair_of(r, i);
            sum[2 * i] += pair.low;
            sum[2 * i + 1] += pair.high;
        }
    }
}

// ---- stores ----

__device__ __forceinline__ void load_chunk(u32 address, u32* r) {
    asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(address) : "memory");
}

__device__ __forceinline__ void write_staged_chunk(u32 address, const u32* r) {
    asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3]) : "memory");
}

struct Output {
    Out* c;
    i64 ldc;
    float alpha, beta;
};

template <typename Element>
__device__ __forceinline__ Pair unpack2(u32 pair) {
    return {to_f32(Element{static_cast<u16>(pair)}), to_f32(Element{static_cast<u16>(pair >> 16)})};
}

// Reads, or writes, the first `valid` of eight neighbouring elements at a multiple of 16 bytes; with one access if all are valid.
__device__ __forceinline__ void read_chunk(const Out* from, int valid, u32* r) {
    if (valid == 8) {
        const uint4 all = *reinterpret_cast<const uint4*>(from);
        r[0] = all.x, r[1] = all.y, r[2] = all.z, r[3] = all.w;
        return;
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        const u32 low = 2 * i < valid ? from[2 * i].bits : 0, high = 2 * i + 1 < valid ? from[2 * i + 1].bits : 0;
        r[i] = low | high << 16;
    }
}
__device__ __forceinline__ void write_chunk(Out* to, int valid, const u32* r) {
    if (valid == 8) {
        *reinterpret_cast<uint4*>(to) = make_uint4(r[0], r[1], r[2], r[3]);
        return;
    }
#pragma unroll
    for (int i = 0; i < 8; ++i) {
        if (i < valid) to[i].bits = static_cast<u16>(r[i / 2] >> i % 2 * 16);
    }
}

// A warp's units go through its own part of shared memory. That takes 17 instructions per unit, shuffles would take 80, and
// instructions that run once cost the time to fetch them, 30 clocks per line of eight. A unit is stored as 16 rows of C, 32 bytes
// each, whose halves are exchanged in every other group of four rows.
__device__ __forceinline__ u32 staged_at(u32 unit, int row, int half) { return unit + row * 32 + ((half ^ (row >> 2 & 1)) << 4); }

__device__ __forceinline__ void stage_unit(u32 unit, float alpha, const float* sum) {
    const int lane = threadIdx.x % 32;
    const int low = lane % 8 + (swap_ab ? lane / 16 : lane / 8 % 2) * 8, half = swap_ab ? lane / 8 % 2 : lane / 16;
    u32 r[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) r[i] = pack2<Out>(alpha * sum[2 * i], alpha * sum[2 * i + 1]);
    if constexpr (swap_ab)
        store_matrices_transposed(staged_at(unit, low, half), r[0], r[1], r[2], r[3]);
    else
        store_matrices(staged_at(unit, low, half), r[0], r[1], r[2], r[3]);
}

// ---- C whose rows are not aligned to 16 bytes ----

// A lane has a piece of as many bytes as C's alignment, and its neighbour the next piece, so that an access of a warp touches few
// sectors of 32 bytes, each once. When each lane accessed eight elements one after the other, 1.8 million elements that were read
// and written took 20 us (f16 162x11165x88, H200).
struct Pieces {
    static constexpr int elements = (align_c < 16 ? align_c : 8) / static_cast<int>(sizeof(Out));  // 16: nobody takes pieces
    static constexpr int in_row = (swap_ab ? 16 : 16 * units_at_once) / elements;  // the pieces per row of the units of one group
    static constexpr int rows_at_once = in_row < 32 ? 32 / in_row : 1;
    static constexpr int turns_of_row = in_row < 32 ? 1 : in_row / 32;
    static constexpr int count = 8 * units_at_once / elements;  // pieces for each lane
    // Row of piece `i` in the group.
    __device__ __forceinline__ static int row(int i) {
        return i / turns_of_row * rows_at_once + static_cast<int>(threadIdx.x % 32) / in_row;
    }
    __device__ __forceinline__ static int column(int i) {
        return (i % turns_of_row * 32 + static_cast<int>(threadIdx.x % 32) % in_row) * elements;
    }
    __device__ __forceinline__ static u32 staged(u32 staging, int i) {
        const int unit = swap_ab ? row(i) / 16 : column(i) / 16, byte = column(i) % 16 * 2;
        return staged_at(staging + unit * staged_unit_bytes, row(i) % 16, byte / 16) + byte % 16;
    }
};

// Writes piece `i` of those that a lane has in consecutive registers.
__device__ __forceinline__ void put_piece(u32* r, int i, u16 bits) {
    r[i / 2] = i % 2 == 0 ? bits : r[i / 2] | static_cast<u32>(bits) << 16;
}
__device__ __forceinline__ void put_piece(u32* r, int i, u32 bits) { r[i] = bits; }
__device__ __forceinline__ void put_piece(u32* r, int i, uint2 bits) { r[2 * i] = bits.x, r[2 * i + 1] = bits.y; }
__device__ __forceinline__ void take_piece(const u32* r, int i, u16& bits) { bits = static_cast<u16>(r[i / 2] >> i % 2 * 16); }
__device__ __forceinline__ void take_piece(const u32* r, int i, u32& bits) { bits = r[i]; }
__device__ __forceinline__ void take_piece(const u32* r, int i, uint2& bits) { bits = make_uint2(r[2 * i], r[2 * i + 1]); }

__device__ __forceinline__ void load_staged(u32 from, u16& bits) { asm volatile("ld.shared.u16 %0, [%1];" : "=h"(bits) : "r"(from) : "memory"); }
__device__ __forceinline__ void load_staged(u32 from, u32& bits) { asm volatile("ld.shared.u32 %0, [%1];" : "=r"(bits) : "r"(from) : "memory"); }
__device__ __forceinline__ void load_staged(u32 from, uint2& bits) {
    asm volatile("ld.shared.v2.u32 {%0, %1}, [%2];" : "=r"(bits.x), "=r"(bits.y) : "r"(from) : "memory");
}
__device__ __forceinline__ void write_staged(u32 to, u16 bits) { asm volatile("st.shared.u16 [%0], %1;" ::"r"(to), "h"(bits) : "memory"); }
__device__ __forceinline__ void write_staged(u32 to, u32 bits) { asm volatile("st.shared.u32 [%0], %1;" ::"r"(to), "r"(bits) : "memory"); }
__device__ __forceinline__ void write_staged(u32 to, uint2 bits) {
    asm volatile("st.shared.v2.u32 [%0], {%1, %2};" ::"r"(to), "r"(bits.x), "r"(bits.y) : "memory");
}

using PieceOfC = Pack<Out, Pieces::elements>;

// Reads the first `valid` elements of a piece. If the rows in memory are longer than C, the end of C may cut a piece.
__device__ __forceinline__ PieceOfC read_piece(const Out* from, int valid) {
    PieceOfC piece;
    if (valid >= Pieces::elements) {
        piece.raw = *reinterpret_cast<const decltype(piece.raw)*>(from);
        return piece;
    }
#pragma unroll
    for (int i = 0; i < Pieces::elements; ++i) piece.at[i].bits = i < valid ? from[i].bits : static_cast<u16>(0);
    return piece;
}
__device__ __forceinline__ void write_piece(Out* to, int valid, const PieceOfC& piece) {
    if (valid >= Pieces::elements) {
        *reinterpret_cast<decltype(PieceOfC::raw)*>(to) = piece.raw;
        return;
    }
#pragma unroll
    for (int i = 0; i < Pieces::elements - 1; ++i) {
        if (i < valid) to[i] = piece.at[i];
    }
}

// How many elements of piece `i` are in C, given the group's first row and column in C.
__device__ __forceinline__ int valid_in_piece(const Extents& s, int c_row, int c_col, int i) {
    return c_row + Pieces::row(i) < (swap_ab ? s.n : s.m) ? (swap_ab ? s.m : s.n) - c_col - Pieces::column(i) : 0;
}

__device__ __forceinline__ void read_pieces(const Output& out, const Extents& s, int c_row, int c_col, u32* held) {
#pragma unroll
    for (int i = 0; i < Pieces::count; ++i) {
        const Out* from = out.c + (c_row + Pieces::row(i)) * out.ldc + c_col + Pieces::column(i);
        put_piece(held, i, read_piece(from, valid_in_piece(s, c_row, c_col, i)).raw);
    }
}
__device__ __forceinline__ void stage_pieces(u32 staging, const u32* held) {
#pragma unroll
    for (int i = 0; i < Pieces::count; ++i) {
        PieceOfC piece;
        take_piece(held, i, piece.raw);
        write_staged(Pieces::staged(staging, i), piece.raw);
    }
}
__device__ __forceinline__ void store_pieces(const Output& out, const Extents& s, int c_row, int c_col, u32 staging) {
#pragma unroll 4
    for (int i = 0; i < Pieces::count; ++i) {
        PieceOfC piece;
        load_staged(Pieces::staged(staging, i), piece.raw);
        write_piece(out.c + (c_row + Pieces::row(i)) * out.ldc + c_col + Pieces::column(i), valid_in_piece(s, c_row, c_col, i), piece);
    }
}

// Stores `units_at_once` staged units that are neighbours along the multiplication's columns. `row` and `col` are their first.
__device__ __forceinline__ void store_staged(const Output& out, const Extents& s, int row, int col, u32 staging) {
    constexpr int chunks = swap_ab ? 2 : 2 * units_at_once;  // chunks in a row of C
    constexpr int rows = 32 / chunks;                        // rows that the warp stores at once
    if constexpr (align_c < 16) return store_pieces(out, s, swap_ab ? col : row, swap_ab ? row : col, staging);
    const int lane = threadIdx.x % 32, first = lane / chunks, chunk = lane % chunks;
    const int c_row = (swap_ab ? col : row) + first, c_col = (swap_ab ? row : col) + chunk * 8;
    Out* to = out.c + c_row * out.ldc + c_col;
    const bool is_whole = row + 16 <= s.m && col + 16 * units_at_once <= s.n;
    if (is_whole) {
#pragma unroll
        for (int i = 0; i < units_at_once; ++i) {
            const u32 from = swap_ab ? staged_at(staging + i * staged_unit_bytes, first, chunk)
                                     : staged_at(staging + chunk / 2 * staged_unit_bytes, i * rows + first, chunk % 2);
            u32 r[4];
            load_chunk(from, r);
            *reinterpret_cast<uint4*>(to + i * rows * out.ldc) = make_uint4(r[0], r[1], r[2], r[3]);
        }
        return;
    }
#pragma unroll 1
    for (int i = 0; i < units_at_once; ++i) {
        const u32 from = swap_ab ? staged_at(staging + i * staged_unit_bytes, first, chunk)
                                 : staged_at(staging + chunk / 2 * staged_unit_bytes, i * rows + first, chunk % 2);
        const int valid = c_row + i * rows < (swap_ab ? s.n : s.m) ? min(8, (swap_ab ? s.m : s.n) - c_col) : 0;
        u32 r[4];
        load_chunk(from, r);
        if (valid > 0) write_chunk(to + i * rows * out.ldc, valid, r);
    }
}

// Address of a lane's row of the unit's four matrices, for stmatrix and ldmatrix.
__device__ __forceinline__ u32 staged_row(u32 unit) {
    const int lane = threadIdx.x % 32;
    return staged_at(unit, lane % 8 + (swap_ab ? lane / 16 : lane / 8 % 2) * 8, swap_ab ? lane / 8 % 2 : lane / 16);
}

// Adds a unit to the C that is staged in its place, in registers, so that the result is rounded once.
__device__ __forceinline__ void add_unit(u32 unit, const Output& out, const float* sum) {
    const u32 at = staged_row(unit);
    u32 r[4];
    if constexpr (swap_ab)
        ptx::ldmatrix_x4_trans(r, at);
    else
        ptx::ldmatrix_x4(r, at);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        const Pair before = unpack2<Out>(r[i]);
        r[i] = pack2<Out>(out.alpha * sum[2 * i] + out.beta * before.low, out.alpha * sum[2 * i + 1] + out.beta * before.high);
    }
    if constexpr (swap_ab)
        store_matrices_transposed(at, r[0], r[1], r[2], r[3]);
    else
        store_matrices(at, r[0], r[1], r[2], r[3]);
}

// The values of C where this warp stores, in the order of store_staged(). While products are computed, as many units are loaded
// as the sums leave registers for.
constexpr int registers_allowed = math_threads < 128 * 2 ? 248 : 65536 / (math_threads + 128) / 8 * 8;
constexpr int groups_each = columns_each / units_at_once;
constexpr int groups_that_fit = (registers_allowed - bands * accumulators - 48) / (4 * units_at_once);
// whether C is loaded in advance; otherwise each group is read just before it is needed
constexpr bool holds_c = groups_that_fit > 0;
constexpr int held_groups = !holds_c ? 1 : groups_that_fit < groups_each ? groups_that_fit : groups_each;
using Held = u32[held_groups][units_at_once][4];

__device__ __forceinline__ void read_units(const Output& out, const Extents& s, int row, int col, u32 (&held)[units_at_once][4]) {
    constexpr int chunks = swap_ab ? 2 : 2 * units_at_once;
    constexpr int rows = 32 / chunks;
    if constexpr (align_c < 16) return read_pieces(out, s, swap_ab ? col : row, swap_ab ? row : col, held[0]);
    const int lane = threadIdx.x % 32;
    const int first = (swap_ab ? col : row) + lane / chunks, along = (swap_ab ? row : col) + lane % chunks * 8;
    const Out* from = out.c + first * out.ldc + along;
#pragma unroll
    for (int i = 0; i < units_at_once; ++i) {
        const int valid = first + i * rows < (swap_ab ? s.n : s.m) ? min(8, (swap_ab ? s.m : s.n) - along) : 0;
        read_chunk(from + i * rows * out.ldc, valid, held[i]);
    }
}
__device__ __forceinline__ void stage_chunks(u32 staging, const u32 (&held)[units_at_once][4]) {
    constexpr int chunks = swap_ab ? 2 : 2 * units_at_once;
    constexpr int rows = 32 / chunks;
    if constexpr (align_c < 16) return stage_pieces(staging, held[0]);
    const int lane = threadIdx.x % 32, first = lane / chunks, chunk = lane % chunks;
#pragma unroll
    for (int i = 0; i < units_at_once; ++i) {
        write_staged_chunk(swap_ab ? staged_at(staging + i * staged_unit_bytes, first, chunk)
                                   : staged_at(staging + chunk / 2 * staged_unit_bytes, i * rows + first, chunk % 2),
                           held[i]);
    }
}

// ---- the kernel ----

__device__ __forceinline__ void make_barriers(const Areas& at, const Run& run, const Place& place, const TensorMap* x, const TensorMap* y) {
    prefetch_map(x);
    prefetch_map(y);
#pragma unroll
    for (int i = 0; i < stages; ++i) barrier_init(at.full + i * 8, 1);
    if (run.count > stages) {  // otherwise no stage is filled twice
#pragma unroll
        for (int i = 0; i < stages; ++i) barrier_init(at.empty + i * 8, 4 * consumer_warpgroups * notified_blocks);
    }
    if constexpr (cluster_k > 1) {
        barrier_init(at.exchanged, 1);
        barrier_expect(at.exchanged, remote_bytes(place.k));
    }
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

// The two halves of a cluster's barrier. Work between them hides its latency.
__device__ __forceinline__ void arrive_in_cluster() { asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory"); }
__device__ __forceinline__ void wait_for_cluster() { asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory"); }

// Reads group number `group` of the units of C that this part owns.
__device__ __forceinline__ void read_group(const Output& out, const Extents& s, const Tile& tile, int part, int group,
                                           u32 (&held)[units_at_once][4]) {
    const int unit = part * columns_each + group * units_at_once;
    const int row0 = tile.m0 + threadIdx.x % group_threads / 128 * (64 * bands) + threadIdx.x / 32 % 4 * 16;
    read_units(out, s, row0 + unit / band_units * 64, tile.n0 + unit % band_units * 16, held);
}

// Fetches all of C that the tile reads into L2, each block of the cluster a share.
__device__ __forceinline__ void prefetch_tile_of_c(const Output& out, const Extents& s, const Tile& tile, const Place& place) {
    const int row = swap_ab ? tile.n0 : tile.m0, col = swap_ab ? tile.m0 : tile.n0;
    constexpr int rows = swap_ab ? block_n : block_m, cols = swap_ab ? block_m : block_n;
    prefetch_c<cols>(out.c + row * out.ldc + col, out.ldc, min(rows, (swap_ab ? s.n : s.m) - row), min(cols, (swap_ab ? s.m : s.n) - col),
                     place.k * math_threads + threadIdx.x, cluster_k * math_threads);
}

__device__ __forceinline__ void hold_c(const Output& out, const Extents& s, const Tile& tile, const Place& place, Held& held) {
    const int part = parts == 1 ? 0 : place.k * k_warpgroups + threadIdx.x / group_threads;
#pragma unroll
    for (int group = 0; group < held_groups; ++group) read_group(out, s, tile, part, group, held[group]);
}

__device__ __forceinline__ void store_tile(const Areas& at, const Output& out, const Extents& s, const Tile& tile, const Place& place,
                                           const Sums& acc, Held& held) {
    const int thread = threadIdx.x % group_threads, k_group = threadIdx.x / group_threads;
    const int part = parts == 1 ? 0 : place.k * k_warpgroups + k_group;
    if constexpr (parts > 1) {
        send_shares(at, place, k_group, thread, acc);
        if constexpr (k_warpgroups > 1) named_barrier(1, math_threads);
        if constexpr (cluster_k > 1) barrier_wait_cluster(at.exchanged, 0);
    }
    const int row0 = tile.m0 + thread / 128 * (64 * bands) + thread / 32 % 4 * 16;
    const u32 staging = at.staging + threadIdx.x / 32 * (units_at_once * staged_unit_bytes);
#pragma unroll
    for (int first = 0; first < columns_each; first += units_at_once) {
        const int unit = part * columns_each + first;
        if (!equal_shares && unit >= columns) break;
        const int row = row0 + unit / band_units * 64, col = tile.n0 + unit % band_units * 16;
        if (reads_c && out.beta != 0.0f) {
            const int group = first / units_at_once;
            if constexpr (!holds_c) read_group(out, s, tile, part, group, held[0]);
            stage_chunks(staging, held[group % held_groups]);
            if (holds_c && group + held_groups < groups_each) read_group(out, s, tile, part, group + held_groups, held[group % held_groups]);
            __syncwarp();
        }
#pragma unroll
        for (int i = 0; i < units_at_once; ++i) {
            float sum[8];
            if constexpr (parts > 1) {
                Register own[unit_registers];
                select_unit(acc, part, first + i, own);
                add_shares(at, part, k_group, thread, first + i, own, sum);
            } else {
                widen(&acc[(first + i) / band_units][(first + i) % band_units * unit_registers], sum);
            }
            if (reads_c && out.beta != 0.0f)
                add_unit(staging + i * staged_unit_bytes, out, sum);
            else
                stage_unit(staging + i * staged_unit_bytes, out.alpha, sum);
        }
        __syncwarp();
        store_staged(out, s, row, col, staging);
        __syncwarp();  // waits, because the next units will overwrite these
    }
}

// Multiplies the steps of this set of warpgroups: every k_warpgroups-th step of the block.
__device__ __forceinline__ void multiply_all(const Areas& at, const Run& run, const Place& place, Sums& acc) {
    const int warpgroup = warp_uniform(threadIdx.x / 128);
    const int k_group = warpgroup / consumer_warpgroups;
    const Descriptors first = first_descriptors(at.tiles, warpgroup % consumer_warpgroups * (64 * bands));
    int stage = k_group, previous = -1;
    u32 parity = 0;
    if (parts > 1 && k_group >= run.count) clear(acc);
#pragma unroll 1
    for (int step = k_group; step < run.count; step += k_warpgroups) {
        barrier_wait(at.full + stage * 8, parity);
        multiply(acc, first, stage, step == k_group);
        if (previous >= 0 && step - k_warpgroups + stages < run.count) {  // releases the stage if it will be filled again
            wgmma_wait<1>();
            release(at.empty + previous * 8, place);
        }
        previous = stage;
        stage += k_warpgroups;
        if (stage >= stages) {
            stage -= stages;
            parity ^= 1;
        }
    }
}

__device__ __forceinline__ Tile tile_of(const Place& place) {
    const int batch = static_cast<int>(blockIdx.z);
    if constexpr (raster == 0) return {static_cast<int>(blockIdx.x) / cluster_k * block_m, static_cast<int>(blockIdx.y) * block_n, batch};
    const int first_m = static_cast<int>(blockIdx.y) / cluster_n * cluster_m, first_n = static_cast<int>(blockIdx.x) / (cluster_m * cluster_k) * cluster_n;
    return {(first_m + place.m) * block_m, (first_n + place.n) * block_n, batch};
}

constexpr int threads = math_threads + 32;

}  // namespace

extern "C" __global__ void __launch_bounds__(threads, 1)
    AUTOTUNE_ENTRY()(const __grid_constant__ TensorMap map_x, const __grid_constant__ TensorMap map_y, Out* c, float alpha, float beta, int m, int n, int k, i64 ldc, i64 stride_c) {
    extern __shared__ unsigned char shared[];
    u32 base = (smem_address(shared) + 1023) & ~1023u;
    asm volatile("" : "+r"(base));  // computed once instead of at each use
    Areas at;
    at.tiles = base;
    at.received = base + stages * stage_bytes;
    at.staging = at.received + received_bytes;
    at.full = at.staging + staging_bytes;
    at.empty = at.full + stages * 8;
    at.exchanged = at.empty + stages * 8;
    Extents shape{swap_ab ? n : m, swap_ab ? m : n, k};
    const Place place = place_of(in_cluster ? static_cast<int>(cluster_rank()) : 0);
    const Tile tile = tile_of(place);
    if constexpr (block_n % 16 != 0) shape.n = min(shape.n, tile.n0 + block_n);  // half of the last unit belongs to the next tile
    const int steps = (k + block_k - 1) / block_k;
    Run run{0, steps};
    if constexpr (cluster_k > 1) {
        run.first = steps * place.k / cluster_k;
        run.count = steps * (place.k + 1) / cluster_k - run.first;
    }
    if (threadIdx.x >= math_threads) {
        if (threadIdx.x == math_threads) make_barriers(at, run, place, &map_x, &map_y);
        __syncwarp();
        asm volatile("bar.arrive 0, %0;" ::"n"(threads) : "memory");
        if constexpr (in_cluster) arrive_in_cluster();
        if constexpr (shares_tiles) wait_for_cluster();  // multicasts arrive at the peers' barriers, which must be initialised
        if (threadIdx.x == math_threads) {
            dependent_launch::wait_for_earlier_grids();
            dependent_launch::let_next_grid_start();
            produce(at, &map_x, &map_y, tile, run, place);
        }
        __syncwarp();
        if constexpr (in_cluster && !shares_tiles) wait_for_cluster();
        return;
    }
    asm volatile("bar.sync 0, %0;" ::"n"(threads) : "memory");
    if constexpr (in_cluster) arrive_in_cluster();
    if (reads_c && beta != 0.0f) prefetch_tile_of_c({c + tile.batch * stride_c, ldc, alpha, beta}, shape, tile, place);
    dependent_launch::wait_for_earlier_grids();
    Held held;
    if (reads_c && holds_c && beta != 0.0f) hold_c({c + tile.batch * stride_c, ldc, alpha, beta}, shape, tile, place, held);
    Sums acc;
    if constexpr (block_n % 16 != 0) {
#pragma unroll
        // initialises sums that are never stored
        for (int i = 0; i < bands * 4; ++i) acc[i / 4][accumulators + i % 4] = Register{};
    }
    multiply_all(at, run, place, acc);
    wgmma_wait<0>();
    if constexpr (in_cluster) wait_for_cluster();  // shares arrive at the peers' barriers, which must be initialised
    const Output out{c + tile.batch * stride_c, ldc, alpha, beta};
    store_tile(at, out, shape, tile, place, acc, held);
}
