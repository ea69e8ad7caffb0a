#include "db/store/trial_queue.h"

#include <algorithm>

namespace autotune::db {
namespace {

constexpr std::size_t kBatchTrials = 64;
constexpr std::chrono::milliseconds kBatchTime{250};
// Trials are committed one by one while commits take less than a fiftieth of the time. Typical: 1 ms on a local disk, with trials
// of 100 ms.
constexpr int kCommitShare = 50;
// After a wait for a lock that timed out, the next wait begins when it costs less than a tenth of the time.
constexpr int kFailureShare = 10;
// About 100 MB. A search makes some thousand trials.
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
