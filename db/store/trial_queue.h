#pragma once

#include <chrono>
#include <vector>

#include "db/sqlite/open_file.h"
#include "db/store/trials.h"

namespace autotune::db {

// Queues trials for the file. Every write transaction also writes the queued trials. Trials are committed one by one while that
// is cheap, and in batches when they come fast. If the file is locked, full or read-only they stay in memory, so that the search
// continues.
class TrialQueue {
  public:
    TrialQueue(OpenFile& file, WarningLog& log) : file_(file), log_(log) {}

    void add(PendingTrial trial);
    // Writes the queued trials; returns whether the queue is empty now. After a failure it tries again only when ten times the
    // duration of the failed try has passed. Throws DatabaseError for a damaged file.
    bool flush();
    // Does the same without that delay.
    bool flush_now();
    // Drops the queued trials in a forked child, because the parent writes them.
    void forget() { waiting_.clear(); }

    // One durable transaction with all queued trials and what `body` adds. If it throws DatabaseError, all stay queued.
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
