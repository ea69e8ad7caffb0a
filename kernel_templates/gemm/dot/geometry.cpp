#include "kernel_templates/gemm/dot/geometry.h"

namespace autotune::dot {

std::int64_t ResolvedConfig::loaded_registers(const Streams& x) const {
    const auto in_pieces = [&](std::int64_t piece) { return piece == 1 ? x.width() : x.width() / 2; };
    return unroll * (in_pieces(x.width()) + columns * in_pieces(x.width_y()));
}

}  // namespace autotune::dot
