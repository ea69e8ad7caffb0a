#include <algorithm>
#include <cmath>

#include "kernel_templates/gemm/shared/family_parts.h"
#include "kernel_templates/gemm/simt/geometry.h"

namespace autotune::simt {

using gemm::ceil_div;
using gemm::View;

namespace {

// Measured time / the prediction of the rest of this model, for small products whose rows are not aligned (14 problems, H200,
// 2026-11-23).
constexpr double kInStream = 2.3;

// The instructions of a thread for one k of a tile. They are one multiply-add for each sum (or for two sums in f16), one
// conversion (f32) or duplication (f16) of each operand that it reads, and its share of copying.
double instructions_a_step(const ResolvedConfig& s, const View& view) {
    const bool is_f16 = view.acc == DType::f16;
    const auto read = static_cast<double>(s.thread_m + s.thread_n);
    const auto sums = static_cast<double>(sum_registers(s, is_f16));
    if (s.smem == 0) return sums + 8 * read;
    const double conversions = is_f16 ? static_cast<double>(s.thread_m) : read;
    const double loads = read / static_cast<double>(std::min<std::int64_t>(8, s.thread_n));
    const std::int64_t asked = s.packed == 1 ? s.vec : std::min<std::int64_t>(2, s.vec);
    const double copied = static_cast<double>(s.block_m + s.block_n) / static_cast<double>(s.threads());
    const double accesses = 1.0 / static_cast<double>(gemm::access_width(view.a, asked)) +
                            1.0 / static_cast<double>(gemm::access_width(view.b, asked));
    // Transposed elements are written one at a time, and if neighbouring threads read along K, several write to the same bank.
    const double transposed = (view.trans_a ? 0.0 : 0.5) + (view.trans_b ? 0.5 : 0.0);
    return sums + conversions + loads + copied * (2 * accesses + transposed * (s.bcf == 1 ? 1.0 : 3.0));
}

double blocks_per_sm(const ResolvedConfig& s, const View& view, const DeviceLimits& limits) {
    const std::int64_t threads = s.threads();
    const std::int64_t smem = s.smem == 1 ? smem_bytes(s, static_cast<std::int64_t>(size_bytes(view.in))) : 0;
    // Without a register limit ptxas uses some 40 more than it needs (NVRTC 13.0, 8x8 tiles).
    const std::int64_t unbound = s.min_blocks == 1 ? 40 : 0;
    const std::int64_t registers = (registers_needed(s, view.acc == DType::f16) + unbound) * threads;
    return static_cast<double>(
        std::max<std::int64_t>(1, std::min({limits.registers_per_sm / registers, limits.threads_per_sm / threads,
                                            limits.smem_per_sm_bytes / (smem + 1024)})));
}

}  // namespace

// Each wave of blocks is limited by instructions or by global accesses; each tile also waits for its copies.
double predict_us(const View& view, const ResolvedConfig& s, const Device& device) {
    const auto sm_count = static_cast<double>(device.identity.sm_count);
    const auto blocks = static_cast<double>(ceil_div(view.m, s.block_m) * ceil_div(view.n, s.block_n) * view.batch);
    const double rounds = std::ceil(blocks / sm_count);
    const double resident = std::min(blocks_per_sm(s, view, device.limits), rounds);
    const bool is_tiled = s.smem == 1;
    const auto depth = static_cast<double>(view.k);
    const double busy = static_cast<double>(s.threads()) * depth * instructions_a_step(s, view) / 128;
    const double wait = (s.stages == 1 ? 900.0 : 300.0) / resident;
    const double waits = is_tiled ? wait * depth / static_cast<double>(s.block_k) : 0.0;
    const double clocks = rounds * (busy + waits);
    const double element_bytes = static_cast<double>(size_bytes(view.in));
    const auto perimeter = static_cast<double>(s.block_m + s.block_n);
    const double traffic = blocks * perimeter * depth * element_bytes / (is_tiled ? 1 : 0.25);
    const double l2_bytes_per_us = sm_count * 48 * device.clock_mhz;
    return kInStream * (std::max(clocks / device.clock_mhz, traffic / l2_bytes_per_us) + 2);
}

}  // namespace autotune::simt
