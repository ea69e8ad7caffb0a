#include <autotune/autotune.h>
#include <cxxabi.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "src/runtime/add_problem.h"
#include "src/runtime/attention_problem.h"
#include "src/runtime/described_problem.h"
#include "src/runtime/fork.h"
#include "src/runtime/gemm_problem.h"
#include "src/runtime/handle.h"
#include "src/runtime/late_destroy.h"
#include "src/runtime/no_cancel.h"
#include "src/runtime/process_end.h"
#include "src/runtime/versions.h"

using autotune::runtime::AddPlanRequest;
using autotune::runtime::Caught;
using autotune::runtime::DescribedPlanRequest;
using autotune::runtime::GemmPlanRequest;
using autotune::runtime::Handle;
using autotune::runtime::LastError;
using autotune::runtime::LateDestroy;
using autotune::runtime::NoCancel;
using autotune::runtime::Plan;
namespace process_end = autotune::runtime::process_end;

// What a caller holds. Its memory outlives what it stands for a while: a second destroy and a late use are told from a first.
struct autotune_handle_s {
    explicit autotune_handle_s(autotune::runtime::Settings settings)
        : inner(std::in_place, std::move(settings), autotune::runtime::general_gemms()) {}
    std::optional<autotune::runtime::Handle> inner;  // until it is destroyed
    autotune_handle next = nullptr;                  // of those that stay to the end of the process
};

struct autotune_plan_s {
    std::shared_ptr<const Plan> plan;  // nullptr once it is destroyed
};

namespace {

autotune_status refuse(const char* message) {
    return LastError::set_for_thread(AUTOTUNE_INVALID_ARGUMENT, message);
}

// For what cannot be used.
autotune_status refuse(autotune_handle handle) {
    return refuse(handle == nullptr ? "handle is NULL" : "the handle was destroyed before this call");
}
autotune_status refuse(autotune_plan plan) {
    return refuse(plan == nullptr ? "plan is NULL" : "the plan was destroyed before this call");
}

bool is_usable(autotune_handle handle) {
    return handle != nullptr && handle->inner.has_value();
}
bool is_usable(autotune_plan plan) {
    return plan != nullptr && plan->plan != nullptr;
}

// The memory of the last that were destroyed.
template <typename Object, std::size_t count>
class Destroyed {
  public:
    void add(Object* object) {
        delete last_[next_.fetch_add(1, std::memory_order_relaxed) % count].exchange(object, std::memory_order_acq_rel);
    }

  private:
    std::atomic<std::size_t> next_{0};
    std::array<std::atomic<Object*>, count> last_{};
};
constinit Destroyed<autotune_handle_s, 16> destroyed_handles;
constinit Destroyed<autotune_plan_s, 1024> destroyed_plans;

// Runs `work`, which returns a status or throws, for a handle of this process. No exception leaves it.
// A thread that the log function ends (pthread_exit) unwinds through it.
template <typename Work>
autotune_status launching(autotune_handle handle, Work work) {
    if (!is_usable(handle)) return refuse(handle);
    Handle& inner = *handle->inner;
    if (inner.is_foreign()) {
        // The parent's locks may be held for ever here: only this thread's own text is touched.
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
        status = autotune::runtime::fail_with_current_exception(inner.errors());
    }
    LateDestroy::settle();
    return status;
}

// The same for work that does more than to launch.
template <typename Work>
autotune_status guarded(autotune_handle handle, Work work) {
    const NoCancel no_cancel;
    return launching(handle, work);
}

// Makes the plan of a problem that `RequestOfOp` understands.
template <typename RequestOfOp, typename ProblemOfOp>
autotune_status make_plan(autotune_handle handle, const ProblemOfOp* problem, autotune_plan* out) {
    if (out == nullptr) return refuse("out is NULL");
    *out = nullptr;
    return guarded(handle, [&](auto& inner) {
        const ProblemOfOp copy = autotune::runtime::read_problem(problem);
        *out = new autotune_plan_s{inner.plan(RequestOfOp(copy))};
        return AUTOTUNE_OK;
    });
}

std::uint64_t float_bits(const void* number) {
    return std::bit_cast<std::uint32_t>(*static_cast<const float*>(number));
}

// A call's scalars as a plan takes them. A sentence for the first that is missing or of another type; nullopt if all are right.
using ScalarBits = std::array<std::uint64_t, Plan::kMostScalars>;
std::optional<std::string> read_scalars(const autotune_call& call, const std::vector<autotune::Scalar>& wanted,
                                        ScalarBits& bits) {
    for (std::size_t i = 0; i < wanted.size() && i < call.scalar_count; ++i) {
        const autotune_scalar& given = call.scalars[i];
        if (static_cast<std::size_t>(given.type) != wanted[i].value.index())
            return "scalar " + wanted[i].name + " has another type than the op's";
        bits[i] = given.type == AUTOTUNE_SCALAR_U64   ? given.value.u64
                  : given.type == AUTOTUNE_SCALAR_I32 ? static_cast<std::uint32_t>(given.value.i32)
                                                      : std::bit_cast<std::uint32_t>(given.value.f32);
    }
    return std::nullopt;
}

// What is wrong with a call before its plan is known; empty if nothing is. `known` is the struct as this library knows it.
std::string read_call(const autotune_call* given, autotune_call& known) {
    if (given == nullptr) return "call is NULL";
    if (!autotune::runtime::copy_versioned(known, given))
        return "call.struct_size must be sizeof(autotune_call), here " + std::to_string(sizeof(known)) + " bytes";
    if (known.tensor_count > Plan::kMostTensors)
        return "call.tensor_count is " + std::to_string(known.tensor_count) + "; at most 16";
    if (known.scalar_count > Plan::kMostScalars)
        return "call.scalar_count is " + std::to_string(known.scalar_count) + "; at most 8";
    if (known.tensor_count != 0 && known.tensors == nullptr) return "call.tensors is NULL";
    if (known.scalar_count != 0 && known.scalars == nullptr) return "call.scalars is NULL";
    return "";
}

std::span<const void* const> addresses_of(const autotune_call& call) {
    return {call.tensors, call.tensor_count};
}

// The caller's struct itself where it is as large as ours, else a copy kept in `copy`.
template <typename ProblemOfOp>
const ProblemOfOp& as_known(const ProblemOfOp* problem, ProblemOfOp& copy) {
    if (problem != nullptr && problem->struct_size == sizeof(*problem)) return *problem;
    return copy = autotune::runtime::read_problem(problem);
}

autotune_status attention_plan(autotune_handle handle, const autotune_attention_problem* problem, autotune_plan* out,
                               bool is_backward) {
    if (out == nullptr) return refuse("out is NULL");
    *out = nullptr;
    return guarded(handle, [&](auto& inner) {
        const autotune_attention_problem copy = autotune::runtime::read_problem(problem);
        const autotune::runtime::DescribedAttention described(copy, is_backward);
        *out = new autotune_plan_s{inner.plan(DescribedPlanRequest(described.problem()))};
        return AUTOTUNE_OK;
    });
}

bool is_empty(const autotune_attention_problem& problem) {
    return problem.batch == 0 || problem.q_heads == 0 || problem.q_len == 0;
}

// What is wrong with the addresses of q, k, v, o and lse; null if nothing is. Those of empty tensors may be NULL.
const char* wrong_addresses(const autotune_attention_problem& problem, std::span<const void* const> tensors) {
    for (const void* address : tensors.first(4))
        if (address == nullptr && !is_empty(problem)) return "q, k, v and o must not be NULL";
    if (tensors[4] != nullptr ? problem.has_lse == 0 : problem.has_lse != 0 && !is_empty(problem))
        return "lse must be an address where has_lse is 1, and NULL where it is 0";
    return nullptr;
}

// `tensors`: addresses in the op's order.
template <typename Inner>
autotune_status tuned_attention(Inner& inner, const autotune_attention_problem& problem, float scale,
                                std::span<const void* const> tensors, struct CUstream_st* stream) {
    constexpr std::size_t kOfGradients = 9;
    const bool is_backward = tensors.size() == kOfGradients;
    const autotune::runtime::DescribedAttention described(problem, is_backward);
    const std::uint64_t bits[1] = {std::bit_cast<std::uint32_t>(autotune::runtime::scale_of(problem, scale))};
    return inner.tuned(DescribedPlanRequest(described.problem(), tensors), Plan::Call{tensors, bits}, stream);
}

// Handles that were destroyed after exit() had begun stay: other threads may be using them, and their locks and threads.
void keep(autotune_handle handle) {
    static constinit std::atomic<autotune_handle> kept{nullptr};
    handle->next = kept.load();
    while (!kept.compare_exchange_weak(handle->next, handle)) {
    }
}

void destroy(autotune_handle handle) {
    if (!is_usable(handle)) return;  // the log function did so twice
    try {
        const process_end::Section section;
        handle->inner->flush_misses();  // not by the destructor: the log function may end the thread
        while (handle->inner->is_warming()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
        if (!process_end::has_begun()) {
            handle->inner.reset();
            return destroyed_handles.add(handle);
        }
    } catch (const abi::__forced_unwind&) {
        throw;
    } catch (...) {
        // There is no memory for the misses, or the process is ending.
        if (!process_end::has_begun()) {
            handle->inner.reset();
            return destroyed_handles.add(handle);
        }
    }
    keep(handle);
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
            return "an output overlaps another array";
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
#define AUTOTUNE_TEXT_OF(number) #number
#define AUTOTUNE_DOTTED(major, minor, patch) AUTOTUNE_TEXT_OF(major) "." AUTOTUNE_TEXT_OF(minor) "." AUTOTUNE_TEXT_OF(patch)
    return AUTOTUNE_DOTTED(AUTOTUNE_VERSION_MAJOR, AUTOTUNE_VERSION_MINOR, AUTOTUNE_VERSION_PATCH);
#undef AUTOTUNE_DOTTED
#undef AUTOTUNE_TEXT_OF
}

autotune_status autotune_create(autotune_handle* out, const autotune_options* options) {
    if (out == nullptr) return refuse("out is NULL");
    *out = nullptr;
    const NoCancel no_cancel;
    try {
        const process_end::Section section;
        const auto environment = [](const char* name) -> const char* { return ::secure_getenv(name); };
        *out = new autotune_handle_s(autotune::runtime::settings_of(options, environment));
        return AUTOTUNE_OK;
    } catch (const abi::__forced_unwind&) {
        throw;
    } catch (...) {
        const Caught caught = autotune::runtime::describe_current_exception();
        return LastError::set_for_thread(caught.status, caught.message);
    }
}

void autotune_destroy(autotune_handle handle) {
    // In a child what the parent made is left where it is: neither its driver objects nor its locks work here.
    if (!is_usable(handle)) {
        if (handle != nullptr) refuse(handle);
        return;
    }
    if (handle->inner->is_foreign()) return;
    const NoCancel no_cancel;
    if (!handle->inner->is_speaking()) return destroy(handle);
    handle->inner->silence();
    try {
        LateDestroy::ask([handle] { destroy(handle); });
    } catch (...) {  // no memory for it: the handle stays
        LastError::set_for_thread(AUTOTUNE_OUT_OF_MEMORY, "out of memory");
    }
}

const char* autotune_last_error(autotune_handle handle) {
    if (!is_usable(handle) || handle->inner->is_foreign()) return LastError::text_for_thread();
    return handle->inner->errors().text();
}

autotune_status autotune_flush_misses(autotune_handle handle) {
    return guarded(handle, [](auto& inner) {
        inner.flush_misses();
        return AUTOTUNE_OK;
    });
}

autotune_status autotune_refresh(autotune_handle handle) {
    return guarded(handle, [](auto& inner) {
        inner.refresh();
        return AUTOTUNE_OK;
    });
}

autotune_status autotune_finish(autotune_handle handle) {
    return guarded(handle, [](auto& inner) {
        inner.finish_background();
        return AUTOTUNE_OK;
    });
}

autotune_status autotune_gemm_warm(autotune_handle handle, const autotune_gemm_problem* problem, size_t* kernels) {
    return guarded(handle, [&](auto& inner) {
        const autotune_gemm_problem copy = autotune::runtime::read_problem(problem);
        const std::size_t count = inner.warm(GemmPlanRequest(copy));
        if (kernels != nullptr) *kernels = count;
        return AUTOTUNE_OK;
    });
}

autotune_status autotune_warm(autotune_handle handle, const autotune_problem* problem, size_t* kernels) {
    return guarded(handle, [&](auto& inner) {
        const std::size_t count = inner.warm(DescribedPlanRequest(problem));
        if (kernels != nullptr) *kernels = count;
        return AUTOTUNE_OK;
    });
}

autotune_status autotune_gemm_plan(autotune_handle handle, const autotune_gemm_problem* problem, autotune_plan* out) {
    return make_plan<GemmPlanRequest>(handle, problem, out);
}

autotune_status autotune_add_plan(autotune_handle handle, const autotune_add_problem* problem, autotune_plan* out) {
    return make_plan<AddPlanRequest>(handle, problem, out);
}

autotune_status autotune_plan_workspace(autotune_plan plan, size_t* bytes) {
    if (!is_usable(plan)) return refuse(plan);
    if (bytes == nullptr) return refuse("bytes is NULL");
    *bytes = plan->plan->workspace_bytes();
    return AUTOTUNE_OK;
}

autotune_status autotune_plan_workspace_zero(autotune_plan plan, size_t* bytes) {
    if (!is_usable(plan)) return refuse(plan);
    if (bytes == nullptr) return refuse("bytes is NULL");
    *bytes = plan->plan->workspace_zero_bytes();
    return AUTOTUNE_OK;
}

autotune_status autotune_plan_origin(autotune_plan plan, autotune_origin* origin) {
    if (!is_usable(plan)) return refuse(plan);
    if (origin == nullptr) return refuse("origin is NULL");
    *origin = plan->plan->origin();
    return AUTOTUNE_OK;
}

const char* autotune_plan_candidate(autotune_plan plan) {
    return is_usable(plan) ? plan->plan->candidate().c_str() : "";
}

void autotune_plan_destroy(autotune_plan plan) {
    if (!is_usable(plan)) {
        if (plan != nullptr) refuse(plan);
        return;
    }
    if (plan->plan->is_foreign()) return;
    plan->plan.reset();
    destroyed_plans.add(plan);
}

autotune_status autotune_gemm(autotune_plan plan, const void* alpha, const void* a, const void* b, const void* beta, void* c,
                              void* workspace, size_t workspace_bytes, struct CUstream_st* stream) {
    if (!is_usable(plan)) return refuse(plan);
    if (!plan->plan->is_of("gemm")) return plan->plan->refuse_op("autotune_gemm");
    if (alpha == nullptr || beta == nullptr)
        return plan->plan->refuse_argument(alpha == nullptr ? "alpha is NULL" : "beta is NULL");
    const std::array<const void*, 3> tensors = {a, b, c};
    const std::array<std::uint64_t, 2> scalars = {float_bits(alpha), float_bits(beta)};
    return plan->plan->run({tensors, scalars, workspace, workspace_bytes}, stream);
}

autotune_status autotune_tuned_gemm(autotune_handle handle, const autotune_gemm_problem* problem, const void* alpha,
                                    const void* a, const void* b, const void* beta, void* c, struct CUstream_st* stream) {
    return launching(handle, [&](auto& inner) {
        autotune_gemm_problem copy;
        const autotune_gemm_problem& known = as_known(problem, copy);
        const bool needs_c = known.m != 0 && known.n != 0, needs_operands = needs_c && known.k != 0;
        if (alpha == nullptr || beta == nullptr || (c == nullptr && needs_c) ||
            (needs_operands && (a == nullptr || b == nullptr)))
            return inner.errors().set(AUTOTUNE_INVALID_ARGUMENT, "alpha, a, b, beta and c must not be NULL");
        const std::array<const void*, 3> tensors = {a, b, c};
        const std::array<std::uint64_t, 2> scalars = {float_bits(alpha), float_bits(beta)};
        const GemmPlanRequest request(known, tensors, *static_cast<const float*>(beta));
        return inner.tuned(request, Plan::Call{tensors, scalars}, stream);
    });
}

autotune_status autotune_add(autotune_plan plan, const void* a, const void* b, void* c, struct CUstream_st* stream) {
    if (!is_usable(plan)) return refuse(plan);
    if (!plan->plan->is_of("add")) return plan->plan->refuse_op("autotune_add");
    const std::array<const void*, 3> tensors = {a, b, c};
    return plan->plan->run({tensors, {}}, stream);
}

autotune_status autotune_tuned_add(autotune_handle handle, const autotune_add_problem* problem, const void* a, const void* b,
                                   void* c, struct CUstream_st* stream) {
    return launching(handle, [&](auto& inner) {
        autotune_add_problem copy;
        const autotune_add_problem& known = as_known(problem, copy);
        if (known.length == 0) return AUTOTUNE_OK;  // not worth a kernel
        if (a == nullptr || b == nullptr || c == nullptr)
            return inner.errors().set(AUTOTUNE_INVALID_ARGUMENT, "a, b and c must not be NULL");
        const std::array<const void*, 3> tensors = {a, b, c};
        return inner.tuned(AddPlanRequest(known, tensors), Plan::Call{tensors, {}}, stream);
    });
}

autotune_status autotune_attention_plan(autotune_handle handle, const autotune_attention_problem* problem, autotune_plan* out) {
    return attention_plan(handle, problem, out, false);
}

autotune_status autotune_attention_bwd_plan(autotune_handle handle, const autotune_attention_problem* problem,
                                            autotune_plan* out) {
    return attention_plan(handle, problem, out, true);
}

autotune_status autotune_tuned_attention(autotune_handle handle, const autotune_attention_problem* problem, float scale,
                                         const void* q, const void* k, const void* v, void* o, float* lse,
                                         struct CUstream_st* stream) {
    return launching(handle, [&](auto& inner) {
        autotune_attention_problem copy;
        const autotune_attention_problem& known = as_known(problem, copy);
        const std::array<const void*, 5> tensors = {q, k, v, o, lse};
        if (known.total_q != 0 || known.total_kv != 0)
            return inner.errors().set(
                AUTOTUNE_INVALID_ARGUMENT,
                "total_q says that sequences are packed; autotune_tuned_attention_packed() takes their offsets");
        if (const char* const wrong = wrong_addresses(known, tensors))
            return inner.errors().set(AUTOTUNE_INVALID_ARGUMENT, wrong);
        return tuned_attention(inner, known, scale, tensors, stream);
    });
}

autotune_status autotune_tuned_attention_packed(autotune_handle handle, const autotune_attention_problem* problem, float scale,
                                                const void* q, const void* k, const void* v, void* o, float* lse,
                                                const int32_t* q_offsets, const int32_t* kv_offsets, struct CUstream_st* stream) {
    return launching(handle, [&](auto& inner) {
        autotune_attention_problem copy;
        const autotune_attention_problem& known = as_known(problem, copy);
        const std::array<const void*, 7> tensors = {q, k, v, o, lse, q_offsets, kv_offsets};
        if (known.total_q == 0)
            return inner.errors().set(AUTOTUNE_INVALID_ARGUMENT, "total_q is 0: the problem has no packed sequences");
        if (q_offsets == nullptr || kv_offsets == nullptr)
            return inner.errors().set(AUTOTUNE_INVALID_ARGUMENT, "q_offsets and kv_offsets must not be NULL");
        if (const char* const wrong = wrong_addresses(known, tensors))
            return inner.errors().set(AUTOTUNE_INVALID_ARGUMENT, wrong);
        return tuned_attention(inner, known, scale, tensors, stream);
    });
}

autotune_status autotune_tuned_attention_bwd(autotune_handle handle, const autotune_attention_problem* problem, float scale,
                                             const autotune_attention_gradients* call, struct CUstream_st* stream) {
    return launching(handle, [&](auto& inner) {
        autotune_attention_problem copy;
        const autotune_attention_problem& known = as_known(problem, copy);
        autotune_attention_gradients given = {};
        if (call == nullptr || !autotune::runtime::copy_versioned(given, call))
            return inner.errors().set(AUTOTUNE_INVALID_ARGUMENT,
                                      "call must have struct_size sizeof(autotune_attention_gradients)");
        const std::array<const void*, 9> tensors = {given.q,   given.k,   given.v,   given.o,  given.lse,
                                                    given.d_o, given.d_q, given.d_k, given.d_v};
        for (const void* address : tensors)
            if (address == nullptr && !is_empty(known))
                return inner.errors().set(AUTOTUNE_INVALID_ARGUMENT, "no address of the gradients' call may be NULL");
        return tuned_attention(inner, known, scale, tensors, stream);
    });
}

autotune_status autotune_supports(autotune_handle handle, const autotune_problem* problem) {
    return guarded(handle, [&](auto& inner) {
        inner.check_supported(DescribedPlanRequest(problem));
        return AUTOTUNE_OK;
    });
}

autotune_status autotune_problem_key(autotune_handle handle, const autotune_problem* problem, char* text, size_t* bytes) {
    if (bytes == nullptr) return refuse("bytes is NULL");
    const auto write_key = [&](const autotune::Catalogue& catalogue) {
        const std::string key = DescribedPlanRequest(problem).problem(catalogue).key();
        const std::size_t room = text == nullptr ? 0 : *bytes;
        if (room > 0) {
            const std::size_t length = std::min(key.size(), room - 1);
            std::memcpy(text, key.data(), length);
            text[length] = '\0';
        }
        *bytes = key.size() + 1;
        return AUTOTUNE_OK;
    };
    if (handle != nullptr) return guarded(handle, [&](auto& inner) { return write_key(inner.catalogue()); });
    try {
        return write_key(autotune::Catalogue::embedded());
    } catch (...) {
        const Caught caught = autotune::runtime::describe_current_exception();
        return LastError::set_for_thread(caught.status, caught.message);
    }
}

autotune_status autotune_plan_create(autotune_handle handle, const autotune_problem* problem, autotune_plan* out) {
    if (out == nullptr) return refuse("out is NULL");
    *out = nullptr;
    return guarded(handle, [&](auto& inner) {
        *out = new autotune_plan_s{inner.plan(DescribedPlanRequest(problem))};
        return AUTOTUNE_OK;
    });
}

autotune_status autotune_plan_info(autotune_plan plan, autotune_plan_facts* facts) {
    if (!is_usable(plan)) return refuse(plan);
    if (facts == nullptr) return refuse("facts is NULL");
    autotune_plan_facts known = {};
    if (!autotune::runtime::is_version_size<autotune_plan_facts>(facts->struct_size))
        return refuse("facts.struct_size must be sizeof(autotune_plan_facts)");
    try {
        const Plan& inner = *plan->plan;
        known = {.struct_size = facts->struct_size,
                 .origin = inner.origin(),
                 .deterministic = inner.is_deterministic() ? 1 : 0,
                 .candidate = inner.candidate().c_str(),
                 .predicted_us = inner.predicted_us(),
                 .recorded_us = inner.recorded_us(),
                 .workspace_bytes = inner.workspace_bytes(),
                 .workspace_zero_bytes = inner.workspace_zero_bytes(),
                 .recorded_rival_us = inner.recorded_rival_us(),
                 .candidate_when_zero = inner.when_zero() != nullptr ? inner.when_zero()->candidate().c_str() : "",
                 .origin_when_zero = inner.when_zero() != nullptr ? inner.when_zero()->origin() : inner.origin(),
                 .expected_regret = inner.expected_regret()};
    } catch (...) {
        return LastError::set_for_thread(AUTOTUNE_OUT_OF_MEMORY, "no memory for a prediction");
    }
    autotune::runtime::fill_versioned(facts, known);
    return AUTOTUNE_OK;
}

autotune_status autotune_run(autotune_plan plan, const autotune_call* call, struct CUstream_st* stream) {
    if (!is_usable(plan)) return refuse(plan);
    const Plan& inner = *plan->plan;
    autotune_call known = {};
    try {
        if (const std::string wrong = read_call(call, known); !wrong.empty()) return inner.refuse_argument(wrong);
        ScalarBits bits{};
        if (const auto wrong = read_scalars(known, inner.scalars(), bits)) return inner.refuse_argument(*wrong);
        return inner.run({addresses_of(known), std::span(bits).first(known.scalar_count), known.workspace, known.workspace_bytes},
                         stream);
    } catch (...) {
        return LastError::set_for_thread(AUTOTUNE_OUT_OF_MEMORY, "no memory for a message");
    }
}

autotune_status autotune_tuned(autotune_handle handle, const autotune_problem* problem, const autotune_call* call,
                               struct CUstream_st* stream) {
    return launching(handle, [&](auto& inner) {
        autotune_call known = {};
        if (const std::string wrong = read_call(call, known); !wrong.empty())
            return inner.errors().set(AUTOTUNE_INVALID_ARGUMENT, wrong);
        ScalarBits bits{};
        const auto make_call = [&](const Plan& plan) -> Plan::Call {
            if (const auto wrong = read_scalars(known, plan.scalars(), bits)) autotune::runtime::refuse(*wrong);
            return {addresses_of(known), std::span(bits).first(known.scalar_count)};
        };
        return inner.tuned(DescribedPlanRequest(problem, addresses_of(known)), Handle::MakeCall(make_call), stream);
    });
}

}  // extern "C"
