// Scales of fp8 products as the warpgroups that multiply with wgmma apply them. REQUIRES gemm/device/fp8_scales.cuh, gemm/device/fp8_epilogue.cuh,
// common/hopper.cuh and, before the include: swap_ab, block_m, block_n, bands, accumulators, Sums, cluster_k, owner_of.
#pragma once

#include "common/bulk.cuh"

namespace {

// What a thread of a consumer warpgroup multiplies a tile's sums by: alpha and its rows' scales in registers, those of the columns in shared memory.
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

    // Lets the consumer warpgroup see the columns' scales, in `area`, after all its threads have left those of the tile before.
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
    // alpha and the scales times sums of row `half` (0, or 1: eight below) of a band.
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

// Where the block scales of a consumer warpgroup's part of a tile lie. A has one for each row and 128 k, B for 128 columns and 128 k.
struct BlockScales {
    const float* lines;   // of the operand with a scale for each line, at this thread's first
    const float* blocks;  // of the operand with blocks, at this tile's first
    i64 line_stride, line_k, block_k_stride;
    int next_block;
    int lines_left;    // the last line after the first
    int second_block;  // columns before those of the next block

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

// Whether tiles begin within blocks of scales, or at least end in the next one.
constexpr int in_blocks = swap_ab ? block_m : block_n;
constexpr bool lies_across_blocks = scale_mode == 3 && in_blocks % scale_block != 0 && scale_block % in_blocks != 0;
constexpr int touched_blocks = scale_block % in_blocks == 0 ? 1 : 2;  // at most
// The elements of a tile before its first whole block of scales.
__device__ __forceinline__ int place_in_block(const Tile& tile) { return (swap_ab ? tile.m0 : tile.n0) % scale_block; }

// What a stage of the ring holds of block scales: one for each line of the tile, then a chunk of 16 bytes for each block that it touches, in
// which a step has its own place: so a chunk of four steps' scales can be copied whole.
constexpr int scale_lines = swap_ab ? block_n : block_m;
constexpr u32 scale_stage_bytes = scale_mode == 3 ? (scale_lines + 2 * 4) * 4 : 0;
__device__ __forceinline__ u32 place_in_chunk(int step) { return (step & 3) * 4; }

// `bytes` to shared memory, of which those beyond `valid` become zero.
template <int bytes>
__device__ __forceinline__ void copy_scales(u32 to, const float* from, int valid = bytes) {
    if constexpr (bytes == 16)
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(valid) : "memory");
    else
        asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(to), "l"(from) : "memory");
}

// Where the scales of a tile's lines lie from a step on, those of the block `after` its first from the operand's first step on, and how many
// lines there are to the operand's end.
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

// Whether all scales lie in whole chunks of 16 bytes, lines side by side and blocks along K.
__device__ __forceinline__ bool lie_in_chunks(const Scales& scales, const Extents& s) {
    const ScaleStrides& of_lines = swap_ab ? scales.of_y : scales.of_x;
    const ScaleStrides& of_blocks = swap_ab ? scales.of_x : scales.of_y;
    const i64 together = of_lines.k | of_lines.batch | of_blocks.line | of_blocks.batch | (swap_ab ? s.n : s.m) | s.steps();
    const u64 addresses = reinterpret_cast<u64>(scales.x) | reinterpret_cast<u64>(scales.y);
    return scale_mode == 3 && of_lines.line == 1 && of_blocks.k == 1 && together % 4 == 0 && addresses % 16 == 0;
}

// Scales in whole chunks, by a thread whose copies the copy engine carries out: two arrivals end a stage's phase of `full`. Copies of a warp's
// lanes (ScaleFeed) stand behind the operands' requests, 48 KiB, and were what a stage was last filled with: 1,174 clocks a step where DeepGEMM
// takes 1,107 (4096x4096x7168, 256x128, H200, 2026-11-23).
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
    // Of `step`, the one after the one before.
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
    int line_bytes_, next_block_;  // from a block's scales to those of the next
};

// A lane's part in filling the stages of a tile with scales that lie otherwise: 33 arrivals, the copy engine's and one of each lane, end a
// stage's phase of `full`. Its instructions come one after another and a stage lasts 500 clocks, so there are few of them.
class ScaleFeed {
  public:
    __device__ __forceinline__ ScaleFeed(const Scales& scales, const Extents& s, const Tile& tile, int step)
        : of_(scales, s, tile, step, static_cast<int>(threadIdx.x % 32)) {
        const ScaleStrides& of_lines = swap_ab ? scales.of_y : scales.of_x;
        in_chunks_ = of_lines.line == 1 && of_lines.k % 4 == 0 && reinterpret_cast<u64>(of_.lines) % 16 == 0;
        of_.blocks += step * (swap_ab ? scales.of_x : scales.of_y).k;
    }
    // Of `step`, the one after the one before.
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

// A thread's scales of one step of 128 k, of so many of the tile's bands of rows at a time.
template <int held_bands>
class StepScales {
  public:
    // From device memory, before the multiplications: it takes about as long as they do.
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

    // From the stage of `step`. `row0`: the first row of the band in the tile.
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
            // Exchanged, a consumer warpgroup's 64 or 128 rows are of one of the tile's blocks.
            const u32 block = stage + scale_lines * 4 + (swap_ab ? (column_in_block + row0) / scale_block * 16 : 0) + place_in_chunk(step);
#pragma unroll
            for (int i = 0; i < block_count; ++i) asm volatile("ld.shared.f32 %0, [%1];" : "=f"(blocks_[i]) : "r"(block + i * 16));
            second_block_ = scale_block - column_in_block;
        }
    }

    // sums += the scales times products, of one band. `begins`: sums = the scales times products.
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
    // A consumer warpgroup has 64 or 128 rows, of one block.
    static constexpr int block_count = swap_ab || scale_block % block_n == 0 ? 1 : 2;
    // Columns of a tile that are of one block wherever the tile lies: the greatest power of two that divides both.
    static constexpr int chunk_columns = (block_n & -block_n) < scale_block ? (block_n & -block_n) : scale_block;
    static constexpr int chunk_count = block_n / chunk_columns;
    float lines_[line_count], blocks_[block_count];
    int second_block_;
};

// A tile's sums to C, of one consumer warpgroup.
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
