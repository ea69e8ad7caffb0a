// C = alpha A B + beta C with f32 operands on Hopper, truncated to tf32: TMA loads into an mbarrier ring, wgmma multiplies; one
// producer warp and `consumer_warpgroups` consumer warpgroups, persistent blocks. Cooperative: the consumer warpgroups share a
// tile, each has a band of its rows. Ping-pong: each has its own tiles, so that one's epilogue overlaps another's
// multiplications.
// X is the operand on wgmma's M side, Y the one on its N side: A and B, or with swap_ab B^T and A^T (C^T = B^T A^T). wgmma reads
// tf32 from shared memory only if it is stored along K. So Y must be an operand that is. X is read into registers if it is not,
// because register operands may have any layout. If neither is (A stored [K, M] and B [K, N]), _arrange first makes a transposed
// copy of Y in the workspace.
// clang-format off
#define AUTOTUNE_KERNEL ${symbol}
#include "common/types.cuh"
using In = ${in_type};
using Out = ${out_type};
constexpr int trans_a = ${trans_a};  // 1: A is stored [K, M]
constexpr int trans_b = ${trans_b};  // 1: B is stored [N, K]
constexpr int align_a = ${align_a};  // bytes; below 16 the operand is copied into the workspace first
constexpr int align_b = ${align_b};
constexpr int align_c = ${align_c};
constexpr int reads_c = ${reads_c};  // 0: beta is known to be 0; reading C is compiled out
constexpr int swap_ab = ${swap_ab};
constexpr int block_m = ${block_m};
constexpr int block_n = ${block_n};
constexpr int consumer_warpgroups = ${consumer_warpgroups};
constexpr int pingpong = ${pingpong};
constexpr int cluster_m = ${cluster_m};  // blocks along M that share a tile of Y
constexpr int cluster_n = ${cluster_n};  // blocks along N that share a tile of X
constexpr int tma_store = ${tma_store};
constexpr int epilogue_stages = ${epilogue_stages};  // stages of each consumer warp's epilogue
// Sets of registers for X, each for part of a stage; with 2, one is loaded during the other's multiplications
constexpr int x_sets = ${x_sets};
// clang-format on
// ---- end of parameters ----
#include "common/dependent_launch.cuh"
#include "common/hopper.cuh"
#include "common/wgmma_tf32.cuh"
#include "gemm/device/arrange.cuh"
#include "gemm/device/store_run.cuh"

namespace {

using namespace hopper;

static_assert(is_same<In, f32> && is_same<Out, f32>, "operands and results are f32");
constexpr bool x_along_m = trans_a || !trans_b;
constexpr bool x_in_registers = x_along_m;
static_assert(x_in_registers || !swap_ab, "both operands lie along K: nothing to exchange");
static_assert(trans_a || trans_b || swap_ab, "Y lies along K: with A plain and B plain it is A");
static_assert(!trans_a || !trans_b || !swap_ab, "Y lies along K: with A and B transposed it is B");

constexpr int block_k = 32;  // 128 bytes, a swizzle span
constexpr int groups_per_tile = pingpong ? 1 : consumer_warpgroups;
constexpr int bands = block_m / (64 * groups_per_tile);  // m64 multiplications per consumer warpgroup
constexpr int group_rows = 64 * bands;
constexpr int accumulators = block_n / 2;  // registers of one band
constexpr int sharing_blocks = cluster_m * cluster_n, cluster_blocks = sharing_blocks;
constexpr int notified_blocks = cluster_m + cluster_n - 1;  // blocks that load for this one: those in its row or column of the cluster
constexpr int math_threads = 128 * consumer_warpgroups;
static_assert(block_m % (64 * groups_per_tile) == 0 && block_n % 32 == 0 && block_n <= 256);
static_assert(x_sets == 1 || x_in_registers, "sets of registers are for an X that is in registers");
static_assert(!x_in_registers || bands == 2, "a warp reads rows from registers in slabs of 32");
static_assert(!tma_store || align_c == 16, "a TMA store takes rows of a multiple of 16 bytes");

constexpr u32 bytes_x = block_m * block_k * 4;
constexpr u32 bytes_y = block_n * block_k * 4;
constexpr u32 stage_bytes = bytes_x + bytes_y;
constexpr u32 slab_bytes = 32 * 128;  // 32 rows of 32 elements

}  // namespace

#include "gemm/device/hopper/hopper_ring.cuh"
#include "gemm/device/f32_producer.cuh"

namespace {

using Sums = float[bands][accumulators];

// ---- multiplications ----

// Lane 4 r + t of an m64k8 multiplication has rows r and r + 8 of its warp's 16, at k = t and t + 4. X from registers: the warp
// has 32 neighbouring rows for the two bands, of which the lane reads four, from 4 row_chunk(r) on; rows r and r + 8 of band b
// are rows 2 b and 2 b + 1 of those four. Neighbouring r are 16 rows apart, so that eight lanes read from all banks.
__device__ __forceinline__ int lane_r() { return static_cast<int>(threadIdx.x) % 32 / 4; }
__device__ __forceinline__ int lane_t() { return static_cast<int>(threadIdx.x) % 4; }
__device__ __forceinline__ int warp_in_group() { return static_cast<int>(threadIdx.x) / 32 % 4; }
__device__ __forceinline__ int row_chunk(int r) { return r / 2 + r % 2 * 4; }

// The first of a warp's rows within its group and band; and how many consecutive rows it has.
constexpr int warp_rows = x_in_registers ? 32 : 16;
__device__ __forceinline__ int row_of(int band, int upper) {
    return x_in_registers ? 4 * row_chunk(lane_r()) + 2 * band + upper : 8 * upper + lane_r();
}
__device__ __forceinline__ int first_row(int band) { return x_in_registers ? warp_in_group() * 32 : band * 64 + warp_in_group() * 16; }

constexpr int x_steps = block_k / 8 / x_sets;  // multiplications of k8 per set of X registers

// A consumer warpgroup's X for a stage or half of it, from slabs of 32 rows. TMA stored them k by k, with chunks XORed by k.
struct RegisterX {
    u32 at[x_steps][2][4];  // by multiplication and band

    __device__ __forceinline__ void load(u32 tile) {
        const u32 row = tile + warp_in_group() * slab_bytes + lane_t() * 128;
        const int chunk = row_chunk(lane_r()), t = lane_t();
#pragma unroll
        for (int i = 0; i < 2 * x_steps; ++i) {
            u32 four[4];
            asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                         : "=r"(four[0]), "=r"(four[1]), "=r"(four[2]), "=r"(four[3])
                         : "r"(row + i * 512 + (chunk ^ t ^ i % 2 * 4) * 16)
                         : "memory");
#pragma unroll
            for (int band = 0; band < 2; ++band) {
                at[i / 2][band][i % 2 * 2] = four[2 * band];
                at[i / 2][band][i % 2 * 2 + 1] = four[2 * band + 1];
            }
        }
    }
};

// Multiplies one stage, or the part of it in one set of registers; issued and committed as one group.
__device__ __forceinline__ void multiply(Sums& acc, u32 tile_x, const RegisterX& x, u32 tile_y, bool fresh) {
    wgmma_fence();
#pragma unroll
    for (int kk = 0; kk < x_steps; ++kk) {
        const u64 desc_y = matrix_descriptor(tile_y + kk * 32, 16, 1024, 128);
#pragma unroll
        for (int band = 0; band < bands; ++band) {
            const int keep = fresh && kk == 0 ? 0 : 1;
            if constexpr (x_in_registers)
                WgmmaTf32<block_n>::run(acc[band], x.at[kk][band], desc_y, keep);
            else
                WgmmaTf32<block_n>::run(acc[band], matrix_descriptor(tile_x + band * 64 * 128 + kk * 32, 16, 1024, 128), desc_y, keep);
        }
    }
    wgmma_commit();
}

// ---- results ----

struct Output {
    f32* c;
    const TensorMap* map;
    float alpha, beta;
    i64 ldc, stride_c;
};

// The column of C for accumulator 8 j + 2 t + odd; a row of C with swap_ab.
__device__ __forceinline__ int col_of(int j, int odd) { return 8 * j + 2 * lane_t() + odd; }

// Stores single elements or, if C's rows allow it, a lane's runs of two along the columns, or of four along the rows.
__device__ __forceinline__ void store_direct(const Output& out, const Extents& s, const Tile& tile, int row0, const Sums& acc) {
    f32* const c = out.c + tile.batch * out.stride_c;
#pragma unroll
    for (int j = 0; j < block_n / 8; ++j) {
        if constexpr (swap_ab) {
            constexpr int width = smaller(4, align_c / 4);
            const int row = tile.m0 + row0 + first_row(0) + row_of(0, 0);
#pragma unroll
            for (int odd = 0; odd < 2; ++odd) {
                const int col = tile.n0 + col_of(j, odd);
                if (col >= s.n) continue;
                const f32 values[4] = {acc[0][4 * j + odd], acc[0][4 * j + 2 + odd], acc[bands - 1][4 * j + odd],
                                       acc[bands - 1][4 * j + 2 + odd]};
#pragma unroll
                for (int e = 0; e < 4; e += width)
                    store_run<width>(values + e, c + col * out.ldc + row + e, out.alpha, out.beta, s.m - row - e);
            }
        } else {
            constexpr int width = smaller(2, align_c / 4);
#pragma unroll
            for (int i = 0; i < 2 * bands; ++i) {
                const int row = tile.m0 + row0 + first_row(i / 2) + row_of(i / 2, i % 2), col = tile.n0 + col_of(j, 0);
                if (row >= s.m) continue;
                const f32* const values = &acc[i / 2][4 * j + i % 2 * 2];
#pragma unroll
                for (int e = 0; e < 2; e += width)
                    store_run<width>(values + e, c + row * out.ldc + col + e, out.alpha, out.beta, s.n - col - e);
            }
        }
    }
}

// The rows of a buffer. With swap_ab they are 32 rows of C, which are columns here, and otherwise a warp's rows.
constexpr int buffer_rows = swap_ab ? 32 : warp_rows;
constexpr u32 buffer_bytes = buffer_rows * 128;
constexpr u32 staging_bytes = tma_store ? 4 * consumer_warpgroups * epilogue_stages * buffer_bytes : 0;

__device__ __forceinline__ void write_buffer(u32 address, float a, float b) {
    asm volatile("st.shared.v2.f32 [%0], {%1, %2};" ::"r"(address), "f"(a), "f"(b) : "memory");
}
__device__ __forceinline__ void write_buffer(u32 address, float a, float b, float c, float d) {
    asm volatile("st.shared.v4.f32 [%0], {%1, %2, %3, %4};" ::"r"(address), "f"(a), "f"(b), "f"(c), "f"(d) : "memory");
}

// Stores the accumulators through a warp's own buffers by TMA, 32 columns at a time, while the next work runs.
__device__ __forceinline__ void store_staged(const Output& out, const Tile& tile, int row0, u32 staging, const Sums& acc) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    constexpr int parts_of_rows = swap_ab || x_in_registers ? 1 : bands;  // bands that share a buffer's rows form one part
    constexpr int parts = block_n / 32 * parts_of_rows;
#pragma unroll
    for (int part = 0; part < parts; ++part) {
        const int span = part / parts_of_rows, band0 = part % parts_of_rows;
        const u32 buffer = staging + part % epilogue_stages * buffer_bytes;
        // Only the thread that committed a store can wait for it.
        if (lane == 0) store_wait_read<epilogue_stages - 1>();
        __syncwarp();
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const int j = span * 4 + i;
            if constexpr (swap_ab) {
#pragma unroll
                for (int odd = 0; odd < 2; ++odd) {
                    const int row = i * 8 + 2 * lane_t() + odd;
                    write_buffer(buffer + row * 128 + (row_chunk(lane_r()) ^ row % 8) * 16, out.alpha * acc[0][4 * j + odd],
                                 out.alpha * acc[0][4 * j + 2 + odd], out.alpha * acc[bands - 1][4 * j + odd],
                                 out.alpha * acc[bands - 1][4 * j + 2 + odd]);
                }
            } else {
#pragma unroll
                for (int half = 0; half < 2 * (bands / parts_of_rows); ++half) {
                    const int band = band0 + half / 2, row = row_of(band, half % 2);
                    const int chunk = 2 * i + lane_t() / 2;
                    write_buffer(buffer + row * 128 + (chunk ^ row % 8) * 16 + lane_t() % 2 * 8,
                                 out.alpha * acc[band][4 * j + half % 2 * 2], out.alpha * acc[band][4 * j + half % 2 * 2 + 1]);
                }
            }
        }
        fence_async_proxy();
        __syncwarp();
        if (lane == 0) {
            const int row = tile.m0 + row0 + first_row(band0), col = tile.n0 + span * 32;
            store_box(out.map, buffer, swap_ab ? row : col, swap_ab ? col : row, tile.batch);
            store_commit();
        }
    }
    if (parts % epilogue_stages != 0 && lane == 0) store_wait_read<0>();  // the next tile begins with buffer 0
}

// ---- the consumer warpgroups ----

struct Turns {
    int row0, steps, lane;
    bool notifies;
};

// Multiplies a tile with two sets of registers, one for each half of a stage. Returns the last stage, whose second half is still
// being multiplied.
__device__ __forceinline__ int multiply_in_turns(Sums& acc, const Ring& ring, Position& at, const Turns& turns) {
    RegisterX first, second;
    int previous = 0;
#pragma unroll 1
    for (int step = 0; step < turns.steps; ++step) {
        barrier_wait(ring.full + at.stage * 8, at.parity);
        const u32 tile_x = ring.x(at.stage) + turns.row0 * 128, tile_y = ring.y(at.stage);
        first.load(tile_x);
        multiply(acc, tile_x, first, tile_y, step == 0);
        if (step > 0) {
            wgmma_wait<1>();
            release(ring, previous, turns.lane, turns.notifies);
        }
        second.load(tile_x + block_k / 2 * 128);
        multiply(acc, tile_x, second, tile_y + block_k / 2 * 4, false);
        wgmma_wait<1>();
        previous = at.stage;
        at.next(ring.stages);
    }
    return previous;
}

__device__ __forceinline__ void consume(const Ring& ring, const Extents& s, const Output& out, u32 staging, int group, int rank) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const int row0 = pingpong || consumer_warpgroups == 1 ? 0 : group * group_rows;
    const bool notifies = shares_with(lane, rank);
    const int steps = s.steps();
    Sums acc;
    [[maybe_unused]] RegisterX x;
    Position at;
    int turn = 0;
    u32 order_parity = group == 0 ? 1 : 0;  // the first turn of group 0 needs no wait
    const int clusters = static_cast<int>(gridDim.x) / cluster_blocks;
#pragma unroll 1
    for (int index = static_cast<int>(blockIdx.x) / cluster_blocks; index < s.tiles(); index += clusters) {
        if (pingpong) {
            const bool mine = turn == group;
            turn = turn + 1 == consumer_warpgroups ? 0 : turn + 1;
            if (!mine) {
                at.skip(steps, ring.stages);
                continue;
            }
            // Groups take turns in order. Otherwise a group that is ahead by a whole lap of the ring could mistake an old phase's
            // parity for its own.
            barrier_wait(ring.order + group * 8, order_parity);
            order_parity ^= 1;
        }
        int previous = 0;
        if constexpr (x_sets == 2) {
            previous = multiply_in_turns(acc, ring, at, {row0, steps, lane, notifies});
        } else {
#pragma unroll 1
            for (int step = 0; step < steps; ++step) {
                barrier_wait(ring.full + at.stage * 8, at.parity);
                const u32 tile_x = ring.x(at.stage) + row0 * 128;  // in rows and in slabs alike, a row has 128 bytes
                if constexpr (x_in_registers) {
                    // The previous multiplications must have ended, because their X is in the registers.
                    if (step > 0) {
                        wgmma_wait<0>();
                        release(ring, previous, lane, notifies);
                    }
                    x.load(tile_x);
                }
                multiply(acc, tile_x, x, ring.y(at.stage), step == 0);
                if (!x_in_registers && step > 0) {
                    wgmma_wait<1>();
                    release(ring, previous, lane, notifies);
                }
                previous = at.stage;
                at.next(ring.stages);
            }
        }
        if (pingpong && lane == 0) barrier_arrive(ring.order + (group + 1 == consumer_warpgroups ? 0 : group + 1) * 8);
        const Tile tile = tile_at(s, index, rank);  // its divisions overlap the last multiplications
        wgmma_wait<0>();
        release(ring, previous, lane, notifies);
        if (tma_store && (!reads_c || out.beta == 0.0f))
            store_staged(out, tile, row0, staging, acc);
        else
            store_direct(out, s, tile, row0, acc);
    }
    if (tma_store && lane == 0) store_wait_read<0>();
}

}  // namespace

extern "C" __global__ void __launch_bounds__(math_threads + 128, 1)
    AUTOTUNE_KERNEL(const __grid_constant__ TensorMap map_x, const __grid_constant__ TensorMap map_y,
                    const __grid_constant__ TensorMap map_c, f32* c, float alpha, float beta, int m, int n, int k, i64 ldc, int batch,
                    i64 stride_c, int stages, int tiles_m, int tiles_n, int group, int raster) {
    extern __shared__ unsigned char shared[];
    const u32 base = (smem_address(shared) + 1023) & ~1023u;
    const Extents shape{swap_ab ? n : m, swap_ab ? m : n, k, batch, tiles_m, tiles_n, group, raster};
    const u32 staging = base + stages * stage_bytes;
    const u32 barriers = staging + staging_bytes;
    const Ring ring{base, barriers, barriers + stages * 8, barriers + stages * 16, stages};
    const int rank = cluster_blocks > 1 ? static_cast<int>(cluster_rank()) : 0;
    if (threadIdx.x == 0) {
        prefetch_map(&map_x);
        prefetch_map(&map_y);
        if constexpr (tma_store) prefetch_map(&map_c);
        make_stage_barriers(ring, 1);
        make_pingpong_barriers(ring);
        fence_barrier_init();
    }
    meet();
    const int warpgroup = static_cast<int>(threadIdx.x) / 128;
    if (warpgroup == 0) {
        give_to_consumers();
        if (threadIdx.x == 0) produce(ring, shape, &map_x, &map_y, rank);
    } else {
        take_from_producer();
        begin_turn();
        const Output out{c, &map_c, alpha, beta, ldc, stride_c};
        const int warp = static_cast<int>(threadIdx.x) / 32 - 4;
        consume(ring, shape, out, staging + warp * epilogue_stages * buffer_bytes, warpgroup - 1, rank);
    }
}

// Copies an operand to the workspace with rows padded to 16 bytes, as stored or transposed.
extern "C" __global__ void __launch_bounds__(256)
    AUTOTUNE_ENTRY(_arrange)(const f32* from, f32* to, int rows, int cols, i64 ld, i64 ld_to, int batch, i64 stride, int transposes) {
    arrange(from, to, rows, cols, ld, ld_to, batch, stride, transposes);
}
