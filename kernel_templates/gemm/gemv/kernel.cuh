// C = alpha A B + beta C where C has few rows or few columns: bound by reading one operand once. This operand, X, is streamed
// from global memory into the fragments of mma.sync m16n8k16 in its own layout; the other, Y, is staged in shared memory. X is A,
// or with swap_ab B. The order of the terms of a sum does not matter, so a thread may hold any k as long as X and Y agree. A step
// of a warp is 32 k: thread t of a quad holds k = 8t .. 8t + 7 of its lines, which serve as the k of two multiplications. - k
// contiguous in X: 16 bytes of a line are a thread's share of it. Rows of the fragments are lines. - lines contiguous in X: 16
// bytes are eight lines at one k; byte permutes pair neighbouring k. 64 lines a warp. Lines that start at different places of 16
// bytes are not realigned but grouped: every eighth line (k contiguous) or every eighth k (lines contiguous) starts at the same
// place. A block takes lines of one group, or its warps take one group of k each and add with a shift. The few k before the first
// and after the last whole 16 bytes are added at the end, one by one.
#include "common/types.cuh"
// clang-format off
#define AUTOTUNE_KERNEL ${symbol}
using In = ${in_type};
using Out = ${out_type};
constexpr bool trans_a = ${trans_a};
constexpr bool trans_b = ${trans_b};
constexpr int align_a = ${align_a};
constexpr int align_b = ${align_b};
constexpr bool swap_ab = ${swap_ab};          // B is streamed, A has few rows
constexpr int block_m = ${block_m};           // lines of X a block
constexpr int block_n = ${block_n};           // lines of Y a block
constexpr int block_k = ${block_k};           // k of Y in shared memory at once
constexpr int warps_m = ${warps_m};
constexpr int warps_k = ${warps_k};
constexpr int unroll = ${unroll};             // steps that are loaded ahead
constexpr bool x_smem = ${x_smem};            // loaded steps are kept in shared memory, not in registers
constexpr int min_blocks = ${min_blocks};     // blocks per SM for which there must be enough registers
constexpr bool cluster = ${cluster};          // the parts of K form a cluster and are added through its shared memory
constexpr bool evict_first = ${evict_first};  // X leaves L2 first
// clang-format on
// ---- end of parameters ----
#include "common/dependent_launch.cuh"
#include "common/ptx.cuh"
#include "gemm/device/pack.cuh"

namespace {

constexpr bool x_along_k = swap_ab ? trans_b : !trans_a;
constexpr bool y_along_k = swap_ab ? !trans_a : trans_b;
constexpr int align_x = swap_ab ? align_b : align_a;
constexpr int align_y = swap_ab ? align_a : align_b;
constexpr bool grouped_lines = x_along_k && align_x < 16;
constexpr bool grouped_k = !x_along_k && align_x < 16;
constexpr int groups = 8;  // number of positions that an element may have within 16 bytes

constexpr int tiles = block_m / (16 * warps_m);  // multiplications along M in a warp
constexpr int threads = 32 * warps_m * warps_k;
constexpr int loads = 2 * tiles;  // loads of 16 bytes for each thread and step
constexpr int step_k = 32;
constexpr int round_k = step_k * warps_k * unroll;            // the k between two rounds of a warp
// The number of neighbouring steps of a warp, which read whole lines of 128 bytes.
constexpr int run = !grouped_k && unroll % 2 == 0 ? 2 : 1;
constexpr int warp_lines = grouped_k ? block_m / warps_m - groups : block_m / warps_m;  // the window moves by up to 7 lines
constexpr int block_lines = warp_lines * warps_m;
constexpr int unit_k = grouped_k ? step_k * groups : 2 * step_k;  // parts of K start at multiples of this
constexpr int y_pitch = block_k + 32;      // lines of Y are offset by half of the banks: a quad reads 64 bytes of each
constexpr int sum_pitch = block_m + 4;     // two columns are 8 banks apart, as are the columns of neighbouring lanes

static_assert(sizeof(In) == 2);
static_assert(tiles == 1 || tiles == 2 || tiles == 4);
static_assert(x_along_k || tiles == 4, "16 bytes of 8 lanes are 64 lines");
static_assert(!grouped_k || warps_k % groups == 0, "a warp takes one group of k");
static_assert(block_k % round_k == 0 && block_n % 8 == 0 && threads <= 1024);

struct Extents {
    int lines, columns, k;  // lines of X, columns of Y
    i64 ldx, ldy, ldc;
    f32 alpha, beta;
    int split_k, part_k;  // the parts of K, and the k in each part but the last
    int prefetch_k;       // k of a part that are fetched into L2 early
};

// A block's work: lines first_line, first_line + line_step, ... and columns of C, summed over k_begin <= k < k_end.
struct Work {
    const In* x;  // X of the batch
    const In* y;  // Y from the first column on
    Out* c;
    int first_line, line_step, lines;  // lines that exist
    int first_column, columns;
    int k_low, k_high;  // k covered by whole 16-byte accesses; the others are added one by one
    int k_begin, k_end;
    int part;
};

__device__ __forceinline__ int ceil_div(int a, int b) { return (a + b - 1) / b; }

// Position of an element among the eight in its 16 bytes.
__device__ __forceinline__ int place_of(const In* at) { return static_cast<int>(reinterpret_cast<u64>(at) / sizeof(In) % groups); }

// The k that 16-byte accesses can reach. Across lines, an access may touch 7 elements before and after its row of X, which must exist.
__device__ __forceinline__ void bound_k(Work& work, const Extents& s) {
    if constexpr (x_along_k) {
        const int before = grouped_lines ? (groups - place_of(work.x + work.first_line * s.ldx)) % groups : 0;
        work.k_low = min(before, s.k);
        work.k_high = work.k_low + (s.k - work.k_low) / groups * groups;
    } else {
        const int reach = grouped_k ? (s.ldx < groups - 1 ? groups - 1 : 1) : s.lines % groups == 0 ? 0 : 1;
        work.k_low = grouped_k ? min(reach, s.k) : 0;
        work.k_high = max(work.k_low, s.k - reach);
    }
    work.k_begin = min(work.k_low + work.part * s.part_k, work.k_high);
    work.k_end = min(work.k_begin + s.part_k, work.k_high);
}

// ---- X: from global memory to registers, directly or through shared memory ----

// Whole 16 bytes, or zeros. Does not use the read-only path, because the previous kernel may still be writing X.
__device__ __forceinline__ uint4 load_streamed(const In* from, bool exists, u64 policy) {
    uint4 value;
    if constexpr (evict_first) {
        asm volatile(
            "{\n.reg .pred p;\nsetp.ne.b32 p, %5, 0;\nmov.b32 %0, 0;\nmov.b32 %1, 0;\nmov.b32 %2, 0;\nmov.b32 %3, 0;\n"
            "@p ld.global.L1::no_allocate.L2::cache_hint.L2::128B.v4.b32 {%0, %1, %2, %3}, [%4], %6;\n}"
            : "=&r"(value.x), "=&r"(value.y), "=&r"(value.z), "=&r"(value.w)
            : "l"(from), "r"(static_cast<int>(exists)), "l"(policy));
    } else {
        asm volatile(
            "{\n.reg .pred p;\nsetp.ne.b32 p, %5, 0;\nmov.b32 %0, 0;\nmov.b32 %1, 0;\nmov.b32 %2, 0;\nmov.b32 %3, 0;\n"
            "@p ld.global.L1::no_allocate.L2::128B.v4.b32 {%0, %1, %2, %3}, [%4];\n}"
            : "=&r"(value.x), "=&r"(value.y), "=&r"(value.z), "=&r"(value.w)
            : "l"(from), "r"(static_cast<int>(exists)));
    }
    return value;
}

// Copies to shared memory. An H200 refuses the instruction if it has both a policy and the predicate.
static_assert(!(x_smem && evict_first));
__device__ __forceinline__ void copy_streamed(u32 to, const In* from, bool exists) {
    asm volatile(
        "{\n.reg .pred missing;\nsetp.eq.b32 missing, %2, 0;\n"
        "cp.async.cg.shared.global.L2::128B [%0], [%1], 16, missing;\n}" ::"r"(to),
        "l"(from), "r"(static_cast<int>(exists))
        : "memory");
}

__device__ __forceinline__ u64 streaming_policy() {
    u64 policy = 0;
    if constexpr (evict_first) asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
    return policy;
}

// One step of a warp as it was loaded. If k is contiguous it is two lines per tile, else eight k.
struct Raw {
    uint4 at[loads];
};

// The offset in k of step `turn` of a warp from the start of its round, which has `unroll` steps.
__device__ __forceinline__ constexpr int offset_of(int turn) { return (turn / run * run * warps_k + turn % run) * step_k; }

// Iterates over a warp's steps through X.
class Stream {
  public:
    __device__ __forceinline__ Stream(const Work& work, const Extents& s) : policy_(streaming_policy()), ldx_(s.ldx) {
        const int warp_m = threadIdx.x / 32 % warps_m, warp_k = threadIdx.x / 32 / warps_m;
        const int lane_line = threadIdx.x % 32 / 4, lane_k = threadIdx.x % 4 * 8;
        if constexpr (grouped_k) {
            k_ = work.k_begin + warp_k / groups * unit_k + warp_k % groups + lane_k * groups;
            const In* row = work.x + k_ * ldx_ + work.first_line + warp_m * warp_lines;
            const int before = place_of(row);
            // a shift, which rounds down, because the number may be negative
            const int last = (work.lines - 1 - warp_m * warp_lines + before) >> 3;
            from_[0] = row - before + min(lane_line, last) * groups;
        } else if constexpr (!x_along_k) {
            k_ = work.k_begin + warp_k * run * step_k + lane_k;
            const int line = min(warp_m * warp_lines + lane_line * groups, (work.lines - 1) / groups * groups);
            from_[0] = work.x + k_ * ldx_ + work.first_line + line;
        } else {
            k_ = work.k_begin + warp_k * run * step_k + lane_k;
#pragma unroll
            for (int i = 0; i < loads; ++i) {
                const int line = min(warp_m * warp_lines + i * 8 + lane_line, work.lines - 1);
                from_[i] = work.x + (work.first_line + static_cast<i64>(line) * work.line_step) * ldx_ + k_;
            }
        }
        k_end_ = work.k_end;
    }

    // Calls fetch(i, address, whether it exists) for each 16 bytes of step `turn` of this round.
    template <typename Fetch>
    __device__ __forceinline__ void visit(int turn, const Fetch& fetch) const {
        const int k = k_ + offset_of(turn);
        if constexpr (x_along_k) {
#pragma unroll
            for (int i = 0; i < loads; ++i) fetch(i, from_[i] + offset_of(turn), k < k_end_);
        } else {
            constexpr int distance = grouped_k ? groups : 1;
#pragma unroll
            for (int i = 0; i < loads; ++i) {
                const int ahead = offset_of(turn) + i * distance;
                fetch(i, from_[0] + ahead * ldx_, k_ + ahead < k_end_);
            }
        }
    }

    __device__ __forceinline__ u64 policy() const { return policy_; }

    __device__ __forceinline__ void next_round() {
        k_ += round_k;
#pragma unroll
        for (int i = 0; i < (x_along_k ? loads : 1); ++i) from_[i] += x_along_k ? round_k : round_k * ldx_;
    }

  private:
    const In* from_[x_along_k ? loads : 1];
    int k_, k_end_;
    u64 policy_;
    i64 ldx_;
};

// Holds the loaded steps in registers or in shared memory, from which each thread reads back its own copies. A warp waits for all
// loads into registers at once (the compiler has six scoreboards for all loads), but for copies step by step.
class WaitingRoom {
  public:
    __device__ __forceinline__ explicit WaitingRoom(const void* shared)
        : own_(static_cast<const unsigned char*>(shared) + threadIdx.x / 32 * (unroll * loads * 512) + threadIdx.x % 32 * 16) {}

    __device__ __forceinline__ void fetch(const Stream& stream, int turn) {
        stream.visit(turn, [&](int i, const In* from, bool exists) {
            if constexpr (x_smem)
                copy_streamed(ptx::shared_address(own_ + (turn * loads + i) * 512), from, exists);
            else
                raw_[turn].at[i] = load_streamed(from, exists, stream.policy());
        });
    }

    // REQUIRES: the group of copies of that step is complete.
    __device__ __forceinline__ Raw take(int turn) const {
        if constexpr (!x_smem) return raw_[turn];
        Raw raw;
#pragma unroll
        for (int i = 0; i < loads; ++i) raw.at[i] = *reinterpret_cast<const uint4*>(own_ + (turn * loads + i) * 512);
        return raw;
    }

  private:
    const unsigned char* own_;
    Raw raw_[x_smem ? 1 : unroll];
};

// The operands of a step's two multiplications.
struct Fragments {
    u32 at[2][tiles][4];
};

__device__ __forceinline__ void arrange(Fragments& a, const Raw& raw) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
#pragma unroll
        for (int tile = 0; tile < tiles; ++tile) {
            u32(&rows)[4] = a.at[half][tile];
            if constexpr (x_along_k) {
                const uint4& upper = raw.at[2 * tile];
                const uint4& lower = raw.at[2 * tile + 1];
                rows[0] = half == 0 ? upper.x : upper.z;
                rows[1] = half == 0 ? lower.x : lower.z;
                rows[2] = half == 0 ? upper.y : upper.w;
                rows[3] = half == 0 ? lower.y : lower.w;
            } else {
                const auto lines_of = [&](int k) {  // two neighbouring lines at one k
                    const uint4& eight = raw.at[4 * half + k];
                    return tile == 0 ? eight.x : tile == 1 ? eight.y : tile == 2 ? eight.z : eight.w;
                };
                rows[0] = __byte_perm(lines_of(0), lines_of(1), 0x5410);
                rows[1] = __byte_perm(lines_of(0), lines_of(1), 0x7632);
                rows[2] = __byte_perm(lines_of(2), lines_of(3), 0x5410);
                rows[3] = __byte_perm(lines_of(2), lines_of(3), 0x7632);
            }
        }
    }
}

// ---- Y: from global to shared memory, k contiguous, in the order in which steps read it ----

// The position of a block's part of Y; a chunk is eight k of one column.
struct Staging {
    In* buffer;
    const Work& work;
    const Extents& s;
    int k_begin;  // first k in the buffer

    __device__ __forceinline__ uint4* at(int column, int chunk) const {
        return reinterpret_cast<uint4*>(buffer + column * y_pitch + chunk * 8);
    }
    __device__ __forceinline__ const u16* source(int column, int k) const {
        return reinterpret_cast<const u16*>(work.y + (y_along_k ? column * s.ldy + k : k * s.ldy + column));
    }
    // Eight neighbouring k at any alignment; those from the end of the part on are zeros.
    __device__ __forceinline__ uint4 eight(int column, int k) const {
        return load_eight(source(column, k), work.k_end - k, source(0, 0), source(work.columns - 1, s.k));
    }
};

// Reads eight k one by one, `distance` apart. Columns are contiguous, and neighbouring threads take neighbouring columns.
__device__ __forceinline__ uint4 gather(const Staging& to, int column, int k, int distance) {
    u32 words[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        const int even = k + 2 * i * distance, odd = even + distance;
        const u32 low = even < to.work.k_end ? *to.source(column, even) : 0U;
        const u32 high = odd < to.work.k_end ? *to.source(column, odd) : 0U;
        words[i] = low | high << 16;
    }
    return uint4{words[0], words[1], words[2], words[3]};
}

// Distributes 64 neighbouring k to the eight groups. This is an 8x8 transpose of 16-bit elements, done two rows at a time to save
// registers.
__device__ __forceinline__ void deal(const Staging& to, int column, int block_of_64) {
    u32* const words = reinterpret_cast<u32*>(to.at(column, block_of_64 / 4 * (unit_k / 8) + block_of_64 % 4));
    constexpr int group_words = step_k / 2;  // the distance from one group to the next
    const int k = to.k_begin + block_of_64 * 64;
#pragma unroll 1
    for (int i = 0; i < 4; ++i) {
        const uint4 even = to.eight(column, k + i * 16);
        const uint4 odd = to.eight(column, k + i * 16 + 8);
        const auto put = [&](int group, u32 even_pair, u32 odd_pair) {
            words[group * group_words + i] = __byte_perm(even_pair, odd_pair, 0x5410);
            words[(group + 1) * group_words + i] = __byte_perm(even_pair, odd_pair, 0x7632);
        };
        put(0, even.x, odd.x);
        put(2, even.y, odd.y);
        put(4, even.z, odd.z);
        put(6, even.w, odd.w);
    }
}

// Starts to fill a buffer with k_begin <= k < k_begin + block_k, zeros from k_end on. Complete after a wait and a barrier.
// Neighbouring threads read along the direction in which Y is contiguous.
__device__ __forceinline__ void stage(In* buffer, const Work& work, const Extents& s, int k_begin) {
    constexpr bool asynchronous = y_along_k && align_y == 16 && !grouped_lines && !grouped_k;
    constexpr int chunk_k = y_along_k && grouped_k ? 64 : 8;  // k per thread at once
    constexpr int chunks = block_k / chunk_k;
    constexpr int abreast = y_along_k ? smaller(threads, chunks) : block_n;  // chunks or columns that the threads fill at once
    const Staging to = {buffer, work, s, k_begin};
    const int used = min(block_k, ceil_div(work.k_end - k_begin, round_k) * round_k) / chunk_k;  // what the warps read
    const int fast = threadIdx.x % abreast, slow = threadIdx.x / abreast;
    if constexpr (y_along_k) {
        // Blocks start at different columns; otherwise all would wait for the same few slices of L2.
        const int turn = static_cast<int>(blockIdx.x % static_cast<u32>(work.columns));
#pragma unroll 1
        for (int i = slow; i < work.columns; i += threads / abreast) {
            const int column = i + turn < work.columns ? i + turn : i + turn - work.columns;
#pragma unroll 1
            for (int chunk = fast; chunk < used; chunk += abreast) {
                const int k = k_begin + chunk * 8;
                if constexpr (grouped_k)
                    deal(to, column, chunk);
                else if (asynchronous && k + 8 <= work.k_end)
                    ptx::cp_async<16>(ptx::shared_address(to.at(column, chunk)), to.source(column, k), 16);
                else
                    *to.at(column, chunk) = to.eight(column, k);
            }
        }
    } else {
        if (fast < work.columns && slow < threads / abreast) {
            for (int chunk = slow; chunk < used; chunk += threads / abreast) {
                const int k = grouped_k ? chunk / 32 * unit_k + chunk / 4 % groups + chunk % 4 * 64 : chunk * 8;
                *to.at(fast, chunk) = gather(to, fast, k_begin + k, grouped_k ? groups : 1);
            }
        }
    }
}

// ---- sums ----

struct Sums {
    f32 at[tiles][block_n / 8][4];
};

// `y` is this lane's k of the step, in the first column. Columns that do not exist get the values of the last one and are never
// stored. Multiplications into the same sums are as far apart as registers allow, because each waits for the one before it.
__device__ __forceinline__ void multiply(Sums& sums, const Raw& raw, const In* y, int columns) {
    constexpr int abreast = smaller(block_n / 8, 4);
    const int lane_column = threadIdx.x % 32 / 4;
    Fragments a;
    arrange(a, raw);
#pragma unroll
    for (int first = 0; first < block_n / 8; first += abreast) {
        uint4 b[abreast];
#pragma unroll
        for (int j = 0; j < abreast; ++j) {
            if (first + j < block_n / 8)
                b[j] = *reinterpret_cast<const uint4*>(y + min((first + j) * 8 + lane_column, columns - 1) * y_pitch);
        }
#pragma unroll
        for (int half = 0; half < 2; ++half) {
#pragma unroll
            for (int j = 0; j < abreast && first + j < block_n / 8; ++j) {
#pragma unroll
                for (int tile = 0; tile < tiles; ++tile)
                    ptx::mma_m16n8k16<In>(sums.at[tile][first + j], a.at[half][tile], half == 0 ? b[j].x : b[j].z,
                                          half == 0 ? b[j].y : b[j].w);
            }
        }
    }
}

// Copies form one group per step; copies of Y belong to the group of the next step.
__device__ __forceinline__ void sum_part(Sums& sums, const Work& work, const Extents& s, unsigned char* shared) {
    constexpr int pending = x_smem ? unroll - 1 : 0;
    constexpr int x_bytes = x_smem ? threads * unroll * loads * 16 : 0;
    In* const buffers = reinterpret_cast<In*>(shared + x_bytes);
    Stream stream(work, s);
    WaitingRoom room(shared);
    room.fetch(stream, 0);
    if constexpr (x_smem) {
        stage(buffers, work, s, work.k_begin);
        ptx::cp_async_commit();
    }
#pragma unroll
    for (int turn = 1; turn < unroll; ++turn) {
        room.fetch(stream, turn);
        if constexpr (x_smem) ptx::cp_async_commit();
    }
    if constexpr (!x_smem) {
        stage(buffers, work, s, work.k_begin);
        ptx::cp_async_commit();
    }
    const int warp_k = threadIdx.x / 32 / warps_m;
    const int lane_k = warp_k * run * step_k + threadIdx.x % 4 * 8;
    int buffer = 0;
#pragma unroll 1
    for (int k = work.k_begin; k < work.k_end; k += block_k) {
        ptx::cp_async_wait<pending>();
        __syncthreads();
        const In* const y = buffers + buffer * work.columns * y_pitch + lane_k;
        buffer ^= 1;
        if (k + block_k < work.k_end) stage(buffers + buffer * work.columns * y_pitch, work, s, k + block_k);
        if constexpr (!x_smem) ptx::cp_async_commit();
        const int rounds = ceil_div(min(block_k, work.k_end - k), round_k);
#pragma unroll 1
        for (int round = 0; round < rounds; ++round) {
            stream.next_round();
#pragma unroll
            for (int turn = 0; turn < unroll; ++turn) {
                if constexpr (x_smem) ptx::cp_async_wait<pending>();
                multiply(sums, room.take(turn), y + round * round_k + offset_of(turn), work.columns);
                room.fetch(stream, turn);
                if constexpr (x_smem) ptx::cp_async_commit();
            }
        }
    }
    ptx::cp_async_wait<0>();  // waits, because sums will overwrite the memory of copies beyond the end
}

// Row of a warp's fragments that holds a line of its window.
__device__ __forceinline__ int row_of(int line) {
    if constexpr (x_along_k) return line;
    return line % 8 / 2 * 16 + line % 2 * 8 + line / 8;
}

__device__ __forceinline__ void leave(f32* to, const Sums& sums, int columns) {
    const int warp_m = threadIdx.x / 32 % warps_m, warp_k = threadIdx.x / 32 / warps_m;
    const int row = warp_m * (16 * tiles) + threadIdx.x % 32 / 4, column = threadIdx.x % 4 * 2;
#pragma unroll
    for (int j = 0; j < block_n / 8; ++j) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const int at = j * 8 + column + i % 2;
            if (at >= columns) continue;
#pragma unroll
            for (int tile = 0; tile < tiles; ++tile)
                to[(warp_k * columns + at) * sum_pitch + row + tile * 16 + i / 2 * 8] = sums.at[tile][j][i];
        }
    }
}

// Adds the sums that the warps along K stored, in their order.
__device__ __forceinline__ f32 collect(const f32* from, const Work& work, const Extents& s, int line, int column) {
    const int warp_m = line / warp_lines;
    f32 sum = 0.0F;
#pragma unroll
    for (int warp_k = 0; warp_k < warps_k; ++warp_k) {
        int in_window = line % warp_lines;
        if constexpr (grouped_k) in_window += place_of(work.x + (work.k_low + warp_k % groups) * s.ldx);
        sum += from[(warp_k * work.columns + column) * sum_pitch + warp_m * (16 * tiles) + row_of(in_window)];
    }
    return sum;
}

__device__ __forceinline__ f32 product(const Work& work, const Extents& s, int line, int column, int k) {
    const i64 at = work.first_line + static_cast<i64>(line) * work.line_step;
    const In x = work.x[x_along_k ? at * s.ldx + k : k * s.ldx + at];
    const In y = work.y[y_along_k ? column * s.ldy + k : k * s.ldy + column];
    return to_f32(x) * to_f32(y);
}

// Adds the k that 16-byte accesses do not reach: fewer than eight on either side. If rows are not aligned, two are loaded before
// the first is added (with all at once, some instances spill); otherwise there are seldom any.
__device__ __forceinline__ f32 sum_edges(const Work& work, const Extents& s, int line, int column) {
    if (work.k_low == 0 && work.k_high == s.k) return 0.0F;
    constexpr int abreast = align_x < 16 ? 2 : 1;
    f32 sum = 0.0F;
#pragma unroll abreast
    for (int k = 0; k < groups - 1; ++k)
        if (k < work.k_low) sum += product(work, s, line, column, k);
#pragma unroll abreast
    for (int i = 0; i < groups - 1; ++i)
        if (work.k_high + i < s.k) sum += product(work, s, line, column, work.k_high + i);
    return sum;
}

__device__ __forceinline__ Out* place_in_c(const Work& work, const Extents& s, int line, int column) {
    const i64 at = work.first_line + static_cast<i64>(line) * work.line_step;
    return work.c + (swap_ab ? (work.first_column + column) * s.ldc + at : at * s.ldc + work.first_column + column);
}

// Reads C while compute() adds up the element.
template <typename Compute>
__device__ __forceinline__ void store(const Work& work, const Extents& s, int line, int column, const Compute& compute) {
    Out* const to = place_in_c(work, s, line, column);
    const f32 before = s.beta != 0.0F ? to_f32(*to) : 0.0F;
    const f32 value = s.alpha * compute();
    *to = from_f32<Out>(s.beta != 0.0F ? value + s.beta * before : value);
}

// Calls visit(index, line, column) for this thread's elements of the tile; neighbouring threads get neighbouring addresses.
template <typename Visit>
__device__ __forceinline__ void for_elements(const Work& work, int first, int step, const Visit& visit) {
    for (int i = first; i < block_lines * work.columns; i += step) {
        const int line = swap_ab ? i % block_lines : i / work.columns;
        const int column = swap_ab ? i / block_lines : i % work.columns;
        if (line < work.lines) visit(i, line, column);
    }
}

// ---- parts of K: added in order, by the last one to finish or by all blocks of a cluster ----

// True in the block that finds all parts of its tile finished. REQUIRES: called by all threads, after their writes of this part.
__device__ __forceinline__ bool is_last(u32* counter, int parts) {
    __shared__ u32 before;
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) {
        before = atomicInc(counter, static_cast<u32>(parts) - 1);  // wraps to 0 with the last part
        __threadfence();
    }
    __syncthreads();
    return before + 1 == static_cast<u32>(parts);
}

__device__ __forceinline__ f32 load_remote(const f32* at, int rank) {
    f32 value = 0.0F;
#if __CUDA_ARCH__ >= 900
    asm volatile("{\n.reg .b32 remote;\nmapa.shared::cluster.u32 remote, %1, %2;\nld.shared::cluster.f32 %0, [remote];\n}"
                 : "=f"(value)
                 : "r"(ptx::shared_address(at)), "r"(rank)
                 : "memory");
#endif
    return value;
}

__device__ __forceinline__ void sync_cluster() {
#if __CUDA_ARCH__ >= 900
    asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
#endif
}

__device__ __forceinline__ void finish_in_cluster(const Work& work, const Extents& s, f32* mine) {
    sync_cluster();
    for_elements(work, work.part * threads + threadIdx.x, s.split_k * threads, [&](int i, int line, int column) {
        store(work, s, line, column, [&] {
            f32 sum = 0.0F;
            for (int part = 0; part < s.split_k; ++part) sum += load_remote(mine + i, part);
            return sum;
        });
    });
    sync_cluster();  // a block must not leave while others read its sums
}

// Slot of a part of this block's tile in the workspace.
__device__ __forceinline__ f32* slot(f32* partial, u32 tile, const Extents& s, int part) {
    return partial + (static_cast<i64>(tile) * s.split_k + part) * (block_lines * block_n);
}

__device__ __forceinline__ void finish_in_memory(const Work& work, const Extents& s, const f32* from, u32* counter) {
    if (!is_last(counter, s.split_k)) return;
    for_elements(work, threadIdx.x, threads, [&](int i, int line, int column) {
        store(work, s, line, column, [&] {
            f32 sum = 0.0F;
            for (int part = 0; part < s.split_k; ++part) sum += __ldcg(from + part * (block_lines * block_n) + i);
            return sum;
        });
    });
}

__device__ __forceinline__ void finish(const Work& work, const Extents& s, f32* left, f32* partial, u32* counters) {
    const u32 tile = (blockIdx.z * gridDim.y + blockIdx.y) * (gridDim.x / s.split_k) + blockIdx.x / s.split_k;
    f32* const mine = cluster ? left + warps_k * work.columns * sum_pitch : slot(partial, tile, s, work.part);
    for_elements(work, threadIdx.x, threads, [&](int i, int line, int column) {
        const auto part = [&] {
            const f32 edges = work.part == 0 ? sum_edges(work, s, line, column) : 0.0F;
            return collect(left, work, s, line, column) + edges;
        };
        if (s.split_k == 1)
            store(work, s, line, column, part);
        else if constexpr (cluster)
            mine[i] = part();
        else
            __stcg(mine + i, part());
    });
    if (s.split_k == 1) return;
    if constexpr (cluster)
        finish_in_cluster(work, s, mine);
    else
        finish_in_memory(work, s, slot(partial, tile, s, 0), counters + tile);
}

// ---- before this kernel's turn in the stream ----

__device__ __forceinline__ void prefetch(const void* at) { asm volatile("prefetch.global.L2 [%0];" ::"l"(at)); }

constexpr int sector_elements = 64;  // L2 fetches 128 bytes at once

// Fetches this block's share of the whole of Y. All blocks read all of Y at the same time, and would all wait in the same queues
// for any part that is not in L2 by then.
__device__ __forceinline__ void prefetch_y(const Work& work, const Extents& s) {
    const int along = ceil_div(y_along_k ? s.k : work.columns, sector_elements);
    const int across = y_along_k ? work.columns : s.k;
#pragma unroll 1
    for (u32 i = blockIdx.x * threads + threadIdx.x; i < static_cast<u32>(along) * across; i += gridDim.x * threads)
        prefetch(work.y + i / along * s.ldy + i % along * sector_elements);
}

// Fetches the first k of the block's part of X.
__device__ __forceinline__ void prefetch_x(const Work& work, const Extents& s) {
    const int depth = min(s.prefetch_k, work.k_end - work.k_begin);
    const int along = ceil_div(x_along_k ? depth : work.lines, sector_elements);
    const int across = x_along_k ? work.lines : depth;
    constexpr int abreast = x_along_k ? 8 : 1;
#pragma unroll 1
    for (int i = threadIdx.x / abreast; i < across; i += threads / abreast) {
        const i64 line = x_along_k ? work.first_line + static_cast<i64>(i) * work.line_step : work.k_begin + i;
        const In* const from = work.x + line * s.ldx + (x_along_k ? work.k_begin : work.first_line);
#pragma unroll 1
        for (int j = threadIdx.x % abreast; j < along; j += abreast) prefetch(from + j * sector_elements);
    }
}

// Fetches C: each part of the tile a share.
__device__ __forceinline__ void prefetch_c(const Work& work, const Extents& s) {
    for_elements(work, work.part * threads + threadIdx.x, s.split_k * threads,
                 [&](int, int line, int column) { prefetch(place_in_c(work, s, line, column)); });
}

// Lets the next launch start, and waits for the kernels before this one in the stream.
__device__ __forceinline__ void take_turn(const Work& work, const Extents& s) {
    dependent_launch::let_next_grid_start();
#if __CUDA_ARCH__ >= 900
    if (s.prefetch_k > 0) {  // earlier kernels may still run, but all their writes go through L2
        prefetch_y(work, s);
        prefetch_x(work, s);
    }
    if (s.beta != 0.0F) prefetch_c(work, s);
#endif
    dependent_launch::wait_for_earlier_grids();
}

}  // namespace

extern "C" __global__ void __launch_bounds__(threads, min_blocks)
    AUTOTUNE_ENTRY()(const In* a, const In* b, Out* c, float alpha, float beta, int m, int n, int k, i64 lda, i64 ldb, i64 ldc,
                     int batch, i64 stride_a, i64 stride_b, i64 stride_c, u32* counters, f32* partial, int split_k, int part_k,
                     int prefetch_k) {
    extern __shared__ __align__(16) unsigned char shared[];
    const Extents s = {swap_ab ? n : m,       swap_ab ? m : n, k,    swap_ab ? ldb : lda, swap_ab ? lda : ldb, ldc, alpha, beta,
                     split_k, part_k, prefetch_k};
    // Blocks along x are the parts of a tile, tile after tile. Blocks along y are the tiles of Y, and along z the batch.
    Work work;
    work.part = blockIdx.x % static_cast<u32>(split_k);
    const int tile = blockIdx.x / static_cast<u32>(split_k);
    work.line_step = grouped_lines ? groups : 1;
    work.first_line = grouped_lines ? tile % groups + tile / groups * (groups * block_lines) : tile * block_lines;
    work.lines = min(block_lines, ceil_div(s.lines - work.first_line, work.line_step));
    if (work.lines <= 0) return;  // this is the same in the whole cluster, so returning early is safe
    work.first_column = blockIdx.y * block_n;
    work.columns = min(block_n, s.columns - work.first_column);
    work.x = (swap_ab ? b : a) + blockIdx.z * (swap_ab ? stride_b : stride_a);
    work.y = (swap_ab ? a : b) + blockIdx.z * (swap_ab ? stride_a : stride_b) + work.first_column * (y_along_k ? s.ldy : 1);
    work.c = c + blockIdx.z * stride_c;
    bound_k(work, s);

    take_turn(work, s);
    Sums sums = {};
    sum_part(sums, work, s, shared);
    f32* const left = reinterpret_cast<f32*>(shared);
    __syncthreads();
    leave(left, sums, work.columns);
    __syncthreads();
    finish(work, s, left, partial, counters);
}
