#include "kernel_templates/gemm/simt/geometry.h"

#include <algorithm>

#include "kernel_templates/gemm/family_parts.h"

namespace autotune::simt {

using gemm::ceil_div;

namespace {

// Beside sums and copies: a row and a column of operands, addresses, loop counters.
constexpr std::int64_t kOtherRegisters = 48;

// Registers that hold the next chunks of both tiles between reading and writing them.
std::int64_t held_registers(const Config& c) {
    const std::int64_t per_pass = threads_of(c) * c["vec"];
    const std::int64_t passes = ceil_div(c["block_m"] * c["block_k"], per_pass) + ceil_div(c["block_n"] * c["block_k"], per_pass);
    return passes * std::max<std::int64_t>(1, c["vec"] / 2);
}

}  // namespace

std::int64_t threads_of(const Config& c) {
    return c["block_m"] / c["thread_m"] * (c["block_n"] / c["thread_n"]);
}

std::int64_t smem_bytes(const Config& c, std::int64_t element_bytes) {
    return c["stages"] * c["block_k"] * (c["block_m"] + c["block_n"] + 2 * c["smem_pad"]) * element_bytes;
}

std::int64_t sum_registers(const Config& c, bool is_f16) {
    return c["thread_m"] * c["thread_n"] / (is_f16 && c["thread_n"] > 1 ? 2 : 1);
}
std::int64_t registers_needed(const Config& c, bool is_f16) {
    return sum_registers(c, is_f16) + held_registers(c) + kOtherRegisters;
}

}  // namespace autotune::simt
