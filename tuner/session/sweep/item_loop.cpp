#include "tuner/session/sweep/item_loop.h"

#include <chrono>
#include <filesystem>
#include <system_error>

#include "src/core/error.h"

namespace autotune::tuner {

void ItemLoop::prove_gpu() {
    host_.set_harness(compile_now(shared_, jit::render_harness(services_.catalogue, engine_.target())));
    host_.ensure_healthy();
}

std::unique_ptr<TuneRun> ItemLoop::begin(const Problem& problem, int urgency) {
    auto candidates = next_key_ == problem.key() && listing_.valid()
                          ? listing_.get()
                          : list_candidates(problem, each_, services_, known_beforehand(problem, each_, services_));
    auto run = std::make_unique<TuneRun>(shared_, problem, each_, std::move(candidates));
    run->start(urgency);
    return run;
}

// A second thread lists the next problem's candidates while this one is on the GPU: listing some 300,000 takes noticeable time.
// Its first candidates compile once this problem's queue is short.
void ItemLoop::begin_next(const Problem& problem) {
    if (next_ != nullptr) return;
    if (next_key_ != problem.key()) {
        next_key_ = problem.key();
        const auto list = [this, problem, beforehand = known_beforehand(problem, each_, services_)] {
            return list_candidates(problem, each_, services_, beforehand);
        };
        try {
            listing_ = std::async(std::launch::async, list);
        } catch (const std::system_error&) {  // If there is no thread, the problem is listed when its turn comes.
            listing_ = {};
        }
    }
    if (!listing_.valid() || listing_.wait_for(std::chrono::seconds(0)) != std::future_status::ready) return;
    if (engine_.pool().pending() >= engine_.pool().capacity()) return;
    try {
        next_ = begin(problem, 2);
    } catch (const Error&) {
        next_.reset();  // The error is reported when the problem's turn comes.
    }
}

// Retunes and searches for a named config are not claimed, because another process does not do the same.
bool ItemLoop::claims() const {
    return services_.store != nullptr && !services_.store->is_read_only() && !each_.retune && each_.choice.named.empty();
}

// REQUIRES: the GPU is held. Otherwise a process with a claim could wait for the GPU of a process that waits for the claim.
bool ItemLoop::claim(const Problem& problem) {
    std::error_code ignored;
    std::string what = std::filesystem::weakly_canonical(services_.store->path(), ignored).string();
    what += "\n" + services_.device.identity.key() + "\n" + problem.key() + "\n" + each_.choice.pins.to_string();
    for (const std::string& family : each_.choice.families) what += "\n" + family;
    claim_ = ProblemClaim::try_take(engine_.state_folder(), what);
    return claim_.has_value();
}

void ItemLoop::tune(SweepItem& item, const std::function<const Problem*()>& following, bool is_again) {
    const auto begun = Clock::now();
    try {
        if (is_again) item.result = recall(item.problem, services_, each_.choice);
        if (item.result && !item.result->stale) {
            item.state = SweepItem::State::fresh;
        } else if (item.result.reset(); claims() && engine_.holds_gpu() && !claim(item.problem)) {
            item.state = SweepItem::State::in_work;
        } else {
            tune_claimed(item, following);
        }
    } catch (const Error& error) {
        fail(item, error);
    } catch (const Interrupted&) {
        item.state = SweepItem::State::interrupted;
        stopped_ = true;
    }
    engine_.set_idle_hook({});
    claim_.reset();
    item.seconds = seconds_since(begun);
}

// The first item is claimed after it was begun, because its candidates compile while this process waits for the GPU's lock.
void ItemLoop::tune_claimed(SweepItem& item, const std::function<const Problem*()>& following) {
    const bool is_begun = next_ != nullptr && next_key_ == item.problem.key();
    std::unique_ptr<TuneRun> run = is_begun ? std::move(next_) : begin(item.problem, 1);
    next_.reset();  // The prepared run belongs to a problem that does not come next.
    engine_.set_idle_hook([this, &following, current = run.get()] {
        current->refill();
        if (const Problem* next = following()) begin_next(*next);
        if (next_ != nullptr) next_->refill();
    });
    if (claims() && !claim_) {
        engine_.acquire_gpu();
        if (!claim(item.problem)) {
            item.state = SweepItem::State::in_work;
            engine_.set_idle_hook({});  // The hook must be removed before the run is destroyed.
            return;
        }
    }
    item.result = run->finish();
    item.state = item.result->interrupted ? SweepItem::State::interrupted
                 : item.result->tuned     ? SweepItem::State::tuned
                                          : SweepItem::State::fresh;  // another tuner has stored a winner meanwhile
    stopped_ = item.result->interrupted;
    engine_.set_idle_hook({});
}

void ItemLoop::rest(double seconds) {
    const auto since = Clock::now();
    try {
        while (seconds_since(since) < seconds) engine_.pump(std::chrono::milliseconds(50));
    } catch (const Interrupted&) {
        stopped_ = true;
    }
}

void ItemLoop::fail(SweepItem& item, const Error& error) {
    const ErrorCode code = error.code();
    if (ends_all(code)) throw error;
    item.state = code == ErrorCode::interrupted ? SweepItem::State::interrupted : SweepItem::State::failed;
    stopped_ = code == ErrorCode::interrupted;
    item.detail = error.what();
}

}  // namespace autotune::tuner
