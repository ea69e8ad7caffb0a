#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "db/winner_store.h"
#include "src/core/problem/device.h"
#include "src/core/problem/problem.h"
#include "src/dispatch/choice.h"
#include "src/dispatch/stored/stored_candidates.h"
#include "src/runtime/api/log.h"
#include "src/runtime/api/settings.h"

namespace autotune::runtime {

// If the settings ask for it, counts the problems without a winner, for a later sweep to tune. Thread-safe.
class Misses {
  public:
    // REQUIRES: all outlive it. `readers`: they read the database that the misses are written to.
    Misses(const Settings& settings, Log& log, dispatch::StoredCandidates& readers)
        : settings_(settings), log_(log), readers_(readers) {}
    ~Misses();
    Misses(const Misses&) = delete;
    Misses& operator=(const Misses&) = delete;

    // Records a problem and the source of its kernel, once per plan. The plan counts its launches by raising the result; nullptr
    // if nothing is recorded. REQUIRES: the device outlives this.
    using Calls = std::shared_ptr<std::atomic<std::int64_t>>;
    Calls note(const Problem& problem, const Device& device, dispatch::Source source);
    // Drops the misses for which `has_winner` is true now: a plan that the caller still holds would record them again and again.
    void forget(const std::function<bool(const Problem&, const Device&)>& has_winner);
    // Writes what was recorded. A database that cannot be written is one warning. Throws only std::bad_alloc, and keeps the
    // misses then.
    void flush();

  private:
    struct Miss {
        Problem problem;
        const Device* device;
        dispatch::Source source;
        Calls calls;  // launches and the plan itself, since the last write
    };

    void write(const std::vector<db::Miss>& misses) const;

    const Settings& settings_;
    Log& log_;
    dispatch::StoredCandidates& readers_;
    std::mutex mutex_;
    std::vector<Miss> misses_;         // one a plan
    std::size_t unwritten_plans_ = 0;  // of those
};

}  // namespace autotune::runtime
