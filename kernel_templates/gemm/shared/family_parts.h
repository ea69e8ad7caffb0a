#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "kernel_templates/gemm/op/scaling.h"
#include "src/core/family/family.h"
#include "src/core/family/launch_plan.h"
#include "src/core/integer_math.h"
#include "src/core/problem/device.h"
#include "src/core/problem/dtype.h"
#include "src/core/problem/problem.h"
#include "src/core/space/search_space.h"

// Host code that the tensor-core families of gemm share: a problem's numbers, the layout of a workspace, and the copy of matrices
// whose rows are not aligned (its device code is pack.cuh).
namespace autotune::gemm {

inline constexpr std::int64_t kChunkBytes = 16;  // the widest access
inline constexpr std::int64_t kElementBytes = 2;
// an extent plus a tile fits into 32 bits
inline constexpr std::int64_t kMaxExtent = std::numeric_limits<std::int32_t>::max() - 4096;
inline constexpr std::int64_t kMaxBlocks = std::numeric_limits<std::int32_t>::max();

using autotune::ceil_div;
using autotune::round_up;

// The numbers of a problem that rules, cost models and plans read. Unlike View it holds no reference, so a constraint may keep
// it.
struct Gemm {
    std::int64_t m, n, k, batch;
    bool trans_a, trans_b, acc_f16, reads_c;
    int align_a, align_b, align_c;
    DType in, out;
    bool promotes;  // products of 128 k are added in f32: fp8 with acc=f32
    Scaling scaling;
    bool has_bias;

    explicit Gemm(const Problem& problem);
    std::int64_t in_bytes() const { return static_cast<std::int64_t>(size_bytes(in)); }
    std::int64_t out_bytes() const { return static_cast<std::int64_t>(size_bytes(out)); }
    bool packs_any() const { return align_a < kChunkBytes || align_b < kChunkBytes; }
};

// Why a kernel that multiplies 16-bit types on tensor cores and counts in 32 bits cannot do the problem; nullopt if it can.
std::optional<std::string> refuses_half_product(const Problem& problem);

// Why a kernel that multiplies fp8 operands whose rows are along K cannot do the problem.
std::optional<std::string> refuses_fp8_product(const Problem& problem);

// The facts that every fp8 family binds: a_type, b_type, out_type, promotes, scale_mode, align_a, align_b, align_c (bytes),
// reads_c, and those of epilogue.h.
std::vector<Binding> fp8_facts(const Problem& problem);

I32Arg i32(std::int64_t value);
Dim3 one_dimension(std::int64_t count);

// Assigns the bytes of a workspace, in order, at multiples of 256.
class WorkspaceLayout {
  public:
    // Offset of the next `bytes`.
    std::size_t take(std::int64_t bytes);
    std::size_t bytes() const { return bytes_; }

  private:
    std::size_t bytes_ = 0;
};

// The order in which blocks take the tiles of C (block_order.cuh), as parameters give it: panels `swizzle_stride` elements wide,
// 0 for all of C, along M (raster 0) or along N.
struct BlockOrder {
    std::int64_t block_m, block_n, raster, swizzle_stride;

    // Tiles across a panel.
    std::int64_t group(const Gemm& g) const;
    // Whether there are no panels, or each panel has at least two tiles and is smaller than C.
    bool is_proper(const Gemm& g) const;
};

// Registers that a thread may have if an SM is to hold `min_blocks` blocks of `threads` threads.
std::int64_t registers_allowed(const DeviceLimits& limits, std::int64_t threads, std::int64_t min_blocks);
// Blocks that an SM holds at once, each of `smem_bytes` of shared memory and `threads` threads of `registers` registers; at
// least 1.
std::int64_t blocks_per_sm(const DeviceLimits& limits, std::int64_t smem_bytes, std::int64_t threads, std::int64_t registers);
// SMs whose blocks run at once in clusters of `size`, with one block per SM; one more cluster would wait until another ends. An
// H200 has room for 30 clusters of four and 15 of eight (cudaOccupancyMaxActiveClusters). Trials show that fewer than 40 clusters
// of three run at once (512x576x7168 took 21.6 us although 11.5 were predicted for one wave; 30 and 32 clusters ran in one wave),
// and fewer than 20 of six (112x7032x24864 took 145 us, 103 predicted; 304x1576x9992 in 18 clusters 42 us, 30 predicted; 17 ran
// in one wave). So 30 and 17 are assumed.
std::int64_t usable_sms(const Device& device, std::int64_t cluster_size);

// Finds a family's default: the legal config with the least predicted time among those offered, or the space's first if none is
// legal.
class DefaultChoice {
  public:
    // REQUIRES: `space` outlives this.
    explicit DefaultChoice(const SearchSpace& space) : space_(space) {}
    // Whether an offer with this time could be chosen. If not, its config need not be made.
    bool wants(double predicted_us) const { return predicted_us < best_us_; }
    // Offers a config; returns whether it is chosen for now, that is wanted and legal.
    bool offer(const Config& config, double predicted_us);
    // The chosen config; one without parameters if the space is empty.
    Config choose() const;
    double predicted_us() const { return best_us_; }  // infinity: nothing legal was offered

  private:
    const SearchSpace& space_;
    std::optional<Config> best_;
    double best_us_ = std::numeric_limits<double>::infinity();
};

// The share of rows that are missing from the last of several tiles along C's shorter side, divided by the number of other tiles.
// The blocks of the last tile load less, and run ahead of the blocks that share the longer operand with them. 0 with one tile.
double ragged(const Gemm& g, std::int64_t tile_m, std::int64_t tile_n);
// Bytes in 32-byte sectors that tiles with this many columns of C share with their neighbours, per byte of C. Each tile writes a
// part of such a sector, which costs more than a whole one (4000x12520x96, rows of 782.5 sectors: 66 us in tiles of 160 columns,
// 48 us in 192).
double shared_sectors(const Gemm& g, std::int64_t columns);
// How often one line of 128 bytes is requested from L2 in a K step, given the number of loads along each side of C. Loads along
// one side read the same tile of the other operand, and if its rows are shorter than a line, each row is a separate request
// (8x21288x88 `tt` takes 9.2 us in 333 blocks, 5.5 us if clusters of four share each load).
double concurrent_requests_per_line(const Gemm& g, bool swap_ab, double loads_along_m, double loads_along_n);
// How often a line is requested if each block has one tile and `running` blocks run at once.
double line_requests_by_tiles(const Gemm& g, std::int64_t block_m, std::int64_t block_n, double running);

// The copy of a matrix with rows padded to whole chunks: its leading dimension in elements, and its size.
std::int64_t packed_ld(const TypedMatrix& matrix);
std::int64_t packed_bytes(const TypedMatrix& matrix);
// The step that makes the copy at `offset_bytes` of the workspace, by the template's entry _pack.
LaunchStep pack_step(const TypedMatrix& matrix, int index, std::size_t offset_bytes);

}  // namespace autotune::gemm
