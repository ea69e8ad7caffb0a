#include "src/runtime/plan.h"

#include "src/core/error.h"
#include "src/runtime/fork.h"

namespace autotune::runtime {
namespace {

// What cuMemAlloc gives, and what kernels may assume of their workspace.
constexpr std::uintptr_t kWorkspaceMisalignedBits = 255;

std::uintptr_t bits_of(const void* address) {
    return reinterpret_cast<std::uintptr_t>(address);
}

gpu::DeviceAddress device_address(const void* address) {
    return static_cast<gpu::DeviceAddress>(bits_of(address));
}

std::string hexadecimal(std::uintptr_t value) {
    constexpr const char* digits = "0123456789abcdef";
    std::string text;
    for (; value != 0; value >>= 4) text.insert(text.begin(), digits[value & 15]);
    return "0x" + (text.empty() ? "0" : text);
}

std::string misaligned(const char* name, std::uintptr_t address, std::uintptr_t bits) {
    return std::string(name) + " is at " + hexadecimal(address) + ", but this plan needs a multiple of " +
           std::to_string(bits + 1) + " bytes; make one with a smaller problem.align_" + name;
}

}  // namespace

Plan::Plan(const Parts& parts)
    : driver_(parts.driver),
      errors_(parts.errors),
      launch_(parts.driver, parts.instance->library, parts.instance->symbol, parts.problem,
              parts.family.plan(parts.problem, parts.instance->candidate.config, parts.device)),
      swaps_operands_(parts.swaps_operands),
      beta_must_be_zero_(parts.problem.trait("beta") == "zero"),
      origin_(parts.origin),
      candidate_(parts.instance->candidate.to_string()),
      fork_generation_(fork_generation()) {
    check(parts.problem.operands.size() == 3 && parts.problem.scalars.size() == 2, "a gemm has three operands and two scalars");
    for (std::size_t i = 0; i < misaligned_bits_.size(); ++i) {
        const std::size_t operand = swaps_operands_ && i < 2 ? 1 - i : i;
        misaligned_bits_[i] = static_cast<std::uintptr_t>(parts.problem.operands[operand].alignment_bytes) - 1;
    }
}

bool Plan::is_foreign() const noexcept {
    return fork_generation_ != fork_generation();
}

// Which of the checks in run() a call fails; cold, so it may build a sentence.
autotune_status Plan::refuse(const Call& call) const {
    const std::pair<const char*, const void*> pointers[] = {
        {"alpha", call.alpha}, {"beta", call.beta}, {"a", call.a}, {"b", call.b}, {"c", call.c}};
    for (const auto& [name, address] : pointers)
        if (address == nullptr) return fail(AUTOTUNE_INVALID_ARGUMENT, std::string(name) + " is NULL");
    const std::array<std::pair<const char*, const void*>, 3> operands = {{{"a", call.a}, {"b", call.b}, {"c", call.c}}};
    for (std::size_t i = 0; i < operands.size(); ++i) {
        const std::uintptr_t address = bits_of(operands[i].second);
        if ((address & misaligned_bits_[i]) != 0)
            return fail(AUTOTUNE_MISALIGNED, misaligned(operands[i].first, address, misaligned_bits_[i]));
    }
    if (beta_must_be_zero_ && *call.beta != 0)
        return fail(AUTOTUNE_INVALID_ARGUMENT, "beta is not 0, but the plan was made with AUTOTUNE_BETA_ZERO and reads no C");
    const std::string needed = std::to_string(workspace_bytes()) + " bytes (autotune_plan_workspace)";
    if (call.workspace == nullptr || call.workspace_bytes < workspace_bytes())
        return fail(AUTOTUNE_WORKSPACE_TOO_SMALL, "workspace has " +
                                                      std::to_string(call.workspace == nullptr ? 0 : call.workspace_bytes) +
                                                      " bytes, but this plan needs " + needed);
    return fail(AUTOTUNE_MISALIGNED,
                "workspace is at " + hexadecimal(bits_of(call.workspace)) + "; it must be a multiple of 256 bytes");
}

autotune_status Plan::run(const Call& call, gpu::StreamHandle stream) const noexcept {
    try {
        if (is_foreign()) return fail(AUTOTUNE_FORKED, "the plan was made in the parent process; CUDA does not survive a fork");
        const bool has_null =
            call.alpha == nullptr || call.beta == nullptr || call.a == nullptr || call.b == nullptr || call.c == nullptr;
        const std::uintptr_t off = (bits_of(call.a) & misaligned_bits_[0]) | (bits_of(call.b) & misaligned_bits_[1]) |
                                   (bits_of(call.c) & misaligned_bits_[2]);
        if (has_null || off != 0 || (beta_must_be_zero_ && *call.beta != 0)) return refuse(call);
        if (workspace_bytes() != 0 && (call.workspace == nullptr || call.workspace_bytes < workspace_bytes() ||
                                       (bits_of(call.workspace) & kWorkspaceMisalignedBits) != 0))
            return refuse(call);

        const std::array<gpu::DeviceAddress, 3> operands = {device_address(swaps_operands_ ? call.b : call.a),
                                                            device_address(swaps_operands_ ? call.a : call.b),
                                                            device_address(call.c)};
        const std::array<float, 2> scalars = {*call.alpha, *call.beta};
        const int code =
            launch_.enqueue({.operands = operands, .scalars = scalars, .workspace = device_address(call.workspace)}, stream);
        if (code == 0) return AUTOTUNE_OK;
        gpu::throw_if_failed(*driver_, code, "cuLaunchKernelEx");
    } catch (...) {
        const Caught caught = describe_current_exception();
        return errors_->set(caught.status, caught.message);
    }
    return AUTOTUNE_OK;
}

}  // namespace autotune::runtime
