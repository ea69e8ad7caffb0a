#include <autotune/autotune.h>
#include <cxxabi.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>

#include "src/catalogue/hash.h"
#include "src/runtime/api/c_objects.h"
#include "src/runtime/api/settings.h"
#include "src/runtime/ops/general_kernels.h"
#include "src/runtime/process/process_end.h"

namespace autotune::runtime {
namespace {

// Holds the memory of the objects that were destroyed last.
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

// Keeps handles that were destroyed after exit() had begun: other threads may still use them, their locks and their threads.
void keep(autotune_handle handle) {
    static constinit std::atomic<autotune_handle> kept{nullptr};
    handle->next = kept.load();
    while (!kept.compare_exchange_weak(handle->next, handle)) {
    }
}

void destroy(autotune_handle handle) {
    if (!is_usable(handle)) return;  // the log function has already destroyed the handle
    try {
        const process_end::Section section;
        handle->inner->flush_misses();  // not in the destructor: the log function may end the thread
        while (handle->inner->is_warming()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
        if (!process_end::has_begun()) {
            handle->inner.reset();
            return destroyed_handles.add(handle);
        }
    } catch (const abi::__forced_unwind&) {
        throw;
    } catch (...) {
        // The misses are lost: there is no memory to write them, or the process is ending.
        if (!process_end::has_begun()) {
            handle->inner.reset();
            return destroyed_handles.add(handle);
        }
    }
    keep(handle);
}

}  // namespace
}  // namespace autotune::runtime

namespace process_end = autotune::runtime::process_end;
using autotune::runtime::Caught;
using autotune::runtime::describe_current_exception;
using autotune::runtime::destroy;
using autotune::runtime::destroyed_plans;
using autotune::runtime::fill_versioned;
using autotune::runtime::guarded;
using autotune::runtime::is_usable;
using autotune::runtime::is_version_size;
using autotune::runtime::LastError;
using autotune::runtime::LateDestroy;
using autotune::runtime::NoCancel;
using autotune::runtime::Plan;
using autotune::runtime::refuse_call;
using autotune::runtime::settings_of;

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
        case AUTOTUNE_ORIGIN_LABEL:
            return "label";
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
    if (out == nullptr) return refuse_call("out is NULL");
    *out = nullptr;
    const NoCancel no_cancel;
    try {
        const process_end::Section section;
        const auto environment = [](const char* name) -> const char* { return ::secure_getenv(name); };
        *out = new autotune_handle_s(settings_of(options, environment), autotune::runtime::general_kernels());
        return AUTOTUNE_OK;
    } catch (const abi::__forced_unwind&) {
        throw;
    } catch (...) {
        const Caught caught = describe_current_exception();
        return LastError::set_for_thread(caught.status, caught.message);
    }
}

void autotune_destroy(autotune_handle handle) {
    // In a forked child the parent's objects are left alone: neither its driver objects nor its locks work here.
    if (!is_usable(handle)) {
        if (handle != nullptr) refuse_call(handle);
        return;
    }
    if (handle->inner->is_foreign()) return;
    const NoCancel no_cancel;
    if (!handle->inner->is_speaking()) return destroy(handle);
    handle->inner->silence();
    try {
        LateDestroy::ask([handle] { destroy(handle); });
    } catch (...) {  // ask() had no memory, so the handle stays
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

autotune_status autotune_agreement(autotune_handle handle, unsigned char digest[32], char* text, size_t* bytes) {
    return guarded(handle, [&](auto& inner) {
        autotune::Hash hash;
        std::string lines;
        for (const auto& [name, value] : inner.agreement()) {
            hash.field(name);
            hash.field(value);
            lines += name + " " + value + "\n";
        }
        const autotune::Hash::Digest found = hash.digest();
        if (digest != nullptr) std::copy(found.begin(), found.end(), digest);
        if (bytes == nullptr) return AUTOTUNE_OK;
        const std::size_t room = text == nullptr ? 0 : *bytes;
        if (room > 0) {
            const std::size_t length = std::min(lines.size(), room - 1);
            std::memcpy(text, lines.data(), length);
            text[length] = '\0';
        }
        *bytes = lines.size() + 1;
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

autotune_status autotune_plan_workspace(autotune_plan plan, size_t* bytes) {
    if (!is_usable(plan)) return refuse_call(plan);
    if (bytes == nullptr) return refuse_call("bytes is NULL");
    *bytes = plan->plan->workspace_bytes();
    return AUTOTUNE_OK;
}

autotune_status autotune_plan_workspace_zero(autotune_plan plan, size_t* bytes) {
    if (!is_usable(plan)) return refuse_call(plan);
    if (bytes == nullptr) return refuse_call("bytes is NULL");
    *bytes = plan->plan->workspace_zero_bytes();
    return AUTOTUNE_OK;
}

autotune_status autotune_plan_origin(autotune_plan plan, autotune_origin* origin) {
    if (!is_usable(plan)) return refuse_call(plan);
    if (origin == nullptr) return refuse_call("origin is NULL");
    *origin = plan->plan->origin();
    return AUTOTUNE_OK;
}

autotune_status autotune_plan_is_outdated(autotune_plan plan, int* outdated) {
    if (!is_usable(plan)) return refuse_call(plan);
    if (outdated == nullptr) return refuse_call("outdated is NULL");
    *outdated = plan->plan->is_outdated() ? 1 : 0;
    return AUTOTUNE_OK;
}

const char* autotune_plan_candidate(autotune_plan plan) {
    return is_usable(plan) ? plan->plan->candidate().c_str() : "";
}

void autotune_plan_destroy(autotune_plan plan) {
    if (!is_usable(plan)) {
        if (plan != nullptr) refuse_call(plan);
        return;
    }
    if (plan->plan->is_foreign()) return;
    plan->plan.reset();
    destroyed_plans.add(plan);
}

autotune_status autotune_plan_info(autotune_plan plan, autotune_plan_facts* facts) {
    if (!is_usable(plan)) return refuse_call(plan);
    if (facts == nullptr) return refuse_call("facts is NULL");
    autotune_plan_facts known = {};
    if (!is_version_size<autotune_plan_facts>(facts->struct_size))
        return refuse_call("facts.struct_size must be sizeof(autotune_plan_facts)");
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
    fill_versioned(facts, known);
    return AUTOTUNE_OK;
}

}  // extern "C"
