#include "db/store/trial_queue.h"

#include <algorithm>

namespace autotune::db {
namespace {

constexpr std::size_t kBatchTrials = 64;
constexpr std::chrono::milliseconds kBatchTime{250};
// Trials are committed one by one while commits take less than a fiftieth of the time. Typically a commit takes 1 ms on a local
// disk and a trial 100 ms.
constexpr int kCommitShare = 50;
// After a failure, writing is tried again when ten times the duration of the failed try has passed, so waiting costs at most a
// tenth of the time.
constexpr int kFailureShare = 10;
// This many trials take about 100 MB. A search makes some thousand.
constexpr std::size_t kMostWaiting = 100'000;

}  // namespace

bool TrialQueue::is_due() const {
    const auto pause = std::min<Clock::duration>(kBatchTime, commit_cost_ * kCommitShare);
    return waiting_.size() >= kBatchTrials || Clock::now() - last_commit_ >= pause;
}

void TrialQueue::add(PendingTrial trial) {
    if (waiting_.size() < kMostWaiting) waiting_.push_back(std::move(trial));
    if (is_due()) flush();
}

bool TrialQueue::flush() {
    if (waiting_.empty()) return true;
    return Clock::now() >= next_try_ && flush_now();
}

bool TrialQueue::flush_now() {
    if (waiting_.empty()) return true;
    const auto start = Clock::now();
    try {
        write([](Connection&) {});
        return true;
    } catch (const DatabaseError& error) {
        if (!keeps_from_storing(error.fault())) throw;
        next_try_ = Clock::now() + (Clock::now() - start) * kFailureShare;
        log_.add({WarningKind::trials_wait, std::string(error.what()) + ". Trials wait in memory until they can be written"});
        return false;
    }
}

}  // namespace autotune::db
