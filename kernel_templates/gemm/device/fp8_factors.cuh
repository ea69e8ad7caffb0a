// How consumer warpgroups apply the scales of fp8 products. REQUIRES gemm/device/fp8_scales.cuh, gemm/device/fp8_epilogue.cuh,
// common/hopper.cuh and, before the include: swap_ab, block_m, block_n, bands, accumulators, Sums, cluster_k, owner_of.
#pragma once

#include "common/bulk.cuh"

namespace {

// One thread's factors of a tile's sums. alpha and its rows' scales are in registers, the scales of the columns in shared memory.
class Factors {
  public:
    __device__ __forceinline__ explicit Factors(float alpha) : alpha_(alpha) {}

    __device__ __forceinline__ void read(const Scales& scales, const Extents& s, const Tile& tile, int row0) {
        if constexpr (scale_mode == 2) {
            const int row = tile.m0 + row0 + threadIdx.x / 32 % 4 * 16 + threadIdx.x % 32 / 4;
#pragma unroll
            for (int i = 0; i < 2 * bands; ++i) rows_[i] = scales.of_row(s, tile, row + i / 2 * 64 + i % 2 * 8);
#pragma unroll
            for (int i = 0; i < column_loads; ++i) columns_[i] = scales.of_column(s, tile, tile.n0 + i * 128 + threadIdx.x % 128);
        }
    }

    // Writes the columns' scales to `area` for the consumer warpgroup, after all its threads have finished with those of the previous tile.
    __device__ __forceinline__ void publish(u32 area, int barrier) {
        if constexpr (scale_mode == 2) {
#pragma unroll
            for (int i = 0; i < 2 * bands; ++i) rows_[i] *= alpha_;
            hopper::named_barrier(barrier, 128);
#pragma unroll
            for (int i = 0; i < column_loads; ++i) {
                const int column = i * 128 + static_cast<int>(threadIdx.x % 128);
                if (column < block_n) asm volatile("st.shared.f32 [%0], %1;" ::"r"(area + column * 4), "f"(columns_[i]) : "memory");
            }
            hopper::named_barrier(barrier, 128);
            area_ = area + threadIdx.x % 4 * 8;
        }
    }

    // The scales of this thread's two columns in column group j.
    __device__ __forceinline__ Pair of_columns(int j) const {
        Pair pair{1.0f, 1.0f};
        if constexpr (scale_mode == 2)
            asm volatile("ld.shared.v2.f32 {%0, %1}, [%2];" : "=f"(pair.low), "=f"(pair.high) : "r"(area_ + j * 32));
        return pair;
    }
    // Returns alpha and the scales times sums of row `half` of a band (0, or 1 for eight rows below).
    __device__ __forceinline__ Pair applied(int band, int half, const Pair& columns, const Pair& sums) const {
        if constexpr (scale_mode != 2) return {alpha_ * sums.low, alpha_ * sums.high};
        const float row = rows_[2 * band + half];
        return {sums.low * (row * columns.low), sums.high * (row * columns.high)};
    }

  private:
    static constexpr int column_loads = (block_n + 127) / 128;
    float alpha_;
    float rows_[2 * bands], columns_[column_loads];
    u32 area_ = 0;
};

// Addresses of the block scales for a consumer warpgroup's part of a tile. A has one scale for each row and 128 k, B one for 128
// columns and 128 k.
struct BlockScales {
    const float* lines;   // if the operand has a scale for each line, the scale of this thread's first line
    const float* blocks;  // if the operand has a scale for each block, the scale of this tile's first block
    i64 line_stride, line_k, block_k_stride;
    int next_block;
    int lines_left;    // the index of the operand's last line, counted from `lines`
    int second_block;  // the number of this thread's columns before the next block of scales

    __device__ __forceinline__ BlockScales(const Scales& scales, const Extents& s, const Tile& tile, int row0) {
        if constexpr (scale_mode != 3) return;
        const int lane = threadIdx.x % 32, row = tile.m0 + row0;
        const int first = swap_ab ? tile.n0 + lane % 4 * 2 : row + threadIdx.x / 32 % 4 * 16 + lane / 4;
        const ScaleStrides& of_lines = swap_ab ? scales.of_y : scales.of_x;
        const ScaleStrides& of_blocks = swap_ab ? scales.of_x : scales.of_y;
        const int count = swap_ab ? s.n : s.m, in_blocks = swap_ab ? row : tile.n0, block_extent = swap_ab ? s.m : s.n;
        const int last_block = (block_extent - 1) / scale_block, block = min(in_blocks / scale_block, last_block);
        lines = (swap_ab ? scales.y : scales.x) + tile.batch * of_lines.batch + min(first, count - 1) * of_lines.line;
        blocks = (swap_ab ? scales.x : scales.y) + tile.batch * of_blocks.batch + block * of_blocks.line;
        line_stride = of_lines.line;
        line_k = of_lines.k;
        block_k_stride = of_blocks.k;
        next_block = block < last_block ? static_cast<int>(of_blocks.line) : 0;
        lines_left = max(count - 1 - first, 0);
        second_block = scale_block - in_blocks % scale_block;
    }
    __device__ __forceinline__ float line(int after, int step) const {
        return load_scale(lines + min(after, lines_left) * line_stride + step * line_k);
    }
    __device__ __forceinline__ float block(int after, int step) const { return load_scale(blocks + after * next_block + step * block_k_stride); }
};

// Whether a tile may begin inside a block of scales and end in the next one.
constexpr int in_blocks = swap_ab ? block_m : block_n;
constexpr bool lies_across_blocks = scale_mode == 3 && in_blocks % scale_block != 0 && scale_block % in_blocks != 0;
constexpr int touched_blocks = scale_block % in_blocks == 0 ? 1 : 2;  // at most
// The number of elements of the tile's first block of scales that come before the tile.
__device__ __forceinline__ int place_in_block(const Tile& tile) { return (swap_ab ? tile.m0 : tile.n0) % scale_block; }

// Block scales in a stage of the ring. There is one for each line of the tile, then a chunk of 16 bytes for each block that the
// tile touches. A chunk has four steps, so a whole chunk can be copied at once.
constexpr int scale_lines = swap_ab ? block_n : block_m;
constexpr u32 scale_stage_bytes = scale_mode == 3 ? (scale_lines + 2 * 4) * 4 : 0;
__device__ __forceinline__ u32 place_in_chunk(int step) { return (step & 3) * 4; }

// Copies `bytes` to shared memory; bytes beyond `valid` become zero.
template <int bytes>
__device__ __forceinline__ void copy_scales(u32 to, const float* from, int valid = bytes) {
    if constexpr (bytes == 16)
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(valid) : "memory");
    else
        asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(to), "l"(from) : "memory");
}

// The scales of a tile from one step on, of its lines and of its first block or of the block `after` it, and how many lines the
// operand has from there.
struct TileScales {
    const float *lines, *blocks;
    int count;
    __device__ __forceinline__ TileScales(const Scales& scales, const Extents& s, const Tile& tile, int step, int after) {
        const ScaleStrides& of_lines = swap_ab ? scales.of_y : scales.of_x;
        const ScaleStrides& of_blocks = swap_ab ? scales.of_x : scales.of_y;
        const int first = swap_ab ? tile.n0 : tile.m0;
        const int block = (swap_ab ? tile.m0 : tile.n0) / scale_block + after, last_block = ((swap_ab ? s.m : s.n) - 1) / scale_block;
        count = (swap_ab ? s.n : s.m) - first;
        lines = (swap_ab ? scales.y : scales.x) + tile.batch * of_lines.batch + first * of_lines.line + step * of_lines.k;
        blocks = (swap_ab ? scales.x : scales.y) + tile.batch * of_blocks.batch + min(block, last_block) * of_blocks.line;
    }
};

// Whether all scales can be copied in whole chunks of 16 bytes: scales of lines contiguous, scales of blocks contiguous along K.
__device__ __forceinline__ bool lie_in_chunks(const Scales& scales, const Extents& s) {
    const ScaleStrides& of_lines = swap_ab ? scales.of_y : scales.of_x;
    const ScaleStrides& of_blocks = swap_ab ? scales.of_x : scales.of_y;
    const i64 together = of_lines.k | of_lines.batch | of_blocks.line | of_blocks.batch | (swap_ab ? s.n : s.m) | s.steps();
    const u64 addresses = reinterpret_cast<u64>(scales.x) | reinterpret_cast<u64>(scales.y);
    return scale_mode == 3 && of_lines.line == 1 && of_blocks.k == 1 && together % 4 == 0 && addresses % 16 == 0;
}

// Copies scales in whole chunks by TMA, started by one thread. Two arrivals complete a stage's phase of `full`. Copies by a
// warp's lanes (ScaleFeed) wait behind 48 KiB of operands and arrive last: they took 1,174 clocks per step, while DeepGEMM takes
// 1,107 (4096x4096x7168, 256x128, H200, 2026-11-23).
class ScaleChunks {
  public:
    __device__ __forceinline__ ScaleChunks(const Scales& scales, const Extents& s, const Tile& tile, int step) {
        const TileScales of_tile(scales, s, tile, step, 0);
        lines_ = of_tile.lines;
        line_bytes_ = max(min(of_tile.count, scale_lines), 0) * 4;
        blocks_ = of_tile.blocks;
        const int extent = swap_ab ? s.m : s.n, first = swap_ab ? tile.m0 : tile.n0;
        next_block_ = first / scale_block * scale_block + scale_block < extent ? static_cast<int>((swap_ab ? scales.of_x : scales.of_y).line) : 0;
    }
    // REQUIRES: `step` follows the step of the previous call.
    __device__ __forceinline__ void fill(const Scales& scales, u32 stage, u32 full, int step) {
        hopper::barrier_expect(full, line_bytes_ + touched_blocks * 16);
        if (line_bytes_ > 0) bulk::load(stage, lines_, line_bytes_, full, hopper::policy_normal);
#pragma unroll
        for (int i = 0; i < touched_blocks; ++i)
            bulk::load(stage + (scale_lines + i * 4) * 4, blocks_ + i * next_block_ + (step & ~3), 16, full, hopper::policy_normal);
        lines_ += (swap_ab ? scales.of_y : scales.of_x).k;
    }

  private:
    const float *lines_, *blocks_;
    int line_bytes_, next_block_;  // the distance from a block's scales to those of the next block
};

// One lane's part of copying scales in any other layout. A stage's phase of `full` completes after 33 arrivals: one for TMA's
// copy and one per lane. The code has few instructions, because a stage lasts only 500 clocks and a lane runs one instruction
// after the other.
class ScaleFeed {
  public:
    __device__ __forceinline__ ScaleFeed(const Scales& scales, const Extents& s, const Tile& tile, int step)
        : of_(scales, s, tile, step, static_cast<int>(threadIdx.x % 32)) {
        const ScaleStrides& of_lines = swap_ab ? scales.of_y : scales.of_x;
        in_chunks_ = of_lines.line == 1 && of_lines.k % 4 == 0 && reinterpret_cast<u64>(of_.lines) % 16 == 0;
        of_.blocks += step * (swap_ab ? scales.of_x : scales.of_y).k;
    }
    // REQUIRES: `step` follows the step of the previous call.
    __device__ __forceinline__ void fill(const Scales& scales, u32 stage, u32 full, int step) {
        const ScaleStrides& of_lines = swap_ab ? scales.of_y : scales.of_x;
        const int lane = threadIdx.x % 32;
        if (in_chunks_) {
#pragma unroll
            for (int i = 0; i < (scale_lines + 127) / 128; ++i) {
                const int line = (i * 32 + lane) * 4, valid = min(max(of_.count - line, 0), 4) * 4;
                if (line < scale_lines) copy_scales<16>(stage + line * 4, valid > 0 ? of_.lines + line : of_.lines, valid);
            }
        } else {
#pragma unroll 1
            for (int line = lane; line < scale_lines; line += 32)
                copy_scales<4>(stage + line * 4, of_.lines + min(line, of_.count - 1) * of_lines.line);
        }
        if (lane < touched_blocks) copy_scales<4>(stage + (scale_lines + lane * 4) * 4 + place_in_chunk(step), of_.blocks);
        asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(full) : "memory");
        of_.lines += of_lines.k;
        of_.blocks += (swap_ab ? scales.of_x : scales.of_y).k;
    }

  private:
    TileScales of_;
    bool in_chunks_;
};

// A thread's scales for one step of 128 k, for `held_bands` of the tile's bands of rows at a time.
template <int held_bands>
class StepScales {
  public:
    // Reads from device memory, before the multiplications, which take about as long.
    __device__ __forceinline__ void read(const BlockScales& from, int step) {
        if constexpr (scale_mode == 3) {
            second_block_ = from.second_block;
#pragma unroll
            for (int i = 0; i < line_count; ++i)
                lines_[i] = from.line(swap_ab ? i / 2 * 8 + i % 2 : i / 2 * 64 + i % 2 * 8, step);
#pragma unroll
            for (int i = 0; i < block_count; ++i) blocks_[i] = from.block(i, step);
        }
    }

    // Reads from the stage of `step`. `row0`: the band's first row in the tile.
    __device__ __forceinline__ void read_stage(u32 stage, int row0, int column_in_block, int step) {
        if constexpr (scale_mode == 3) {
            const int lane = threadIdx.x % 32;
            const u32 first = stage + (swap_ab ? lane % 4 * 2 : row0 + threadIdx.x / 32 % 4 * 16 + lane / 4) * 4;
            if constexpr (swap_ab) {
#pragma unroll
                for (int i = 0; i < line_count; i += 2)
                    asm volatile("ld.shared.v2.f32 {%0, %1}, [%2];" : "=f"(lines_[i]), "=f"(lines_[i + 1]) : "r"(first + i * 16));
            } else {
#pragma unroll
                for (int i = 0; i < line_count; ++i)
                    asm volatile("ld.shared.f32 %0, [%1];" : "=f"(lines_[i]) : "r"(first + (i / 2 * 64 + i % 2 * 8) * 4));
            }
            // With exchanged operands, a consumer warpgroup's 64 or 128 rows lie in one block of the tile.
            const u32 block = stage + scale_lines * 4 + (swap_ab ? (column_in_block + row0) / scale_block * 16 : 0) + place_in_chunk(step);
#pragma unroll
            for (int i = 0; i < block_count; ++i) asm volatile("ld.shared.f32 %0, [%1];" : "=f"(blocks_[i]) : "r"(block + i * 16));
            second_block_ = scale_block - column_in_block;
        }
    }

    // sums += scales * products, for one band. With `begins`: sums = scales * products.
    template <bool begins = false>
    __device__ __forceinline__ void add(float* sums, const float* products, int band) const {
        if constexpr (scale_mode != 3) {
#pragma unroll
            for (int i = 0; i < accumulators; ++i) sums[i] = products[i] + (begins ? 0.0f : sums[i]);
        } else if constexpr (swap_ab) {
            const float block = blocks_[0];
#pragma unroll
            for (int j = 0; j < block_n / 8; ++j) {
                const float low = lines_[2 * j] * block, high = lines_[2 * j + 1] * block;
#pragma unroll
                for (int i = 0; i < 4; ++i)
                    sums[4 * j + i] = products[4 * j + i] * (i % 2 == 0 ? low : high) + (begins ? 0.0f : sums[4 * j + i]);
            }
        } else {
            float factors[2][chunk_count];
#pragma unroll
            for (int chunk = 0; chunk < chunk_count; ++chunk) {
                const bool second = block_count > 1 && (chunk * chunk_columns >= scale_block || chunk * chunk_columns >= second_block_);
                const float block = second ? blocks_[block_count - 1] : blocks_[0];
                factors[0][chunk] = lines_[2 * (band % held_bands)] * block;
                factors[1][chunk] = lines_[2 * (band % held_bands) + 1] * block;
            }
#pragma unroll
            for (int i = 0; i < accumulators; ++i)
                sums[i] = products[i] * factors[i % 4 / 2][i / 4 * 8 / chunk_columns] + (begins ? 0.0f : sums[i]);
        }
    }

  private:
    static constexpr int line_count = scale_mode != 3 ? 1 : swap_ab ? block_n / 4 : 2 * held_bands;
    // A consumer warpgroup's 64 or 128 rows lie in one block.
    static constexpr int block_count = swap_ab || scale_block % block_n == 0 ? 1 : 2;
    // The longest run of columns that lies in one block wherever the tile begins: the greatest power of two that divides both.
    static constexpr int chunk_columns = (block_n & -block_n) < scale_block ? (block_n & -block_n) : scale_block;
    static constexpr int chunk_count = block_n / chunk_columns;
    float lines_[line_count], blocks_[block_count];
    int second_block_;
};

// Stores the sums of one consumer warpgroup's tile to C.
__device__ __forceinline__ void store_direct(const Output& out, const Extents& s, const Tile& tile, int row0, int rank, const Factors& factors,
                                             Epilogue& epilogue, const Sums& acc) {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4;
#pragma unroll
    for (int band = 0; band < bands; ++band) {
        const int row = tile.m0 + row0 + band * 64 + warp * 16 + lane / 4;
#pragma unroll
        for (int j = 0; j < block_n / 8; ++j) {
            if (cluster_k > 1 && owner_of(band, j) != rank) continue;
            const int col = tile.n0 + j * 8 + lane % 4 * 2;
            const Pair columns = factors.of_columns(j);
            epilogue.store_applied(out, s, tile, row, col, band, 0, j, factors.applied(band, 0, columns, pair_of(acc[band], 2 * j)));
            epilogue.store_applied(out, s, tile, row + 8, col, band, 1, j, factors.applied(band, 1, columns, pair_of(acc[band], 2 * j + 1)));
        }
    }
}

}  // namespace
