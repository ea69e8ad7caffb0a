#include "tuner/session/idle/idle_source.h"

#include <utility>

namespace autotune::tuner {

IdleSource::IdleSource(const std::vector<LaneGpu>& gpus, const ReadLoad& read, const IdleOptions& options,
                       const std::atomic<bool>* stop, IdleObserver& observer)
    : gpus_(gpus), options_(options), stop_(stop), observer_(observer) {
    for (const LaneGpu& gpu : gpus) watches_.emplace_back(gpu.uuid, read, options.idle_s);
}

bool IdleSource::is_stopped() const {
    if (stop_ == nullptr || !stop_->load()) return false;
    if (!stopped_at_) stopped_at_ = Clock::now();
    if (seconds_since(*stopped_at_) > options_.give_back_after_s) gives_all_back_.store(true);
    return true;
}

bool IdleSource::is_out_of_time() const {
    return options_.until && std::chrono::system_clock::now() + std::chrono::duration<double>(options_.item_s) > *options_.until;
}

bool IdleSource::is_exhausted() const {
    if (is_stopped() || is_out_of_time()) return true;
    return options_.exit_when_idle_s > 0 && !has_in_hand() && seconds_since(useful_at_) > options_.exit_when_idle_s;
}

bool IdleSource::is_card_idle(const LaneView& lane, bool is_ahead) {
    CardWatch& watch = watches_.at(lane.index);
    watch.look(is_ahead);
    return watch.is_idle();
}

bool IdleSource::wants_back(const LaneView& lane) {
    CardWatch& watch = watches_.at(lane.index);
    watch.look(true);
    return watch.is_others();
}

void IdleSource::lane_out(const LaneView& lane) {
    card_failed(lane, "its lane ended twice");
}

void IdleSource::card_failed(const LaneView& lane, const std::string& why) {
    watches_.at(lane.index).count_as_busy(why);
    remark_once(lane.uuid + " cannot be used now: " + why);
}

void IdleSource::remark_once(const std::string& text) {
    if (std::exchange(remarked_[text], true)) return;
    observer_.on_remark(text);
}

}  // namespace autotune::tuner
