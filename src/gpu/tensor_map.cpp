#include <cstring>

#include "src/gpu/driver_api.h"

namespace autotune::gpu {
namespace {

static_assert(sizeof(TensorMap) == sizeof(CUtensorMap) && alignof(TensorMap) == 64);

CUtensorMapDataType element_type(DType type) {
    switch (type) {
        case DType::f16:
            return CU_TENSOR_MAP_DATA_TYPE_FLOAT16;
        case DType::bf16:
            return CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
        case DType::f32:
            return CU_TENSOR_MAP_DATA_TYPE_FLOAT32;
        case DType::f64:
            return CU_TENSOR_MAP_DATA_TYPE_FLOAT64;
        case DType::i32:
            return CU_TENSOR_MAP_DATA_TYPE_INT32;
        case DType::e4m3:
        case DType::e5m2:
            break;  // bytes to the copy engine
    }
    return CU_TENSOR_MAP_DATA_TYPE_UINT8;
}

CUtensorMapSwizzle swizzle_of(int bytes) {
    switch (bytes) {
        case 0:
            return CU_TENSOR_MAP_SWIZZLE_NONE;
        case 32:
            return CU_TENSOR_MAP_SWIZZLE_32B;
        case 64:
            return CU_TENSOR_MAP_SWIZZLE_64B;
        case 128:
            return CU_TENSOR_MAP_SWIZZLE_128B;
        default:
            check(false, "tma_swizzle of " + std::to_string(bytes) + " bytes");
            return CU_TENSOR_MAP_SWIZZLE_NONE;
    }
}

CUtensorMapL2promotion promotion_of(int bytes) {
    switch (bytes) {
        case 0:
            return CU_TENSOR_MAP_L2_PROMOTION_NONE;
        case 64:
            return CU_TENSOR_MAP_L2_PROMOTION_L2_64B;
        case 128:
            return CU_TENSOR_MAP_L2_PROMOTION_L2_128B;
        case 256:
            return CU_TENSOR_MAP_L2_PROMOTION_L2_256B;
        default:
            check(false, "L2 promotion of " + std::to_string(bytes) + " bytes");
            return CU_TENSOR_MAP_L2_PROMOTION_NONE;
    }
}

}  // namespace

TensorMap encode_tensor_map(const Driver& driver, const TensorMapArg& map, DType type, DeviceAddress address) {
    alignas(64) CUtensorMap encoded{};
    const std::array<cuuint32_t, 5> element_strides{1, 1, 1, 1, 1};
    static_assert(sizeof(cuuint64_t) == sizeof(std::uint64_t) && sizeof(cuuint32_t) == sizeof(std::uint32_t));
    const CUresult result = driver.api().tensor_map_encode_tiled(
        &encoded, element_type(type), static_cast<cuuint32_t>(map.rank), reinterpret_cast<void*>(address), map.dims.data(),
        map.strides_bytes.data(), map.box.data(), element_strides.data(), CU_TENSOR_MAP_INTERLEAVE_NONE,
        swizzle_of(map.tma_swizzle_bytes), promotion_of(map.l2_promotion_bytes), CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    throw_if_failed(driver, result, "cuTensorMapEncodeTiled");
    TensorMap out;
    std::memcpy(out.words.data(), &encoded, sizeof(encoded));
    return out;
}

}  // namespace autotune::gpu
