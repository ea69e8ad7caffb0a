#include <algorithm>
#include <cmath>

#include "kernel_templates/gemm/wgmma_nonpersistent/geometry.h"

namespace autotune::wgmma_nonpersistent {

using std::int64_t;

namespace {

// The constants below were fitted together with those of gemm/wgmma, for the choice among kernels (docs/results/untuned.md).

// The cost of loading one operand's tile from L2, as bytes of a tile whose rows are whole lines of 128 bytes. Boxes with narrow
// rows load more slowly, and rows that do not begin on a line touch one more line, weighted by `straddling`.
double tile_bytes(const ResolvedConfig& s, int64_t extent, bool k_major, int64_t shares, double straddling) {
    const int64_t span = k_major ? 64 : ResolvedConfig::span(extent);
    const double narrow = 1.0 + 0.438 * (64.0 / static_cast<double>(span) - 1.0);
    return static_cast<double>(extent * s.block_k * 2) * narrow * (1.0 + straddling) / std::pow(static_cast<double>(shares), 0.5);
}

double operand_bytes(const Gemm& g, const ResolvedConfig& s) {
    const bool swap = s.swap_ab != 0;
    const bool x_along_k = swap ? g.trans_b : !g.trans_a, y_along_k = swap ? !g.trans_a : g.trans_b;
    const auto straddles = [&](int64_t row) { return row % 64 != 0 ? 1.0 : 0.0; };
    const double x = straddles(x_along_k ? g.k : swap ? g.n : g.m) * (x_along_k ? 1.08 : 1.62);
    const double y = straddles(y_along_k ? g.k : swap ? g.m : g.n) * (y_along_k ? 0.874 : 1.23);
    return tile_bytes(s, s.block_m, x_along_k, s.cluster_n, x) + tile_bytes(s, s.block_n, y_along_k, s.cluster_m, y);
}

// Clocks of a K step for the `on_sm` blocks of an SM: the largest of the times of the tensor cores, shared memory, L2, and a
// warpgroup's barrier and issue, and of the time until a stage of the ring is full again.
double step_clocks(const Gemm& g, const ResolvedConfig& s, const Grid& grid, double busy_sms, double on_sm) {
    const double multiply = 1.27 * on_sm * static_cast<double>(s.block_m * s.block_n * s.block_k) / 2048.0;
    const double slices = static_cast<double>(s.block_m) / 64.0 * static_cast<double>(s.block_k) / 16.0;
    const double shared = on_sm * slices * static_cast<double>(64 + s.block_n) * 32.0 / 128.0;
    const double l2 = on_sm * operand_bytes(g, s) / std::min(98.5, 7928.0 / busy_sms);
    const double issue = (151.0 + 12.0 * slices / static_cast<double>(s.consumer_warpgroups)) /
                         static_cast<double>(std::min<int64_t>(s.k_warpgroups, 2));
    const double latency = grid.steps_each > s.stages ? 2608.0 / static_cast<double>(s.stages - 1) : 0.0;
    const double asks = gemm::concurrent_requests_per_line(g, s.swap_ab != 0, static_cast<double>(grid.tiles_m / s.cluster_m),
                                                           static_cast<double>(grid.tiles_n / s.cluster_n));
    // how long a step waits in a ring of few stages
    const double shallow = grid.steps_each > s.stages && s.stages <= 3 ? (s.stages == 2 ? 696.0 : 121.0) : 0.0;
    const double same = 0.663 * std::min(asks, 8.0 * busy_sms * on_sm / static_cast<double>(s.cluster_blocks()));
    return shallow + std::max({multiply, shared, l2, issue, latency, same}) + 0.45 * same;
}

// Blocks that start one after the other run at the same time, and L2 delivers data that several of them request in the same
// clocks only once. So an order with fewer different tiles among neighbouring blocks is faster: by 1 to 8 % in five of six pairs
// (docs/results/small_products.md). For blocks of clusters no such rule was found.
constexpr double kNeighbours = 16.0;  // blocks
double order_factor(const ResolvedConfig& s, const Grid& grid) {
    if (s.cluster_blocks() > 1) return 1.0;
    const auto rows_of = [](int64_t tiles, int64_t rows, int64_t rows_across) {
        const auto along = static_cast<double>(tiles);
        return std::min(kNeighbours, along) * static_cast<double>(rows) +
               std::ceil(kNeighbours / along) * static_cast<double>(rows_across);
    };
    const double along_m = rows_of(grid.tiles_m, s.block_m, s.block_n), along_n = rows_of(grid.tiles_n, s.block_n, s.block_m);
    return 1.0 + 0.0326 * std::log2((s.raster == 0 ? along_m : along_n) / std::min(along_m, along_n));
}

// Clocks from the last multiplication to the last store. The C that beta multiplies is read while the last products are computed;
// `reads` is the part of that time that is not hidden. An unaligned C is stored in pieces as wide as its alignment. For such a C
// 260 kernels of 34 problems took 1.02 times the predicted time. Blocks that divide K exchange all but their own shares of the
// tile.
double end_clocks(const Gemm& g, const ResolvedConfig& s) {
    const double units = static_cast<double>(s.units()) / static_cast<double>(s.parts());
    const double reads = g.reads_c ? 151.0 * units : 0.0;
    const double pieces = 2.0 / static_cast<double>(g.align_c);
    const double alone = g.align_c < gemm::kChunkBytes ? (g.reads_c ? 682.0 : 362.0) * units * pieces : 0.0;
    const double passed = static_cast<double>(s.block_m * s.block_n) * (1.0 - 1.0 / static_cast<double>(s.cluster_k));
    const double meeting = s.cluster_k > 1 ? 323.0 + 0.427 * passed : 0.0;
    return 31.8 + 203.0 * units + reads + alone + meeting + 759.0 * static_cast<double>(s.k_warpgroups - 1);
}

// The time that the power limit allows large products: multiplications cost energy, and so do their reads from shared memory and
// L2, as in gemm/wgmma.
double power_us(const Gemm& g, const ResolvedConfig& s, const Device& device) {
    const double mac = static_cast<double>(g.m * g.n) * static_cast<double>(g.k * g.batch);
    const double shared = 4.0 * static_cast<double>(64 + s.block_n) / static_cast<double>(s.block_n);
    const double x = static_cast<double>(s.block_m) / static_cast<double>(s.cluster_n);
    const double y = static_cast<double>(s.block_n) / static_cast<double>(s.cluster_m);
    const double l2 = 128.0 * (x + y) / static_cast<double>(s.block_m * s.block_n);
    const double at_full_rate = mac / (device.identity.sm_count * 2048.0 * device.clock_mhz * 0.96);
    return at_full_rate * (0.58 + 0.142 * shared + 0.078 * l2);
}

}  // namespace

double predict(const Gemm& g, const ResolvedConfig& s, const Device& device) {
    const Grid grid(g, s, device);
    const auto sms = static_cast<double>(gemm::usable_sms(device, s.cluster_blocks()));
    const auto blocks = static_cast<double>(grid.blocks);
    // Blocks on one SM share its tensor cores, shared memory and path from L2; the next ones begin when these end.
    const double on_sm = std::clamp(std::ceil(blocks / sms), 1.0, static_cast<double>(grid.an_sm));
    const double waves = std::ceil(blocks / (sms * on_sm));
    const double step = step_clocks(g, s, grid, std::min(blocks, sms), on_sm) * order_factor(s, grid);
    const double steps = static_cast<double>(grid.steps_each) * step;
    const double start = 2310.0 + (s.cluster_blocks() > 1 ? 376.0 + 21.0 * static_cast<double>(s.cluster_blocks())
                                                          : 0.0);  // until the first stage is full
    const double clocks = waves * (steps + end_clocks(g, s)) + start + (waves - 1.0) * 1236.0;
    const double inside = clocks / (device.clock_mhz * 1.06);
    // A byte of C takes longer than one of A or B.
    const double shared = 4.0 * gemm::shared_sectors(g, s.swap_ab != 0 ? s.block_m : s.block_n);
    const double of_c = (2.05 * (g.reads_c ? 2.0 : 1.0) + shared) * static_cast<double>(g.m * g.n);
    const double bytes = (static_cast<double>(g.m * g.k + g.k * g.n) + of_c) * static_cast<double>(g.batch * 2);
    const double last = gemm::ragged(g, s.swap_ab != 0 ? s.block_n : s.block_m, s.swap_ab != 0 ? s.block_m : s.block_n);
    const double read_again = 0.518 * last * static_cast<double>(std::max(g.m, g.n) * g.k * g.batch * 2);
    const double memory = 0.798 + (bytes / 1.16 + read_again / 0.988) / (device.memory_gb_per_s * 1e3);
    const double both = inside * std::sqrt(inside) + memory * std::sqrt(memory);  // they overlap in part
    // Programmatic launch costs this much on a single stream. On several streams it saves 0.25 to 0.45 us (docs/measuring.md).
    const double early = s.pdl != 0 ? 0.25 : 0.0;
    const double alone = 0.21 + early + std::cbrt(both * both);
    const double power = power_us(g, s, device);
    return std::pow(std::pow(alone, 8) + std::pow(power, 8), 0.125);
}

}  // namespace autotune::wgmma_nonpersistent
