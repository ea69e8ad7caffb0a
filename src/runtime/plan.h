#pragma once

#include <array>
#include <memory>
#include <string>
#include <string_view>

#include "src/jit/kernel.h"
#include "src/runtime/ask.h"
#include "src/runtime/instances.h"
#include "src/runtime/status.h"

namespace autotune::runtime {

// A candidate bound to one problem in one context, ready to be enqueued. Immutable; shared by threads.
class Plan {
  public:
    static constexpr std::size_t kMostOperands = CallForm::kMostOperands;
    static constexpr std::size_t kMostScalars = 2;

    // One call's addresses, and the numbers that scale them, in the order of the op's function.
    struct Call {
        std::array<const void*, kMostOperands> operands{};
        std::array<const float*, kMostScalars> scalars{};
        void* workspace = nullptr;
        std::size_t workspace_bytes = 0;
    };
    struct Parts {
        std::shared_ptr<const gpu::Driver> driver;
        std::shared_ptr<const Instance> instance;
        const Family& family;
        const Problem& problem;
        const Device& device;
        std::uint64_t context_id = 0;
        autotune_origin origin = AUTOTUNE_ORIGIN_DEFAULT;
        CallForm form{};
        std::shared_ptr<LastError> errors;
    };

    // REQUIRES: the context is current. Throws DriverError.
    explicit Plan(const Parts& parts);

    // Checks the call and enqueues it. Nothing but the launch happens unless it fails.
    autotune_status run(const Call& call, gpu::StreamHandle stream) const noexcept;

    std::size_t workspace_bytes() const { return launch_.plan().workspace_bytes; }
    std::size_t workspace_zero_bytes() const { return launch_.plan().workspace_zero_bytes; }
    autotune_origin origin() const { return origin_; }
    const std::string& candidate() const { return candidate_; }
    bool is_foreign() const noexcept;  // made before a fork
    bool is_of(std::string_view op) const noexcept { return op_ == op; }
    // For a function that is given the plan of another op.
    autotune_status refuse_op(const char* function) const noexcept;

  private:
    bool is_fit(const Call& call) const noexcept;
    bool lies_partly_over_an_input(const Call& call) const noexcept;
    autotune_status refuse(const Call& call) const;
    autotune_status fail(autotune_status status, const std::string& message) const { return errors_->set(status, message); }

    std::shared_ptr<const gpu::Driver> driver_;
    std::shared_ptr<LastError> errors_;
    jit::BoundLaunch launch_;
    CallForm form_;
    // In the order of the call.
    std::array<std::uintptr_t, kMostOperands> misaligned_bits_{};
    std::array<std::string, kMostScalars> scalar_names_;
    std::array<bool, kMostScalars> must_be_zero_{};
    std::size_t operand_count_;
    std::size_t scalar_count_;
    std::size_t in_place_bytes_ = 0;  // of the output where it may be an input, else 0
    std::string op_;
    autotune_origin origin_;
    std::string candidate_;
    int fork_generation_;
};

}  // namespace autotune::runtime
