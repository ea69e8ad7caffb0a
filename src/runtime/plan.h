#pragma once

#include <array>
#include <memory>
#include <string>

#include "src/jit/kernel.h"
#include "src/runtime/instances.h"
#include "src/runtime/status.h"

namespace autotune::runtime {

// A candidate bound to one problem in one context, ready to be enqueued. Immutable; shared by threads.
class Plan {
  public:
    // One call's addresses in the caller's order, with the numbers that scale them.
    struct Call {
        const void* a = nullptr;
        const void* b = nullptr;
        void* c = nullptr;
        const float* alpha = nullptr;
        const float* beta = nullptr;
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
        bool swaps_operands = false;
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

  private:
    autotune_status refuse(const Call& call) const;
    autotune_status fail(autotune_status status, const std::string& message) const { return errors_->set(status, message); }

    std::shared_ptr<const gpu::Driver> driver_;
    std::shared_ptr<LastError> errors_;
    jit::BoundLaunch launch_;
    std::array<std::uintptr_t, 3> misaligned_bits_{};  // of a, b, c in the caller's order
    bool swaps_operands_;
    bool beta_must_be_zero_;
    autotune_origin origin_;
    std::string candidate_;
    int fork_generation_;
};

}  // namespace autotune::runtime
