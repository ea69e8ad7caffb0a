#include "kernel_templates/common/fill.h"

#include <limits>

#include "kernel_templates/common/random.cuh"

namespace autotune {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

bool is_kept(const Fill& fill, const FillPlace& place) {
    return fill.every <= 1 || (place.row + place.col) % fill.every == 0;
}

}  // namespace

double fill_value(const Fill& fill, DType type, const FillPlace& place) {
    if (fill.kind == Fill::Kind::nan) return kNan;
    if (!is_kept(fill, place)) return 0.0;
    const autotune_random::Place at = {place.seed, place.operand, place.batch, place.row, place.col};
    const float value = fill.kind == Fill::Kind::integers ? autotune_random::small_integer(at) : autotune_random::normal(at);
    return round_to(type, static_cast<double>(value));
}

std::vector<double> filled_operand(const Fill& fill, const Operand& operand, int operand_index, std::uint64_t seed) {
    std::vector<double> values(static_cast<std::size_t>(operand.span()), kNan);
    for (std::int64_t batch = 0; batch < operand.batch; ++batch) {
        for (std::int64_t row = 0; row < operand.rows; ++row) {
            double* const first = values.data() + batch * operand.batch_stride + row * operand.ld;
            for (std::int64_t col = 0; col < operand.cols; ++col) {
                first[col] = fill_value(fill, operand.dtype, {seed, operand_index, batch, row, col});
            }
        }
    }
    return values;
}

}  // namespace autotune
