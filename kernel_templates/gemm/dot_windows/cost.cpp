#include <algorithm>
#include <cmath>

#include "kernel_templates/gemm/dot_windows/geometry.h"

namespace autotune::dot_windows {
namespace {

using std::int64_t;

// Fitted to 830 trials of 110 products, most of them drawn, in a stream on an H200 (docs/results/2026-11-27-hopper/serve.md):
// measured over predicted deviates by 21 %. Some stand for more than their names say.
constexpr double kStartUs = 1.53;               // of a launch, and of what it does before its first load and after its last
constexpr double kRoundUs = 0.535;              // that a thread waits for a round of its windows
constexpr double kWindowUs = 0.0467;            // and for each of them
constexpr double kLoadOfYUs = 0.0041;           // and for each element of Y that it meets
constexpr double kWarpUs = 0.0187;              // to start one, of a block
constexpr double kMeetingUs = 0.476;            // where sums meet in shared memory
constexpr double kAddedUs = 0.00491;            // and for each that a thread adds there
constexpr double kClusterUs = 1.01;             // to place one, and where its blocks' sums meet
constexpr double kEdgesUs = 0.112;              // elements outside of whole windows, k contiguous in X
constexpr double kIssuesPerClock = 1.51;        // of an SM's four at most
constexpr double kClocksOfLine = 0.341;         // of L1, for a line of 128 bytes that a warp's load touches
constexpr double kShareOfMemory = 1.21;         // that such loads reach
constexpr double kLinesBeside = 17.3;           // that a block reads beside those that it stores, lines contiguous in X
constexpr double kBytesInFlight = 1.774e4;      // of one SM, that memory needs to give all it has
constexpr double kInstructionsOfWindow = 4.37;  // addresses and conditions

}  // namespace

double predict(const gemm::Streams& x, const Shape& s, const Device& device) {
    const auto sms = static_cast<double>(device.identity.sm_count);
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
    const int64_t windows =
        gemm::ceil_div(x.x_along_k ? gemm::ceil_div(x.k, kWindow) : x.k, s.all_lanes());  // of a line and thread
    const auto rounds = static_cast<double>(gemm::ceil_div(windows, s.unroll));
    const auto rows = static_cast<double>(s.rows), columns = static_cast<double>(s.columns);
    // Of a thread, for the windows of its lines at one place.
    const double loads_of_y = x.x_along_k ? kWindow * columns : columns;
    const double products = kWindow * columns * rows;
    const double of_place = rows * (kInstructionsOfWindow + kWindow) + 3.0 * loads_of_y + products;
    const double warps = std::ceil(blocks / sms) * static_cast<double>(s.threads) / 32.0;
    const double turns = warps * static_cast<double>(windows) / device.clock_mhz;
    const double issuing = turns * of_place / kIssuesPerClock;
    const double lines_of_y = x.x_along_k ? (x.y_along_k ? 4.0 : 32.0) : 1.0;
    const double looking_up = turns * (4.0 * rows + loads_of_y * lines_of_y) * kClocksOfLine;
    const double beside = x.x_along_k ? 1.0 : 1.0 + kLinesBeside / static_cast<double>(s.block_lines(x));
    const double bytes = 2.0 * static_cast<double>(x.batch * x.k * x.lines) * static_cast<double>(tiles) * beside;
    const double in_flight = on_sm * static_cast<double>(s.threads * s.unroll * s.rows) * 16.0;
    const double share = std::min(1.0, in_flight / kBytesInFlight) * std::min(1.0, busy / (0.413 * sms));
    const double reading = bytes / (kShareOfMemory * share * device.memory_gb_per_s * 1e3);
    const double of_round = kRoundUs + static_cast<double>(s.unroll) * (rows * kWindowUs + loads_of_y * kLoadOfYUs);
    const double waiting = rounds * of_round * waves;
    const double meets = !x.x_along_k || s.lanes > 32 ? 1.0 : 0.0;
    const double added = x.x_along_k
                             ? static_cast<double>(s.lanes / 32)
                             : static_cast<double>(s.lanes) / std::min(8.0, static_cast<double>(s.lanes) / (8.0 * columns));
    const double loop =
        std::pow(std::pow(waiting, 4) + std::pow(issuing, 4) + std::pow(looking_up, 4) + std::pow(reading, 4), 0.25);
    const double ends = kWarpUs * static_cast<double>(s.threads / 32) + meets * (kMeetingUs + kAddedUs * added) +
                        (x.x_along_k ? kEdgesUs : 0.0) + (s.cluster_k > 1 ? kClusterUs : 0.0) + (x.reads_c ? 0.053 : 0.0);
    return kStartUs + ends + loop;
}

}  // namespace autotune::dot_windows
