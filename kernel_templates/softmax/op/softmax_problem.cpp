#include "kernel_templates/softmax/op/softmax_problem.h"

#include <algorithm>
#include <cmath>

#include "src/core/error.h"
#include "src/core/integer_math.h"

namespace autotune::softmax {
namespace {

constexpr std::int64_t kSmsWithoutClusters = 12;  // SMs that clusters of more than two blocks cannot use
constexpr double kLaunch_us = 1.2;                // the time of a launch in a stream of other kernels
constexpr double kEarly_us = 0.2;                 // cost of a programmatic launch after kernels that do not trigger early
constexpr double kLatency_us = 0.8;               // the time of a load that misses every cache, under load
constexpr double kReachableShare = 0.92;          // the share of the memory's peak that is reached with reads and writes mixed
constexpr double kL2Share = 0.5;                  // the share of L2 that keeps data which is soon reloaded
constexpr double kL2Gain = 2;                     // the bandwidth of L2 relative to the memory's
constexpr double kExpPerClock = 16;               // exponentials for each SM
constexpr double kLanesPerClock = 128;            // lanes for each SM
constexpr double kBlockStart_us = 0.004;          // the time for which the start of a block occupies an SM

}  // namespace

View::View(const Problem& problem)
    : rows(problem.extent("rows")),
      cols(problem.extent("cols")),
      ldx(problem.tensors[kX].dims[0].stride),
      ldy(problem.tensors[kY].dims[0].stride),
      type(problem.tensors[kX].dtype),
      element_bytes(static_cast<std::int64_t>(size_bytes(type))),
      align_x(problem.tensors[kX].alignment_bytes),
      align_y(problem.tensors[kY].alignment_bytes),
      has_lse(!problem.tensors[kLse].is_absent),
      scale(static_cast<float>(problem.number("scale"))) {}

double View::moved_bytes() const {
    const auto count = static_cast<double>(rows);
    return count * (2 * row_bytes() + (has_lse ? static_cast<double>(size_bytes(DType::f32)) : 0));
}

std::vector<Binding> facts(const Problem& problem) {
    const View view(problem);
    return {{"element_type", view.type},
            {"align_x", view.align_x},
            {"align_y", view.align_y},
            {"negative", std::int64_t{view.scale < 0}},
            {"has_lse", std::int64_t{view.has_lse}}};
}

std::vector<Argument> arguments(const Problem& problem) {
    const View view(problem);
    return {TensorArg{kX},     TensorArg{kY},    TensorArg{kLse},  I64Arg{view.rows},
            I64Arg{view.cols}, I64Arg{view.ldx}, I64Arg{view.ldy}, F32Arg{std::fabs(view.scale)}};
}

std::int64_t clusters_of(const Config& config, std::int64_t tiles, std::int64_t resident_blocks, const Device& device) {
    const std::int64_t blocks = config["cluster_blocks"];
    // 132 SMs can run 66 clusters of two blocks at once, 30 of four and 15 of eight, with a block on each SM
    // (cudaOccupancyMaxActiveClusters on an H200). One more cluster waits until another ends.
    const std::int64_t unusable = blocks > 2 ? kSmsWithoutClusters : 0;
    const std::int64_t filling = std::max<std::int64_t>(1, (device.identity.sm_count - unusable) * resident_blocks / blocks);
    const std::int64_t most = kMostGridX / blocks;
    return std::min({tiles, config["waves"] == 0 ? most : filling * config["waves"], most});
}

LaunchStep step_of(const Problem& problem, const Config& config, std::int64_t clusters) {
    LaunchStep step;
    step.grid.x = narrow<std::uint32_t>(clusters * config["cluster_blocks"]);
    step.block.x = narrow<std::uint32_t>(config["threads"]);
    step.cluster.x = narrow<std::uint32_t>(config["cluster_blocks"]);
    step.programmatic_dependent = config["pdl"] == 1;
    step.arguments = arguments(problem);
    return step;
}

std::vector<Constraint> shared_constraints(const Device& device) {
    const bool is_hopper = device.identity.cc() >= 90;
    return {
        {"a row has more threads than its block",
         {"threads", "threads_per_row"},
         [](const Config& c) { return c["threads_per_row"] <= c["threads"]; }},
        {"a cluster before sm_90", {"cluster_blocks"}, [=](const Config& c) { return is_hopper || c["cluster_blocks"] == 1; }},
        {"blocks share a row although not all of their threads do",
         {"threads", "threads_per_row", "cluster_blocks"},
         [](const Config& c) { return c["cluster_blocks"] == 1 || c["threads_per_row"] == c["threads"]; }},
        {"programmatic dependent launch before sm_90", {"pdl"}, [=](const Config& c) { return is_hopper || c["pdl"] == 0; }},
    };
}

// The rate of a memory system is at most the bytes in flight / its latency (Little's law).
double predict_us(const View& view, const Traffic& traffic, const Device& device) {
    const auto sm_count = static_cast<double>(device.identity.sm_count);
    const auto blocks = static_cast<double>(std::max<std::int64_t>(traffic.blocks, 1));
    const double elements = std::max(static_cast<double>(view.rows) * static_cast<double>(view.cols), 1.0);
    const double read_bytes = elements * static_cast<double>(view.element_bytes);
    const double active_blocks = std::min(blocks, sm_count * static_cast<double>(traffic.resident_blocks));
    const double busy_sms = std::min(blocks, sm_count);

    const double rereads_hit = active_blocks * traffic.block_bytes < kL2Share * device.identity.l2_mib * 1048576.0 ? kL2Gain : 1;
    const double memory_us =
        (view.moved_bytes() + (traffic.reads - 1) * read_bytes / rereads_hit) / (device.memory_gb_per_s * 1e3 * kReachableShare);
    const double in_flight_bytes = std::clamp(active_blocks * traffic.block_bytes, 1.0, read_bytes);
    const double latency_us = traffic.reads * read_bytes / in_flight_bytes * kLatency_us;
    const double exp_us = elements * traffic.weights / (kExpPerClock * busy_sms * device.clock_mhz);
    const double issue_us = elements * traffic.instructions / (kLanesPerClock * busy_sms * device.clock_mhz);
    const double turns = std::max(blocks / active_blocks, 1.0) * traffic.rounds;
    return kLaunch_us + (traffic.starts_early ? kEarly_us : 0) +
           std::max({memory_us, latency_us, exp_us + issue_us}) * (1 + traffic.imbalance) + 0.15 * (exp_us + issue_us) +
           turns * traffic.steps_us / std::min(static_cast<double>(traffic.resident_blocks), turns) +
           blocks / sm_count * kBlockStart_us;
}

}  // namespace autotune::softmax
