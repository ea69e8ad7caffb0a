#pragma once

#include <cxxabi.h>

#include <condition_variable>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <utility>

#include "src/runtime/api/log.h"
#include "src/runtime/api/status.h"
#include "src/runtime/process/process_end.h"

namespace autotune::runtime {

// If several threads request the same work at once, the first does it and the others wait for its value or its exception. Threads
// with different keys do not wait for each other, and no lock is held while the work runs.
template <typename Key, typename Value, typename Hash = std::hash<Key>>
class SingleFlight {
  public:
    // Calls `work` unless another thread is doing so for this key. A thread inside the log function always does its own work,
    // because the thread that it would wait for may wait for the log function.
    template <typename Work>
    Value run(const Key& key, Work work) {
        if (Log::is_speaking()) return work();
        const auto [flight, is_ours] = join(key);
        if (!is_ours) return wait_for(*flight);
        try {
            flight->value = work();
        } catch (const abi::__forced_unwind&) {  // the thread is ending: the others must not wait for it
            flight->failure = std::make_exception_ptr(
                Failure(AUTOTUNE_INTERNAL_ERROR, "the thread that worked on it for this one was ended by pthread_exit()"));
            complete(key, *flight);
            throw;
        } catch (...) {
            flight->failure = std::current_exception();
        }
        complete(key, *flight);
        return result_of(*flight);
    }

  private:
    struct Flight {
        bool is_complete = false;
        Value value{};
        std::exception_ptr failure;
    };

    std::pair<std::shared_ptr<Flight>, bool> join(const Key& key) {
        const std::lock_guard lock(mutex_);
        const auto found = flights_.find(key);
        if (found != flights_.end()) return {found->second, false};
        return {flights_.emplace(key, std::make_shared<Flight>()).first->second, true};
    }
    void complete(const Key& key, Flight& flight) {
        const std::lock_guard lock(mutex_);
        flight.is_complete = true;
        flights_.erase(key);
        completed_.notify_all();
    }
    Value wait_for(Flight& flight) {
        const process_end::Waiting waiting;
        std::unique_lock lock(mutex_);
        completed_.wait(lock, [&] { return flight.is_complete; });
        return result_of(flight);
    }
    static Value result_of(const Flight& flight) {
        if (flight.failure) std::rethrow_exception(flight.failure);
        return flight.value;
    }

    std::mutex mutex_;
    std::condition_variable completed_;
    std::unordered_map<Key, std::shared_ptr<Flight>, Hash> flights_;
};

}  // namespace autotune::runtime
