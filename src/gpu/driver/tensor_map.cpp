#include <cstring>

#include "src/gpu/driver/driver_api.h"

namespace autotune::gpu {
namespace {

static_assert(sizeof(TensorMap) == sizeof(CUtensorMap) && alignof(TensorMap) == 64);

static_assert(traits_of(DType::f16).tensor_map_type == CU_TENSOR_MAP_DATA_TYPE_FLOAT16);
static_assert(traits_of(DType::bf16).tensor_map_type == CU_TENSOR_MAP_DATA_TYPE_BFLOAT16);
static_assert(traits_of(DType::f32).tensor_map_type == CU_TENSOR_MAP_DATA_TYPE_FLOAT32);
static_assert(traits_of(DType::f64).tensor_map_type == CU_TENSOR_MAP_DATA_TYPE_FLOAT64);
static_assert(traits_of(DType::i32).tensor_map_type == CU_TENSOR_MAP_DATA_TYPE_INT32);
static_assert(traits_of(DType::e4m3).tensor_map_type == CU_TENSOR_MAP_DATA_TYPE_UINT8);

CUtensorMapDataType element_type(DType type) {
    return static_cast<CUtensorMapDataType>(traits_of(type).tensor_map_type);
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
            internal_error("tma_swizzle of " + std::to_string(bytes) + " bytes");
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
            internal_error("L2 promotion of " + std::to_string(bytes) + " bytes");
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
