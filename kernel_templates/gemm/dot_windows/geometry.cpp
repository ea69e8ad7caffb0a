#include "kernel_templates/gemm/dot_windows/geometry.h"

#include <algorithm>

namespace autotune::dot_windows {

using std::int64_t;

int64_t ResolvedConfig::block_lines(const gemm::Streams& x) const {
    // Also works for one group, because times are predicted before rules refuse a config.
    return x.x_along_k ? groups() * rows : kWindow * std::max<int64_t>(1, groups() - 1);
}

// If k is contiguous in X, a group's lines are eight apart, so each of the last eight groups may have only one line.
int64_t ResolvedConfig::clusters(const gemm::Streams& x) const {
    if (!x.x_along_k) return gemm::ceil_div(x.lines, block_lines(x));
    const int64_t whole = x.lines / (kWindow * rows), left = x.lines % (kWindow * rows);
    return gemm::ceil_div(whole * kWindow + std::min(left, kWindow), groups());
}

int64_t ResolvedConfig::held_registers(const gemm::Streams& x) const {
    const int64_t sums = (x.x_along_k ? rows : kWindow) * columns;
    return unroll * (rows * kWindow / 2 + columns * window_k(x)) + sums;
}

int64_t ResolvedConfig::smem_bytes(const gemm::Streams& x) const {
    const int64_t of_lines = lanes * columns * kWindow * (groups() + 1);
    const int64_t of_k = lanes > 32 ? lanes / 32 * rows * columns * groups() : 0;
    return 4 * ((x.x_along_k ? of_k : of_lines) + (cluster_k > 1 ? threads : 0));
}

}  // namespace autotune::dot_windows
