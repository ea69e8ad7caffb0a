#include <algorithm>
#include <cmath>

#include "kernel_templates/gemm/gemv/geometry.h"

namespace autotune::gemv {
namespace {

// Fitted to 930 trials, most of them of random problems, in a stream on an H200 and an H100: the deviation is 17 %
// (docs/results/untuned.md).
constexpr double kSpareRegisters = 20;       // registers that the compiler uses beyond the minimum
constexpr double kBytesInFlight = 1849;      // bytes in flight per SM at which memory reaches half of its rate
constexpr double kBytesPerClockOfSm = 25.6;  // the rate at which one SM reads from L2
constexpr double kBytesPerClockOfY = 1502;   // rate at which L2 serves blocks that all read the same Y
constexpr double kClocksOfStep = 92.6;       // clocks that a warp waits in each step for shared memory and its own sums
constexpr double kStartUs = 4.25;
// A kernel that fits next to its predecessor gains this time, because it reads while that one ends.
constexpr double kEarlierUs = 0.251;
constexpr double kElementOfCUs = 0.466;         // the time for each element of a thread, if C is read
constexpr double kReadingThroughShared = 1.52;  // a factor relative to reading into registers
// If Y cannot be copied unchanged, it takes these clocks to stage it in shared memory. They are for eight k of a column that are
// read one by one or from two addresses, and for 64 k that are distributed to the groups.
constexpr double kClocksOfGather = 556, kClocksOfEight = 84.9, kClocksOfDeal = 3779;
constexpr double kClocksOfEdgesOfLines = 1368, kClocksOfEdgesOfK = 920;  // per element of a thread

// Clocks of one multiplication on a quarter of an SM. While a warp waits for a whole round of registers, the quarter is idle.
double clocks_of_multiply(const ResolvedConfig& s) {
    return s.x_smem != 0 ? 8 : 16.0;
}

// Blocks that run at once on one SM.
double resident_blocks(const Grid& grid, const ResolvedConfig& s, const DeviceLimits& limits) {
    const auto threads = static_cast<double>(s.threads());
    const double wanted = static_cast<double>(s.registers()) + kSpareRegisters;
    const double given = limits.registers_per_sm / (threads * static_cast<double>(s.min_blocks));
    const double registers = std::floor(std::min(wanted, given) / 8) * 8;
    const double by_registers = std::floor(limits.registers_per_sm / (registers * threads));
    const double by_smem = std::floor(limits.smem_per_sm_bytes / (static_cast<double>(grid.smem_bytes) + 1024));
    const double by_threads = std::floor(limits.threads_per_sm / threads);
    return std::max(1.0, std::min({by_registers, by_smem, by_threads, static_cast<double>(limits.blocks_per_sm)}));
}

// The time of a warp's steps one after another, or of the multiplications of an SM, whichever is longer.
double multiply_clocks(const Grid& grid, const ResolvedConfig& s, double waves, double blocks_of_sm) {
    const double steps = std::ceil(static_cast<double>(grid.part_k) / static_cast<double>(32 * s.warps_k));
    const auto multiplies = static_cast<double>(2 * s.tiles() * (s.block_n / 8));
    const double warp = std::ceil(waves) * steps * (kClocksOfStep + multiplies * clocks_of_multiply(s));
    return std::max(warp, blocks_of_sm * static_cast<double>(s.warps()) * steps * multiplies * clocks_of_multiply(s) / 4);
}

// Time from the arrival of the last byte of X to the end of the kernel.
double reduction_us(const Streams& x, const Grid& grid, const ResolvedConfig& s, double bytes_per_us) {
    const double us = 0.197 + 0.00904 * static_cast<double>(s.warps_k);
    if (s.split_k == 1) return us;
    const auto partial = static_cast<double>(grid.tiles * s.split_k * s.block_lines(x) * grid.columns * 4);
    return us + (s.cluster != 0 ? 3.53 : 2.11 + 2 * partial / bytes_per_us) + 0.0604 * static_cast<double>(s.split_k);
}

// Clocks for which a block's threads wait until Y is in shared memory.
double staging_clocks(const Streams& x, const Grid& grid, const ResolvedConfig& s) {
    if (x.y_along_k && x.align_y == 16 && !x.groups_lines() && !x.groups_k()) return 0.0;
    const std::int64_t at_once = x.y_along_k && x.groups_k() ? 64 : 8;  // k that a thread takes
    const std::int64_t used = std::min(s.block_k, gemm::round_up(std::min(grid.part_k, s.block_k), s.round_k())) / at_once;
    const auto fills = static_cast<double>(gemm::ceil_div(grid.part_k, s.block_k));
    if (!x.y_along_k) {
        const std::int64_t abreast = std::max<int64_t>(1, s.threads() / s.block_n);
        return fills * static_cast<double>(gemm::ceil_div(used, abreast)) * kClocksOfGather;
    }
    const std::int64_t abreast = std::min(s.threads(), s.block_k / at_once);
    const std::int64_t turns =
        gemm::ceil_div(grid.columns, std::max<int64_t>(1, s.threads() / abreast)) * gemm::ceil_div(used, abreast);
    return fills * static_cast<double>(turns) * (x.groups_k() ? kClocksOfDeal : kClocksOfEight);
}

// Elements of C of a thread.
double elements(const Streams& x, const Grid& grid, const ResolvedConfig& s) {
    const double a_block = static_cast<double>(s.block_lines(x) * grid.columns) / static_cast<double>(s.threads());
    return std::ceil(a_block / static_cast<double>(s.cluster != 0 ? s.split_k : 1));
}

// Rows that are not aligned are read in smaller pieces. Twice as many accesses take 5 % longer.
double unaligned(const Streams& x) {
    const double halvings = std::log2(16.0 / static_cast<double>(std::min(x.align_x, x.align_y)));
    return 1.0 + 0.0513 * halvings;
}

}  // namespace

double predict(const Streams& x, const ResolvedConfig& s, const Device& device) {
    const Grid grid(x, s);
    const auto sms = static_cast<double>(device.identity.sm_count);
    const double clock = device.clock_mhz * 0.704;
    const auto blocks = static_cast<double>(grid.tiles * s.split_k);
    // 16 clusters of eight blocks need two waves: 23x1895x1151 took 24 us, but 9 were predicted for one wave.
    const auto cluster_sms = static_cast<double>(gemm::usable_sms(device, s.cluster != 0 ? s.split_k : 1));
    const double slots = resident_blocks(grid, s, device.limits) * cluster_sms;
    const double waves = blocks / slots, whole_waves = std::max(1.0, std::ceil(waves));

    const double lines =
        static_cast<double>(grid.tiles_m * s.block_m);  // lines of the last block that do not exist cost a little
    const double x_bytes =
        (0.837 * static_cast<double>(x.lines) + 0.117 * lines) * static_cast<double>(x.k * x.batch * 2 * grid.tiles_n);
    const double y_bytes = blocks * static_cast<double>(grid.columns * grid.part_k * 2);
    const double in_flight = std::min(blocks, slots) * static_cast<double>(s.waiting_bytes()) / sms;
    const double memory = device.memory_gb_per_s * 0.795 * 1e3 * in_flight / (in_flight + kBytesInFlight);
    const double through_shared = s.x_smem != 0 ? kReadingThroughShared : 1.0;
    const double reading = through_shared * x_bytes / std::min(memory, std::min(blocks, sms) * kBytesPerClockOfSm * clock);
    const double multiplying = multiply_clocks(grid, s, waves, blocks / sms) / clock;
    const double sharing = y_bytes / (kBytesPerClockOfY * clock);
    // Blocks that run together share the bandwidth and end together; an incomplete last wave has the whole bandwidth.
    const double uneven = waves <= 1.0 ? 1.0 : 1.0 + 0.382 * (std::ceil(waves) - waves) / waves;
    const double start = kStartUs - (s.prefetch_k > 0 && waves <= 1.0 ? kEarlierUs : 0.0);
    // With registers, a warp waits for all its loads before it multiplies. With shared memory it waits only for one step's loads.
    const double apart = s.x_smem != 0 ? 0.202 : 0.961;
    const double staging = staging_clocks(x, grid, s) / clock * whole_waves;  // every wave of blocks waits for its Y again
    const double edges = x.groups_lines() ? kClocksOfEdgesOfLines : x.groups_k() ? kClocksOfEdgesOfK : 0.0;
    const double ends = edges / clock * elements(x, grid, s) * whole_waves;
    const double streaming = std::max(reading, multiplying) + apart * std::min(reading, multiplying) + sharing;
    const double meetings = std::max(1.0, waves);
    const double alone = start + streaming * uneven + meetings * reduction_us(x, grid, s, kBytesPerClockOfY * clock) +
                         (s.evict_first != 0 ? 0.0 : 0.02);
    const double reading_c = x.reads_c ? kElementOfCUs * elements(x, grid, s) * std::max(1.0, waves) : 0.0;
    return 0.747 * unaligned(x) * (alone + staging + ends) + reading_c;
}

}  // namespace autotune::gemv
