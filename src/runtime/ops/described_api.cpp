#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "src/runtime/api/c_objects.h"
#include "src/runtime/ops/described_problem.h"

namespace autotune::runtime {
namespace {

// Reads a call's scalars in the form that a plan takes. Returns a sentence about the first that is missing or has another type,
// or nullopt if all are right.
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

// Why a call is invalid, as far as that is known before its plan, or "". `known` receives the struct in this library's version.
std::string read_call(const autotune_call* given, autotune_call& known) {
    if (given == nullptr) return "call is NULL";
    if (!copy_versioned(known, given))
        return "call.struct_size must be sizeof(autotune_call), here " + std::to_string(sizeof(known)) + " bytes";
    if (known.tensor_count > Plan::kMostTensors)
        return "call.tensor_count is " + std::to_string(known.tensor_count) + "; at most 16";
    if (known.scalar_count > Plan::kMostScalars)
        return "call.scalar_count is " + std::to_string(known.scalar_count) + "; at most 8";
    if (known.tensor_count != 0 && known.tensors == nullptr) return "call.tensors is NULL";
    if (known.scalar_count != 0 && known.scalars == nullptr) return "call.scalars is NULL";
    return "";
}

// Writes as much of a text as fits into the caller's buffer, and the size of the whole text.
void write_text(const std::string& whole, char* text, size_t* bytes) {
    const std::size_t room = text == nullptr ? 0 : *bytes;
    if (room > 0) {
        const std::size_t length = std::min(whole.size(), room - 1);
        std::memcpy(text, whole.data(), length);
        text[length] = '\0';
    }
    *bytes = whole.size() + 1;
}

std::span<const void* const> addresses_of(const autotune_call& call) {
    return {call.tensors, call.tensor_count};
}

}  // namespace
}  // namespace autotune::runtime

using autotune::runtime::addresses_of;
using autotune::runtime::Caught;
using autotune::runtime::describe_current_exception;
using autotune::runtime::DescribedPlanRequest;
using autotune::runtime::guarded;
using autotune::runtime::Handle;
using autotune::runtime::is_usable;
using autotune::runtime::LastError;
using autotune::runtime::launching;
using autotune::runtime::make_plan;
using autotune::runtime::Plan;
using autotune::runtime::read_call;
using autotune::runtime::read_scalars;
using autotune::runtime::refuse;
using autotune::runtime::refuse_call;
using autotune::runtime::ScalarBits;
using autotune::runtime::write_text;

extern "C" {

autotune_status autotune_supports(autotune_handle handle, const autotune_problem* problem) {
    return guarded(handle, [&](auto& inner) {
        inner.check_supported(DescribedPlanRequest(problem));
        return AUTOTUNE_OK;
    });
}

autotune_status autotune_problem_key(autotune_handle handle, const autotune_problem* problem, char* text, size_t* bytes) {
    if (bytes == nullptr) return refuse_call("bytes is NULL");
    const auto write_key = [&](const autotune::Catalogue& catalogue) {
        write_text(DescribedPlanRequest(problem).problem(catalogue).key(), text, bytes);
        return AUTOTUNE_OK;
    };
    if (handle != nullptr) return guarded(handle, [&](auto& inner) { return write_key(inner.catalogue()); });
    try {
        return write_key(autotune::Catalogue::embedded());
    } catch (...) {
        const Caught caught = describe_current_exception();
        return LastError::set_for_thread(caught.status, caught.message);
    }
}

autotune_status autotune_kernel_open(autotune_handle handle, const char* path, char* name, size_t* bytes) {
    if (path == nullptr) return refuse_call("path is NULL");
    if (bytes == nullptr) return refuse_call("bytes is NULL");
    return guarded(handle, [&](Handle& inner) {
        write_text(inner.open_kernel(path), name, bytes);
        return AUTOTUNE_OK;
    });
}

autotune_status autotune_kernel_interface(autotune_handle handle, const char* name, char* text, size_t* bytes) {
    if (name == nullptr) return refuse_call("name is NULL");
    if (bytes == nullptr) return refuse_call("bytes is NULL");
    return guarded(handle, [&](Handle& inner) {
        write_text(inner.kernels().interface_of(name), text, bytes);
        return AUTOTUNE_OK;
    });
}

autotune_status autotune_plan_create(autotune_handle handle, const autotune_problem* problem, autotune_plan* out) {
    return make_plan(handle, out, [&](Handle& inner) { return inner.plan(DescribedPlanRequest(problem)); });
}

autotune_status autotune_warm(autotune_handle handle, const autotune_problem* problem, size_t* kernels) {
    return guarded(handle, [&](auto& inner) {
        const std::size_t count = inner.warm(DescribedPlanRequest(problem));
        if (kernels != nullptr) *kernels = count;
        return AUTOTUNE_OK;
    });
}

autotune_status autotune_run(autotune_plan plan, const autotune_call* call, struct CUstream_st* stream) {
    if (!is_usable(plan)) return refuse_call(plan);
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
            if (const auto wrong = read_scalars(known, plan.scalars(), bits)) refuse(*wrong);
            return {addresses_of(known), std::span(bits).first(known.scalar_count)};
        };
        return inner.tuned(DescribedPlanRequest(problem, addresses_of(known)), Handle::MakeCall(make_call), stream);
    });
}

}  // extern "C"
