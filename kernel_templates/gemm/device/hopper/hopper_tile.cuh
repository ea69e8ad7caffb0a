// The sizes of a tile and of a cluster, in families that feed wgmma through a ring and process several tiles per block. REQUIRES
// common/types.cuh and, before the include: the family's compile parameters, AUTOTUNE_REDUCE_KERNEL, Out, Acc (f32 or f16, of the
// sums), element_bytes (of the operands), x_mn_major and y_k_major (layouts of the operands on wgmma's M and N side).
#pragma once

#include "gemm/device/pairs.cuh"

namespace {

static_assert(!tma_store || align_c == 16, "a TMA store takes rows of a multiple of 16 bytes");
static_assert(block_n % 16 == 0 && block_n <= 256);
static_assert(block_m % (pingpong ? 64 : 64 * consumer_warpgroups) == 0 && block_m <= 256);

constexpr bool reduce_kernel = AUTOTUNE_REDUCE_KERNEL != 0;  // a separate kernel adds the parts of K
constexpr int groups_per_tile = pingpong ? 1 : consumer_warpgroups;
constexpr int bands = block_m / (64 * groups_per_tile);  // m64 multiplications per consumer warpgroup
constexpr int group_rows = 64 * bands;
constexpr int sums_each = is_same<Acc, f16> ? 2 : 1;   // sums in a register
constexpr int accumulators = block_n / 2 / sums_each;  // registers of one band
constexpr int sharing_blocks = cluster_m * cluster_n;
// Blocks that load for this one: those in its row or column of the cluster
constexpr int notified_blocks = cluster_m + cluster_n - 1;
constexpr int cluster_blocks = sharing_blocks * cluster_k;
constexpr int math_threads = 128 * consumer_warpgroups;
static_assert(cluster_k == 1 || (sharing_blocks == 1 && !pingpong), "blocks either share tiles or divide the K of one");
static_assert(cluster_k == 1 || !reduce_kernel, "blocks that divide K in a cluster add it there");

// Operand tiles, in slabs one swizzle span wide. K-major: slabs of rows along K. MN-major: slabs of block_k rows.
constexpr int widest_span = tma_swizzle / element_bytes;
static_assert(block_k % widest_span == 0);
__device__ constexpr int span_of(int extent) { return extent % widest_span == 0 ? widest_span : extent % 32 == 0 && widest_span > 32 ? 32 : 16; }
constexpr int span_x = x_mn_major ? span_of(64) : widest_span;
constexpr int span_y = y_k_major ? widest_span : span_of(block_n);
constexpr u32 bytes_x = block_m * block_k * element_bytes;
constexpr u32 bytes_y = block_n * block_k * element_bytes;
constexpr u32 stage_bytes = bytes_x + bytes_y;
static_assert(stage_bytes % 1024 == 0, "swizzled tiles start at multiples of 1024 bytes");

// Output tiles go to memory through staging buffers of each consumer warpgroup, at most 128 bytes of columns at a time.
constexpr int widest_span_c = 128 / sizeof(Out);
constexpr int span_c = block_n % widest_span_c == 0 ? widest_span_c : block_n % 32 == 0 ? 32 : 16;
constexpr u32 row_bytes_c = span_c * sizeof(Out);
constexpr u32 staging_bytes = tma_store ? group_rows * row_bytes_c : 0;

// With cluster_k, a tile's accumulators are divided among the blocks in quads (a thread's four sums of eight columns), and each
// block receives its quads from its peers.
constexpr int quad_registers = 4 / sums_each;
constexpr int quads = bands * block_n / 8;
constexpr int quads_each = quads / cluster_k;
constexpr u32 received_bytes = (cluster_k - 1) * quads_each * math_threads * quad_registers * 4;
static_assert(quads % cluster_k == 0);
static_assert(cluster_k == 1 || !tma_store || (bands == 1 && block_n / span_c % cluster_k == 0), "a block stores whole spans");
// The block of the cluster that adds and stores the accumulators of column group j of a band.
__device__ __forceinline__ constexpr int owner_of(int band, int j) { return (band * (block_n / 8) + j) / quads_each; }

using Register = RegisterOf<Acc>::Type;
using Sums = Register[bands][accumulators];

}  // namespace
