#include <algorithm>
#include <cmath>

#include "kernel_templates/gemm/wgmma_nonpersistent/geometry.h"

namespace autotune::wgmma_nonpersistent {

using std::int64_t;

namespace {

// The constants below were fitted to 697 configs of 14 problems, timed in a stream on an H200
// (docs/results/2026-11-23-h200/stream.md), the fast ones of each problem weighted most: the deviation is 10 %. On 8 of the 14
// the first config predicted is within 3 % of the fastest measured, on the worst it takes half as long again. The
// power limit in predict() was added afterwards and is not fitted.

// The bytes that one operand's tile costs on its way from L2, in bytes of a tile whose rows are whole lines of 128 bytes. Boxes
// of narrow rows load more slowly than those of 128 bytes.
double tile_bytes(const Shape& s, int64_t extent, bool k_major, int64_t shares) {
    const int64_t span = k_major ? 64 : Shape::span(extent);
    const double narrow = 1.0 + 0.31 * (64.0 / static_cast<double>(span) - 1.0);
    return static_cast<double>(extent * s.block_k * 2) * narrow / std::pow(static_cast<double>(shares), 0.92);
}

// Rows that do not begin on a line touch one more.
bool rows_straddle_lines(const Gemm& g) {
    return (g.trans_a ? g.m : g.k) % 64 != 0 || (g.trans_b ? g.k : g.n) % 64 != 0;
}

// What that costs: more where B is read along N than where TMA walks along K (700 and 260 trials).
double straddling(const Gemm& g) {
    if (!rows_straddle_lines(g)) return 1.0;
    return !g.trans_a && !g.trans_b ? 1.9 : 1.25;
}

// Clocks of a K step of the `on_sm` blocks of an SM: what the tensor cores, shared memory, the path from L2, or a warpgroup's
// barrier and issue take, whichever is most, or the time a stage of the ring takes to come back.
double step_clocks(const Gemm& g, const Shape& s, const Grid& grid, double busy_sms, double on_sm) {
    const double multiply = 1.17 * on_sm * static_cast<double>(s.block_m * s.block_n * s.block_k) / 2048.0;
    const double slices = static_cast<double>(s.block_m) / 64.0 * static_cast<double>(s.block_k) / 16.0;
    const double shared = on_sm * slices * static_cast<double>(64 + s.block_n) * 32.0 / 128.0;
    const bool x_k_major = s.swap_ab != 0 ? g.trans_b : !g.trans_a;
    const bool y_k_major = s.swap_ab != 0 ? !g.trans_a : g.trans_b;
    const double bytes = tile_bytes(s, s.block_m, x_k_major, s.cluster_n) + tile_bytes(s, s.block_n, y_k_major, s.cluster_m);
    const double l2 = on_sm * bytes * straddling(g) / std::min(64.0, 7200.0 / busy_sms);
    const double issue =
        (143.0 + 10.0 * slices / static_cast<double>(s.math_groups)) / static_cast<double>(std::min<int64_t>(s.k_groups, 2));
    const double latency = grid.steps_each > s.stages ? 2160.0 / static_cast<double>(s.stages - 1) : 0.0;
    return std::max({multiply, shared, l2, issue, latency});
}

// From the last multiplication to the last store. What beta multiplies comes while the last products are computed: 200 clocks a
// unit are what is not hidden, and blocks that divide K meet after 1,500 clocks (150 trials of 60 problems).
double end_clocks(const Gemm& g, const Shape& s) {
    const double units = static_cast<double>(s.units()) / static_cast<double>(s.parts());
    const double reads = g.reads_c ? 200.0 * units : 0.0;
    return 33.0 + 281.0 * units + reads + (s.cluster_k > 1 ? 1500.0 : 0.0) + (s.k_groups > 1 ? 905.0 : 0.0);
}

}  // namespace

double predict(const Gemm& g, const Shape& s, const Device& device) {
    const Grid grid(g, s, device);
    // An H200 has room for 30 clusters of four blocks and 15 of eight: one more cluster waits for another's end.
    const double sms = device.identity.sm_count - (s.cluster_blocks() > 2 ? 12 : 0);
    const auto blocks = static_cast<double>(grid.blocks);
    // Blocks that share an SM share its tensor cores, shared memory and path from L2; the next ones begin as they end.
    const double on_sm = std::clamp(std::ceil(blocks / sms), 1.0, static_cast<double>(grid.an_sm));
    const double waves = std::ceil(blocks / (sms * on_sm));
    const double steps = static_cast<double>(grid.steps_each) * step_clocks(g, s, grid, std::min(blocks, sms), on_sm);
    const double start = 1630.0 + (s.cluster_blocks() > 1 ? 1120.0 : 0.0);  // to the first full stage
    const double clocks = waves * (steps + end_clocks(g, s)) + start + (waves - 1.0) * 1480.0;
    const double inside = clocks / (device.clock_mhz * 0.9);
    const double bytes = static_cast<double>((g.m * g.k + g.k * g.n + (g.reads_c ? 2 : 1) * g.m * g.n) * g.batch * 2);
    const double memory = 2.1 + bytes / (device.memory_gb_per_s * 0.9 * 1e3);
    const double alone = 0.54 + (s.pdl != 0 ? 0.07 : 0.0) + std::pow(std::pow(inside, 4) + std::pow(memory, 4), 0.25);
    // The power limit leaves large products three fifths of the rate; small ones end before it matters.
    const double mac = static_cast<double>(g.m * g.n) * static_cast<double>(g.k * g.batch);
    const double power = mac / (device.identity.sm_count * 2048.0 * device.clock_mhz * 0.6);
    return std::pow(std::pow(alone, 8) + std::pow(power, 8), 0.125);
}

}  // namespace autotune::wgmma_nonpersistent
