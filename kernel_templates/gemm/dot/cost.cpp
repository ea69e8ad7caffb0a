#include <algorithm>
#include <cmath>

#include "kernel_templates/gemm/dot/geometry.h"

namespace autotune::dot {
namespace {

// Fitted to 960 trials, in a stream on an H200 and an H100 (docs/results/untuned.md): the ratio of measured to predicted time
// deviates by 15 %. Some constants absorb other effects: plain loads do not reach the full rate of memory, for example.
constexpr double kStartUs = 1.12;  // the time of a launch, including its work before the first load and after the last
// If k is contiguous, the compiler issues the loads of this many accesses before the first product.
constexpr std::int64_t kAtOnce = 5;
constexpr double kRoundUs = 0.367;             // time that a thread waits for loads that were issued together
constexpr double kLoadUs = 0.00167;            // extra time for each of these loads
constexpr double kWarpUs = 0.0211;             // start of one warp of a block
constexpr double kMeetingUs = 0.247;           // the time to add sums in shared memory
constexpr double kResidentThreads = 1024;      // threads that an SM holds at once
constexpr double kIssuesPerClock = 2.17;       // instructions per clock that this kernel issues; an SM can issue four
constexpr double kClocksOfLine = 0.616;        // clocks of L1 for each line of 128 bytes that a warp's load touches
constexpr double kShareOfMemory = 1.02;        // the share of memory's rate that plain loads reach
constexpr double kBytesBeside = 30.9;          // extra bytes per run of neighbouring lines, in sectors that other runs read too
constexpr double kInstructions = 117.0;        // instructions outside the loop
constexpr double kClocksOfInstruction = 5.85;  // clocks to fetch an instruction and execute it once
constexpr double kInstructionsOfAccess = 8.0;  // addresses and conditions
// Many loads wait for each other. Above this many bytes some products took five times the predicted time. gemm/gemv serves such
// products.
constexpr double kKnownBytes = 2.039e6;
constexpr double kDoubt = 0.141;

// For more columns the model is not used, because the tensor-core kernels have more trials there.
constexpr std::int64_t kKnownColumns = 20;
constexpr double kDoubtOfMore = 1.05;

// For each operand, the lines of 128 bytes that one load of a warp touches.
struct Touched {
    double x, y;
};
Touched touched(const Streams& x, const ResolvedConfig& s) {
    if (!x.x_along_k) {
        const double runs = 32.0 / static_cast<double>(std::min<std::int64_t>(32, s.block_lines()));
        return {runs, runs};
    }
    const auto lanes = static_cast<double>(std::min<std::int64_t>(32, s.lanes));
    const double span = lanes * static_cast<double>(x.width()) / 64.0;  // lines of 128 bytes of X that a load touches
    const double y = x.y_along_k ? span : std::min(lanes, span * static_cast<double>(x.columns));
    return {32.0 / lanes * std::max(1.0, span), std::max(1.0, y)};
}

}  // namespace

double predict(const Streams& x, const ResolvedConfig& s, const Device& device) {
    const auto sms = static_cast<double>(device.identity.sm_count);
    const std::int64_t tiles_n = gemm::ceil_div(x.columns, s.columns);
    const auto blocks = static_cast<double>(gemm::ceil_div(x.lines, s.block_lines()) * tiles_n * x.batch);
    const double waves = std::ceil(std::max(1.0, blocks * static_cast<double>(s.threads) / (sms * kResidentThreads)));
    const std::int64_t accesses = gemm::ceil_div(gemm::ceil_div(x.k, x.width()), s.lanes);  // accesses of a thread
    const std::int64_t at_once = x.x_along_k ? std::min(s.unroll, kAtOnce) : s.unroll;
    const auto rounds = static_cast<double>(gemm::ceil_div(accesses, at_once));
    const double loads_of_y = static_cast<double>(s.columns * x.width()) / static_cast<double>(x.width_y());
    const double of_access = kInstructionsOfAccess + 2.0 * loads_of_y + static_cast<double>(x.width() * (1 + s.columns)) * 1.5;
    const double busiest = std::ceil(blocks / sms) * static_cast<double>(s.threads) / 32.0;  // warps of one SM
    const double turns = busiest * static_cast<double>(accesses) / device.clock_mhz;
    const double issuing = turns * of_access / kIssuesPerClock;
    const Touched lines = touched(x, s);
    const double looking_up = turns * (lines.x + loads_of_y * lines.y) * kClocksOfLine;
    const double beside = x.x_along_k ? 0.0 : kBytesBeside / static_cast<double>(2 * s.block_lines());
    const double bytes_of_x = 2.0 * static_cast<double>(x.batch * x.k * x.lines);
    const double bytes =
        bytes_of_x * static_cast<double>(tiles_n) * (1.0 + beside) + 2.0 * static_cast<double>(x.batch * x.k * x.columns);
    const double reading = bytes / (kShareOfMemory * device.memory_gb_per_s * 1e3);
    const double waiting = rounds * (kRoundUs + kLoadUs * static_cast<double>(at_once) * (1.0 + loads_of_y)) * waves;
    const double fetching = (kInstructions + static_cast<double>(s.unroll) * of_access) * kClocksOfInstruction / device.clock_mhz;
    const double meeting = !x.x_along_k || s.lanes > 32 ? kMeetingUs : 0.0;
    const double loop =
        std::pow(std::pow(waiting, 4) + std::pow(issuing, 4) + std::pow(looking_up, 4) + std::pow(reading, 4), 0.25);
    const double doubt =
        (1.0 + kDoubt * std::min(1.0, bytes_of_x / kKnownBytes)) * (x.columns > kKnownColumns ? kDoubtOfMore : 1.0);
    const double starting = kStartUs + kWarpUs * static_cast<double>(s.threads / 32);
    return doubt * (starting + fetching + meeting + (x.reads_c ? 0.0602 : 0.0) + loop);
}

}  // namespace autotune::dot
