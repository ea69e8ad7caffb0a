#pragma once
// Copies an operand's tiles from global to shared memory, one after another along K, through registers or by cp.async. Elements
// outside the operand are never read and become zeros. Needs common/ptx.cuh and common/types.cuh.

namespace {

// A tile of `extent` of M or N by `depth` of K, in the order of memory (rows of K, or rows of M or N), with `ld` elements from
// row to row. `access`: bytes that divide every row's address. The operand has 16-bit elements.
template <class In, int extent, int depth, bool k_contiguous, int ld, int threads, int access>
struct TileCopy {
    static constexpr int rows = k_contiguous ? extent : depth;
    static constexpr int cols = k_contiguous ? depth : extent;
    static constexpr int bytes = rows * ld * 2;
    static constexpr int chunk = 8;  // elements that a thread moves at once
    static constexpr int chunks = cols / chunk;
    static constexpr int rows_a_pass = threads / chunks;
    static constexpr int passes = (rows + rows_a_pass - 1) / rows_a_pass;
    static_assert(sizeof(In) == 2 && cols % chunk == 0 && threads % chunks == 0, "a pass is whole rows of 16-byte chunks");

    struct Held {
        uint4 at[passes];
    };

    const In* source;  // the address of this thread's chunk in the first pass
    i64 row_step;      // the number of elements from pass to pass
    i64 tile_step;     // the number of elements from tile to tile
    int rows_left;     // rows of the operand from this thread's first row to the end
    int cols_left;     // elements of a row from this thread's chunk to the end
    u32 destination;   // within a stage

    __device__ __forceinline__ TileCopy(const In* base, i64 stride, int first, int count, int k) {
        const int row = threadIdx.x / chunks;
        const int col = threadIdx.x % chunks * chunk;
        source = base + ((k_contiguous ? first : 0) + row) * stride + (k_contiguous ? 0 : first) + col;
        row_step = stride * rows_a_pass;
        tile_step = k_contiguous ? depth : stride * depth;
        rows_left = (k_contiguous ? count - first : k) - row;
        cols_left = (k_contiguous ? k : count - first) - col;
        destination = (row * ld + col) * 2;
    }

    // Whether this thread has a row in the pass: in the last pass of a small tile it may have none.
    __device__ __forceinline__ static bool takes_part(int pass) {
        return rows % rows_a_pass == 0 || pass * rows_a_pass + static_cast<int>(threadIdx.x) / chunks < rows;
    }
    // The number of existing elements in the chunk.
    __device__ __forceinline__ int valid(int pass) const {
        return pass * rows_a_pass < rows_left ? max(0, min(chunk, cols_left)) : 0;
    }
    __device__ __forceinline__ u32 target(int pass, u32 stage) const { return stage + destination + pass * rows_a_pass * ld * 2; }

    __device__ __forceinline__ static uint4 read_chunk(const In* from, int valid) {
        constexpr int width = access / 2;
        if (width == chunk && valid == chunk) return *reinterpret_cast<const uint4*>(from);
        union {
            uint4 raw;
            Pack<In, width> part[chunk / width];
            In at[chunk];
        } value;
        if (valid == chunk) {
#pragma unroll
            for (int i = 0; i < chunk / width; ++i) value.part[i] = load_pack<In, width>(from + i * width);
        } else {
#pragma unroll
            for (int i = 0; i < chunk; ++i) value.at[i] = i < valid ? from[i] : In{};
        }
        return value.raw;
    }

    __device__ __forceinline__ void next_tile() {
        source += tile_step;
        (k_contiguous ? cols_left : rows_left) -= depth;
    }

    // ---- through registers: a tile is read at one point of the program and written at another ----

    __device__ __forceinline__ void read(Held& held) {
#pragma unroll
        for (int pass = 0; pass < passes; ++pass) held.at[pass] = read_chunk(source + pass * row_step, valid(pass));
        next_tile();
    }
    __device__ __forceinline__ void write(const Held& held, u32 stage) const {
#pragma unroll
        for (int pass = 0; pass < passes; ++pass) {
            if (takes_part(pass)) ptx::st_shared(target(pass, stage), held.at[pass]);
        }
    }

    // ---- by cp.async, for rows that are aligned to its minimum of 4 bytes ----

    __device__ __forceinline__ void start(u32 stage) {
#pragma unroll
        for (int pass = 0; pass < passes; ++pass) {
            if (!takes_part(pass)) continue;
            const In* from = source + pass * row_step;
            const u32 to = target(pass, stage);
            if constexpr (access < 4) {
                ptx::st_shared(to, read_chunk(from, valid(pass)));
            } else {
#pragma unroll
                for (int at = 0; at < 2 * chunk; at += access) {
                    ptx::cp_async<access>(to + at, from + at / 2, max(0, min(access, 2 * valid(pass) - at)));
                }
            }
        }
        next_tile();
    }
};

}  // namespace
