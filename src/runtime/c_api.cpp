#include <autotune/autotune.h>

#include <cstdlib>
#include <memory>
#include <string>
#include <utility>

#include "src/runtime/add_problem.h"
#include "src/runtime/fork.h"
#include "src/runtime/gemm_problem.h"
#include "src/runtime/handle.h"

using autotune::runtime::AddAsk;
using autotune::runtime::Ask;
using autotune::runtime::Caught;
using autotune::runtime::GemmAsk;
using autotune::runtime::LastError;
using autotune::runtime::Plan;

struct autotune_handle_s {
    explicit autotune_handle_s(autotune::runtime::Settings settings) : handle(std::move(settings)) {}
    autotune::runtime::Handle handle;
};

struct autotune_plan_s {
    std::shared_ptr<const Plan> plan;
};

namespace {

autotune_status refuse(const char* message) {
    return LastError::set_for_thread(AUTOTUNE_INVALID_ARGUMENT, message);
}

// Runs `work`, which returns a status or throws, for a handle of this process. No exception leaves it.
template <typename Work>
autotune_status guarded(autotune_handle handle, Work work) noexcept {
    if (handle == nullptr) return refuse("handle is NULL");
    if (handle->handle.is_foreign()) {
        // The parent's locks may be held for ever here: only this thread's own text is touched.
        return LastError::set_for_thread(AUTOTUNE_FORKED,
                                         "the handle was made in the parent process; CUDA does not survive a fork");
    }
    try {
        return work(handle->handle);
    } catch (...) {
        return autotune::runtime::fail_with_current_exception(handle->handle.errors());
    }
}

// Makes the plan of a problem that `AskOfOp` understands.
template <typename AskOfOp, typename ProblemOfOp>
autotune_status make_plan(autotune_handle handle, const ProblemOfOp* problem, autotune_plan* out) noexcept {
    if (out == nullptr) return refuse("out is NULL");
    *out = nullptr;
    return guarded(handle, [&](auto& inner) {
        const ProblemOfOp copy = autotune::runtime::read_problem(problem);
        *out = new autotune_plan_s{inner.plan(AskOfOp(copy))};
        return AUTOTUNE_OK;
    });
}

// The caller's struct itself where it is as large as ours, else a copy kept in `copy`.
template <typename ProblemOfOp>
const ProblemOfOp& as_known(const ProblemOfOp* problem, ProblemOfOp& copy) {
    if (problem != nullptr && problem->struct_size == sizeof(*problem)) return *problem;
    return copy = autotune::runtime::read_problem(problem);
}

}  // namespace

extern "C" {

const char* autotune_status_string(autotune_status status) {
    switch (status) {
        case AUTOTUNE_OK:
            return "success";
        case AUTOTUNE_INVALID_ARGUMENT:
            return "an argument is not valid";
        case AUTOTUNE_MISALIGNED:
            return "a pointer is less aligned than the plan needs";
        case AUTOTUNE_WORKSPACE_TOO_SMALL:
            return "the workspace is too small";
        case AUTOTUNE_NO_GPU:
            return "no usable GPU";
        case AUTOTUNE_NO_CONTEXT:
            return "no CUDA context is current";
        case AUTOTUNE_NO_KERNEL:
            return "no kernel can do this problem on this device";
        case AUTOTUNE_NOT_PLANNED:
            return "nothing is ready for this problem";
        case AUTOTUNE_COMPILE_FAILED:
            return "the kernel could not be compiled";
        case AUTOTUNE_OUT_OF_MEMORY:
            return "out of memory";
        case AUTOTUNE_DRIVER_ERROR:
            return "a CUDA driver call failed";
        case AUTOTUNE_FORKED:
            return "the object belongs to the parent process";
        case AUTOTUNE_INTERNAL_ERROR:
            return "internal error";
        case AUTOTUNE_OVERLAP:
            return "the output lies partly over an input";
    }
    return "unknown status";
}

const char* autotune_origin_string(autotune_origin origin) {
    switch (origin) {
        case AUTOTUNE_ORIGIN_EXACT:
            return "exact";
        case AUTOTUNE_ORIGIN_SHIPPED:
            return "shipped";
        case AUTOTUNE_ORIGIN_NEAR:
            return "near";
        case AUTOTUNE_ORIGIN_DEFAULT:
            return "default";
        case AUTOTUNE_ORIGIN_PINNED:
            return "pinned";
        case AUTOTUNE_ORIGIN_LOADED:
            return "loaded";
    }
    return "unknown origin";
}

int autotune_version(void) {
    return AUTOTUNE_VERSION;
}

const char* autotune_version_string(void) {
    static const std::string text = std::to_string(AUTOTUNE_VERSION_MAJOR) + "." + std::to_string(AUTOTUNE_VERSION_MINOR) + "." +
                                    std::to_string(AUTOTUNE_VERSION_PATCH);
    return text.c_str();
}

autotune_status autotune_create(autotune_handle* out, const autotune_options* options) {
    if (out == nullptr) return refuse("out is NULL");
    *out = nullptr;
    try {
        const auto environment = [](const char* name) -> const char* { return ::secure_getenv(name); };
        *out = new autotune_handle_s(autotune::runtime::settings_of(options, environment));
        return AUTOTUNE_OK;
    } catch (...) {
        const Caught caught = autotune::runtime::describe_current_exception();
        return LastError::set_for_thread(caught.status, caught.message);
    }
}

void autotune_destroy(autotune_handle handle) {
    // In a child what the parent made is left where it is: neither its driver objects nor its locks work here.
    if (handle == nullptr || handle->handle.is_foreign()) return;
    delete handle;
}

const char* autotune_last_error(autotune_handle handle) {
    if (handle == nullptr || handle->handle.is_foreign()) return LastError::text_for_thread();
    return handle->handle.errors().text();
}

autotune_status autotune_flush_misses(autotune_handle handle) {
    return guarded(handle, [](auto& inner) {
        inner.flush_misses();
        return AUTOTUNE_OK;
    });
}

autotune_status autotune_gemm_plan(autotune_handle handle, const autotune_gemm_problem* problem, autotune_plan* out) {
    return make_plan<GemmAsk>(handle, problem, out);
}

autotune_status autotune_add_plan(autotune_handle handle, const autotune_add_problem* problem, autotune_plan* out) {
    return make_plan<AddAsk>(handle, problem, out);
}

autotune_status autotune_plan_workspace(autotune_plan plan, size_t* bytes) {
    if (plan == nullptr || bytes == nullptr) return refuse(plan == nullptr ? "plan is NULL" : "bytes is NULL");
    *bytes = plan->plan->workspace_bytes();
    return AUTOTUNE_OK;
}

autotune_status autotune_plan_workspace_zero(autotune_plan plan, size_t* bytes) {
    if (plan == nullptr || bytes == nullptr) return refuse(plan == nullptr ? "plan is NULL" : "bytes is NULL");
    *bytes = plan->plan->workspace_zero_bytes();
    return AUTOTUNE_OK;
}

autotune_status autotune_plan_origin(autotune_plan plan, autotune_origin* origin) {
    if (plan == nullptr || origin == nullptr) return refuse(plan == nullptr ? "plan is NULL" : "origin is NULL");
    *origin = plan->plan->origin();
    return AUTOTUNE_OK;
}

const char* autotune_plan_candidate(autotune_plan plan) {
    return plan == nullptr ? "" : plan->plan->candidate().c_str();
}

void autotune_plan_destroy(autotune_plan plan) {
    if (plan == nullptr || plan->plan->is_foreign()) return;
    delete plan;
}

autotune_status autotune_gemm(autotune_plan plan, const void* alpha, const void* a, const void* b, const void* beta, void* c,
                              void* workspace, size_t workspace_bytes, struct CUstream_st* stream) {
    if (plan == nullptr) return refuse("plan is NULL");
    if (!plan->plan->is_of("gemm")) return plan->plan->refuse_op("autotune_gemm");
    return plan->plan->run(
        {{a, b, c}, {static_cast<const float*>(alpha), static_cast<const float*>(beta)}, workspace, workspace_bytes}, stream);
}

autotune_status autotune_tuned_gemm(autotune_handle handle, const autotune_gemm_problem* problem, const void* alpha,
                                    const void* a, const void* b, const void* beta, void* c, struct CUstream_st* stream) {
    return guarded(handle, [&](auto& inner) {
        if (alpha == nullptr || a == nullptr || b == nullptr || beta == nullptr || c == nullptr)
            return inner.errors().set(AUTOTUNE_INVALID_ARGUMENT, "alpha, a, b, beta and c must not be NULL");
        autotune_gemm_problem copy;
        const auto* scale = static_cast<const float*>(beta);
        const GemmAsk ask(as_known(problem, copy), {a, b, c}, *scale);
        return inner.tuned(ask, {{a, b, c}, {static_cast<const float*>(alpha), scale}}, stream);
    });
}

autotune_status autotune_add(autotune_plan plan, const void* a, const void* b, void* c, struct CUstream_st* stream) {
    if (plan == nullptr) return refuse("plan is NULL");
    if (!plan->plan->is_of("add")) return plan->plan->refuse_op("autotune_add");
    return plan->plan->run({{a, b, c}}, stream);
}

autotune_status autotune_tuned_add(autotune_handle handle, const autotune_add_problem* problem, const void* a, const void* b,
                                   void* c, struct CUstream_st* stream) {
    return guarded(handle, [&](auto& inner) {
        autotune_add_problem copy;
        const autotune_add_problem& known = as_known(problem, copy);
        if (known.length == 0) return AUTOTUNE_OK;  // not worth a kernel
        if (a == nullptr || b == nullptr || c == nullptr)
            return inner.errors().set(AUTOTUNE_INVALID_ARGUMENT, "a, b and c must not be NULL");
        return inner.tuned(AddAsk(known, {a, b, c}), {{a, b, c}}, stream);
    });
}

}  // extern "C"
