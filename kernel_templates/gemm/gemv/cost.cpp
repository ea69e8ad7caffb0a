#include <algorithm>
#include <cmath>

#include "kernel_templates/gemm/gemv/geometry.h"

namespace autotune::gemv {
namespace {

// Fitted to 1,156 trials of nine bf16 nt problems of 1 and 16 rows, steps waiting in registers (H200, 2026-11-21).
constexpr double kSpareRegisters = 20;         // that the compiler takes beyond the least
constexpr double kBytesInFlight = 4.0 * 1024;  // of one SM, at which memory gives half of what it can
constexpr double kBytesPerClockOfSm = 48;      // that one SM can take from L2
constexpr double kBytesPerClockOfY = 2800;     // that L2 gives to blocks which all read the same Y
constexpr double kClocksOfStep = 200;          // that a warp waits for shared memory and its own sums
constexpr double kStartUs = 3.2;
constexpr double kInStream = 1.2;     // of 1,500 trials of 60 problems, against what the trials above say
constexpr double kEarlierUs = 1.3;    // for a kernel that finds room beside the one before it: it reads while that one ends
constexpr double kColumnOfCUs = 0.2;  // a column of a block, where C is read: one access after the other (23 problems)

// Clocks of one multiplication on a quarter of an SM. A warp that waits for a whole round of registers leaves it idle in between.
double clocks_of_multiply(const Shape& s) {
    return s.x_smem != 0 ? 8 : 20;
}

// Blocks that run at once on one SM.
double resident_blocks(const Grid& grid, const Shape& s, const DeviceLimits& limits) {
    const auto threads = static_cast<double>(s.threads());
    const double wanted = static_cast<double>(s.registers()) + kSpareRegisters;
    const double given = limits.registers_per_sm / (threads * static_cast<double>(s.min_blocks));
    const double registers = std::floor(std::min(wanted, given) / 8) * 8;
    const double by_registers = std::floor(limits.registers_per_sm / (registers * threads));
    const double by_smem = std::floor(limits.smem_per_sm_bytes / (static_cast<double>(grid.smem_bytes) + 1024));
    const double by_threads = std::floor(limits.threads_per_sm / threads);
    return std::max(1.0, std::min({by_registers, by_smem, by_threads, static_cast<double>(limits.blocks_per_sm)}));
}

// The steps of a warp one after the other, or the multiplications of an SM, whichever takes longer.
double multiply_clocks(const Grid& grid, const Shape& s, double waves, double blocks_of_sm) {
    const double steps = std::ceil(static_cast<double>(grid.part_k) / static_cast<double>(32 * s.warps_k));
    const auto multiplies = static_cast<double>(2 * s.tiles() * (s.block_n / 8));
    const double warp = std::ceil(waves) * steps * (kClocksOfStep + multiplies * clocks_of_multiply(s));
    return std::max(warp, blocks_of_sm * static_cast<double>(s.warps()) * steps * multiplies * clocks_of_multiply(s) / 4);
}

// Between the last byte of X and the end of the kernel.
double reduction_us(const Streams& x, const Grid& grid, const Shape& s, double bytes_per_us) {
    const double us = 0.2 + 0.02 * static_cast<double>(s.warps_k);
    if (s.split_k == 1) return us;
    const auto partial = static_cast<double>(grid.tiles * s.split_k * s.block_lines(x) * grid.columns * 4);
    return us + (s.cluster != 0 ? 0.7 : 2.6 + 2 * partial / bytes_per_us) + 0.05 * static_cast<double>(s.split_k);
}

// Rows that are not aligned are read in smaller pieces: for twice as many accesses a seventh longer (17 problems).
double unaligned(const Streams& x) {
    const double halvings = std::log2(16.0 / static_cast<double>(std::min(x.align_x, x.align_y)));
    return 1.0 + 0.15 * halvings;
}

}  // namespace

double predict(const Streams& x, const Shape& s, const Device& device) {
    const Grid grid(x, s);
    const auto sms = static_cast<double>(device.identity.sm_count);
    const double clock = device.clock_mhz * 0.9;
    const auto blocks = static_cast<double>(grid.tiles * s.split_k);
    const double slots = resident_blocks(grid, s, device.limits) * sms;
    const double waves = blocks / slots;

    const double lines =
        static_cast<double>(grid.tiles_m * s.block_m);  // those of the last block that do not exist cost a little
    const double x_bytes =
        (0.9 * static_cast<double>(x.lines) + 0.1 * lines) * static_cast<double>(x.k * x.batch * 2 * grid.tiles_n);
    const double y_bytes = blocks * static_cast<double>(grid.columns * grid.part_k * 2);
    const double in_flight = std::min(blocks, slots) * static_cast<double>(s.waiting_bytes()) / sms;
    const double memory = device.memory_gb_per_s * 0.97 * 1e3 * in_flight / (in_flight + kBytesInFlight);
    const double reading = x_bytes / std::min(memory, std::min(blocks, sms) * kBytesPerClockOfSm * clock);
    const double multiplying = multiply_clocks(grid, s, waves, blocks / sms) / clock;
    const double sharing = y_bytes / (kBytesPerClockOfY * clock);
    // Blocks that run together share the bandwidth and end together; a last wave that is not full has it for itself.
    const double uneven = waves <= 1.0 ? 1.0 : 1.0 + 0.1 * (std::ceil(waves) - waves) / waves;
    const double start = kStartUs - (s.prefetch_k > 0 && waves <= 1.0 ? kEarlierUs : 0.0);
    // A warp waits for all of its registers before it multiplies, but for one step of shared memory.
    const double apart = s.x_smem != 0 ? 0.2 : 0.7;
    const double streaming = std::max(reading, multiplying) + apart * std::min(reading, multiplying) + sharing;
    const double alone =
        start + streaming * uneven + reduction_us(x, grid, s, kBytesPerClockOfY * clock) + (s.evict_first != 0 ? 0.0 : 0.02);
    const double reading_c = x.reads_c ? kColumnOfCUs * static_cast<double>(grid.columns) : 0.0;
    return kInStream * unaligned(x) * alone + reading_c;
}

}  // namespace autotune::gemv
