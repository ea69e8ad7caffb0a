#include <array>

#include "src/runtime/api/c_objects.h"
#include "src/runtime/ops/gemm_problem.h"

using autotune::runtime::as_known;
using autotune::runtime::float_bits;
using autotune::runtime::GemmPlanRequest;
using autotune::runtime::guarded;
using autotune::runtime::Handle;
using autotune::runtime::is_usable;
using autotune::runtime::launching;
using autotune::runtime::make_plan;
using autotune::runtime::Plan;
using autotune::runtime::read_problem;
using autotune::runtime::refuse_call;

extern "C" {

autotune_status autotune_gemm_warm(autotune_handle handle, const autotune_gemm_problem* problem, size_t* kernels) {
    return guarded(handle, [&](auto& inner) {
        const autotune_gemm_problem copy = read_problem(problem);
        const std::size_t count = inner.warm(GemmPlanRequest(copy));
        if (kernels != nullptr) *kernels = count;
        return AUTOTUNE_OK;
    });
}

autotune_status autotune_gemm_plan(autotune_handle handle, const autotune_gemm_problem* problem, autotune_plan* out) {
    return make_plan(handle, out, [&](Handle& inner) {
        const autotune_gemm_problem copy = read_problem(problem);
        return inner.plan(GemmPlanRequest(copy));
    });
}

autotune_status autotune_gemm(autotune_plan plan, const void* alpha, const void* a, const void* b, const void* beta, void* c,
                              void* workspace, size_t workspace_bytes, struct CUstream_st* stream) {
    if (!is_usable(plan)) return refuse_call(plan);
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
        const autotune_gemm_problem& known = as_known(problem, copy, read_problem);
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

}  // extern "C"
