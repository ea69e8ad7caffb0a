#pragma once

#include <functional>
#include <set>
#include <string>
#include <vector>

#include "tuner/session/tune.h"
#include "tuner/worker/journal.h"

namespace autotune::tuner {

// Keeps what a tune learns of one problem: finished trials in the store, which buffers them, and who is running in the journal,
// which covers what is buffered.
class TrialRecorder {
  public:
    struct Context {
        Problem problem;
        std::string nvrtc, method;
        // Of the family that is named; empty where it is not known.
        std::function<std::string(const std::string& family)> template_identity;
    };
    // REQUIRES: the services outlive it.
    TrialRecorder(const TuneServices& services, Context context);

    // A journal that is open now, and what a killed run left in it: what was measured but not stored goes to the store, and what
    // is of this problem is returned. A candidate that was running when the machine went down is under suspicion: its next end is
    // its second. REQUIRES: the journal outlives it.
    std::vector<db::StoredTrial> recover(Journal& journal);
    // It is about to be launched. Without a journal nobody is told.
    void started(const Candidate& candidate);
    // It ended its worker, and we are still there.
    void survived(const Candidate& candidate);
    // Kept, unless the machine did it and not the candidate.
    void finished(const Trial& trial);
    // Writes what is buffered, at most every 250 ms unless it is to be `now`, and empties the journal then.
    void flush(bool now);

  private:
    JournalEntry entry_of(Trial trial) const;

    const TuneServices& services_;
    Context context_;
    Journal* journal_ = nullptr;
    std::set<Candidate> suspects_;  // running when the machine went down
    Clock::time_point flushed_at_;
};

}  // namespace autotune::tuner
