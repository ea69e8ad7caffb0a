#include "kernel_templates/gemm/wmma_tf32/geometry.h"

#include <algorithm>
#include <array>

#include "kernel_templates/gemm/shape_members.h"

namespace autotune::wmma_tf32 {

using std::int64_t;

namespace {

// In the order of the parameters.
constexpr std::array<gemm::Member<Shape>, 10> kMembers = {{{"block_m", &Shape::block_m},
                                                           {"block_n", &Shape::block_n},
                                                           {"warps_m", &Shape::warps_m},
                                                           {"warps_n", &Shape::warps_n},
                                                           {"block_k", &Shape::block_k},
                                                           {"stages", &Shape::stages},
                                                           {"smem_pad", &Shape::smem_pad},
                                                           {"dsmem", &Shape::dsmem},
                                                           {"raster", &Shape::raster},
                                                           {"swizzle_stride", &Shape::swizzle_stride}}};

}  // namespace

Shape shape_of(const Config& config) {
    return gemm::shape_from(config, kMembers);
}

Config config_of(const Shape& s) {
    return gemm::config_from(s, kMembers);
}

int64_t smem_bytes(const Gemm& g, const Shape& s) {
    const auto tile = [&](int64_t extent, bool k_contiguous) {
        return (k_contiguous ? extent : s.block_k) * ((k_contiguous ? s.block_k : extent) + s.smem_pad) * 4;
    };
    const int64_t ring = s.stages * (tile(s.block_m, !g.trans_a) + tile(s.block_n, g.trans_b));
    return std::max(ring, s.warps() * 16 * (s.warp_n() + 4) * 4);
}

int64_t registers_needed(const Shape& s) {
    return s.warp_m() * s.warp_n() / 32 + (s.warp_m() + s.warp_n()) / 4 + 48;
}

}  // namespace autotune::wmma_tf32
