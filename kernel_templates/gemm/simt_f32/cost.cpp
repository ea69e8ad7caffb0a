#include <algorithm>
#include <cmath>

#include "kernel_templates/gemm/simt_f32/geometry.h"

namespace autotune::simt_f32 {

namespace {

// The instructions of a thread for one k: its multiply-adds, its reads of shared memory, and its share of copying.
double instructions_a_step(const Gemm& g, const ResolvedConfig& s) {
    const auto sums = static_cast<double>(s.thread_m * s.thread_n);
    if (s.smem == 0) return 10;
    const double width = s.bcf != 0 || s.thread_m >= 4 ? 4.0 : 1.0;
    const double conflicts = s.bcf != 0 || s.has_warp_tiles() ? 1.0 : 2.0;
    // Per clock an SM reads 128 bytes and does 128 multiply-adds. With 8x8 sums per thread, reads take as long as products.
    const double reads = static_cast<double>(s.thread_m + s.thread_n) / width * conflicts * 2.2;
    const auto copied = [&](std::int64_t extent, bool k_contiguous) {
        const double elements = static_cast<double>(extent) / static_cast<double>(s.threads());
        const double accesses = k_contiguous && s.cp_async != 0 ? 4.0 : 2.4 / static_cast<double>(s.vec);
        return elements * accesses * (k_contiguous && s.smem_pad == 0 ? 2.0 : 1.0);
    };
    return sums + reads + copied(s.block_m, !g.trans_a) + copied(s.block_n, g.trans_b);
}

}  // namespace

double predict_us(const Gemm& g, const ResolvedConfig& s, const Device& device) {
    const auto sms = static_cast<double>(device.identity.sm_count);
    const auto blocks = static_cast<double>(tiles(g, s) * s.split_k);
    const double rounds = std::ceil(blocks / sms);
    const double resident = std::min(static_cast<double>(blocks_per_sm(s, device.limits)), rounds);
    const double warps = resident * static_cast<double>(s.threads()) / 32;
    const double depth = static_cast<double>(std::max<std::int64_t>(1, k_per_split(g, s)));
    // One warp per scheduler cannot hide the latency of instructions, and two mostly can.
    const double issue = warps < 4 ? 4.0 / warps * 1.6 : warps < 8 ? 1.25 : s.reg_buffers == 2 ? 1.0 : 1.05;
    const double busy = static_cast<double>(s.threads()) * depth * instructions_a_step(g, s) / 128 * issue;
    // Operands that are transposed in registers are loaded during the products of one tile. In small blocks these products take
    // less time than the load.
    const double products = resident * busy * static_cast<double>(s.block_k) / depth;
    const double two_buffers = s.reg_transpose != 0 ? std::max(120.0, 900.0 - products) : 120.0;
    const double wait = s.smem == 0 ? 0 : (s.stages == 1 ? 900.0 : s.stages == 2 ? two_buffers : 60.0) / resident;
    const double clocks = rounds * (busy + wait * depth / static_cast<double>(s.block_k)) + 1500;
    const double traffic = blocks * static_cast<double>(s.block_m + s.block_n) * depth * 4 * (s.smem == 0 ? 4 : 1);
    const double l2_us = traffic / (sms * 40 * device.clock_mhz);
    const double sums_us =
        s.split_k == 1 ? 0 : 3 + static_cast<double>(g.m * g.n * g.batch * (s.split_k + 1) * 8) / (device.memory_gb_per_s * 1e3);
    // Deeper tiles are slower: 128x256 reaches 44 TFLOP/s 16 deep and 48 TFLOP/s 8 deep (H200, 2026-11-23). The cause is not
    // known.
    const double deep = s.smem != 0 && s.block_k > 8 ? 1.08 : 1.0;
    // If both operands are stored along K, the cost exceeds their instructions: at 4096x4096x1024 (H200, driver 580.159.04,
    // 2026-11-27) nn takes 669 us, nt 765 us by cp.async and 719 us with both transposed in registers.
    const double along_k = s.smem == 0 || !both_along_k(g) ? 1.0 : s.reg_transpose != 0 ? 1.06 : 1.12;
    const double order = deep * along_k * (s.swizzle_stride != 0 || s.raster != 0 ? 1.02 : 1.0);
    return 2 + order * std::max(clocks / device.clock_mhz, l2_us) + sums_us;
}

}  // namespace autotune::simt_f32
