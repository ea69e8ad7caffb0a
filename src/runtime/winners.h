#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "db/portfolio.h"
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
    double regret = -1;            // how much slower than the best known it is expected to be, 0.04 for 4 %; negative: not known
};

// A candidate with a problem that it is legal for.
struct Served {
    Found found;
    Problem problem;
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
    // What serves a problem that nobody tuned, the one that is predicted fastest first: winners of other extents, the class's
    // portfolio and defaults, with launch parameters chosen for these extents. Empty if none of them is legal here. Where the
    // class has a portfolio at most 10 instances serve all first extents up to 8192.
    std::vector<Found> untuned(const Problem& problem, const Device& device);
    // What untuned() gives, or an exact winner, for all first extents from 1 to the problem's: one entry an instance.
    std::vector<Served> serving(const Problem& problem, const Device& device);
    // The default that is predicted fastest for the problem with its extents rounded up to four binary digits, at most an eighth
    // more; empty if it is not legal for the problem itself. Remembered: a model's batch sizes ask for few of them.
    std::vector<Found> likely_default(const Problem& problem, const Device& device);
    // The families' defaults, the one that is predicted fastest first. Throws Failure{no kernel} with every family's reason if
    // there are none.
    std::vector<Found> defaults(const Problem& problem, const Device& device) const;

    // Notes a problem that no winner answered, and what did, if the settings ask for it.
    void note_miss(const Problem& problem, const DeviceIdentity& device, autotune_origin origin);
    // Writes what was noted. A database that cannot be written is one warning; throws std::bad_alloc alone, with the misses kept.
    void flush_misses();
    // Forgets what was read: shipped winners and portfolios, and what was chosen for problems that nobody tuned.
    void refresh();

  private:
    struct Miss {
        Problem problem;
        DeviceIdentity device;
        autotune_origin origin;
    };

    std::vector<Found> read(const Problem& problem, const Device& device, LateWarnings& warnings);
    std::vector<Found> read_near(const Problem& problem, const Device& device, std::size_t count);
    // The portfolio of the problem's class, and what it says of itself; nullptr if there is none. REQUIRES: mutex_ is held.
    const db::Portfolio* portfolio(const Problem& problem, const Device& device, LateWarnings& warnings);
    // What serves the problem and others that differ from it in the first extent; empty without a portfolio. Remembered.
    std::vector<Found> serving_set(const Problem& problem, const Device& device);
    std::vector<Found> make_serving_set(const Problem& problem, const Device& device, std::vector<Found> offers,
                                        const std::vector<std::int64_t>& pivots) const;
    std::vector<Found> rank(const std::vector<Found>& offers, const Problem& problem, const Device& device,
                            std::size_t count) const;
    db::WinnerStore* store(LateWarnings& warnings);
    void write(const std::vector<Miss>& misses) const;

    const Settings& settings_;
    const Catalogue& catalogue_;
    Log& log_;
    std::mutex mutex_;
    std::unique_ptr<db::WinnerStore> store_;
    bool store_has_database_ = false;
    std::optional<std::vector<db::Portfolio>> portfolios_;              // once they were looked for
    std::unordered_map<std::string, Candidate> likely_defaults_;        // by class, device and rounded extents
    std::unordered_map<std::string, std::vector<Found>> serving_sets_;  // by class, device, extents but the first, and its range
    TemplateIdentities identities_;
    std::vector<Miss> misses_;
};

}  // namespace autotune::runtime
