#include "kernel_templates/gemm/shared/hopper_rules.h"

#include "kernel_templates/gemm/op/gemm_problem.h"
#include "src/core/integer_math.h"

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
    map.box = {narrow<std::uint32_t>(box[0]), narrow<std::uint32_t>(box[1]), 1, 0, 0};
    const std::int64_t box_bytes = box[0] * element_bytes;
    map.tma_swizzle_bytes = box_bytes > kChunkBytes ? narrow<int>(box_bytes) : 0;
    return map;
}

constexpr std::int64_t kMostStrideBytes = (std::int64_t{1} << 40) - 1;  // limit of a tensor map

}  // namespace

std::optional<std::string> refuses_maps(const Problem& problem) {
    for (const TypedMatrix& each : matrices(problem)) {
        if (each.alignment_bytes < kChunkBytes) continue;
        if (each.batch > 1 && each.batch_stride == 0) return "a matrix that is repeated for a batch has no tensor map";
        const std::int64_t most = kMostStrideBytes / static_cast<std::int64_t>(size_bytes(each.dtype));
        if (each.ld > most || each.batch_stride > most) return "strides of 2^40 bytes and more are beyond a tensor map";
    }
    return std::nullopt;
}

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

}  // namespace autotune::gemm
