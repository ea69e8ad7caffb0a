#pragma once

#include <string>
#include <vector>

#include "src/core/problem/problem.h"
#include "src/core/statistics/trial.h"
#include "src/core/system/file_descriptor.h"
#include "tuner/worker/worker_process.h"

namespace autotune::tuner {

// A trial as the journal knows it.
struct JournalEntry {
    Problem problem;
    std::string template_identity;
    std::string nvrtc;
    std::string method;  // of its times
    Trial trial;         // of an entry that was only begun: the candidate alone
    int begun = 0;       // how often it was begun without an end before the machine went down
    bool finished = false;
};

// An append-only file per GPU: "started" before a candidate's first launch, its result after. Not synced: kill -9 does not lose
// the page cache, and a machine that goes down with a candidate shows who it was. One line a write, so that a line is whole or is
// last.
class Journal {
  public:
    // Opens it and reads what an earlier run left. Damaged lines are skipped. A file that cannot be opened, and an empty
    // `folder`, is a journal that keeps nothing. `boot`: which start of the machine this is; what was begun since then was ended
    // by a person, a batch system or a lack of memory, never by the candidate. REQUIRES: the GPU's lock is held.
    Journal(const std::string& folder, const std::string& uuid, std::string boot = boot_id());

    const std::vector<JournalEntry>& left_over() const { return left_over_; }
    void started(const JournalEntry& entry);
    void finished(const JournalEntry& entry);
    // It ended a worker, and we are still there: if we end later, it was not its doing.
    void survived(const JournalEntry& entry);
    // Everything is in the store: forget it.
    void clear();

    // The kernel's id of this start of the machine; empty where it does not tell.
    static std::string boot_id();

  private:
    void append(const char* what, const JournalEntry& entry);
    void read(const std::string& path);

    FileDescriptor fd_;
    std::string boot_;
    std::vector<JournalEntry> left_over_;
};

}  // namespace autotune::tuner
