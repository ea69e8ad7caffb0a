#include <algorithm>
#include <cmath>

#include "kernel_templates/gemm/dot/geometry.h"

namespace autotune::dot {
namespace {

// Not fitted yet: from what gemm/gemv's and gemm/wgmma_nonpersistent's launches take in a stream on an H200, and from counts of
// instructions in the compiled text.
constexpr double kStartUs = 2.0;                  // of a launch, and of what it does before its first load and after its last
constexpr double kRoundUs = 0.5, kLoadUs = 0.01;  // that a thread waits for a round of its loads, and for each of them
constexpr double kMeetingUs = 0.15;               // where sums meet in shared memory
constexpr double kResidentThreads = 1024;         // of an SM
constexpr double kIssuesPerClock = 2.5;           // of an SM's four at most
constexpr double kShareOfMemory = 0.75;           // that plain loads reach
constexpr std::int64_t kKnownColumns = 16;        // of Y, up to which that is believed
constexpr double kDoubt = 1.5;                    // beyond them, where kernels for tensor cores have trials
constexpr double kInstructions = 180.0;           // beside the loop
constexpr double kClocksOfInstruction = 3.75;     // to fetch it: 30 for eight, which each SM does once
constexpr double kInstructionsOfAccess = 8.0;     // addresses and conditions

}  // namespace

double predict(const Streams& x, const Shape& s, const Device& device) {
    const auto sms = static_cast<double>(device.identity.sm_count);
    const std::int64_t tiles_n = gemm::ceil_div(x.columns, s.columns);
    const auto blocks = static_cast<double>(gemm::ceil_div(x.lines, s.block_lines()) * tiles_n * x.batch);
    const double waves = std::max(1.0, blocks * static_cast<double>(s.threads) / (sms * kResidentThreads));
    const std::int64_t accesses = gemm::ceil_div(gemm::ceil_div(x.k, x.width()), s.lanes);  // of a thread
    const auto rounds = static_cast<double>(gemm::ceil_div(accesses, s.unroll));
    const double loads_of_y = static_cast<double>(s.columns) * static_cast<double>(x.width()) / static_cast<double>(x.width_y());
    const double of_access = kInstructionsOfAccess + 2.0 * loads_of_y + static_cast<double>(x.width() * (1 + s.columns)) * 1.5;
    const double busiest = std::ceil(blocks / sms) * static_cast<double>(s.threads) / 32.0;  // warps of one SM
    const double issuing = busiest * static_cast<double>(accesses) * of_access / (kIssuesPerClock * device.clock_mhz);
    const double bytes = 2.0 * static_cast<double>(x.batch * x.k * (x.lines * tiles_n + x.columns));
    const double reading = bytes / (kShareOfMemory * device.memory_gb_per_s * 1e3);
    const double fetching = (kInstructions + static_cast<double>(s.unroll) * of_access) * kClocksOfInstruction / device.clock_mhz;
    const bool meets = !x.x_along_k || s.lanes > 32;
    const double doubt = x.columns > kKnownColumns ? kDoubt : 1.0;
    const double us =
        kStartUs + fetching + (meets ? kMeetingUs : 0.0) +
        std::max({rounds * (kRoundUs + kLoadUs * static_cast<double>(s.unroll)) * std::ceil(waves), issuing, reading}) +
        (x.reads_c ? 0.05 : 0.0);
    return doubt * us;
}

}  // namespace autotune::dot
