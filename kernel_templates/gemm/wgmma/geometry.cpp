#include "kernel_templates/gemm/wgmma/geometry.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

namespace autotune::wgmma {

using std::int64_t;

ResolvedConfig::ResolvedConfig(const Config& c, const Gemm& g)
    : in_bytes(g.in_bytes()),
      out_bytes(g.out_bytes()),
      sum_bytes(g.acc_f16 ? 2 : 4),
      promotes(g.promotes),
      scales_columns(g.scaling == gemm::Scaling::row),
      scales_blocks(g.scaling == gemm::Scaling::block),
      has_bias(g.has_bias),
      reads_c(g.reads_c) {
    read_config(*this, c);
}

Grid::Grid(const Gemm& g, const ResolvedConfig& s, const Device& device) {
    const int64_t rows = s.swap_ab != 0 ? g.n : g.m;
    const int64_t columns = s.swap_ab != 0 ? g.m : g.n;
    count_m = ceil_div(ceil_div(rows, s.block_m), s.cluster_m);
    count_n = ceil_div(ceil_div(columns, s.block_n), s.cluster_n);
    tiles = count_m * count_n * g.batch;
    steps = ceil_div(g.k, s.block_k);
    // With cluster_k a cluster computes one tile; otherwise blocks are persistent. All clusters must run at once, because a
    // second wave doubles the time.
    room = std::max<int64_t>(1, gemm::usable_sms(device, s.cluster_blocks()) / s.cluster_blocks());
    // Stream-K counts the steps of up to two waves in 32 bits, times the number of clusters. If they are too many, tiles stay
    // whole.
    const bool countable = 2 * room * steps <= std::numeric_limits<std::int32_t>::max() / room;
    parts = s.cluster_k > 1 || (s.split_k == 0 && !countable) ? 1 : std::min(s.split_k, steps);
    clusters = s.cluster_k > 1 ? tiles : std::min(room, parts == 0 ? tiles * steps : tiles * parts);
    if (s.persistent == 0 && parts != 0) clusters = tiles * parts;
    whole = parts != 0 || tiles % clusters == 0 ? tiles : std::max<int64_t>(0, tiles / clusters - 1) * clusters;
}

int64_t Grid::steps_each(const ResolvedConfig& s) const {
    return parts == 0 ? ceil_div(tiles * steps, clusters) : ceil_div(steps, parts * s.cluster_k);
}

bool fits_twice(const ResolvedConfig& s, int64_t stages, const Device& device) {
    // Two or three consumer warpgroups take all registers. One with up to 32 accumulators takes at most 128 per thread (116 under
    // NVRTC 13.0).
    const int64_t registers = 128;
    return s.consumer_warpgroups == 1 && s.accumulators() <= 32 &&
           gemm::blocks_per_sm(device.limits, s.smem_bytes(stages), s.threads(), registers) >= 2;
}

namespace {

constexpr double kUsableL2 = 0.6e6;  // bytes of an operand that stay in each MiB of L2

// Times are in clocks of an SM unless the name has another unit.
struct Constants {
    // Of a K step: its time / its time at the tensor cores' peak; and the time outside multiplications.
    double multiply, overhead;
    double l2_bytes, l2_bytes_of_all;     // bytes per clock for one SM, and for all SMs together
    double latency;                       // the time from a stage's request to its arrival
    double wait_2_stages, wait_3_stages;  // in a ring of two or three stages, the latencies that a step waits besides its work
    double ask;                           // the time of requests for a line that many blocks load in the same step
    // Additional lines of 128 bytes that a row touches if rows do not begin on a line: for the M-side operand along K and along
    // M, for the N-side operand
    std::array<double, 4> straddling;
    double half_lines;   // time of multiplications in steps of 64 bytes / in steps of whole lines
    double narrow_both;  // for operands that both lie along C's sides: time with boxes below a line / with others
    double narrow;       // for an N-side operand stored along N: time with boxes of a quarter line / of whole lines
    double tile, direct_area, tma_area;  // the time at the end of a tile, and elements stored per clock
    double unaligned_store;  // the time for each element of a thread, if C's rows do not begin at multiples of 16 bytes
    double unpaired_store;   // added if neighbours of a row are not stored as a pair
    double overlapped_c_read, direct_read;  // the time to read the C that beta multiplies
    double combine, combine_area;           // the time to add the parts of a tile
    // The time to add the sums of the blocks that divide K in a cluster: a constant, and one per block.
    double meeting, meeting_block;
    double combine_part;       // per element of each part but the first; the last block to finish adds them
    double clock, memory;      // shares of the maximum
    double memory_us, output;  // the time before memory delivers; the weight of a byte of C relative to one of the operands
    double shared_sectors;     // for each byte of C in a sector that two tiles write
    double overlap;            // exponent of the norm that combines computing and memory time: 1 means no overlap
    double reduce_us, reduced_bytes;  // for the second kernel: the time of its start, and its bytes per microsecond
    double ragged;                    // the share of the larger operand that is reloaded if the last tile lacks rows
    double pack_us, pack_share;
    std::array<double, 3> launch_us;  // time of a launch without early fetch; with it; with it while the previous kernel runs
    double launch_in_turn_us;         // without programmatic dependent launch
};
// Fitted to 24,400 trials of this and the other families, of 820 random problems and shipped winners, in a stream on an H200 and
// an H100 (docs/results/untuned.md). The fit balances all constants for the choice among kernels; no constant was measured
// separately.
constexpr Constants kOfHalf = {.multiply = 2.19,
                               .overhead = 146.0,
                               .l2_bytes = 93.9,
                               .l2_bytes_of_all = 3781.0,
                               .latency = 3005.0,
                               .wait_2_stages = 1.18,
                               .wait_3_stages = 0.0849,
                               .ask = 0.256,
                               .straddling = {1.02, 1.16, 1.11, 1.5},
                               .half_lines = 1.63,
                               .narrow_both = 1.66,
                               .narrow = 0.702,
                               .tile = 752.0,
                               .direct_area = 4.0,
                               .tma_area = 10.6,
                               .unaligned_store = 36.8,
                               .unpaired_store = 4.13,
                               .overlapped_c_read = 2221.0,
                               .direct_read = 64.5,
                               .combine = 15804.0,
                               .combine_area = 3.04,
                               .meeting = 301.0,
                               .meeting_block = 87.5,
                               .combine_part = 0.22,
                               .clock = 1.83,
                               .memory = 1.07,
                               .memory_us = 0.296,
                               .output = 1.62,
                               .shared_sectors = 7.48,
                               .overlap = 1.5,
                               .reduce_us = 1.24,
                               .reduced_bytes = 3.824e6,
                               .ragged = 0.138,
                               .pack_us = 1.26,
                               .pack_share = 1.16,
                               .launch_us = {3.1, 3.07, 2.59},
                               .launch_in_turn_us = 3.85};
// For fp8: 1,300 trials of 15 problems (docs/results/large_products.md).
constexpr Constants kOfBytes = {.multiply = 0.875,
                                .overhead = 163.0,
                                .l2_bytes = 149.0,
                                .l2_bytes_of_all = 9190.0,
                                .latency = 2190.0,
                                .wait_2_stages = 0.0,
                                .wait_3_stages = 0.0,
                                .ask = 0.0,
                                .straddling = {},
                                .half_lines = 1.0,
                                .narrow_both = 1.0,
                                .narrow = 0.0,
                                .tile = 1780.0,
                                .direct_area = 2.3,
                                .tma_area = 8.0,
                                .unaligned_store = 0.0,
                                .unpaired_store = 1.0,
                                .overlapped_c_read = 1200.0,
                                .direct_read = 120.0,
                                .combine = 5240.0,
                                .combine_area = 2.6,
                                .meeting = 600.0,
                                .meeting_block = 0.0,
                                .combine_part = 0.0,
                                .clock = 0.86,
                                .memory = 0.93,
                                .memory_us = 0.0,
                                .output = 1.0,
                                .shared_sectors = 0.0,
                                .overlap = 6.0,
                                .reduce_us = 1.35,
                                .reduced_bytes = 4.2e6,
                                .ragged = 0.0,
                                .pack_us = 2.0,
                                .pack_share = 0.7,
                                .launch_us = {2.6, 2.4, 2.1},
                                .launch_in_turn_us = 2.0};

const Constants& constants(const ResolvedConfig& s) {
    return s.in_bytes == 1 ? kOfBytes : kOfHalf;
}

// The bytes that L2 delivers for both operands in a K step. Rows that straddle lines are weighted by their cost.
double operand_bytes(const Gemm& g, const ResolvedConfig& s) {
    const Constants& c = constants(s);
    const bool swap = s.swap_ab != 0;
    const bool x_along_k = swap ? g.trans_b : !g.trans_a, y_along_k = swap ? !g.trans_a : g.trans_b;
    const auto straddles = [&](int64_t row) { return row * s.in_bytes % 128 != 0 ? 1.0 : 0.0; };
    const int64_t rows = swap ? g.n : g.m, columns = swap ? g.m : g.n;
    const double x_lines = 1.0 + straddles(x_along_k ? g.k : rows) * c.straddling[x_along_k ? 0 : 1];
    double y_lines = 1.0 + straddles(y_along_k ? g.k : columns) * c.straddling[y_along_k ? 2 : 3];
    if (!y_along_k) y_lines *= 1.0 + c.narrow * (128.0 / static_cast<double>(s.in_bytes * s.span(s.block_n)) - 1.0);
    const double x = static_cast<double>(s.block_m * s.step_bytes()) / static_cast<double>(s.cluster_n);
    const double y = static_cast<double>(s.block_n * s.step_bytes()) / static_cast<double>(s.cluster_m);
    return x * x_lines + y * y_lines;
}

// Clocks of one SM for a K step: the largest of the times of the tensor cores, shared memory and L2, and of the time until a
// stage of the ring is full again.
double step_clocks(const Gemm& g, const ResolvedConfig& s, const Grid& grid) {
    const Constants& c = constants(s);
    const auto mac = static_cast<double>(s.block_m * s.block_n * s.block_k);
    // With such boxes 16264x14568x3248 `tn` reaches 350 TFLOP/s, with whole lines 650.
    const double narrow = s.tma_swizzle < 128 && g.trans_a && !g.trans_b ? c.narrow_both : 1.0;
    const double lines = s.step_bytes() < 128 ? c.half_lines : 1.0;
    const double multiply = lines * narrow * c.multiply * mac / (4096.0 / static_cast<double>(s.in_bytes));
    const double bands_in_tile = static_cast<double>(s.block_m) / 64.0;
    const double shared =
        bands_in_tile * (static_cast<double>(s.step_bytes()) / 32.0) * static_cast<double>(64 + s.block_n) * 32.0 / 128.0;
    const double busy = static_cast<double>(grid.clusters * s.cluster_blocks());
    // If few SMs are busy, each gets more of L2's bandwidth.
    const double l2 = operand_bytes(g, s) / std::min(c.l2_bytes, c.l2_bytes_of_all / busy);
    // Issue slots for adding products outside of the tensor cores: the warps of a band, for all consumer warpgroups one after
    // another. The additions overlap with multiplications: with two sets of products with their own band's, with three or more
    // bands per tile with those of other bands, otherwise by half (4096x2112x7168 in blocks, H200, 2026-11-23: 128x192 1,090
    // clocks per step, 192x128 1,000, 256x128 1,170). Ping-pong groups multiply one tile at a time, without overlap (128x128:
    // 1,090).
    const double additions = s.promotes ? bands_in_tile * (static_cast<double>(s.block_n) / 2.0 + 60.0) : 0.0;
    const double alone = s.pingpong != 0 ? 1.5 : bands_in_tile <= 2 ? 0.5 : 0.0;
    const double exposed = s.product_sets == 1 ? additions * alone : 0.0;
    const double latency = c.latency + (s.sharing_blocks() > 1 ? 250.0 : 0.0);
    const double shallow = latency * (s.stages == 2 ? c.wait_2_stages : s.stages == 3 ? c.wait_3_stages : 0.0);
    const double asks = gemm::concurrent_requests_per_line(g, s.swap_ab != 0, static_cast<double>(grid.count_m),
                                                           static_cast<double>(grid.count_n));
    const double same = c.ask * std::min(asks, 8.0 * static_cast<double>(grid.clusters));
    return shallow + same +
           std::max(std::max({multiply, shared, l2, additions}) + c.overhead + exposed,
                    latency / static_cast<double>(std::max<int64_t>(1, s.stages - 1)));
}

// Clocks to read the C that beta multiplies. TMA can load as many spans as there are buffers during the products; the remaining
// spans wait until a store ends. Without TMA each thread reads one pair after the other.
double read_clocks(const ResolvedConfig& s) {
    if (!s.reads_c || s.reduce_kernel != 0) return 0.0;
    const int64_t late_spans = std::max<int64_t>(0, s.block_n / s.span_c() - s.epilogue_stages);
    if (s.tma_store != 0) return constants(s).overlapped_c_read * static_cast<double>(late_spans);
    const auto elements = static_cast<double>(s.bands() * s.block_n / 2);
    return constants(s).direct_read * elements / (s.swap_ab != 0 ? 1.0 : 2.0) / static_cast<double>(s.cluster_k);
}

// The clocks between a tile's last multiplication and the next tile's first, except those that other work hides.
double tile_clocks(const Gemm& g, const ResolvedConfig& s) {
    const Constants& c = constants(s);
    if (s.reduce_kernel != 0) return c.tile;  // another kernel stores C
    const bool stores_alone = s.tma_store == 0 && g.align_c < gemm::kChunkBytes;
    const double lone = s.swap_ab == 0 && g.align_c < 4 ? c.unpaired_store : 1.0;
    const double alone = stores_alone ? lone * c.unaligned_store * static_cast<double>(s.bands() * s.block_n) : 0.0;
    // With one buffer each span waits for the previous one. The value is a guess and was not measured.
    const double area_per_clock = s.tma_store == 0                              ? c.direct_area
                                  : s.epilogue_stages == s.block_n / s.span_c() ? 16.0
                                  : s.epilogue_stages == 1                      ? 6.0
                                                                                : c.tma_area;
    return c.tile + alone + static_cast<double>(s.block_m * s.block_n) / area_per_clock;
}
// Clocks to write a part to the workspace and, without a second kernel, to add the parts.
double combine_clocks(const ResolvedConfig& s, int64_t parts) {
    const auto area = static_cast<double>(s.block_m * s.block_n);
    if (s.reduce_kernel != 0) return 600.0 + area / 16.0;
    const Constants& c = constants(s);
    return c.combine + area / c.combine_area + c.combine_part * area * static_cast<double>(parts - 1);
}

// The time of the second kernel if there is one: its start, its writes, and its reads of the parts.
double reduce_us(const Gemm& g, const ResolvedConfig& s, const Grid& grid) {
    if (s.reduce_kernel == 0) return 0.0;
    const auto bytes = static_cast<double>(grid.parts * g.m * g.n * g.batch * 2 * s.sum_bytes);
    return constants(s).reduce_us + bytes / constants(s).reduced_bytes;
}

double clocks_of(const Gemm& g, const ResolvedConfig& s, const Grid& grid) {
    const double step = step_clocks(g, s, grid);
    const double end = tile_clocks(g, s) + read_clocks(s);
    const auto steps = static_cast<double>(grid.steps);
    const auto tiles = static_cast<double>(grid.tiles);
    const auto clusters = static_cast<double>(grid.clusters);
    if (s.cluster_k > 1) {
        const double share = static_cast<double>(s.block_m * s.block_n) / static_cast<double>(s.cluster_k);
        const double meeting = constants(s).meeting + constants(s).meeting_block * static_cast<double>(s.cluster_k);
        return std::ceil(steps / static_cast<double>(s.cluster_k)) * step + end + meeting + share / 8.0;
    }
    if (grid.parts == 0) return tiles * steps / clusters * step + (tiles / clusters + 1.0) * end + 1.9 * combine_clocks(s, 2);
    const double rounds = std::ceil(tiles * static_cast<double>(grid.parts) / clusters);
    const double run = std::ceil(steps / static_cast<double>(grid.parts)) * step;
    const double ends = end + (grid.parts > 1 ? combine_clocks(s, grid.parts) : 0.0);
    // In ping-pong the end of each tile except the last is hidden by the other group's multiplications.
    if (s.pingpong != 0 && rounds > 1) return rounds * std::max(run, ends / 2.0) + ends;
    // An overlapped epilogue runs during the next tile's multiplications: 1,900 clocks of store become 500.
    if (s.late_rounds() > 0) return rounds * (run + constants(s).tile) + ends - constants(s).tile;
    return rounds * (run + ends);
}

// Bytes of the larger operand that stream-K's blocks read again. They are at different positions of K, so tiles in one strip of
// that operand do not share what passes through L2 (261x15312x31616 takes 833 us; without this term 553 us were predicted).
double streamed_again(const Gemm& g, const ResolvedConfig& s, const Grid& grid, const Device& device) {
    if (grid.parts != 0) return 0.0;
    const bool x_is_larger = s.swap_ab != 0 ? g.n >= g.m : g.m >= g.n;
    const auto rows_of_a_tile = static_cast<double>(x_is_larger ? s.block_m * s.cluster_m : s.block_n * s.cluster_n);
    const double read = static_cast<double>(grid.tiles - grid.whole) * rows_of_a_tile * static_cast<double>(g.k * s.in_bytes);
    const auto larger = static_cast<double>(std::max(g.m, g.n) * g.k * g.batch * s.in_bytes);
    const double fits = device.identity.l2_mib * kUsableL2 / larger;
    return fits >= 1.0 ? 0.0 : std::max(0.0, read - larger) * (1.0 - fits);
}

double memory_us(const Gemm& g, const ResolvedConfig& s, const Grid& grid, const Device& device) {
    const Constants& c = constants(s);
    const double shared = c.shared_sectors * gemm::shared_sectors(g, s.swap_ab != 0 ? s.block_m : s.block_n);
    const double of_c = (c.output * (g.reads_c ? 2.0 : 1.0) + shared) * static_cast<double>(g.m * g.n * s.out_bytes * g.batch);
    const double once = static_cast<double>((g.m * g.k + g.k * g.n) * s.in_bytes * g.batch) + of_c;
    const auto partial = grid.parts > 1 ? static_cast<double>(grid.parts * g.m * g.n * g.batch * 2 * s.sum_bytes) : 0.0;
    // Operands larger than the L2 are read again for each band of tiles that does not fit.
    const double wave_rows = static_cast<double>(std::max<int64_t>(1, s.group) * s.block_m * s.cluster_m);
    const double rows = static_cast<double>(s.swap_ab != 0 ? g.n : g.m);
    const double columns = static_cast<double>(s.swap_ab != 0 ? g.m : g.n);
    const double extent = s.raster == 0 ? rows : columns;
    const double other = s.raster == 0 ? columns : rows;
    const double strip = s.raster == 0 ? wave_rows : static_cast<double>(std::max<int64_t>(1, s.group) * s.block_n * s.cluster_n);
    const double again = std::max(0.0, std::ceil(extent / strip) - 1) * other * static_cast<double>(g.k * g.batch * s.in_bytes);
    const double fits = device.identity.l2_mib * kUsableL2 / (other * static_cast<double>(g.k * s.in_bytes));
    const double rereads = fits >= 1.0 ? 0.0 : again * (1.0 - fits);
    const double bytes = once + partial * 0.3 + rereads * 0.48 + streamed_again(g, s, grid, device);
    const double last = gemm::ragged(g, s.swap_ab != 0 ? s.block_n : s.block_m, s.swap_ab != 0 ? s.block_m : s.block_n);
    const double read_again = c.ragged * last * static_cast<double>(std::max(g.m, g.n) * g.k * g.batch * s.in_bytes);
    return c.memory_us + (bytes / c.memory + read_again / 0.9) / (device.memory_gb_per_s * 1e3);
}

double pack_us(const Gemm& g, const ResolvedConfig& s, const Device& device) {
    const Constants& c = constants(s);
    const double bytes_per_us = device.memory_gb_per_s * c.pack_share * 1e3;
    double us = 0;
    if (g.align_a < 16) us += c.pack_us + 4.0 * static_cast<double>(g.m * g.k * g.batch) / bytes_per_us;
    if (g.align_b < 16) us += c.pack_us + 4.0 * static_cast<double>(g.k * g.n * g.batch) / bytes_per_us;
    return us;
}

// Bytes of both operands that memory delivers in addition to the first read. A wave of tiles reads the rows that it touches. The
// next wave finds the shared part of them in L2 if L2 holds a wave's operands and its C. The operands of 8192x6144x4096 have 117
// MB, and strips of 3072 rows read 450 MB, as if every wave began anew; 4096x4096x2048 reads everything once (H200, 2026-11-23,
// counters). So L2 keeps 21 to 36 MB of its 60.
double read_again_bytes(const Gemm& g, const ResolvedConfig& s, const Grid& grid, const Device& device) {
    const auto real = [](int64_t value) { return static_cast<double>(value); };
    const double rows_of_m = real(s.block_m * s.cluster_m), rows_of_n = real(s.block_n * s.cluster_n);
    const double fast = real(s.raster == 1 ? grid.count_n : grid.count_m),
                 slow = real(s.raster == 1 ? grid.count_m : grid.count_n);
    const double fast_rows = s.raster == 1 ? rows_of_n : rows_of_m, slow_rows = s.raster == 1 ? rows_of_m : rows_of_n;
    const double clusters = std::min(real(grid.clusters), fast * slow);
    const double width = std::min(real(std::max<int64_t>(1, s.group)), fast);
    const double strips = std::max(1.0, clusters / (width * slow));  // strips that a wave covers
    const double wave_fast = std::min(fast, width * strips), wave_slow = std::min(slow, clusters / width);
    const double of_a_row = real(g.k * s.in_bytes);
    const double wave = (wave_fast * fast_rows + wave_slow * slow_rows) * of_a_row;
    const double wave_c = wave_fast * fast_rows * wave_slow * slow_rows * real(s.out_bytes);
    const double once = (fast * fast_rows + slow * slow_rows) * of_a_row;
    const double most = real(device.identity.l2_mib) * 0.6e6, least = real(device.identity.l2_mib) * 0.35e6;
    if (once <= least) return 0.0;
    const double anew = std::max(once, fast * slow / clusters * wave);
    const double kept = fast * fast_rows * of_a_row + std::ceil(fast / wave_fast) * slow * slow_rows * of_a_row;
    const double share = std::clamp((most - wave - wave_c) / (most - least), 0.0, 1.0);
    return real(g.batch) * (share * std::min(kept, anew) + (1.0 - share) * anew - once);
}

// The time that the power limit allows. Multiplications cost energy, and so do their reads from shared memory and L2; wide tiles
// need the fewest. Memory costs 41 pJ per byte, at 700 W.
double power_us(const Gemm& g, const ResolvedConfig& s, const Grid& grid, const Device& device) {
    const double tile_mac = static_cast<double>(s.block_m * s.block_n * s.block_k);
    const double mac = tile_mac * static_cast<double>(grid.tiles * grid.steps * s.sharing_blocks());
    const double shared = 4.0 * static_cast<double>(64 + s.block_n) / static_cast<double>(s.block_n);
    const double x = static_cast<double>(s.block_m) / static_cast<double>(s.cluster_n);
    const double y = static_cast<double>(s.block_n) / static_cast<double>(s.cluster_m);
    const double l2 = 128.0 * (x + y) * static_cast<double>(s.block_k) / tile_mac;
    const double at_full_rate =
        mac / (device.identity.sm_count * 4096.0 / static_cast<double>(s.in_bytes) * device.clock_mhz * 0.96);
    // f16 sums cost less: at the same power limit cuBLAS sustains 703 TFLOP/s with them and 599 with f32 sums.
    const double of_sums = s.sum_bytes == 2 ? 0.85 : 1.0;
    const double of_memory = s.in_bytes == 2 ? read_again_bytes(g, s, grid, device) / 17e6 : 0.0;
    // With serpentine_k, ten pairs of measurements of one second took 0.7 % less time and 1.5 % less energy (H200, 2026-11-27).
    const double of_turns = s.serpentine_k != 0 && !rereads_nothing(g, device) ? 0.993 : 1.0;
    return (at_full_rate * of_sums * (0.58 + 0.142 * shared + 0.078 * l2) + of_memory) * of_turns;
}

// Time from a kernel's turn to its first operands. An early fetch saves more if the next kernel's blocks fit next to this
// kernel's, because they can then begin before this
// kernel's blocks end.
double launch_us(const ResolvedConfig& s, const Device& device) {
    if (s.pdl == 0) return constants(s).launch_in_turn_us;
    if (s.prefetch_steps == 0) return constants(s).launch_us[0];
    return constants(s).launch_us[fits_twice(s, s.stages, device) ? 2 : 1];
}

// The norm of two times that partly overlap. It multiplies instead of calling pow(), because a plan makes hundreds of
// predictions.
double overlapped(double a, double b, double exponent) {
    if (exponent != 1.5) return std::pow(std::pow(a, exponent) + std::pow(b, exponent), 1.0 / exponent);
    const double sum = a * std::sqrt(a) + b * std::sqrt(b);
    return std::cbrt(sum * sum);
}
double larger(double a, double b) {
    const double a4 = a * a * a * a, b4 = b * b * b * b;
    return std::sqrt(std::sqrt(std::sqrt(a4 * a4 + b4 * b4)));
}

}  // namespace

bool rereads_nothing(const Gemm& g, const Device& device) {
    return static_cast<double>(std::max(g.m, g.n) * g.k * g.in_bytes()) <= device.identity.l2_mib * kUsableL2;
}

double predict(const Gemm& g, const ResolvedConfig& s, const Device& device) {
    const Grid grid(g, s, device);
    const Constants& c = constants(s);
    const double compute = clocks_of(g, s, grid) / (device.clock_mhz * c.clock);
    const double running = overlapped(compute, memory_us(g, s, grid, device), c.overlap);
    const double alone = launch_us(s, device) + running + reduce_us(g, s, grid);
    const double turns = s.serpentine_k != 0 && rereads_nothing(g, device) ? 1.003 : 1.0;  // no gain: ranked later
    const double additions =
        // advance_descriptors makes winners of large products 0.5 to 1.0 % faster
        s.in_bytes == 2 && s.advance_descriptors == 0 ? 1.01 : 1.0;
    return larger(alone, power_us(g, s, grid, device)) * turns * additions + pack_us(g, s, device);
}

}  // namespace autotune::wgmma
