#include "kernel_templates/gemm/simt/geometry.h"

#include <algorithm>

#include "kernel_templates/gemm/shared/family_parts.h"

namespace autotune::simt {

using gemm::ceil_div;

namespace {

// the registers of a row and a column of operands, addresses and loop counters, without sums and copies
constexpr std::int64_t kOtherRegisters = 48;

// The registers that hold the next chunks of both tiles between reading and writing them.
std::int64_t held_registers(const ResolvedConfig& s) {
    const std::int64_t per_pass = s.threads() * s.vec;
    const std::int64_t passes = ceil_div(s.block_m * s.block_k, per_pass) + ceil_div(s.block_n * s.block_k, per_pass);
    return passes * std::max<std::int64_t>(1, s.vec / 2);
}

}  // namespace

std::int64_t smem_bytes(const ResolvedConfig& s, std::int64_t element_bytes) {
    return s.stages * s.block_k * (s.block_m + s.block_n + 2 * s.smem_pad) * element_bytes;
}

std::int64_t sum_registers(const ResolvedConfig& s, bool is_f16) {
    return s.thread_m * s.thread_n / (is_f16 && s.thread_n > 1 ? 2 : 1);
}
std::int64_t registers_needed(const ResolvedConfig& s, bool is_f16) {
    return sum_registers(s, is_f16) + held_registers(s) + kOtherRegisters;
}

}  // namespace autotune::simt
