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

// Receives warnings; only the first one about each subject is worth showing. Called while dispatch holds no lock.
using Warn = std::function<void(const std::string& subject, const std::string& message)>;

// A caller waits for its plan, so a database that is locked for longer than this counts as a miss.
inline constexpr int kBusyTimeoutMs = 30;

// The files that candidates are read from; empty paths: none.
struct Files {
    std::string database{};
    std::string shipped{};  // a folder
    std::string label{};    // the file of a label, whose winners come first. REQUIRES: with a label there is no database
};

// A stored winner's problem with the times of the other candidates that were tried for it.
struct TriedProblem {
    Problem problem;
    std::vector<std::pair<Candidate, double>> times_us;
};

// Kernels of portfolios that are not offered, with the reason.
struct PassedOver {
    std::string why;  // "they were chosen with another version of gemm/mma"
    int count = 0;
};

// Candidates from files: winners of the user's database and of the shipped files, and portfolios. A database that fails is one
// warning and yields no winners. Thread-safe.
class StoredCandidates {
  public:
    // REQUIRES: the catalogue outlives it.
    StoredCandidates(Files files, const Catalogue& catalogue, Warn warn);

    // Legal winners of exactly this problem, the user's before the shipped ones.
    std::vector<ResolvedCandidate> winners(const Problem& problem, const Device& device);
    // The nearest usable winners of other extents, and of other cards. `ignored`: a problem whose own winners do not count; may
    // be nullptr.
    std::vector<ResolvedCandidate> near(const Problem& problem, const Device& device, const Problem* ignored = nullptr);
    // Kernels of the portfolio that serves the problem. If it is the portfolio of another class, the problem's regret is unknown.
    std::vector<ResolvedCandidate> portfolio(const Problem& problem, const Device& device);
    // The loss of the choice according to the portfolio of the problem's own class.
    std::optional<ExpectedRegret> portfolio_regret(const Problem& problem, const Device& device);
    // Stored winners of the problem's class whose trials are on record.
    std::vector<TriedProblem> tried_of_class(const Problem& problem, const Device& device);
    // The reasons why kernels of the portfolios for this op and architecture are not offered, with the number of kernels for each
    // reason.
    std::vector<PassedOver> portfolio_kernels_passed_over(const Problem& problem, const Device& device);

    // Runs `write`, which writes the database through its own connection, while nobody reads here. A reader then waits on a
    // mutex, for as long as it takes, rather than for kBusyTimeoutMs on the file. REQUIRES: `write` uses neither dispatch nor
    // `warn`.
    template <typename Write>
    void between_reads(Write write) {
        const std::lock_guard lock(mutex_);
        write();
    }

    // Whether winners were added to the database or removed since the last call, or since the start. Written trials and misses do
    // not count. If the database is busy or unreadable, the next call tries again. Reads one row if the file has changed, and
    // opens nothing otherwise.
    bool winners_changed();

    // Drops what was read if the files have changed since; returns whether they have. It compares file states and opens nothing.
    // With a label nothing changes.
    bool refresh();

    // The digest of the label, or why it is not used. Empty: there is no label.
    const std::string& label_digest() const { return label_digest_; }
    const std::string& why_no_label() const { return why_no_label_; }

  private:
    // Warnings found under the lock: collected, and reported after it is released.
    struct Heard {
        std::string subject, message;
    };
    using Warnings = std::vector<Heard>;
    // Runs `read`, which gets an open store and the warnings, under the lock. A database that fails is a warning.
    template <typename Read>
    void with_store(Read read);
    void say(const Warnings& warnings) const;
    // nullptr if nothing can be opened. REQUIRES for these four: mutex_ is held.
    db::WinnerStore* store(Warnings& warnings);
    void forget_store();
    void open_label();
    void add_near(const db::WinnerStore& open, StoredWinnerRule& rule, const Problem& problem, const Device& device,
                  const Problem* ignored, std::vector<ResolvedCandidate>& to) const;
    // The portfolios as read; some may be unusable.
    const std::vector<db::Portfolio>& read_portfolios(Warnings& warnings);
    // The portfolio of the problem's class with the kernels that today's templates can make, and its expected regret; nullptr if
    // there is none.
    const db::Portfolio* portfolio_of(const Problem& problem, const Device& device, Warnings& warnings);
    void count_passed_over(const db::Portfolio& portfolio, const Problem& problem, const Device& device,
                           std::vector<PassedOver>& counts);

    const Files files_;
    const Catalogue& catalogue_;
    const Warn warn_;
    std::mutex mutex_;
    std::unique_ptr<db::WinnerStore> store_;
    std::unique_ptr<db::WinnerStore> label_;  // nullptr: none that can be used
    std::string label_digest_, why_no_label_;
    bool store_has_database_ = false;
    std::optional<std::vector<db::Portfolio>> read_portfolios_;  // set once the files were searched
    std::optional<std::vector<db::Portfolio>> portfolios_;       // those of read_portfolios_ that can be used
    FileState database_state_, shipped_state_;                   // at the last look
    FileState winners_state_;                                    // state of the database when winners_changed() last read it
    std::string winners_mark_;                                   // the result of that reading; empty: not read yet
    TemplateIdentities identities_;
};

}  // namespace autotune::dispatch
