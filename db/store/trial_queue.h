#pragma once

#include <chrono>
#include <vector>

#include "db/sqlite/open_file.h"
#include "db/store/trials.h"

namespace autotune::db {

// Trials on their way into the file, and every write transaction, for each takes them along. Committed one by one as long as
// that is cheap, in batches where they come fast. Where the file is locked, full or read-only they wait in memory: the search
// that made them goes on.
class TrialQueue {
  public:
    TrialQueue(OpenFile& file, WarningLog& log) : file_(file), log_(log) {}

    void add(PendingTrial trial);
    // Whether nothing waits any more. After a failure it tries again at the earliest when ten times the time that the failure
    // took has passed. Throws DatabaseError for a file that is broken.
    bool flush();
    // The same at once.
    bool flush_now();
    // For a forked child: they are its parent's to write.
    void forget() { waiting_.clear(); }

    // One durable transaction with all that waits and what `body` adds. Throws DatabaseError, and then all still waits.
    template <class Body>
    void write(const Body& body) {
        Connection& target = file_.use();
        const auto start = Clock::now();
        Transaction transaction(target);
        for (const PendingTrial& trial : waiting_) write_trial(target, trial);
        body(target);
        transaction.commit();
        waiting_.clear();
        last_commit_ = Clock::now();
        commit_cost_ = last_commit_ - start;
    }

  private:
    using Clock = std::chrono::steady_clock;
    bool is_due() const;

    OpenFile& file_;
    WarningLog& log_;
    std::vector<PendingTrial> waiting_;
    Clock::time_point last_commit_{};
    Clock::duration commit_cost_{};
    Clock::time_point next_try_{};
};

}  // namespace autotune::db
