#include "kernel_templates/gemm/dot/geometry.h"

namespace autotune::dot {

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
    const auto in_pieces = [&](std::int64_t piece) { return piece == 1 ? x.width() : x.width() / 2; };
    return unroll * (in_pieces(x.width()) + columns * in_pieces(x.width_y()));
}

}  // namespace autotune::dot
