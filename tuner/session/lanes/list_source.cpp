#include "tuner/session/lanes/list_source.h"

#include <algorithm>
#include <set>
#include <utility>

#include "src/core/error.h"

namespace autotune::tuner {
namespace {

// The first GPU of each kind of card.
std::vector<LaneGpu> one_of_each_kind(const std::vector<LaneGpu>& gpus) {
    std::vector<LaneGpu> kinds;
    std::set<std::string> keys;
    for (const LaneGpu& gpu : gpus) {
        if (keys.insert(gpu.device.identity.key()).second) kinds.push_back(gpu);
    }
    return kinds;
}

}  // namespace

ListSource::ListSource(const std::vector<Problem>& problems, const std::vector<LaneGpu>& gpus, const SweepOptions& options,
                       const TuneServices& services, SweepObserver* observer)
    : options_(options), services_(services), observer_(observer), gpus_(gpus), classes_(gpus.size()), is_out_(gpus.size()) {
    for (const LaneGpu& gpu : one_of_each_kind(gpus)) {
        for (const Problem& problem : problems) add(problem, gpu);
    }
    for (Entry& entry : entries_) {
        if (entry.item.result) settle(entry);
    }
}

// Fresh problems are recognised before any process starts.
void ListSource::add(const Problem& problem, const LaneGpu& gpu) {
    Entry entry;
    entry.item.problem = problem;
    entry.item.card = gpu.device.identity.name;
    entry.device_key = gpu.device.identity.key();
    entry.class_key = problem.class_key();
    const Op& op = services_.catalogue.op_of(problem);
    entry.work = std::max(op.flops(problem), op.bytes(problem));
    if (!options_.each.retune) {
        TuneServices here = services_;
        here.device = gpu.device;
        here.provenance = gpu.provenance;
        entry.item.result = recall(problem, here, options_.each.choice);
        if (entry.item.result && entry.item.result->stale) entry.item.result.reset();
    }
    entries_.push_back(std::move(entry));
}

bool ListSource::is_another_lanes(const std::string& class_key, std::size_t lane) const {
    for (std::size_t i = 0; i < classes_.size(); ++i) {
        if (i != lane && classes_[i] == class_key) return true;
    }
    return false;
}

std::optional<WorkSource::Item> ListSource::take(const LaneView& lane, bool is_ahead) {
    if (is_stopped() || out_of_time()) return std::nullopt;
    const std::string key = lane.device.identity.key();
    const bool by_work = options_.total_seconds <= 0;
    const auto rank = [&](const Entry& entry) {
        if (!by_work) return 0;
        return entry.class_key == lane.class_key ? 2 : is_another_lanes(entry.class_key, lane.index) ? 0 : 1;
    };
    Entry* best = nullptr;
    std::size_t waiting = 0;
    for (Entry& entry : entries_) {
        if (entry.stage != Stage::waiting || entry.device_key != key) continue;
        ++waiting;
        if (best == nullptr || rank(entry) > rank(*best) || (by_work && rank(entry) == rank(*best) && entry.work > best->work))
            best = &entry;
    }
    // The last items are kept for lanes that have nothing to do.
    if (best == nullptr || (is_ahead && waiting < lanes_for(key))) return std::nullopt;
    best->stage = Stage::in_hand;
    classes_[lane.index] = best->class_key;
    return Item{static_cast<std::size_t>(best - entries_.data()), best->item.problem};
}

std::size_t ListSource::lanes_for(const std::string& device_key) const {
    std::size_t lanes = 0;
    for (std::size_t i = 0; i < gpus_.size(); ++i) {
        if (!is_out_[i] && gpus_[i].device.identity.key() == device_key) ++lanes;
    }
    return lanes;
}

void ListSource::lane_out(const LaneView& lane) {
    is_out_[lane.index] = true;
}

bool ListSource::is_exhausted() const {
    return is_stopped() || out_of_time() || std::none_of(entries_.begin(), entries_.end(), [&](const Entry& entry) {
               return entry.stage == Stage::waiting && lanes_for(entry.device_key) > 0;
           });
}

void ListSource::done(const LaneView&, std::size_t id, SweepItem item) {
    Entry& entry = entries_.at(id);
    item.card = entry.item.card;
    entry.item = std::move(item);
    tuned_seconds_ += entry.item.seconds;
    ++tuned_;
    settle(entry);
}

void ListSource::failed(std::size_t id, Failure why, const std::string& detail) {
    Entry& entry = entries_.at(id);
    if (why != Failure::lost_twice) {
        entry.stage = Stage::waiting;  // finish() will give the reason why it was never begun
        return;
    }
    entry.item.state = SweepItem::State::failed;
    entry.item.detail = "two lanes ended in the middle of it, the last one because " + detail;
    settle(entry);
}

void ListSource::settle(Entry& entry) {
    entry.stage = Stage::settled;
    ++settled_;
    if (observer_ == nullptr) return;
    std::optional<double> eta_s;
    if (tuned_ > 0) {
        const auto left = static_cast<double>(entries_.size() - settled_);
        eta_s = tuned_seconds_ / tuned_ * left / static_cast<double>(gpus_.size());
    }
    observer_->on_item(entry.item, settled_, entries_.size(), eta_s);
}

void ListSource::give_up(Entry& entry) const {
    if (!is_stopped() && out_of_time()) {
        entry.item.state = SweepItem::State::skipped_for_budget;
        entry.item.detail = "the sweep's time was used up";
    } else if (!is_stopped() && lanes_for(entry.device_key) == 0) {
        entry.item.state = SweepItem::State::failed;
        entry.item.detail = "no GPU of this kind is left";
    } else {
        entry.item.state = SweepItem::State::interrupted;
    }
}

std::vector<SweepItem> ListSource::finish() {
    std::vector<SweepItem> items;
    for (Entry& entry : entries_) {
        if (entry.stage != Stage::settled) {
            give_up(entry);
            settle(entry);
        }
        items.push_back(std::move(entry.item));
    }
    return items;
}

LanesSweep sweep_on(const std::vector<LaneGpu>& gpus, const std::vector<Problem>& problems, const SweepOptions& options,
                    const db::OpenOptions& store, TuneServices& services, SweepObserver* observer) {
    ListSource source(problems, gpus, options, services, observer);
    LanesSweep swept;
    if (source.is_exhausted()) {
        swept.items = source.finish();
        return swept;
    }
    swept.lanes =
        run_lanes(gpus, source, {.each = options.each, .store = store, .finals_in_turns = options.finals_in_turns}, services);
    const bool all_out =
        std::all_of(swept.lanes.begin(), swept.lanes.end(), [](const LaneReport& lane) { return !lane.out_because.empty(); });
    if (all_out && !source.all_settled())
        throw Error(ErrorCode::gpu_unhealthy, "no GPU of this sweep can go on; the last one: " + swept.lanes.back().out_because);
    swept.items = source.finish();
    return swept;
}

}  // namespace autotune::tuner
