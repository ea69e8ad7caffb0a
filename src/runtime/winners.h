#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "db/winner_store.h"
#include "kernel_templates/catalogue.h"
#include "kernel_templates/stored_winner.h"
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
    double recorded_us = 0;        // by a stored winner of this very problem; 0: none
    double recorded_rival_us = 0;  // by the fastest rival in the same rounds; 0: none
};

// Throws Failure{no kernel} with every family's reason if none of them can do the problem on the device.
void check_supported(const Catalogue& catalogue, const Problem& problem, const Device& device);

// Where candidates come from: a pin, winners that are stored, the families' defaults. A database that fails is one warning and no
// winners. Thread-safe; no lock is held while the log function is called.
class Winners {
  public:
    Winners(const Settings& settings, const Catalogue& catalogue, Log& log);
    ~Winners();

    // Whether settings.pin decides: it holds for the problems of its family's op; a pin of no op at all is refused whatever is
    // asked.
    bool is_pinned(const Problem& problem) const;
    // Throws Failure{invalid argument} for a pin that cannot be, Failure{no kernel} for one that is not legal here.
    Found pinned(const Problem& problem, const Device& device) const;

    // Legal candidates that were stored, in the order to try them: the user's for exactly this problem, the shipped ones; where
    // there are none, those of other extents. May be empty.
    std::vector<Found> stored(const Problem& problem, const Device& device);
    // The default that is predicted fastest for the problem with its extents rounded up to four binary digits, at most an eighth
    // more; empty if it is not legal for the problem itself. Remembered: a model's batch sizes ask for few of them.
    std::vector<Found> likely_default(const Problem& problem, const Device& device);
    // The families' defaults, the one that is predicted fastest first. Throws Failure{no kernel} with every family's reason if
    // there are none.
    std::vector<Found> defaults(const Problem& problem, const Device& device) const;

    // Notes a problem that no winner answered, if the settings ask for it.
    void note_miss(const Problem& problem, const DeviceIdentity& device);
    // Writes what was noted. A database that cannot be written is one warning; throws std::bad_alloc alone, with the misses kept.
    void flush_misses();

  private:
    using Miss = std::pair<Problem, DeviceIdentity>;

    std::vector<Found> read(const Problem& problem, const Device& device, LateWarnings& warnings);
    db::WinnerStore* store(LateWarnings& warnings);
    void write(const std::vector<Miss>& misses) const;

    const Settings& settings_;
    const Catalogue& catalogue_;
    Log& log_;
    std::mutex mutex_;
    std::unique_ptr<db::WinnerStore> store_;
    bool store_has_database_ = false;
    std::unordered_map<std::string, Candidate> likely_defaults_;  // by class, device and rounded extents
    TemplateIdentities identities_;
    std::vector<Miss> misses_;
};

}  // namespace autotune::runtime
