#pragma once

#include <string>
#include <vector>

#include "src/core/problem/problem.h"
#include "src/core/statistics/trial.h"
#include "src/core/system/file_descriptor.h"
#include "tuner/worker/worker_process.h"

namespace autotune::tuner {

// A trial as the journal stores it.
struct JournalEntry {
    Problem problem;
    std::string template_identity;
    std::string nvrtc;
    std::string method;  // of its times
    Trial trial;         // for an entry that was only begun: just the candidate
    int begun = 0;       // how often it was begun without an end before the machine went down
    bool finished = false;
};

// An append-only file per GPU: "started" before a candidate's first launch, its result after. Not synced: kill -9 does not lose
// the page cache, and after a crash of the machine it shows the candidate that was running. One write per line, so only the last
// line can be incomplete.
class Journal {
  public:
    // Opens it and reads what an earlier run left. Damaged lines are skipped. With an empty `folder`, or a file that cannot be
    // opened, the journal stores nothing. `boot`: identifies this start of the machine. Candidates that were begun since then did
    // not take the machine down: a person, a batch system or a lack of memory ended them. REQUIRES: the GPU's lock is held.
    Journal(const std::string& folder, const std::string& uuid, std::string boot = boot_id());

    const std::vector<JournalEntry>& left_over() const { return left_over_; }
    void started(const JournalEntry& entry);
    void finished(const JournalEntry& entry);
    // Notes that the candidate killed a worker while this process survived. If this process dies later, the candidate is not the
    // cause.
    void survived(const JournalEntry& entry);
    // Empties the journal, because everything is in the store.
    void clear();

    // The kernel's id of this start of the machine; empty if there is none.
    static std::string boot_id();

  private:
    void append(const char* what, const JournalEntry& entry);
    void read(const std::string& path);

    FileDescriptor fd_;
    std::string boot_;
    std::vector<JournalEntry> left_over_;
};

}  // namespace autotune::tuner
