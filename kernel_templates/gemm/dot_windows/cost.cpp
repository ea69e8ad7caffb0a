#include <algorithm>
#include <cmath>

#include "kernel_templates/gemm/dot_windows/geometry.h"

namespace autotune::dot_windows {
namespace {

using std::int64_t;

// Fitted to 1,465 trials of 122 products, most of them random, in a stream on an H200 (docs/results/untuned.md): the ratio of
// measured to predicted time deviates by 21 %. Some constants absorb other effects.
constexpr double kStartUs = 1.46;           // the time of a launch, including its work before the first load and after the last
constexpr double kRoundUs = 0.573;          // time that a thread waits for a round of its windows
constexpr double kWindowUs = 0.0327;        // extra time for each of these windows
constexpr double kLoadOfYUs = 0.00535;      // extra time for each element of Y that a window is multiplied by
constexpr double kWarpUs = 0.0232;          // start of one warp of a block
constexpr double kMeetingUs = 0.645;        // the time to add sums in shared memory
constexpr double kAddedUs = 0.00369;        // extra time for each sum that a thread adds there
constexpr double kClusterUs = 1.01;         // the time to place a cluster and to add its blocks' sums
constexpr double kClusterBlockUs = 0.0101;  // extra time for each block of the cluster
constexpr double kClusterWaves = 1.26;  // a factor relative to single blocks, because a cluster waits until all of its blocks fit
constexpr double kEdgesUs = 0.194;      // the time for elements outside of whole windows, if k is contiguous in X
constexpr double kIssuesPerClock = 1.55;        // instructions per clock that this kernel issues; an SM can issue four
constexpr double kClocksOfLine = 0.364;         // clocks of L1 for each line of 128 bytes that a warp's load touches
constexpr double kShareOfMemory = 1.09;         // the share of memory's rate that such loads reach
constexpr double kReadAgain = 0.39;             // the share of X that blocks of other columns reload; most of it is in L2
constexpr double kLinesBeside = 18.2;           // lines that a block reads but does not store, if lines are contiguous in X
constexpr double kBytesInFlight = 1.139e4;      // bytes in flight per SM at which memory reaches its full rate
constexpr double kInstructionsOfWindow = 1.79;  // addresses and conditions
constexpr double kInstructionsOfY = 2.48;       // instructions to read an element and convert it
constexpr double kInstructionsOfApart = 3.69;   // instructions to read and convert an element if k is not contiguous

// Multiplies instead of calling pow(), because a plan makes hundreds of predictions.
double fourth_power(double a) {
    return a * a * a * a;
}

}  // namespace

double predict(const gemm::Streams& x, const ResolvedConfig& s, const Device& device) {
    const auto sms = static_cast<double>(gemm::usable_sms(device, s.cluster_k));
    const int64_t tiles = gemm::ceil_div(x.columns, s.columns);
    const auto blocks = static_cast<double>(s.clusters(x) * s.cluster_k * tiles * x.batch);
    const double of_an_sm = static_cast<double>(device.limits.threads_per_sm / s.threads) * 0.75;
    const auto held = static_cast<double>(s.threads * (s.held_registers(x) + 32));
    const double resident = std::max(
        1.0, std::min({of_an_sm, static_cast<double>(device.limits.registers_per_sm) / held,
                       static_cast<double>(device.limits.smem_per_sm_bytes) / static_cast<double>(s.smem_bytes(x) + 1024)}));
    const double busy = std::min(blocks, sms);
    const double on_sm = std::min(std::ceil(blocks / sms), std::floor(resident));
    const double waves = std::ceil(blocks / (sms * std::floor(resident)));
    const int64_t windows = gemm::ceil_div(gemm::ceil_div(x.k, window_k(x)), s.all_lanes());  // windows of a line for each thread
    const auto rounds = static_cast<double>(gemm::ceil_div(windows, s.unroll));
    const auto rows = static_cast<double>(s.rows), columns = static_cast<double>(s.columns);
    // The loads of Y that a thread makes for the windows of all its lines at one position.
    const double loads_of_y = static_cast<double>(window_k(x)) * columns;
    const double products = kWindow * columns * rows;
    const double of_place = rows * (kInstructionsOfWindow + kWindow) +
                            (x.y_along_k ? kInstructionsOfY : kInstructionsOfApart) * loads_of_y + products;
    const double warps = std::ceil(blocks / sms) * static_cast<double>(s.threads) / 32.0;
    const double turns = warps * static_cast<double>(windows) / device.clock_mhz;
    const double issuing = turns * of_place / kIssuesPerClock;
    const double lines_of_y = x.x_along_k ? (x.y_along_k ? 4.0 : 32.0) : 1.0;
    const double looking_up = turns * (4.0 * rows + loads_of_y * lines_of_y) * kClocksOfLine;
    const double beside = x.x_along_k ? 1.0 : 1.0 + kLinesBeside / static_cast<double>(s.block_lines(x));
    const double bytes =
        2.0 * static_cast<double>(x.batch * x.k * x.lines) * beside * (1.0 + kReadAgain * static_cast<double>(tiles - 1));
    const double in_flight = on_sm * static_cast<double>(s.threads * s.unroll * s.rows) * 16.0;
    const double share = std::min(1.0, in_flight / kBytesInFlight) * std::min(1.0, busy / (0.394 * sms));
    const double reading = bytes / (kShareOfMemory * share * device.memory_gb_per_s * 1e3);
    const double of_round = kRoundUs + static_cast<double>(s.unroll) * (rows * kWindowUs + loads_of_y * kLoadOfYUs);
    const double waiting = rounds * of_round * waves;
    const double meets = !x.x_along_k || s.lanes > 32 ? 1.0 : 0.0;
    const double added = x.x_along_k
                             ? static_cast<double>(s.lanes / 32)
                             : static_cast<double>(s.lanes) / std::min(8.0, static_cast<double>(s.lanes) / (8.0 * columns));
    const double loop =
        std::sqrt(std::sqrt(fourth_power(waiting) + fourth_power(issuing) + fourth_power(looking_up) + fourth_power(reading)));
    const double ends =
        kWarpUs * static_cast<double>(s.threads / 32) + meets * (kMeetingUs + kAddedUs * added) + (x.x_along_k ? kEdgesUs : 0.0) +
        (s.cluster_k > 1 ? kClusterUs + kClusterBlockUs * static_cast<double>(s.cluster_k) : 0.0) + (x.reads_c ? 0.0444 : 0.0);
    const double room = s.cluster_k > 1 && waves > 1 ? kClusterWaves : 1.0;
    return kStartUs + ends + room * loop;
}

}  // namespace autotune::dot_windows
