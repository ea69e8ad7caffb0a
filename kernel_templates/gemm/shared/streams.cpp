#include "kernel_templates/gemm/shared/streams.h"

#include <algorithm>

namespace autotune::gemm {
namespace {

// If C has at most this many rows or columns, reading the other operand limits the time.
constexpr std::int64_t kSkinny = 144;

}  // namespace

Streams::Streams(const Gemm& g, bool swap)
    : lines(swap ? g.n : g.m),
      columns(swap ? g.m : g.n),
      k(g.k),
      batch(g.batch),
      swap_ab(swap),
      x_along_k(swap ? g.trans_b : !g.trans_a),
      y_along_k(swap ? !g.trans_a : g.trans_b),
      align_x(swap ? g.align_b : g.align_a),
      align_y(swap ? g.align_a : g.align_b),
      reads_c(g.reads_c) {}

std::optional<std::string> refuses_streams(const Problem& problem) {
    const Gemm g(problem);
    if (auto reason = refuses_half_product(problem)) return reason;
    if (g.acc_f16) return "it accumulates in f32";
    if (std::min(g.m, g.n) > kSkinny) return "C has more than 144 rows and columns: reading an operand once is not what it costs";
    if (g.batch > 65535) return "a grid has at most 65,535 blocks along its third direction, one for each product";
    return std::nullopt;
}

std::vector<Binding> stream_facts(const Problem& problem) {
    const Gemm g(problem);
    return {{"in_type", g.in},
            {"out_type", g.out},
            {"trans_a", int64_t{g.trans_a}},
            {"trans_b", int64_t{g.trans_b}},
            {"align_a", int64_t{g.align_a}},
            {"align_b", int64_t{g.align_b}}};
}

}  // namespace autotune::gemm
