#include <array>

#include "src/runtime/api/c_objects.h"
#include "src/runtime/ops/add_problem.h"

using autotune::runtime::AddPlanRequest;
using autotune::runtime::as_known;
using autotune::runtime::Handle;
using autotune::runtime::is_usable;
using autotune::runtime::launching;
using autotune::runtime::make_plan;
using autotune::runtime::Plan;
using autotune::runtime::read_problem;
using autotune::runtime::refuse_call;

extern "C" {

autotune_status autotune_add_plan(autotune_handle handle, const autotune_add_problem* problem, autotune_plan* out) {
    return make_plan(handle, out, [&](Handle& inner) {
        const autotune_add_problem copy = read_problem(problem);
        return inner.plan(AddPlanRequest(copy));
    });
}

autotune_status autotune_add(autotune_plan plan, const void* a, const void* b, void* c, struct CUstream_st* stream) {
    if (!is_usable(plan)) return refuse_call(plan);
    if (!plan->plan->is_of("add")) return plan->plan->refuse_op("autotune_add");
    const std::array<const void*, 3> tensors = {a, b, c};
    return plan->plan->run({tensors, {}}, stream);
}

autotune_status autotune_tuned_add(autotune_handle handle, const autotune_add_problem* problem, const void* a, const void* b,
                                   void* c, struct CUstream_st* stream) {
    return launching(handle, [&](auto& inner) {
        autotune_add_problem copy;
        const autotune_add_problem& known = as_known(problem, copy, read_problem);
        if (known.length == 0) return AUTOTUNE_OK;  // not worth a kernel
        if (a == nullptr || b == nullptr || c == nullptr)
            return inner.errors().set(AUTOTUNE_INVALID_ARGUMENT, "a, b and c must not be NULL");
        const std::array<const void*, 3> tensors = {a, b, c};
        return inner.tuned(AddPlanRequest(known, tensors), Plan::Call{tensors, {}}, stream);
    });
}

}  // extern "C"
