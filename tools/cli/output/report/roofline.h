#pragma once

#include <string>

#include "src/core/op/op.h"
#include "src/core/problem/device.h"

namespace autotune::cli {

// Upper bounds of a device, from the driver's attributes: FLOP per clock and SM x SMs x maximum clock, and the memory's peak
// bandwidth. Power limits keep real cards below the first (an H200's sustained GEMMs reach two thirds of it).
struct Roofline {
    double peak_tflops = 0;  // of dense f16 and bf16 tensor cores; 0 if unknown
    double memory_gb_per_s = 0;
};
Roofline roofline_of(const Device& device);

// FLOP per byte that device memory must move at least.
double intensity(const Op& op, const Problem& problem);
// The op's highest possible rate, in its unit: the lower of the peak and what the memory allows. 0: unknown.
double ceiling(const Roofline& roofline, const Op& op, const Problem& problem);
// The roofline in words: "peak 1071 TFLOP/s (132 SMs x 4096 FLOP x 1980 MHz), memory 4917 GB/s".
std::string roofline_text(const Device& device);

}  // namespace autotune::cli
