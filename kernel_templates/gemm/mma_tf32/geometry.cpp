#include "kernel_templates/gemm/mma_tf32/geometry.h"

#include <algorithm>
#include <array>

namespace autotune::mma_tf32 {

using std::int64_t;

int64_t smem_bytes(const ResolvedConfig& s) {
    return s.stages * (s.block_m + s.block_n) * s.block_k * 4;
}

bool copies_evenly(const Gemm& g, const ResolvedConfig& s) {
    const auto is_even = [&](int64_t extent, bool k_contiguous) {
        return s.threads() % ((k_contiguous ? s.block_k : extent) / 4) == 0;
    };
    return is_even(s.block_m, !g.trans_a) && is_even(s.block_n, g.trans_b);
}

// The registers for sums and addresses, and for the elements of two steps. With split operands they are those of one step, the
// parts of B, and the sums that are not promoted yet.
int64_t registers_needed(const ResolvedConfig& s, int terms) {
    const int64_t sums = s.warp_m() * s.warp_n() / 32;
    const int64_t elements = (s.warp_m() + s.warp_n()) / 4;
    if (terms == 1) return sums + 2 * elements + 44;
    return sums + (s.promote_k > 8 ? sums : s.warp_n() / 2) + elements + s.warp_n() / 2 + 48;
}

}  // namespace autotune::mma_tf32
