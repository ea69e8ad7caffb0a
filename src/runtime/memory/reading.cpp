#include "src/runtime/memory/reading.h"

#include <pthread.h>

#include <algorithm>
#include <new>

namespace autotune::runtime {

thread_local constinit Reading::Record* Reading::own_ = nullptr;
constinit std::atomic<std::uint64_t> Reading::now_{1};
constinit std::atomic<Reading::Record*> Reading::all_{nullptr};
constinit std::atomic<long> Reading::anonymous_{0};

Reading::Record* Reading::take() noexcept {
    // The key is never deleted, because a thread may end after exit() has begun.
    static pthread_key_t key{};
    static const bool is_ready = ::pthread_key_create(&key, give_back) == 0 && ::pthread_atfork(nullptr, nullptr, in_child) == 0;
    if (!is_ready) return nullptr;
    Record* record = all_.load();
    for (; record != nullptr; record = record->next) {
        bool is_taken = false;
        if (record->is_taken.compare_exchange_strong(is_taken, true)) break;
    }
    if (record == nullptr) {
        record = new (std::nothrow) Record;
        if (record == nullptr) return nullptr;
        record->next = all_.load();
        while (!all_.compare_exchange_weak(record->next, record)) {
        }
    }
    if (::pthread_setspecific(key, record) != 0) {  // if this fails for lack of memory, the record would never be given back
        record->is_taken.store(false);
        return nullptr;
    }
    own_ = record;
    return record;
}

void Reading::give_back(void* record) noexcept {
    own_ = nullptr;  // destructors of this thread that run later and read take a new record
    static_cast<Record*>(record)->is_taken.store(false);
}

// The child has no other threads, so no thread is reading.
void Reading::in_child() noexcept {
    for (Record* record = all_.load(); record != nullptr; record = record->next) {
        if (record == own_) continue;
        record->since.store(0);
        record->depth = 0;
        record->is_taken.store(false);
    }
    anonymous_.store(0);
}

void Reading::enter_anonymously() noexcept {
    anonymous_.fetch_add(1);
}

void Reading::leave_anonymously() noexcept {
    anonymous_.fetch_sub(1);
}

std::uint64_t Reading::over() noexcept {
    if (anonymous_.load() > 0) return 0;
    std::uint64_t first = now_.load();
    for (const Record* record = all_.load(); record != nullptr; record = record->next) {
        const std::uint64_t since = record->since.load();
        if (since != 0) first = std::min(first, since);
    }
    return first;
}

}  // namespace autotune::runtime
