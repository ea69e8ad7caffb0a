#pragma once

#include <cstdint>

#include "kernel_templates/gemm/gemm_problem.h"
#include "src/core/config.h"
#include "src/core/device.h"

// What a config of gemm/simt takes of an SM: read by its rules and its cost model.
namespace autotune::simt {

std::int64_t threads_of(const Config& c);
// Static shared memory of the tiles, for elements of this size.
std::int64_t smem_bytes(const Config& c, std::int64_t element_bytes);
// Registers of a thread's sums: f16 sums of neighbouring columns share one.
std::int64_t sum_registers(const Config& c, bool is_f16);
// Registers a thread needs without spilling.
std::int64_t registers_needed(const Config& c, bool is_f16);

// Predicted microseconds of a launch: for ranking, not for reporting.
double predict_us(const gemm::View& view, const Config& config, const Device& device);

}  // namespace autotune::simt
