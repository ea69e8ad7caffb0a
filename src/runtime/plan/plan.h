#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "src/gpu/driver/ownership.h"
#include "src/jit/kernel.h"
#include "src/runtime/api/status.h"
#include "src/runtime/load/instances.h"
#include "src/runtime/plan/plan_request.h"

namespace autotune::runtime {

// A candidate bound to one problem in one context, ready to be enqueued. Immutable once threads share it. A plan may hold a
// second one for calls in which one of its scalars is zero; each call uses the one that fits its scalars.
class Plan {
  public:
    static constexpr std::size_t kMostTensors = CallForm::kMostTensors;
    static constexpr std::size_t kMostScalars = 8;
    static constexpr const char* kForeignStream =
        "the stream belongs to another CUDA context than the one that is current: to another device, or to a context that was "
        "made "
        "beside the device's primary one";

    // One call's addresses and scalars (Scalar::bits()), in the order of the op's function.
    struct Call {
        std::span<const void* const> tensors;
        std::span<const std::uint64_t> scalars;
        void* workspace = nullptr;
        std::size_t workspace_bytes = 0;
    };
    struct Parts {
        std::shared_ptr<const gpu::Driver> driver;
        std::shared_ptr<const Instance> instance;  // nullptr if nothing is launched
        const Family& family;
        const Problem& problem;
        const Device& device;
        std::uint64_t context_id = 0;
        autotune_origin origin = AUTOTUNE_ORIGIN_DEFAULT;
        double recorded_us = 0;  // the recorded time, if a stored winner of exactly this problem exists; otherwise 0
        double recorded_rival_us = 0;
        double regret = -1;  // the expected loss against the best known kernel; negative if unknown
        CallForm form{};
        std::shared_ptr<LastError> errors;
        std::shared_ptr<const Plan> when_zero;  // for the same problem with that scalar fixed at zero; may be nullptr
        std::size_t zero_scalar = 0;
        std::shared_ptr<gpu::Reach> reach = nullptr;  // if the process has several devices
    };

    // REQUIRES: the context of `context_id` is current. Throws DriverError.
    explicit Plan(const Parts& parts);

    // Every launch of this plan raises the counter; launches of when_zero() do not. REQUIRES: nobody else has the plan yet.
    void count_calls(std::shared_ptr<std::atomic<std::int64_t>> calls) { calls_ = std::move(calls); }

    // Checks the call and enqueues it. Unless it fails, it does nothing but launch.
    autotune_status run(const Call& call, gpu::StreamHandle stream) const noexcept;

    std::size_t workspace_bytes() const { return workspace_bytes_; }
    std::size_t workspace_zero_bytes() const { return workspace_zero_bytes_; }
    // Host memory that it keeps: when_zero() is included, the kernel's code is not.
    std::size_t bytes() const { return bytes_; }
    // The plan for calls in which a scalar is zero; nullptr if this one serves them too.
    const Plan* when_zero() const { return when_zero_.get(); }
    autotune_origin origin() const { return origin_; }
    const std::string& candidate() const { return candidate_; }
    bool is_deterministic() const { return launch_.plan().deterministic && (!when_zero_ || when_zero_->is_deterministic()); }
    double recorded_us() const { return recorded_us_; }
    double recorded_rival_us() const { return recorded_rival_us_; }
    double expected_regret() const { return regret_; }
    // Marks that another winner serves the problem by now. Calls of the plan do not look at this.
    void mark_outdated() const noexcept { is_outdated_.store(true, std::memory_order_relaxed); }
    bool is_outdated() const noexcept { return is_outdated_.load(std::memory_order_relaxed); }
    const Problem& problem() const { return problem_; }
    const Device& device() const { return device_; }
    // Whether the problem's sums are empty. Such problems have no winners.
    bool is_empty_sum() const;
    // Predicted by the family's cost model, now; 0: no prediction.
    double predicted_us() const;
    std::size_t tensor_count() const { return tensor_count_; }
    // The problem's scalars, in the order of the call: names and types.
    const std::vector<Scalar>& scalars() const { return problem_.scalars; }
    bool is_foreign() const noexcept;  // made before a fork
    bool is_of(std::string_view op) const noexcept { return op_ == op; }
    // Reports that the function was given the plan of another op.
    autotune_status refuse_op(const char* function) const noexcept;
    // Reports an invalid argument, explained in one sentence.
    autotune_status refuse_argument(const std::string& why) const noexcept;

  private:
    void find_pairs();
    void share_workspace();
    std::string in_place_rule() const;
    const Plan& plan_for(const Call& call) const noexcept;
    bool is_fit(const Call& call) const noexcept;
    struct Pair;
    const Pair* overlapping(const Call& call) const noexcept;
    autotune_status refuse(const Call& call) const;
    bool is_of_another_context() const;
    std::size_t kept_bytes() const;
    std::optional<std::string> out_of_reach(const Call& call) const;
    autotune_status refuse_launch(int code, gpu::StreamHandle stream) const;
    autotune_status fail(autotune_status status, const std::string& message) const { return errors_->set(status, message); }

    std::shared_ptr<const gpu::Driver> driver_;
    std::shared_ptr<LastError> errors_;
    jit::BoundLaunch launch_;
    CallForm form_;
    const Family& family_;
    Problem problem_;
    Device device_;
    Config config_;
    // by tensor, in the order of the call
    std::array<std::uintptr_t, kMostTensors> misaligned_bits_{};
    std::array<bool, kMostTensors> may_be_null_{};
    std::array<std::string, kMostTensors> tensor_names_;
    std::array<bool, kMostScalars> must_be_zero_{};
    std::size_t tensor_count_;
    std::size_t scalar_count_;
    std::size_t output_ = 0;  // the first tensor that is written, in the order of the call
    // An output and another tensor, as positions in the call and in the problem.
    struct Pair {
        std::uint8_t output, other, output_in_problem, other_in_problem;
        bool may_be_same;
    };
    std::vector<Pair> pairs_;
    std::vector<Footprint> footprints_;  // by tensor, in the order of the problem
    std::string op_;
    autotune_origin origin_;
    double recorded_us_, recorded_rival_us_, regret_;
    std::string candidate_;
    std::shared_ptr<const Plan> when_zero_;
    mutable std::atomic<bool> is_outdated_{false};
    std::shared_ptr<std::atomic<std::int64_t>> calls_;  // counts launches, if the plan was noted as a miss; otherwise nullptr
    std::size_t zero_scalar_;
    std::size_t workspace_bytes_ = 0, workspace_zero_bytes_ = 0;
    // Offsets of the two plans' workspaces in the one that a call passes: both have their counters end at one address.
    std::size_t own_offset_ = 0, zero_offset_ = 0;
    std::uint64_t context_id_;
    std::shared_ptr<gpu::Reach> reach_;
    std::size_t bytes_ = 0;
    int fork_generation_;
};

}  // namespace autotune::runtime
