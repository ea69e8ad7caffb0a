#include <array>
#include <bit>
#include <span>

#include "src/runtime/api/c_objects.h"
#include "src/runtime/ops/attention_problem.h"
#include "src/runtime/ops/described_problem.h"

namespace autotune::runtime {
namespace {

autotune_status attention_plan(autotune_handle handle, const autotune_attention_problem* problem, autotune_plan* out,
                               bool is_backward) {
    return make_plan(handle, out, [&](Handle& inner) {
        const autotune_attention_problem copy = read_problem(problem);
        const DescribedAttention described(copy, is_backward);
        return inner.plan(DescribedPlanRequest(described.problem()));
    });
}

bool is_empty(const autotune_attention_problem& problem) {
    return problem.batch == 0 || problem.q_heads == 0 || problem.q_len == 0;
}

// Why the addresses of q, k, v, o and lse are invalid, or null. Addresses of empty tensors may be NULL.
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
    const DescribedAttention described(problem, is_backward);
    const std::uint64_t bits[1] = {std::bit_cast<std::uint32_t>(scale_of(problem, scale))};
    return inner.tuned(DescribedPlanRequest(described.problem(), tensors), Plan::Call{tensors, bits}, stream);
}

}  // namespace
}  // namespace autotune::runtime

using autotune::runtime::as_known;
using autotune::runtime::attention_plan;
using autotune::runtime::copy_versioned;
using autotune::runtime::is_empty;
using autotune::runtime::launching;
using autotune::runtime::tuned_attention;
using autotune::runtime::wrong_addresses;

extern "C" {

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
        const autotune_attention_problem& known = as_known(problem, copy, autotune::runtime::read_problem);
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
        const autotune_attention_problem& known = as_known(problem, copy, autotune::runtime::read_problem);
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
        const autotune_attention_problem& known = as_known(problem, copy, autotune::runtime::read_problem);
        autotune_attention_gradients given = {};
        if (call == nullptr || !copy_versioned(given, call))
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

}  // extern "C"
