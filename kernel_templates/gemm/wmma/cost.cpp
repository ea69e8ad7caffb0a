#include <algorithm>
#include <cmath>

#include "kernel_templates/gemm/wmma/geometry.h"

namespace autotune::wmma {

using std::int64_t;

namespace {

// Share of the tensor cores' peak that wmma reaches. It runs as mma.sync, which is slow on Hopper and datacentre Blackwell.
double wmma_share(int cc) {
    if (cc == 90) return 0.277;
    return cc / 10 == 10 || cc / 10 == 11 ? 0.5 : 0.93;
}

double copy_penalty(int access_bytes) {
    return access_bytes == 16 ? 1.0 : access_bytes == 8 ? 1.87 : access_bytes == 4 ? 5.24 : 8.0;
}

// The cycles that one SM takes for a block's k16 step if nothing waits, for tensor cores, shared memory and L2.
double step_cycles(const Gemm& g, const ResolvedConfig& s, const Device& device) {
    const int cc = device.identity.cc();
    const double f16_bonus = g.acc_f16 && cc != 80 && cc != 90 ? 2.0 : 1.0;
    const double rate = device.tensor_flop_per_clock_sm() * wmma_share(cc) * f16_bonus;
    const auto edges = static_cast<double>(s.block_m + s.block_n);
    const double mma = 2.0 * 16.0 * static_cast<double>(s.block_m * s.block_n) / rate;
    double reads = static_cast<double>(s.warps() * (s.warp_m() + s.warp_n())) * 32.0;
    // Without padding, rows are in the same banks.
    if (s.smem_pad == 0) reads *= s.block_k == 16 ? 2.0 : s.block_k == 32 ? 4.0 : 8.0;
    const double copies = edges * 32.0 * copy_penalty(std::min(g.align_a, g.align_b));
    const double smem = (reads + copies) / 128.0;
    const double l2 = edges * 32.0 / 44.3;
    return std::pow(std::pow(mma, 4) + std::pow(smem, 4) + std::pow(l2, 4), 0.25);
}

// Cycles from one tile along K to the next. Loads of `resident` blocks hide each other's latency.
double tile_cycles(const Gemm& g, const ResolvedConfig& s, const Device& device, double resident) {
    const double running = std::min(static_cast<double>(tiles(g, s)), device.identity.sm_count * resident);
    const double same = 0.273 * gemm::line_requests_by_tiles(g, s.block_m, s.block_n, running) / resident;
    const double warps = resident * static_cast<double>(s.warps());
    const double busy = step_cycles(g, s, device) * static_cast<double>(s.block_k) / 16.0 * (warps < 4 ? 4.0 / warps : 1.0);
    const double meeting = 256.0 / std::sqrt(resident);
    const double latency = 868.0 / resident;
    // cp.async copies at least four bytes. With less alignment, threads load and wait for single elements.
    const auto elements = [&](int align, int64_t rows) { return s.cp_async != 0 && align < 4 ? rows * s.block_k : 0; };
    const double alone =
        36.6 *
        static_cast<double>(elements(g.align_a, std::min(s.block_m, g.m)) + elements(g.align_b, std::min(s.block_n, g.n))) /
        static_cast<double>(32 * s.warps());
    if (s.stages == 1) return same + busy + 2 * meeting + latency;
    return same + alone + std::max(busy + meeting, latency / static_cast<double>(s.stages - 1)) +
           (s.stages == 2 ? 0.663 * latency : 0.0);
}

}  // namespace

double predict_us(const Gemm& g, const ResolvedConfig& s, const Device& device) {
    const double cycles_per_us = device.clock_mhz * 0.893;
    const auto sms = static_cast<double>(device.identity.sm_count);
    const auto blocks = static_cast<double>(tiles(g, s));
    const double rounds = std::ceil(blocks / sms);
    const double resident = std::min(static_cast<double>(blocks_per_sm(g, s, device.limits)), rounds);
    const double loop = tile_cycles(g, s, device, resident) * static_cast<double>(ceil_div(std::max<int64_t>(1, g.k), s.block_k));
    // An unaligned C is stored element by element and, if beta multiplies it, read in the same way (120 trials of 80 problems,
    // most of them random, in a stream on an H200; the deviation is 17 %).
    const double of_c = (g.reads_c ? 1.63 : 1.0) * (g.align_c < gemm::kChunkBytes ? 1.26 : 1.0);
    const double ends = 376.0 + of_c * static_cast<double>(s.block_m * s.block_n) / 3.05;
    const double compute_us = (rounds * loop + ends * (resident > 1 ? 1.0 + 0.646 * (rounds - 1) : rounds)) / cycles_per_us;

    const double operands = static_cast<double>((g.m + g.n) * g.k * g.batch) * kElementBytes;
    const double output = static_cast<double>(g.m * g.n * g.batch) * static_cast<double>(size_bytes(g.out));
    const bool outgrows_l2 = operands > device.identity.l2_mib * 0.5e6;
    const double rereads = outgrows_l2 && s.swizzle_stride == 0 ? 2.0 : 1.0;
    const double memory_us = (operands * rereads + output) / (device.memory_gb_per_s * 0.669 * 1e3);
    // Configs that the model rates equal to the plain choice differ only by chance. Ranking them after it leaves room for other
    // tiles.
    const double panel = s.swizzle_stride != 0 || s.raster != 0 ? 1.02 : 1.0;
    const double shape = s.wmma_m != 16 ? 1.01 : 1.0;
    const double unaligned = std::min(g.align_a, g.align_b) < gemm::kChunkBytes ? 1.04 : 1.0;
    return 1.81 + panel * shape * unaligned * std::pow(std::pow(compute_us, 6) + std::pow(memory_us, 6), 1.0 / 6);
}

}  // namespace autotune::wmma
