#include "tuner/session/engine/run_shared.h"

#include <algorithm>
#include <memory>
#include <utility>

namespace autotune::tuner {
namespace {

constexpr double kReferenceLimit_s = 5;

// A lower bound on the time of any kernel, from the device's peak rates.
double floor_us(const Op& op, const Problem& problem, const Device& device) {
    const double bytes_per_us = device.memory_gb_per_s * 1e3;
    const double memory_us = bytes_per_us > 0 ? op.bytes(problem) / bytes_per_us : 0;
    return std::max(multiply_us(op, problem, device), memory_us);
}

// Whether the naive reference is fast enough at this size. Both tests of the naive fp64 kernel ran at 8.5 TFLOP/s or more on an
// H200 (16384x16384x8192 in 1.03 s with fills, 2026-11-21): 32 per clock and SM. Cards with slow fp64 have a sixteenth of that.
bool affordable_reference(const Op& op, const Problem& problem, const Device& device, double limit_s) {
    const bool is_datacenter = device.identity.cc_minor == 0;
    const double per_second =
        (is_datacenter ? 32.0 : 2.0) * std::max(device.identity.sm_count, 1) * std::max(device.clock_mhz, 1000.0) * 1e6;
    return op.reference_flops(problem) / per_second <= limit_s;
}

}  // namespace

bool ends_all(ErrorCode code) {
    return code == ErrorCode::gpu_unhealthy || code == ErrorCode::no_gpu || code == ErrorCode::no_compiler ||
           code == ErrorCode::database || code == ErrorCode::gpu_in_use || code == ErrorCode::system;
}

double multiply_us(const Op& op, const Problem& problem, const Device& device) {
    const double flop_per_us = device.tensor_flop_per_clock_sm() * device.identity.sm_count * device.clock_mhz;
    return flop_per_us > 0 ? op.flops(problem) / flop_per_us : 0;
}

GpuWorkerSession::Options session_options(const Problem& problem, const TuneServices& services, double budget_s) {
    const Op& op = services.catalogue.op_of(problem);
    GpuWorkerSession::Options options;
    options.floor_us = floor_us(op, problem, services.device);
    const double limit_s = budget_s > 0 ? std::min(kReferenceLimit_s, budget_s / 2) : kReferenceLimit_s;
    options.affordable_reference = affordable_reference(op, problem, services.device, limit_s);
    return options;
}

Instance compile_now(RunShared& shared, const jit::Rendered& rendered) {
    if (const auto known = shared.instances.find(rendered.identity); known != shared.instances.end()) return known->second;
    // Shared, because it must outlive this function if the wait is interrupted.
    const auto outcome = std::make_shared<std::optional<CompileOutcome>>();
    shared.engine.pool().submit({rendered, 0, shared.engine.new_owner(), ""},
                                [outcome](const CompileOutcome& got) { *outcome = got; });
    shared.engine.wait_for([&] { return outcome->has_value(); });
    if ((*outcome)->compiled == nullptr) throw Error(ErrorCode::compile_failed, (*outcome)->failure);
    return shared.instances[rendered.identity] = (*outcome)->compiled;
}

void compile_ahead(RunShared& shared, jit::Rendered rendered) {
    if (shared.instances.contains(rendered.identity)) return;
    shared.engine.pool().submit({std::move(rendered), 2, shared.engine.new_owner(), ""}, [&shared](const CompileOutcome& got) {
        if (got.compiled != nullptr) shared.instances[got.compiled->identity] = got.compiled;
    });
}

Instance compile_judges(RunShared& shared, const Problem& problem) {
    const TuneServices& services = shared.engine.services();
    const jit::Target target = shared.engine.target();
    shared.host.set_harness(compile_now(shared, jit::render_harness(services.catalogue, target)));
    return compile_now(shared, jit::render_reference(services.catalogue, services.catalogue.op_of(problem), problem, target));
}

}  // namespace autotune::tuner
