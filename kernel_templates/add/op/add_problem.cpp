#include "kernel_templates/add/op/add_problem.h"

#include <algorithm>

#include "src/core/error.h"

namespace autotune::add {
namespace {

// The time of a launch in a stream whose kernels do not let the next one start early.
constexpr double kLaunch_us = 1.1, kEarlyLaunch_us = 1.17;
constexpr double kLatency_us = 0.8;       // the time of a load that misses every cache, under load
constexpr double kReachableShare = 0.93;  // the share of the memory's peak that is reached with reads and writes mixed
constexpr double kSmBytesPerClock = 64;   // between an SM and L2
constexpr double kBlockStart_us = 0.004;  // the time for which the start of a block occupies an SM
constexpr double kAccessClocks = 0.4;     // clocks of a warp's access that other work does not hide

}  // namespace

View::View(const Problem& problem)
    : n(problem.extent("n")),
      type(problem.tensors[kA].dtype),
      element_bytes(static_cast<std::int64_t>(size_bytes(type))),
      align_a(problem.tensors[kA].alignment_bytes),
      align_b(problem.tensors[kB].alignment_bytes),
      align_c(problem.tensors[kC].alignment_bytes) {}

int View::widest_align() const {
    return std::max({align_a, align_b, align_c});
}

int View::narrowest_align() const {
    return std::min({align_a, align_b, align_c});
}

std::vector<Binding> facts(const Problem& problem) {
    const View view(problem);
    return {{"element_type", view.type}, {"align_a", view.align_a}, {"align_b", view.align_b}, {"align_c", view.align_c}};
}

std::vector<Argument> arguments(const Problem& problem) {
    return {TensorArg{kA}, TensorArg{kB}, TensorArg{kC}, I64Arg{View(problem).n}};
}

Constraint pdl_constraint(const Device& device) {
    return {"programmatic dependent launch before sm_90", {"pdl"}, [can = device.identity.cc() >= 90](const Config& c) {
                return can || c["pdl"] == 0;
            }};
}

// The rate of a memory system is at most the bytes in flight / the latency (Little's law).
double predict_us(const View& view, const Traffic& traffic, const Device& device) {
    const auto elements = static_cast<double>(std::max<std::int64_t>(view.n, 1));
    const double read_bytes = 2 * elements * static_cast<double>(view.element_bytes);
    const double moved_bytes = 1.5 * read_bytes;
    const auto sm_count = static_cast<double>(device.identity.sm_count);
    const auto blocks = static_cast<double>(std::max<std::int64_t>(traffic.blocks, 1));
    const double active_blocks = std::min(blocks, sm_count * static_cast<double>(traffic.resident_blocks));
    const double in_flight_bytes = std::clamp(active_blocks * traffic.block_bytes, 1.0, std::max(read_bytes, 1.0));
    const double memory_us = moved_bytes / (device.memory_gb_per_s * 1e3 * kReachableShare);
    const double latency_us = read_bytes / in_flight_bytes * kLatency_us;
    const double busy_sms = std::min(blocks, sm_count);
    const double sm_us = moved_bytes / (busy_sms * kSmBytesPerClock * device.clock_mhz * traffic.l1_share);
    const double accesses = moved_bytes / (traffic.access_bytes * 32);
    const double issue_us = accesses / busy_sms * kAccessClocks / device.clock_mhz;
    return (traffic.starts_early ? kEarlyLaunch_us : kLaunch_us) + std::max({memory_us, latency_us, sm_us}) +
           blocks / sm_count * kBlockStart_us + issue_us;
}

}  // namespace autotune::add
