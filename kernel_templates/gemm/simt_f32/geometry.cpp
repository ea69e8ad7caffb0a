#include "kernel_templates/gemm/simt_f32/geometry.h"

#include <algorithm>
#include <array>

namespace autotune::simt_f32 {

using std::int64_t;

int64_t smem_bytes(const ResolvedConfig& s) {
    return s.smem == 0 ? 0 : s.stages * s.block_k * (s.block_m + s.block_n + 2 * s.smem_pad) * 4;
}

bool both_along_k(const Gemm& g) {
    return !g.trans_a && g.trans_b;
}

bool copies_evenly(const ResolvedConfig& s, int64_t extent, bool k_contiguous) {
    if (!k_contiguous) return s.threads() % (extent / s.vec) == 0;
    if (s.cp_async != 0) return s.threads() % (4 * s.block_k) == 0;
    const bool by_lines = s.bcf != 0 && s.threads() % extent == 0;
    return by_lines || s.threads() % (s.block_k / s.vec) == 0;
}

namespace {

// The registers for a thread's elements of the next tiles, and eight for the addresses of a patch.
int64_t registers_held(const ResolvedConfig& s) {
    if (s.cp_async != 0) return 0;
    const int64_t elements = (s.block_m + s.block_n) * s.block_k;
    return s.reg_transpose != 0 ? ceil_div(elements, 16 * s.threads()) * 24 : ceil_div(elements, s.threads());
}

}  // namespace

// Counts sums, operands, elements of the next tiles, and addresses.
int64_t registers_needed(const ResolvedConfig& s) {
    if (s.smem == 0) return 40;
    return s.thread_m * s.thread_n + s.reg_buffers * (s.thread_m + s.thread_n) + registers_held(s) + 40;
}

int64_t blocks_per_sm(const ResolvedConfig& s, const DeviceLimits& limits) {
    return gemm::blocks_per_sm(limits, smem_bytes(s), s.threads(), registers_needed(s));
}

}  // namespace autotune::simt_f32
