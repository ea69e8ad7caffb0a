#include "src/runtime/status.h"

#include <new>

#include "src/core/error.h"
#include "src/gpu/driver.h"

namespace autotune::runtime {
namespace {

thread_local std::string thread_failure;   // the last failure of this thread
thread_local std::string thread_returned;  // what text() of a handle handed to this thread

autotune_status status_of(ErrorCode code) {
    switch (code) {
        case ErrorCode::usage:
            return AUTOTUNE_INVALID_ARGUMENT;
        case ErrorCode::no_gpu:
            return AUTOTUNE_NO_GPU;
        case ErrorCode::no_valid_config:
            return AUTOTUNE_NO_KERNEL;
        case ErrorCode::compile_failed:
            return AUTOTUNE_COMPILE_FAILED;
        case ErrorCode::gpu_unhealthy:
        case ErrorCode::driver:
            return AUTOTUNE_DRIVER_ERROR;
        case ErrorCode::internal:
        case ErrorCode::database:
        case ErrorCode::verification:
        case ErrorCode::interrupted:
            break;
    }
    return AUTOTUNE_INTERNAL_ERROR;
}

}  // namespace

Caught describe_current_exception() {
    try {
        throw;
    } catch (const Failure& failure) {
        return {failure.status(), failure.what()};
    } catch (const gpu::DriverError& error) {
        const bool memory = error.severity() == gpu::Severity::out_of_memory;
        return {memory ? AUTOTUNE_OUT_OF_MEMORY : AUTOTUNE_DRIVER_ERROR, error.what()};
    } catch (const Error& error) {
        return {status_of(error.code()), error.what()};
    } catch (const std::bad_alloc&) {
        return {AUTOTUNE_OUT_OF_MEMORY, "the host is out of memory"};
    } catch (const std::exception& error) {
        return {AUTOTUNE_INTERNAL_ERROR, error.what()};
    } catch (...) {
        return {AUTOTUNE_INTERNAL_ERROR, "an unknown exception"};
    }
}

autotune_status LastError::set(autotune_status status, const std::string& message) noexcept {
    try {
        const std::lock_guard lock(mutex_);
        text_ = message;
    } catch (...) {
        // No memory for the sentence: the status alone must do.
    }
    return set_for_thread(status, message);
}

const char* LastError::text() const noexcept {
    try {
        const std::lock_guard lock(mutex_);
        thread_returned = text_;
    } catch (...) {
        return "the host is out of memory";
    }
    return thread_returned.c_str();
}

autotune_status LastError::set_for_thread(autotune_status status, const std::string& message) noexcept {
    try {
        thread_failure = message;
    } catch (...) {
        thread_failure.clear();
    }
    return status;
}

const char* LastError::text_for_thread() noexcept {
    return thread_failure.c_str();
}

}  // namespace autotune::runtime
