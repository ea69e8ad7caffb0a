#include "kernel_templates/harness/fill.h"

#include <limits>

#include "kernel_templates/common/random.cuh"

namespace autotune {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

static_assert(static_cast<int>(Fill::Kind::offsets) == autotune_random::kOffsets, "random.cuh has the kinds in their order");

}  // namespace

double fill_value(const Fill& fill, DType type, const FillPlace& place) {
    if (fill.kind == Fill::Kind::nan) return kNan;
    const autotune_random::Place at = {place.seed, place.tensor, place.batch, place.row, place.col};
    const autotune_random::Fill how = {
        static_cast<int>(fill.kind), fill.centre, fill.spread, fill.low, fill.high, fill.every, place.cols};
    if (!autotune_random::is_kept(how, at)) return 0.0;
    const double number = autotune_random::number(how, at);
    return round_to(type, fill.kind == Fill::Kind::quantised ? round_to(fill.through, number) : number);
}

std::vector<double> filled_tensor(const Fill& fill, const Tensor& tensor, int index, std::uint64_t seed) {
    std::vector<double> values(static_cast<std::size_t>(tensor.span()), kNan);
    const std::size_t rank = tensor.dims.size();
    const std::int64_t cols = rank >= 1 ? tensor.dims[rank - 1].extent : 1;
    const std::int64_t rows = rank >= 2 ? tensor.dims[rank - 2].extent : 1;
    for (std::int64_t i = 0; i < tensor.elements(); ++i) {
        const FillPlace place{seed, index, i / cols / rows, i / cols % rows, i % cols, cols};
        values[static_cast<std::size_t>(tensor.offset_of(i))] = fill_value(fill, tensor.dtype, place);
    }
    return values;
}

}  // namespace autotune
