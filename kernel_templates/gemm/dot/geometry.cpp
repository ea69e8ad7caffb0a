#include "kernel_templates/gemm/dot/geometry.h"

#include <algorithm>

namespace autotune::dot {

Streams::Streams(const gemm::Gemm& g, bool swap)
    : lines(swap ? g.n : g.m),
      columns(swap ? g.m : g.n),
      k(g.k),
      batch(g.batch),
      swap_ab(swap),
      x_along_k(swap_ab ? g.trans_b : !g.trans_a),
      y_along_k(swap_ab ? !g.trans_a : g.trans_b),
      reads_c(g.reads_c),
      width(x_along_k ? (swap_ab ? g.align_b : g.align_a) / gemm::kElementBytes : 1),
      width_y(y_along_k ? std::min<std::int64_t>(width, (swap_ab ? g.align_a : g.align_b) / gemm::kElementBytes) : 1) {}

// Rules see configs in which not every parameter has a value yet, and read only those that they name.
Shape::Shape(const Config& config) {
    const auto get = [&config](const char* name) { return config.find(name).value_or(1); };
    swap_ab = get("swap_ab");
    threads = get("threads");
    lanes = get("lanes");
    columns = get("columns");
    unroll = get("unroll");
}

std::int64_t Shape::loaded_registers(const Streams& x) const {
    const auto in_pieces = [&](std::int64_t piece) { return piece == 1 ? x.width : x.width / 2; };
    return unroll * (in_pieces(x.width) + columns * in_pieces(x.width_y));
}

}  // namespace autotune::dot
