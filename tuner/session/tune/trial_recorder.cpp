#include "tuner/session/tune/trial_recorder.h"

#include <utility>

#include "src/catalogue/former_templates.h"
#include "src/records/former_names.h"

namespace autotune::tuner {
namespace {

constexpr auto kFlushEvery = std::chrono::milliseconds(250);

}  // namespace

TrialRecorder::TrialRecorder(const TuneServices& services, Context context)
    : services_(services), context_(std::move(context)), flushed_at_(Clock::now()) {}

std::vector<db::StoredTrial> TrialRecorder::recover(Journal& journal) {
    journal_ = &journal;
    const std::string key = context_.problem.key();
    std::vector<db::StoredTrial> ours;
    const FormerTemplates former = former_templates(services_.catalogue);
    for (const JournalEntry& left : journal.left_over()) {
        db::StoredTrial stored{left.trial, left.template_identity, left.nvrtc, left.method};
        bring_up_to_date(stored, former);  // the interrupted run may have been of an earlier version
        const bool is_ours = left.problem.key() == key;
        if (!left.finished && left.begun < 2) {
            if (is_ours && left.begun > 0) suspects_.insert(stored.trial.candidate);
            continue;
        }
        if (!left.finished) {
            stored.trial.status = TrialStatus::crashed;
            stored.trial.detail = "the machine went down twice while it was running";
        }
        if (!is_about_candidate(stored.trial.status, stored.trial.detail)) continue;  // written by an older build
        if (services_.store != nullptr) services_.store->record(left.problem, services_.device.identity, stored);
        if (is_ours) ours.push_back(std::move(stored));
    }
    flush(true);
    return ours;
}

void TrialRecorder::started(const Candidate& candidate) {
    if (journal_ == nullptr) return;
    Trial starting;
    starting.candidate = candidate;
    const int times = suspects_.contains(candidate) ? 2 : 1;
    for (int i = 0; i < times; ++i) journal_->started(entry_of(starting));
}

void TrialRecorder::survived(const Candidate& candidate) {
    if (journal_ == nullptr) return;
    Trial trial;
    trial.candidate = candidate;
    journal_->survived(entry_of(std::move(trial)));
}

void TrialRecorder::finished(const Trial& trial) {
    if (trial.by_circumstance || !is_about_candidate(trial.status, trial.detail)) {
        survived(trial.candidate);
        return;
    }
    const JournalEntry entry = entry_of(trial);
    if (journal_ != nullptr) journal_->finished(entry);
    if (services_.store != nullptr) {
        services_.store->record(context_.problem, services_.device.identity,
                                {trial, entry.template_identity, entry.nvrtc, entry.method});
    }
    flush(false);
}

void TrialRecorder::flush(bool now) {
    if (services_.store == nullptr || (!now && Clock::now() - flushed_at_ < kFlushEvery)) return;
    const bool is_written = services_.store->flush();
    if (is_written && journal_ != nullptr) journal_->clear();
    flushed_at_ = Clock::now();
}

JournalEntry TrialRecorder::entry_of(Trial trial) const {
    return {.problem = context_.problem,
            .template_identity = context_.template_identity(trial.candidate.family),
            .nvrtc = context_.nvrtc,
            .method = context_.method,
            .trial = std::move(trial)};
}

}  // namespace autotune::tuner
