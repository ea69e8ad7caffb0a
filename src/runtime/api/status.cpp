#include "src/runtime/api/status.h"

#include <pthread.h>

#include <new>

#include "src/core/error.h"
#include "src/gpu/driver/driver.h"

namespace autotune::runtime {
namespace {

// Short enough for a std::string without an allocation.
constexpr const char* kNoMemory = "out of memory";

struct ThreadTexts {
    Sentence failure;   // the last failure of this thread
    Sentence returned;  // the last text that a function of the library returned to this thread
};

// Its address is stored in place of a thread's texts if there was no memory for them.
char lost_texts = 0;

void drop(void* texts) {
    if (texts != &lost_texts) delete static_cast<ThreadTexts*>(texts);
}

// One ThreadTexts per thread. Not thread_local: registering a destructor, or reserving storage in a library that was loaded late,
// ends the process if no memory is left.
class TextsByThread {
  public:
    // The key is never deleted: threads may fail even while exit() runs.
    TextsByThread() noexcept : is_made_(::pthread_key_create(&key_, drop) == 0) {}
    TextsByThread(const TextsByThread&) = delete;
    TextsByThread& operator=(const TextsByThread&) = delete;

    // Returns nullptr if this thread has none.
    ThreadTexts* find() const noexcept {
        void* const found = is_made_ ? ::pthread_getspecific(key_) : nullptr;
        return found == &lost_texts ? nullptr : static_cast<ThreadTexts*>(found);
    }
    // Returns nullptr if there is no memory for it, which are_lost() then remembers.
    ThreadTexts* find_or_make() const noexcept {
        ThreadTexts* texts = find();
        if (texts != nullptr || !is_made_) return texts;
        texts = new (std::nothrow) ThreadTexts;
        if (texts != nullptr && ::pthread_setspecific(key_, texts) == 0) return texts;
        delete texts;
        ::pthread_setspecific(key_, &lost_texts);
        return nullptr;
    }
    bool are_lost() const noexcept { return is_made_ && ::pthread_getspecific(key_) == &lost_texts; }

  private:
    pthread_key_t key_{};
    bool is_made_;
};

// It is global, because a thread's last failure belongs to no handle.
TextsByThread texts_by_thread;

autotune_status status_of(ErrorCode code) {
    switch (code) {
        case ErrorCode::usage:
            return AUTOTUNE_INVALID_ARGUMENT;
        case ErrorCode::no_gpu:
            return AUTOTUNE_NO_GPU;
        case ErrorCode::no_valid_config:
            return AUTOTUNE_NO_KERNEL;
        case ErrorCode::compile_failed:
        case ErrorCode::no_compiler:
            return AUTOTUNE_COMPILE_FAILED;
        case ErrorCode::gpu_unhealthy:
        case ErrorCode::gpu_in_use:
        case ErrorCode::gpu_memory:
        case ErrorCode::driver:
            return AUTOTUNE_DRIVER_ERROR;
        case ErrorCode::internal:
        case ErrorCode::system:
        case ErrorCode::database:
        case ErrorCode::verification:
        case ErrorCode::interrupted:
            break;
    }
    return AUTOTUNE_INTERNAL_ERROR;
}

Caught described() {
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
        return {AUTOTUNE_OUT_OF_MEMORY, kNoMemory};
    } catch (const std::exception& error) {
        return {AUTOTUNE_INTERNAL_ERROR, error.what()};
    } catch (...) {
        return {AUTOTUNE_INTERNAL_ERROR, "an unknown exception"};
    }
}

}  // namespace

Caught describe_current_exception() noexcept {
    try {
        return described();
    } catch (...) {
        return {AUTOTUNE_OUT_OF_MEMORY, kNoMemory};
    }
}

void Sentence::assign(std::string_view text) noexcept {
    try {
        text_ = text;
        is_lost_ = false;
    } catch (...) {
        is_lost_ = true;
    }
}

const char* Sentence::c_str() const noexcept {
    return is_lost_ ? kNoMemory : text_.c_str();
}

autotune_status LastError::set(autotune_status status, std::string_view message) noexcept {
    {
        const std::lock_guard lock(mutex_);
        text_.assign(message);
    }
    return set_for_thread(status, message);
}

const char* LastError::text() const noexcept {
    ThreadTexts* const texts = texts_by_thread.find_or_make();
    if (texts == nullptr) return kNoMemory;
    const std::lock_guard lock(mutex_);
    texts->returned.assign(text_.c_str());
    return texts->returned.c_str();
}

autotune_status LastError::set_for_thread(autotune_status status, std::string_view message) noexcept {
    if (ThreadTexts* const texts = texts_by_thread.find_or_make()) texts->failure.assign(message);
    return status;
}

const char* LastError::text_for_thread() noexcept {
    if (texts_by_thread.are_lost()) return kNoMemory;
    const ThreadTexts* const texts = texts_by_thread.find();
    return texts == nullptr ? "" : texts->failure.c_str();
}

autotune_status fail_with_current_exception(LastError& errors) noexcept {
    const Caught caught = describe_current_exception();
    return errors.set(caught.status, caught.message);
}

}  // namespace autotune::runtime
