#pragma once

#include <functional>
#include <set>
#include <string>
#include <vector>

#include "tuner/session/tune.h"
#include "tuner/worker/journal.h"

namespace autotune::tuner {

// Records what a tune learns about one problem: finished trials in the store, which buffers them, and running candidates in the
// journal, which covers the buffered ones.
class TrialRecorder {
  public:
    struct Context {
        Problem problem;
        std::string nvrtc, method;
        // The identity by family name, or "" if it is unknown.
        std::function<std::string(const std::string& family)> template_identity;
    };
    // REQUIRES: the services outlive it.
    TrialRecorder(const TuneServices& services, Context context);

    // Takes a journal that was just opened, with the entries of a killed run: results that were not stored go to the store, and
    // those of this problem are returned. A candidate that was running when the machine went down is a suspect: its next death
    // counts as its second. REQUIRES: the journal outlives it.
    std::vector<db::StoredTrial> recover(Journal& journal);
    // The candidate is about to be launched. Does nothing without a journal.
    void started(const Candidate& candidate);
    // Notes that a candidate killed its worker while this process survived.
    void survived(const Candidate& candidate);
    // Records the trial, unless the machine caused its failure.
    void finished(const Trial& trial);
    // Writes what is buffered, at most every 250 ms unless `now` is set, and then empties the journal.
    void flush(bool now);

  private:
    JournalEntry entry_of(Trial trial) const;

    const TuneServices& services_;
    Context context_;
    Journal* journal_ = nullptr;
    std::set<Candidate> suspects_;  // candidates that were running when the machine went down
    Clock::time_point flushed_at_;
};

}  // namespace autotune::tuner
