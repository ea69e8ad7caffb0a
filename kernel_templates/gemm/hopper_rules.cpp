#include "kernel_templates/gemm/hopper_rules.h"

namespace autotune::gemm {
namespace {

TensorMapArg map_of(const TypedMatrix& stored, std::int64_t ld, std::int64_t batch_stride, std::array<std::int64_t, 2> box) {
    const auto element_bytes = static_cast<std::int64_t>(size_bytes(stored.dtype));
    TensorMapArg map;
    map.rank = 3;
    map.dims = {static_cast<std::uint64_t>(stored.cols), static_cast<std::uint64_t>(stored.rows),
                static_cast<std::uint64_t>(stored.batch), 0, 0};
    map.strides_bytes = {static_cast<std::uint64_t>(ld * element_bytes), static_cast<std::uint64_t>(batch_stride * element_bytes),
                         0, 0};
    map.box = {static_cast<std::uint32_t>(box[0]), static_cast<std::uint32_t>(box[1]), 1, 0, 0};
    const std::int64_t box_bytes = box[0] * element_bytes;
    map.tma_swizzle_bytes = box_bytes > kChunkBytes ? static_cast<int>(box_bytes) : 0;
    return map;
}

}  // namespace

TensorMapArg tile_map(const TypedMatrix& stored, int index, std::array<std::int64_t, 2> box) {
    TensorMapArg map = map_of(stored, stored.ld, stored.batch == 1 ? stored.ld * stored.rows : stored.batch_stride, box);
    map.tensor = index;
    return map;
}

TensorMapArg packed_tile_map(const TypedMatrix& stored, std::size_t offset_bytes, std::array<std::int64_t, 2> box) {
    const std::int64_t ld = packed_ld(stored);
    TensorMapArg map = map_of(stored, ld, ld * stored.rows, box);
    map.tensor = -1;
    map.workspace_offset_bytes = offset_bytes;
    map.workspace_type = stored.dtype;
    return map;
}

std::vector<std::int64_t> wgmma_widths(std::int64_t step) {
    std::vector<std::int64_t> widths;
    for (std::int64_t n = 16; n <= 256; n += step) widths.push_back(n);
    return widths;
}

}  // namespace autotune::gemm
