#pragma once

#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "db/store.h"
#include "kernel_templates/catalogue.h"
#include "src/core/device.h"
#include "src/core/problem.h"
#include "src/core/trial.h"
#include "src/runtime/log.h"
#include "src/runtime/settings.h"

namespace autotune::runtime {

// A candidate that may serve a problem. `nvrtc` is the compiler version of the stored winner, empty if none is stored.
struct Found {
    Candidate candidate;
    autotune_origin origin = AUTOTUNE_ORIGIN_DEFAULT;
    std::string nvrtc;
};

// Where winners come from, best first: the user's database for exactly this problem, the shipped ones, those of other extents,
// and the families' defaults. A database that fails is one warning and no winners. Thread-safe.
class Winners {
  public:
    Winners(const Settings& settings, const Catalogue& catalogue, Log& log);
    ~Winners();

    // Legal candidates in the order to try them. Throws Failure{no kernel} with every family's reason if there are none, and
    // Failure{invalid argument} for a pin that cannot be.
    std::vector<Found> find(const Problem& problem, const Device& device);

    // Notes a problem that no winner answered, if the settings ask for it.
    void note_miss(const Problem& problem, const DeviceIdentity& device);
    // Writes what was noted. Never throws.
    void flush_misses() noexcept;

  private:
    std::vector<Found> stored(const Problem& problem, const Device& device);
    std::vector<Found> defaults(const Problem& problem, const Device& device) const;
    bool is_pinned(const Problem& problem) const;
    Found pinned(const Problem& problem, const Device& device) const;
    bool legal(const db::Winner& winner, const Problem& problem, const Device& device) const;
    db::Store* store();

    const Settings& settings_;
    const Catalogue& catalogue_;
    Log& log_;
    std::mutex mutex_;
    std::optional<db::Store> store_;
    bool store_has_database_ = false;
    std::vector<std::pair<Problem, DeviceIdentity>> misses_;
};

}  // namespace autotune::runtime
