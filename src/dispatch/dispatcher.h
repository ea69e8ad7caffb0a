#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "src/catalogue/catalogue.h"
#include "src/core/problem/device.h"
#include "src/core/problem/problem.h"
#include "src/dispatch/choice.h"
#include "src/dispatch/pin.h"
#include "src/dispatch/remembered.h"
#include "src/dispatch/stored/stored_candidates.h"

namespace autotune::dispatch {

// Throws Error{no_valid_config} with every family's reason if none of them can do the problem on the device.
void check_supported(const Catalogue& catalogue, const Problem& problem, const Device& device);

// Decides which kernel serves a problem: the pinned one; else a stored winner; else the candidate that is predicted fastest among
// winners of other extents, portfolios and defaults. It reads files and predicts; it uses no GPU and compiles nothing.
// Thread-safe; no lock is held while `warn` is called.
class Dispatcher {
  public:
    struct Options {
        Files files{};
        std::string pin{};  // empty: none
    };
    // REQUIRES: the catalogue outlives it.
    Dispatcher(Options options, const Catalogue& catalogue, Warn warn = {});

    const Pin& pin() const { return pin_; }

    // Candidates from files; stored().winners() are tried first.
    StoredCandidates& stored() { return files_; }
    // Candidates for a problem without a winner, fastest predicted first: winners of other extents, the class's portfolio,
    // defaults, each with launch parameters chosen for these extents. At most `count`; empty if none of them is legal here. If
    // the class has a portfolio, at most 11 instances serve all first extents up to 8192. If the problem's own winners are
    // ignored, the result is the best of everything known.
    enum class ExactWinner : std::uint8_t { absent, ignore };
    std::vector<ResolvedCandidate> untuned(const Problem& problem, const Device& device, ExactWinner exact = ExactWinner::absent,
                                           std::size_t count = 1);
    // Candidates from everything known, for the first requested problem of a range only (problems that differ in nothing but the
    // first extent), because many programs need no second one. Empty for the other problems of a range, after serving() was
    // called, and if the class has no portfolio.
    std::vector<ResolvedCandidate> untuned_first(const Problem& problem, const Device& device, std::size_t count = 1);
    // The expected loss of such a choice against the best known kernel. The class's portfolio gives it for problems that were
    // left out when it was made; otherwise each stored winner of the class that has trials is left out in turn. Cached.
    ExpectedRegret expected_regret(const Problem& problem, const Device& device);
    // The result of untuned(), or the exact winner, for all first extents from 1 to the problem's: one entry per instance.
    std::vector<WarmupEntry> serving(const Problem& problem, const Device& device);
    // The default that is predicted fastest for the problem with its extents rounded up to four binary digits, at most an eighth
    // more; empty if it is not legal for the problem itself. Cached: a model's batch sizes need few of them.
    std::vector<ResolvedCandidate> likely_default(const Problem& problem, const Device& device);
    // The families' defaults, fastest predicted first. Throws Error{no_valid_config} with every family's reason if there are
    // none.
    std::vector<ResolvedCandidate> defaults(const Problem& problem, const Device& device) const;

    // Drops what was read from files that have changed since, and the choices for untuned problems. Returns whether any file has
    // changed.
    bool refresh();

  private:
    // The kernels that serve the problem and those that differ from it in the first extent only; empty without a portfolio.
    // Cached.
    using ServingSet = std::shared_ptr<const std::vector<ResolvedCandidate>>;
    ServingSet serving_set(const Problem& problem, const Device& device);
    std::vector<ResolvedCandidate> offers_for_set(const Problem& problem, const Device& device);
    std::vector<ResolvedCandidate> best_of_all(const Problem& problem, const Device& device, const Problem* ignored,
                                               std::size_t count);
    // Whether the problem is the first requested one of its range, that is of those that differ in the first extent only.
    bool is_first_of_range(const Problem& problem, const Device& device);
    void claim_range(const Problem& problem, const Device& device);  // reserves the range for a set that serves all of it
    void add_regret(std::vector<ResolvedCandidate>& to, const Problem& problem, const Device& device);
    std::optional<double> regret_of(const TriedProblem& at, const Device& device);

    const Catalogue& catalogue_;
    const Pin pin_;
    StoredCandidates files_;
    std::mutex mutex_;  // held for moments
    // Each of these has as many entries as fit into 9 MB.
    Remembered<Candidate> likely_defaults_{1024};  // by class, device and rounded extents; an entry takes some 1.5 KB
    // By class, device, all extents but the first, and the range; an entry takes some 14 KB.
    Remembered<ServingSet> serving_sets_{384};
    Remembered<std::int64_t> first_extents_{4096};  // the first requested problem of each range; an entry takes about 0.3 KB
    Remembered<ExpectedRegret> regrets_{1024};      // by class and device
};

}  // namespace autotune::dispatch
