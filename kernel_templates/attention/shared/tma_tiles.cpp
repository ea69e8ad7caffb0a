#include "kernel_templates/attention/shared/tma_tiles.h"

#include "src/core/integer_math.h"

namespace autotune::attention {

using std::int64_t;

TensorMapArg map_of(const Problem& problem, int index, int64_t rows) {
    const Tensor& tensor = problem.tensors[static_cast<std::size_t>(index)];
    const auto extent = [&](int dim) { return static_cast<std::uint64_t>(tensor.dims[static_cast<std::size_t>(dim)].extent); };
    // A dimension of size one may have any stride, but TMA requires a multiple of 16 bytes.
    const auto stride = [&](int dim) {
        const Dim& of = tensor.dims[static_cast<std::size_t>(dim)];
        return static_cast<std::uint64_t>((of.extent == 1 ? padded(tensor.dims[kColumn].extent) : of.stride) * 2);
    };
    const auto columns = static_cast<int64_t>(extent(kColumn));
    TensorMapArg map;
    map.tensor = index;
    map.rank = 4;
    map.dims = {extent(kColumn), extent(kRow), extent(kHead), extent(kBatch), 0};
    map.strides_bytes = {stride(kRow), stride(kHead), stride(kBatch), 0};
    map.box = {narrow<std::uint32_t>(span_of(columns)), narrow<std::uint32_t>(rows), 1, 1, 0};
    map.tma_swizzle_bytes = narrow<int>(span_of(columns) * 2);
    map.l2_promotion_bytes = 256;
    return map;
}

}  // namespace autotune::attention
