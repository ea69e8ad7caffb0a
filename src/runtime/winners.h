#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "db/portfolio.h"
#include "db/winner_store.h"
#include "kernel_templates/catalogue.h"
#include "kernel_templates/stored_winner.h"
#include "src/core/device.h"
#include "src/core/problem.h"
#include "src/core/trial.h"
#include "src/runtime/file_state.h"
#include "src/runtime/log.h"
#include "src/runtime/remembered.h"
#include "src/runtime/settings.h"

namespace autotune::runtime {

// Where a candidate comes from that serves a problem which nobody tuned, as misses say it.
enum class Source : std::uint8_t {
    none,            // the problem was tuned, or its kernel pinned
    portfolio,       // of the problem's class, or of the class most like it
    near,            // a winner of other extents
    other_card,      // "near (other card)": of a card with this one's chip and another memory, of these extents or others
    family_default,  // "default"
    fallback         // a default, after what was predicted faster did not compile or load, or spilled
};
std::string_view to_string(Source source);

// A candidate that may serve a problem. `nvrtc` is the compiler version of the stored winner, empty if none is stored.
struct ResolvedCandidate {
    Candidate candidate;
    autotune_origin origin = AUTOTUNE_ORIGIN_DEFAULT;
    std::string nvrtc;
    double recorded_us = 0;        // by a stored winner of this very problem; 0: none
    double recorded_rival_us = 0;  // by the fastest rival in the same rounds; 0: none
    double regret = -1;            // how much slower than the best known it is expected to be, 0.04 for 4 %; negative: not known
    Source source = Source::none;
    bool is_checked = false;  // its values have passed OfferRanking::check() for a problem of its class
};

// By how much a choice is slower than the best kernel known, 0.04 for 4 %, over problems for which both times are known.
struct ExpectedRegret {
    double median = -1, p90 = -1;  // negative: not known
    int problems = 0;
};

// A candidate with a problem that it is legal for.
struct WarmupEntry {
    ResolvedCandidate found;
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
    ResolvedCandidate pinned(const Problem& problem, const Device& device) const;

    // Legal candidates that were stored, in the order to try them: the user's for exactly this problem, the shipped ones; where
    // there are none, those of other extents. May be empty.
    std::vector<ResolvedCandidate> stored(const Problem& problem, const Device& device);
    // What serves a problem that nobody tuned, the one that is predicted fastest first: winners of other extents, the class's
    // portfolio and defaults, with launch parameters chosen for these extents. Empty if none of them is legal here. Where the
    // class has a portfolio at most 11 instances serve all first extents up to 8192; if the problem's own winners are left out,
    // the best of all that is known. At most `count` of them.
    enum class ExactWinner : std::uint8_t {
        absent,
        ignore
    };  // winners of the problem itself: there are none, or they do not count
    std::vector<ResolvedCandidate> untuned(const Problem& problem, const Device& device, ExactWinner exact = ExactWinner::absent,
                                           std::size_t count = 1);
    // The same for the first problem that is asked for of those that differ in the first extent alone, from the best of all that
    // is known: many programs ask for no second. Empty for the others, once serving() was asked, and where the class has no
    // portfolio.
    std::vector<ResolvedCandidate> untuned_first(const Problem& problem, const Device& device, std::size_t count = 1);
    // What such a choice loses against the best known: as the class's portfolio says it of problems that were left out of its
    // making, else by leaving out each stored winner of the class whose trials are on record. Remembered.
    ExpectedRegret expected_regret(const Problem& problem, const Device& device);
    // What untuned() gives, or an exact winner, for all first extents from 1 to the problem's: one entry an instance.
    std::vector<WarmupEntry> serving(const Problem& problem, const Device& device);
    // The default that is predicted fastest for the problem with its extents rounded up to four binary digits, at most an eighth
    // more; empty if it is not legal for the problem itself. Remembered: a model's batch sizes ask for few of them.
    std::vector<ResolvedCandidate> likely_default(const Problem& problem, const Device& device);
    // Why kernels of the portfolios for problems of this op on this architecture are not offered, each reason with how many.
    struct PassedOver {
        std::string why;  // "they were chosen with another version of gemm/mma"
        int count = 0;
    };
    std::vector<PassedOver> portfolio_kernels_passed_over(const Problem& problem, const Device& device);
    // The families' defaults, the one that is predicted fastest first. Throws Failure{no kernel} with every family's reason if
    // there are none.
    std::vector<ResolvedCandidate> defaults(const Problem& problem, const Device& device) const;

    // Notes a problem that no winner answered, and what did, if the settings ask for it: once for the plan that was made.
    // Launches of that plan are counted by whoever holds the result; nullptr if nothing is noted.
    using Calls = std::shared_ptr<std::atomic<std::int64_t>>;
    Calls note_miss(const Problem& problem, const DeviceIdentity& device, Source source);
    // Writes what was noted. A database that cannot be written is one warning; throws std::bad_alloc alone, with the misses kept.
    void flush_misses();
    // Forgets what was read, and what was chosen for problems that nobody tuned, where the files that it came from have changed
    // since; whether they have. They are looked at and not opened.
    bool refresh();

  private:
    struct Miss {
        Problem problem;
        DeviceIdentity device;
        Source source;
        Calls calls;  // and the plan itself, since they were last written
    };

    std::vector<ResolvedCandidate> read(const Problem& problem, const Device& device, LateWarnings& warnings);
    // `left_out`: a problem whose own winners do not count; may be nullptr.
    std::vector<ResolvedCandidate> read_near(const Problem& problem, const Device& device, const Problem* left_out = nullptr);
    // The portfolios as they were read, which may hold what is not used. REQUIRES: mutex_ is held.
    const std::vector<db::Portfolio>& read_portfolios(LateWarnings& warnings);
    // The portfolio of the problem's class with the kernels that today's templates can make, and what it says of itself; nullptr
    // if there is none. REQUIRES: mutex_ is held.
    const db::Portfolio* portfolio(const Problem& problem, const Device& device, LateWarnings& warnings);
    std::vector<ResolvedCandidate> portfolio_offers(const Problem& problem, const Device& device);
    // What serves the problem and others that differ from it in the first extent; empty without a portfolio. Remembered.
    using ServingSet = std::shared_ptr<const std::vector<ResolvedCandidate>>;
    ServingSet serving_set(const Problem& problem, const Device& device);
    std::vector<ResolvedCandidate> best_of_all(const Problem& problem, const Device& device, const Problem* left_out,
                                               std::size_t count);
    // The first extent that was asked for of the problem's range: `asked`, if none was before. REQUIRES: mutex_ is held.
    std::int64_t& first_extent_of_range(const Problem& problem, const Device& device, std::int64_t asked);
    void add_regret(std::vector<ResolvedCandidate>& to, const Problem& problem, const Device& device);
    // Stored winners of the problem's class with the times of what else was tried for their problems.
    struct Tried {
        Problem problem;
        std::vector<std::pair<Candidate, double>> times_us;
    };
    std::vector<Tried> tried_of_class(const Problem& problem, const Device& device);
    std::optional<double> regret_of(const Tried& at, const Device& device);
    std::vector<ResolvedCandidate> make_serving_set(const Problem& problem, const Device& device,
                                                    std::vector<ResolvedCandidate> offers,
                                                    const std::vector<std::int64_t>& pivots) const;
    std::vector<ResolvedCandidate> rank(const std::vector<ResolvedCandidate>& offers, const Problem& problem,
                                        const Device& device, std::size_t count) const;
    db::WinnerStore* store(LateWarnings& warnings);
    void write(const std::vector<db::Miss>& misses) const;

    const Settings& settings_;
    const Catalogue& catalogue_;
    Log& log_;
    std::mutex mutex_;
    std::unique_ptr<db::WinnerStore> store_;
    bool store_has_database_ = false;
    std::optional<std::vector<db::Portfolio>> read_portfolios_;  // once they were looked for
    std::optional<std::vector<db::Portfolio>> portfolios_;       // of those, what is of today's templates
    FileState database_state_, shipped_state_;                   // when they were last looked at
    // All of these have as many entries as 9 MB hold.
    Remembered<Candidate> likely_defaults_{1024};   // by class, device and rounded extents; some 1.5 KB each
    Remembered<ServingSet> serving_sets_{384};      // by class, device, extents but the first, and its range; some 14 KB each
    Remembered<std::int64_t> first_extents_{4096};  // of the first problem of each such range; some 0.3 KB each
    Remembered<ExpectedRegret> regrets_{1024};      // by class and device
    TemplateIdentities identities_;
    std::vector<Miss> misses_;         // one a plan
    std::size_t unwritten_plans_ = 0;  // of those
};

}  // namespace autotune::runtime
