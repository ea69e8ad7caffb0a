#include <algorithm>
#include <cmath>

#include "kernel_templates/gemm/mma/geometry.h"

namespace autotune::mma {

using std::int64_t;

namespace {

// Share of the tensor cores' peak that mma.sync reaches: Hopper and datacentre Blackwell reach the full rate only with wgmma and
// tcgen05.
double mma_sync_share(int cc) {
    if (cc == 90) return 0.528;
    return cc / 10 == 10 || cc / 10 == 11 ? 0.5 : 0.95;
}

// The cycles that one SM takes for a block's k16 step if nothing waits, for tensor cores, shared memory and L2.
double step_cycles(const Gemm& g, const ResolvedConfig& s, const Device& device) {
    const double f16_bonus = g.acc_f16 && device.identity.cc() != 80 && device.identity.cc() != 90 ? 2.0 : 1.0;
    const double rate = device.tensor_flop_per_clock_sm() * mma_sync_share(device.identity.cc()) * f16_bonus;
    const auto area = static_cast<double>(s.block_m * s.block_n);
    const auto edges = static_cast<double>(s.block_m + s.block_n);
    const double mma = 2.0 * 16.0 * area / rate;
    const double reads = static_cast<double>(s.warps() * (s.warp_m() + s.warp_n())) * 32.0;
    double copies = edges * 32.0;
    const int access = s.pack != 0 ? 16 : std::min(g.align_a, g.align_b);
    if (access < 16) copies *= access == 8 ? 5.07 : access == 4 ? 6.35 : 5.34;
    const double smem = (reads + copies) / 128.0;
    const double l2 = edges * 32.0 / 108.0;
    return std::pow(std::pow(mma, 4) + std::pow(smem, 4) + std::pow(l2, 4), 0.25);
}

// Bytes of A and B read from device memory: each wave of blocks reads its operands once, unless L2 still holds them from the
// previous wave.
double operand_traffic(const Gemm& g, const ResolvedConfig& s, const Device& device, double concurrent) {
    const double once = static_cast<double>((g.m + g.n) * g.k * g.batch) * kElementBytes;
    if (once < device.identity.l2_mib * 5.050e5) return once;
    const bool along_m = s.raster != 0;
    const double block_across = static_cast<double>(along_m ? s.block_m : s.block_n);
    const double block_along = static_cast<double>(along_m ? s.block_n : s.block_m);
    const double across = static_cast<double>(along_m ? g.m : g.n);
    const double panel = s.swizzle_stride == 0 ? across : std::min(across, static_cast<double>(s.swizzle_stride));
    const double tiles_across = std::min(std::ceil(panel / block_across), concurrent);
    const double tiles_along = std::ceil(concurrent / tiles_across);
    const double wave = (tiles_across * block_across + tiles_along * block_along) * static_cast<double>(g.k) * kElementBytes;
    const double waves = static_cast<double>(tiles(g, s)) / std::min(concurrent, static_cast<double>(tiles(g, s)));
    return std::max(once, wave * waves);
}

// The time of the other launches, which pack operands and add the parts of K.
double side_us(const Gemm& g, const ResolvedConfig& s, const Device& device) {
    const double bytes_per_us = device.memory_gb_per_s * 1e3;
    double us = 0;
    if (s.packs(g.align_a)) us += 1.88 + 4.0 * static_cast<double>(g.m * g.k * g.batch) / bytes_per_us;
    if (s.packs(g.align_b)) us += 2.02 + 4.0 * static_cast<double>(g.n * g.k * g.batch) / bytes_per_us;
    if (s.split_k > 1) us += 3.29 + 8.0 * static_cast<double>(g.m * g.n * g.batch * s.split_k) / (2 * bytes_per_us);
    return us;
}

}  // namespace

double predict_us(const Gemm& g, const ResolvedConfig& s, const Device& device) {
    const double cycles_per_us = device.clock_mhz * 0.922;
    const auto sms = static_cast<double>(device.identity.sm_count);
    const double blocks = static_cast<double>(tiles(g, s) * s.split_k);
    const double resident = std::min(static_cast<double>(blocks_per_sm(g, s, device.limits)), std::ceil(blocks / sms));
    const double warps = resident * static_cast<double>(s.warps());

    // One tile of the ring: its steps, the barrier of its warps, and the latency that the ring must hide. The constants are from
    // an H200 and an H100: 2,300 trials in a stream, most of them of random problems; the deviation is 20 %.
    double step = step_cycles(g, s, device);
    if (warps < 4) step *= 4.0 / warps;  // an SM has four tensor cores, and a warp uses one of them
    if (s.reg_buffers == 1) step *= 1.29;
    if (s.smem_swizzle == 0) step *= s.reg_buffers == 1 ? 1.26 : 1.31;
    const double area = static_cast<double>(s.warp_m() * s.warp_n());
    if (area < 64 * 64) step *= std::pow(64.0 * 64.0 / area, 0.0592);
    if (s.block_m > 2 * s.block_n) step *= 1.08;
    const double meeting = 262.0 * (s.split_barrier != 0 ? 1.01 : 1.0) / std::sqrt(resident);
    const double steps = static_cast<double>(s.block_k) / 16.0;
    // A ring of two stages copies the next tile only while this one is multiplied.
    const double exposed_copy = s.stages == 2 ? 232.0 / resident : 0.0;
    const double latency = 765.0 / static_cast<double>(s.stages - 1) / resident;
    const double running = std::min(blocks, sms * resident);
    const double same = s.pack != 0 ? 0.0 : 0.255 * gemm::line_requests_by_tiles(g, s.block_m, s.block_n, running) / resident;
    // cp.async copies at least four bytes, so with less alignment threads wait for each element.
    const auto elements = [&](int align, int64_t rows) { return s.pack == 0 && align < 4 ? rows * s.block_k : 0; };
    const double loaded_alone =
        28.5 *
        static_cast<double>(elements(g.align_a, std::min(s.block_m, g.m)) + elements(g.align_b, std::min(s.block_n, g.n))) /
        static_cast<double>(32 * s.warps());
    // Sums and addresses of small copies that do not fit into a thread's registers: 128x128 in four warps with 64 copies of four
    // bytes takes six times as long.
    const auto threads = static_cast<double>(32 * s.warps());
    const auto copies = [&](int align, int64_t rows) {
        return static_cast<double>(rows * s.block_k * kElementBytes / (s.pack != 0 ? 16 : std::max(4, align))) / threads;
    };
    const double held =
        static_cast<double>(s.block_m * s.block_n) / threads + copies(g.align_a, s.block_m) + copies(g.align_b, s.block_n);
    const double spilled = 300.0 * std::max(0.0, held - 160.0);
    const double tile = same + loaded_alone / resident + spilled + std::max(step * steps + meeting + exposed_copy, latency);
    const double loop =
        tile * std::ceil(static_cast<double>(std::max<int64_t>(1, k_per_split(g, s))) / static_cast<double>(s.block_k));

    // Only another block on the SM can hide the start and end of a block.
    const double alone = g.align_c < kChunkBytes ? 1.37 : 1.0;  // elements of C that are stored one by one
    const double epilogue = alone * static_cast<double>(s.block_m * s.block_n) * (s.split_k > 1 ? 2.96 : 2.0) / 15.4;
    const double rounds = std::ceil(blocks / sms);
    const double first_tile = static_cast<double>((s.block_m + s.block_n) * s.block_k) * 2.0 / 14.1;
    const double exposed = (735.0 + first_tile + epilogue) * (resident > 1 ? 1.0 + 0.384 * (rounds - 1) : rounds);
    const double compute_us = (rounds * loop + exposed) / cycles_per_us;
    const double output = static_cast<double>(g.m * g.n * g.batch) * static_cast<double>(size_bytes(g.out));
    // C is read in pairs, one access after the other.
    const double reads = g.reads_c && s.split_k == 1 ? 203.0 * area / 64.0 * rounds / cycles_per_us : 0.0;
    const double memory_us = (operand_traffic(g, s, device, sms * resident) + (g.align_c < kChunkBytes ? 1.05 : 2.32) * output) /
                             (device.memory_gb_per_s * 0.643 * 1e3);
    // Panels that the model rates equal to none, and rings deeper than the latency requires, make no real difference. Ranking
    // them last leaves room for other tiles.
    const double panel = s.swizzle_stride != 0 || s.raster != 0 ? 1.01 : 1.0;
    const double depth = 1.0 + 0.006 * static_cast<double>(std::max<int64_t>(0, s.stages - 4));
    return 1.41 + reads + panel * depth * std::pow(std::pow(compute_us, 6) + std::pow(memory_us, 6), 1.0 / 6) +
           side_us(g, s, device);
}

}  // namespace autotune::mma
