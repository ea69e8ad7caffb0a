#include "src/runtime/plan.h"

#include <algorithm>
#include <bit>

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

constexpr std::array<const char*, Plan::kMostOperands> kOperandNames = {"a", "b", "c"};

// A scalar that the problem's class fixes at zero: the attribute of its name says so.
bool is_zero(const Problem& problem, const std::string& scalar) {
    return std::any_of(problem.attributes.begin(), problem.attributes.end(), [&](const Attribute& attribute) {
        return attribute.name == scalar && attribute.value == AttributeValue("zero");
    });
}

// Two ranges of as many bytes that meet without being one.
bool overlap_partly(std::uintptr_t x, std::uintptr_t y, std::size_t bytes) {
    return x != y && (x - y < bytes || y - x < bytes);
}

}  // namespace

Plan::Plan(const Parts& parts)
    : driver_(parts.driver),
      errors_(parts.errors),
      launch_(parts.driver, parts.instance->library, parts.instance->symbol, parts.problem,
              parts.family.plan(parts.problem, parts.instance->candidate.config, parts.device)),
      form_(parts.form),
      operand_count_(parts.problem.tensors.size()),
      scalar_count_(parts.problem.scalars.size()),
      op_(parts.problem.op),
      origin_(parts.origin),
      candidate_(parts.instance->candidate.to_string()),
      fork_generation_(fork_generation()) {
    check(operand_count_ >= 1 && operand_count_ <= kMostOperands && scalar_count_ <= kMostScalars,
          "op " + op_ + " has more operands or scalars than a call passes");
    for (std::size_t i = 0; i < operand_count_; ++i)
        misaligned_bits_[form_.order[i]] = static_cast<std::uintptr_t>(parts.problem.tensors[i].alignment_bytes) - 1;
    for (std::size_t i = 0; i < scalar_count_; ++i) {
        scalar_names_[i] = parts.problem.scalars[i].name;
        must_be_zero_[i] = is_zero(parts.problem, scalar_names_[i]);
    }
    if (form_.may_be_in_place) in_place_bytes_ = static_cast<std::size_t>(parts.problem.tensors.back().span_bytes());
}

bool Plan::is_foreign() const noexcept {
    return fork_generation_ != fork_generation();
}

autotune_status Plan::refuse_op(const char* function) const noexcept {
    try {
        return fail(AUTOTUNE_INVALID_ARGUMENT, std::string(function) + "() was given a plan of op " + op_);
    } catch (...) {
        return AUTOTUNE_OUT_OF_MEMORY;
    }
}

bool Plan::lies_partly_over_an_input(const Call& call) const noexcept {
    const std::uintptr_t output = bits_of(call.operands[operand_count_ - 1]);
    for (std::size_t i = 0; i + 1 < operand_count_; ++i)
        if (overlap_partly(bits_of(call.operands[i]), output, in_place_bytes_)) return true;
    return false;
}

// Whether a call may be enqueued; refuse() says what is wrong with it.
bool Plan::is_fit(const Call& call) const noexcept {
    bool is_good = true;
    for (std::size_t i = 0; i < operand_count_; ++i) {
        const std::uintptr_t address = bits_of(call.operands[i]);
        is_good = is_good && address != 0 && (address & misaligned_bits_[i]) == 0;
    }
    for (std::size_t i = 0; i < scalar_count_; ++i)
        is_good = is_good && call.scalars[i] != nullptr && (!must_be_zero_[i] || *call.scalars[i] == 0);
    if (in_place_bytes_ != 0) is_good = is_good && !lies_partly_over_an_input(call);
    if (workspace_bytes() != 0) {
        is_good = is_good && call.workspace != nullptr && call.workspace_bytes >= workspace_bytes() &&
                  (bits_of(call.workspace) & kWorkspaceMisalignedBits) == 0;
    }
    return is_good;
}

// Which of the checks in is_fit() a call fails; cold, so it may build a sentence.
autotune_status Plan::refuse(const Call& call) const {
    for (std::size_t i = 0; i < scalar_count_; ++i)
        if (call.scalars[i] == nullptr) return fail(AUTOTUNE_INVALID_ARGUMENT, scalar_names_[i] + " is NULL");
    for (std::size_t i = 0; i < operand_count_; ++i)
        if (call.operands[i] == nullptr) return fail(AUTOTUNE_INVALID_ARGUMENT, std::string(kOperandNames[i]) + " is NULL");
    for (std::size_t i = 0; i < operand_count_; ++i) {
        const std::uintptr_t address = bits_of(call.operands[i]);
        if ((address & misaligned_bits_[i]) != 0)
            return fail(AUTOTUNE_MISALIGNED, misaligned(kOperandNames[i], address, misaligned_bits_[i]));
    }
    for (std::size_t i = 0; i < scalar_count_; ++i) {
        if (must_be_zero_[i] && *call.scalars[i] != 0)
            return fail(AUTOTUNE_INVALID_ARGUMENT, scalar_names_[i] + " is not 0, but the plan was made for a " +
                                                       scalar_names_[i] + " of zero and reads no " + kOperandNames.back());
    }
    if (in_place_bytes_ != 0 && lies_partly_over_an_input(call))
        return fail(AUTOTUNE_OVERLAP, std::string(kOperandNames[operand_count_ - 1]) +
                                          " lies partly over an input; it may be an input itself, or lie beside all of them");
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
        if (launch_.plan().steps.empty()) return AUTOTUNE_OK;  // nothing to compute, and addresses of nothing may be NULL
        if (!is_fit(call)) return refuse(call);

        std::array<gpu::DeviceAddress, kMostOperands> operands{};
        for (std::size_t i = 0; i < operand_count_; ++i) operands[i] = device_address(call.operands[form_.order[i]]);
        std::array<std::uint64_t, kMostScalars> scalars{};
        for (std::size_t i = 0; i < scalar_count_; ++i) scalars[i] = std::bit_cast<std::uint32_t>(*call.scalars[i]);
        const int code =
            launch_.enqueue({.tensors = operands, .scalars = scalars, .workspace = device_address(call.workspace)}, stream);
        if (code == 0) return AUTOTUNE_OK;
        gpu::throw_if_failed(*driver_, code, "cuLaunchKernelEx");
    } catch (...) {
        return fail_with_current_exception(*errors_);
    }
    return AUTOTUNE_OK;
}

}  // namespace autotune::runtime
