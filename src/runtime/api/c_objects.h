#pragma once

#include <autotune/autotune.h>
#include <cxxabi.h>

#include <atomic>
#include <bit>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "src/runtime/api/handle.h"
#include "src/runtime/api/status.h"
#include "src/runtime/api/versions.h"
#include "src/runtime/plan/general_kernel.h"
#include "src/runtime/plan/plan.h"
#include "src/runtime/process/late_destroy.h"
#include "src/runtime/process/no_cancel.h"

// Shared by the C functions of all ops: the objects behind a caller's pointers, and the conversion of exceptions to statuses.

// The object behind an autotune_handle. Its memory outlives the handle for a while, so that a second destroy or a late use is
// recognised.
struct autotune_handle_s {
    autotune_handle_s(autotune::runtime::Settings settings, const std::vector<autotune::runtime::GeneralKernel>& general)
        : inner(std::in_place, std::move(settings), general) {}
    std::optional<autotune::runtime::Handle> inner;  // until it is destroyed
    autotune_handle next = nullptr;                  // next in the list of handles that are kept to the end of the process
};

struct autotune_plan_s {
    std::shared_ptr<const autotune::runtime::Plan> plan;  // nullptr once it is destroyed
};

namespace autotune::runtime {

inline autotune_status refuse_call(const char* message) {
    return LastError::set_for_thread(AUTOTUNE_INVALID_ARGUMENT, message);
}

// Fails a call on a handle that cannot be used.
inline autotune_status refuse_call(autotune_handle handle) {
    return refuse_call(handle == nullptr ? "handle is NULL" : "the handle was destroyed before this call");
}
inline autotune_status refuse_call(autotune_plan plan) {
    return refuse_call(plan == nullptr ? "plan is NULL" : "the plan was destroyed before this call");
}

inline bool is_usable(autotune_handle handle) {
    return handle != nullptr && handle->inner.has_value();
}
inline bool is_usable(autotune_plan plan) {
    return plan != nullptr && plan->plan != nullptr;
}

// Runs `work`, which returns a status or throws, for a handle of this process. Never throws. If the log function ends the thread
// (pthread_exit), it unwinds through here.
template <typename Work>
autotune_status launching(autotune_handle handle, Work work) {
    if (!is_usable(handle)) return refuse_call(handle);
    Handle& inner = *handle->inner;
    if (inner.is_foreign()) {
        // The parent's locks may be held forever here, so only this thread's own text is touched.
        return LastError::set_for_thread(AUTOTUNE_FORKED,
                                         "the handle was made in the parent process; CUDA does not survive a fork");
    }
    autotune_status status = AUTOTUNE_INTERNAL_ERROR;
    try {
        status = work(inner);
    } catch (const abi::__forced_unwind&) {
        LateDestroy::settle();
        throw;
    } catch (...) {
        status = fail_with_current_exception(inner.errors());
    }
    LateDestroy::settle();
    return status;
}

// Runs work that does more than launch.
template <typename Work>
autotune_status guarded(autotune_handle handle, Work work) {
    const NoCancel no_cancel;
    return launching(handle, work);
}

// Makes a plan by `plan_of`, which takes the handle behind `handle`.
template <typename PlanOf>
autotune_status make_plan(autotune_handle handle, autotune_plan* out, PlanOf plan_of) {
    if (out == nullptr) return refuse_call("out is NULL");
    *out = nullptr;
    return guarded(handle, [&](Handle& inner) {
        *out = new autotune_plan_s{plan_of(inner)};
        return AUTOTUNE_OK;
    });
}

inline std::uint64_t float_bits(const void* number) {
    return std::bit_cast<std::uint32_t>(*static_cast<const float*>(number));
}

// Returns the caller's struct itself if it is as large as ours, else the copy that `read` makes in `copy`.
template <typename ProblemOfOp>
const ProblemOfOp& as_known(const ProblemOfOp* problem, ProblemOfOp& copy, ProblemOfOp (*read)(const ProblemOfOp*)) {
    if (problem != nullptr && problem->struct_size == sizeof(*problem)) return *problem;
    return copy = read(problem);
}

}  // namespace autotune::runtime
