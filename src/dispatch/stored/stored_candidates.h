#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "db/portfolio.h"
#include "db/winner_store.h"
#include "src/catalogue/catalogue.h"
#include "src/core/problem/device.h"
#include "src/dispatch/choice.h"
#include "src/dispatch/rules/stored_winner.h"
#include "src/dispatch/stored/file_state.h"

namespace autotune::dispatch {

// Hears of warnings. The first of each subject is worth showing. Called while dispatch holds no lock.
using Warn = std::function<void(const std::string& subject, const std::string& message)>;

// A caller waits for a plan: a database that somebody holds is a miss after this long.
inline constexpr int kBusyTimeoutMs = 30;

// The files that candidates are read from. Empty: none.
struct Files {
    std::string database{};
    std::string shipped{};  // a folder
};

// A stored winner's problem with the times of what else was tried for it.
struct TriedProblem {
    Problem problem;
    std::vector<std::pair<Candidate, double>> times_us;
};

// Kernels of portfolios that are not offered, and why.
struct PassedOver {
    std::string why;  // "they were chosen with another version of gemm/mma"
    int count = 0;
};

// Candidates that files offer: winners of the user's database and of the shipped files, and portfolios. A database that fails is
// one warning and no winners. Thread-safe.
class StoredCandidates {
  public:
    // REQUIRES: the catalogue outlives it.
    StoredCandidates(Files files, const Catalogue& catalogue, Warn warn);

    // Legal winners of exactly this problem, the user's before the shipped ones.
    std::vector<ResolvedCandidate> winners(const Problem& problem, const Device& device);
    // The nearest winners of other extents that may answer, and of other cards. `ignored`: a problem whose own winners do not
    // count; may be nullptr.
    std::vector<ResolvedCandidate> near(const Problem& problem, const Device& device, const Problem* ignored = nullptr);
    // Kernels of the portfolio that serves the problem. One of another class says nothing of this one's regret.
    std::vector<ResolvedCandidate> portfolio(const Problem& problem, const Device& device);
    // What the portfolio of the problem's own class says that its choice loses.
    std::optional<ExpectedRegret> portfolio_regret(const Problem& problem, const Device& device);
    // Stored winners of the problem's class whose trials are on record.
    std::vector<TriedProblem> tried_of_class(const Problem& problem, const Device& device);
    // Why kernels of the portfolios for problems of this op on this architecture are not offered, each reason with how many.
    std::vector<PassedOver> portfolio_kernels_passed_over(const Problem& problem, const Device& device);

    // Runs `write`, which writes the database by a connection of its own, while nobody reads here: a reader waits for it on a
    // mutex, as long as it takes, rather than for kBusyTimeoutMs on the file. REQUIRES: `write` uses neither dispatch nor `warn`.
    template <typename Write>
    void between_reads(Write write) {
        const std::lock_guard lock(mutex_);
        write();
    }

    // Whether winners were added to the database or removed since this was asked last, or since the start. Trials and misses that
    // are written do not count. A database that is busy, or cannot be read, is asked again next time. Reads one row where the
    // file has changed, and opens nothing where it has not.
    bool winners_changed();

    // Forgets what was read where the files have changed since; whether they have. They are looked at and not opened.
    bool refresh();

  private:
    // Warnings that arise under the lock: collected there, said after it.
    struct Heard {
        std::string subject, message;
    };
    using Warnings = std::vector<Heard>;
    // Runs `read`, which takes an open store and the warnings, under the lock. A database that fails is a warning.
    template <typename Read>
    void with_store(Read read);
    void say(const Warnings& warnings) const;
    // nullptr if nothing can be opened. REQUIRES for these four: mutex_ is held.
    db::WinnerStore* store(Warnings& warnings);
    void forget_store();
    // The portfolios as they were read, which may hold what is not used.
    const std::vector<db::Portfolio>& read_portfolios(Warnings& warnings);
    // The portfolio of the problem's class with the kernels that today's templates can make, and what it says of itself; nullptr
    // if there is none.
    const db::Portfolio* portfolio_of(const Problem& problem, const Device& device, Warnings& warnings);
    void count_passed_over(const db::Portfolio& portfolio, const Problem& problem, const Device& device,
                           std::vector<PassedOver>& counts);

    const Files files_;
    const Catalogue& catalogue_;
    const Warn warn_;
    std::mutex mutex_;
    std::unique_ptr<db::WinnerStore> store_;
    bool store_has_database_ = false;
    std::optional<std::vector<db::Portfolio>> read_portfolios_;  // once they were looked for
    std::optional<std::vector<db::Portfolio>> portfolios_;       // of those, what is of today's templates
    FileState database_state_, shipped_state_;                   // when they were last looked at
    FileState winners_state_;                                    // of the database, when winners_changed() last read it
    std::string winners_mark_;                                   // what it read; empty: nothing yet
    TemplateIdentities identities_;
};

}  // namespace autotune::dispatch
