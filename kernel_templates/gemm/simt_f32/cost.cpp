#include <algorithm>
#include <cmath>

#include "kernel_templates/gemm/simt_f32/geometry.h"

namespace autotune::simt_f32 {

namespace {

// Instructions of a thread for one k, counted in main loops of 128x256 and not timed: by loads of 16 bytes a thread without a
// patch has as many as one with a patch.
double transposing(const Gemm& g, const Shape& s) {
    const std::int64_t lines = (transposes_a(g, s) ? s.block_m : 0) + (transposes_b(g, s) ? s.block_n : 0);
    if (s.reg_transpose <= 1) return 3.0 * static_cast<double>(lines) / static_cast<double>(s.threads());
    return 38.0 * static_cast<double>(gemm::ceil_div(lines * s.block_k, 16 * s.threads())) / static_cast<double>(s.block_k);
}

// Instructions of a thread for one k: its multiply-adds, its reads of shared memory, and its share of copying.
double instructions_a_step(const Gemm& g, const Shape& s) {
    const auto sums = static_cast<double>(s.thread_m * s.thread_n);
    if (s.smem == 0) return 10;
    const double width = s.bcf != 0 || s.thread_m >= 4 ? 4.0 : 1.0;
    const double conflicts = s.bcf != 0 || s.has_warp_tiles() ? 1.0 : 2.0;
    // Reads return 128 bytes a clock to an SM, which multiplies 128 times: of 8x8 sums a thread, as long as the products take.
    const double reads = static_cast<double>(s.thread_m + s.thread_n) / width * conflicts * 2.2;
    const auto copied = [&](std::int64_t extent, bool k_contiguous) {
        const double elements = static_cast<double>(extent) / static_cast<double>(s.threads());
        const double accesses = k_contiguous && s.cp_async != 0 ? 4.0 : 2.4 / static_cast<double>(s.vec);
        return elements * accesses * (k_contiguous && s.smem_pad == 0 ? 2.0 : 1.0);
    };
    const double copies_a = transposes_a(g, s) ? 0 : copied(s.block_m, !g.trans_a);
    const double copies_b = transposes_b(g, s) ? 0 : copied(s.block_n, g.trans_b);
    return sums + reads + copies_a + copies_b + transposing(g, s);
}

}  // namespace

double predict_us(const Gemm& g, const Shape& s, const Device& device) {
    const auto sms = static_cast<double>(device.identity.sm_count);
    const auto blocks = static_cast<double>(tiles(g, s) * s.split_k);
    const double rounds = std::ceil(blocks / sms);
    const double resident = std::min(static_cast<double>(blocks_per_sm(s, device.limits)), rounds);
    const double warps = resident * static_cast<double>(s.threads()) / 32;
    const double depth = static_cast<double>(std::max<std::int64_t>(1, k_per_split(g, s)));
    // A scheduler with one warp cannot hide what an instruction waits for; with two it mostly can.
    const double issue = warps < 4 ? 4.0 / warps * 1.6 : warps < 8 ? 1.25 : s.reg_buffers == 2 ? 1.0 : 1.05;
    const double busy = static_cast<double>(s.threads()) * depth * instructions_a_step(g, s) / 128 * issue;
    const bool by_registers = transposes_a(g, s) && transposes_b(g, s);
    const double wait = s.smem == 0 ? 0 : (s.stages == 1 ? 900.0 : s.stages == 2 && !by_registers ? 120.0 : 60.0) / resident;
    const double clocks = rounds * (busy + wait * depth / static_cast<double>(s.block_k)) + 1500;
    const double traffic = blocks * static_cast<double>(s.block_m + s.block_n) * depth * 4 * (s.smem == 0 ? 4 : 1);
    const double l2_us = traffic / (sms * 40 * device.clock_mhz);
    const double sums_us =
        s.split_k == 1 ? 0 : 3 + static_cast<double>(g.m * g.n * g.batch * (s.split_k + 1) * 8) / (device.memory_gb_per_s * 1e3);
    // Deeper tiles are slower (128x256, 16 deep: 44 TFLOP/s against 48 of 8 deep on an H200, 2026-11-23), why was not found.
    const double deep = s.smem != 0 && s.block_k > 8 ? 1.08 : 1.0;
    const double order = deep * (s.swizzle_stride != 0 || s.raster != 0 ? 1.02 : 1.0);
    return 2 + order * std::max(clocks / device.clock_mhz, l2_us) + sums_us;
}

}  // namespace autotune::simt_f32
