#include "kernel_templates/gemm/gemv/geometry.h"

#include <algorithm>

namespace autotune::gemv {

using gemm::ceil_div;
using gemm::round_up;
using std::int64_t;

int64_t Streams::block_n() const {
    // fewer columns, because eight warps along K store their sums in shared memory
    const int64_t most = groups_k() ? kMostColumns / 2 : kMostColumns;
    return round_up(ceil_div(columns, ceil_div(std::max<int64_t>(columns, 1), most)), 8);
}

int64_t ResolvedConfig::smem_bytes(int64_t columns, int64_t buffers) const {
    const int64_t waiting = x_smem != 0 ? waiting_bytes() : 0;
    const int64_t staged = waiting + buffers * columns * (block_k + 32) * gemm::kElementBytes;
    const int64_t own_sums = cluster != 0 ? columns * block_m * 4 : 0;
    return std::max(staged, warps_k * columns * (block_m + 4) * 4 + own_sums);
}

Grid::Grid(const Streams& x, const ResolvedConfig& s) {
    const int64_t lines = s.block_lines(x);
    tiles_m = x.groups_lines() ? 8 * ceil_div(ceil_div(x.lines, 8), lines) : ceil_div(x.lines, lines);
    tiles_n = ceil_div(x.columns, s.block_n);
    tiles = tiles_m * tiles_n * x.batch;
    const int64_t unit = x.groups_k() ? 256 : 64;
    part_k = ceil_div(ceil_div(x.k, unit), s.split_k) * unit;
    columns = std::min(s.block_n, x.columns);
    smem_bytes = s.smem_bytes(columns, part_k > s.block_k ? 2 : 1);
}

}  // namespace autotune::gemv
