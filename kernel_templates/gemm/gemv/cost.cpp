#include <algorithm>
#include <cmath>

#include "kernel_templates/gemm/gemv/shape.h"

namespace autotune::gemv {
namespace {

constexpr double kOtherRegisters = 70;          // addresses, fragments of Y, loop counters
constexpr double kBytesInFlight = 12.0 * 1024;  // of one SM, at which memory gives half of what it can
constexpr double kBytesPerClockOfSm = 48;       // that one SM can take from L2
constexpr double kBytesPerClockOfL2 = 5500;

// Blocks that run at once on one SM.
double resident_blocks(const Grid& grid, const Shape& s, const DeviceLimits& limits) {
    const auto threads = static_cast<double>(s.threads());
    const double wanted = static_cast<double>(s.accumulators() + s.loaded()) + kOtherRegisters;
    const double given = limits.registers_per_sm / (threads * static_cast<double>(s.min_blocks));
    const double registers = std::floor(std::min(wanted, given) / 8) * 8;
    const double by_registers = std::floor(limits.registers_per_sm / (registers * threads));
    const double by_smem = std::floor(limits.smem_per_sm_bytes / (static_cast<double>(grid.smem_bytes) + 1024));
    const double by_threads = std::floor(limits.threads_per_sm / threads);
    return std::max(1.0, std::min({by_registers, by_smem, by_threads, static_cast<double>(limits.blocks_per_sm)}));
}

// Between the last byte of X and the end of the kernel.
double reduction_us(const Streams& x, const Grid& grid, const Shape& s, double bytes_per_us) {
    double us = 0.2 + 0.02 * static_cast<double>(s.warps_k);
    if (s.split_k == 1) return us;
    const auto partial = static_cast<double>(grid.tiles * s.split_k * s.block_lines(x) * grid.columns * 4);
    return us + (s.cluster != 0 ? 0.9 : 1.8 + 2 * partial / bytes_per_us) + 0.05 * static_cast<double>(s.split_k);
}

}  // namespace

double predict(const Streams& x, const Shape& s, const Device& device) {
    const Grid grid(x, s);
    const auto sms = static_cast<double>(device.identity.sm_count);
    const double clock = device.clock_mhz * 0.9;
    const auto blocks = static_cast<double>(grid.tiles * s.split_k);
    const double slots = resident_blocks(grid, s, device.limits) * sms;
    const double running = std::min(blocks, slots);

    const double lines =
        static_cast<double>(grid.tiles_m * s.block_m);  // those of the last block that do not exist cost a little
    const double x_bytes = (0.9 * static_cast<double>(x.lines) + 0.1 * lines) * static_cast<double>(x.k * x.batch * 2);
    const double y_bytes = blocks * static_cast<double>(grid.columns * grid.part_k * 2);
    const double in_flight = running * static_cast<double>(s.threads() * s.loaded() * 4) / sms;
    const double memory = device.memory_gb_per_s * 0.97 * 1e3 * in_flight / (in_flight + kBytesInFlight);
    const double busy = std::min(blocks, sms);
    const double l2 = std::min(busy * kBytesPerClockOfSm, kBytesPerClockOfL2) * clock;
    const double streaming =
        std::max(x_bytes * static_cast<double>(grid.tiles_n > 1 ? 1.1 : 1.0) / memory, (x_bytes + y_bytes) / l2);
    // Blocks that run together share the bandwidth and end together; a last wave that is not full has it for itself.
    const double waves = blocks / slots;
    const double uneven = waves <= 1.0 ? 1.0 : 1.0 + 0.3 * (std::ceil(waves) - waves) / waves;
    const double start =
        (s.early_launch != 0 ? 1.6 : 2.4) + static_cast<double>(grid.columns * std::min(grid.part_k, s.block_k)) * 4e-6;
    const double hint = s.evict_first != 0 ? 0.0 : 0.02;
    return start + streaming * uneven + reduction_us(x, grid, s, l2) + hint;
}

}  // namespace autotune::gemv
