#include "tuner/fleet/source/fleet_source.h"

#include <utility>

#include "src/core/error.h"
#include "src/dispatch/rules/stored_winner.h"
#include "src/records/json_line.h"

namespace autotune::tuner {

FleetSource::FleetSource(fleet::FleetLink& link, const std::vector<LaneGpu>& gpus, const TuneServices& services,
                         const ReadLoad& read, const IdleOptions& options, const std::atomic<bool>* stop, IdleObserver& observer)
    : IdleSource(gpus, read, options, stop, observer), link_(link), services_(services) {}

void FleetSource::pass_on_remarks() {
    for (const std::string& each : link_.remarks()) observer().on_remark(each);
}

// Also gives back an item that was claimed for the lane meanwhile, which would otherwise stay leased.
void FleetSource::lane_out(const LaneView& lane) {
    link_.give_back(lane.index);
    IdleSource::lane_out(lane);
}

bool FleetSource::is_exhausted() const {
    const bool is_over = IdleSource::is_exhausted();
    if (is_over) link_.stop_claiming();
    return is_over;
}

std::optional<Problem> FleetSource::problem_of_claim(const fleet::Claim& claim) const {
    db::MissRow row;
    row.op = claim.class_key.substr(0, claim.class_key.find(' '));
    row.class_key = claim.class_key;
    row.shape = claim.shape;
    row.problem_key = claim.class_key + " " + claim.shape;
    std::optional<Problem> problem = problem_of(services_.catalogue, row);
    // A row of the queue may have any text, so its class and shape must be the same after parsing.
    if (problem && (problem->class_key() != claim.class_key || problem->shape() != claim.shape)) return std::nullopt;
    return problem;
}

// Finds a winner that this worker stored locally but had not sent to the store when it was stopped.
std::optional<TuneResult> FleetSource::known_winner(const Problem& problem, const LaneView& lane) const {
    TuneServices here = services_;
    here.device = lane.device;
    here.device_uuid = lane.uuid;
    here.provenance = gpus().at(lane.index).provenance;
    try {
        std::optional<TuneResult> known = recall(problem, here);
        return known && !known->stale ? known : std::nullopt;
    } catch (const Error&) {
        return std::nullopt;  // the lane that tunes the problem reports the database's fault
    }
}

void FleetSource::fail(const fleet::Claim& claim, fleet::Loss loss, const std::string& why) {
    link_.fail(claim, loss, why);
    ++(loss == fleet::Loss::released ? counts_.given_back : counts_.failed);
}

bool FleetSource::send(const fleet::Claim& claim, const SweepItem& item) {
    const db::Winner& winner = item.result->winner;
    if (!winner.doubt.empty() || !winner.restricted_to.empty()) {
        fail(claim, fleet::Loss::failed, "its winner is in doubt: " + winner.doubt);
        return false;
    }
    link_.complete(claim, records::to_json_line(winner));
    ++(item.state == SweepItem::State::tuned ? counts_.tuned : counts_.fresh);
    return true;
}

std::optional<WorkSource::Item> FleetSource::take(const LaneView& lane, bool is_ahead) {
    pass_on_remarks();
    const bool is_idle = is_card_idle(lane, is_ahead);
    if (has_in_hand()) count_as_useful();
    // Items are not claimed ahead, because another host may be waiting for one.
    if (is_ahead || is_exhausted()) return std::nullopt;
    if (!is_idle) {
        link_.give_back(lane.index);
        return std::nullopt;
    }
    const std::optional<fleet::Claim> claim = link_.take(lane.index);
    if (!claim) return std::nullopt;
    count_as_useful();
    const std::optional<Problem> problem = problem_of_claim(*claim);
    if (!problem) {
        fail(*claim, fleet::Loss::impossible, "no op of this version knows it");
        remark_once("the store asks for " + claim->class_key + " " + claim->shape + ", which no op here knows; it is set aside");
        return std::nullopt;
    }
    if (auto known = known_winner(*problem, lane)) {
        SweepItem item;
        item.problem = *problem;
        item.state = SweepItem::State::fresh;
        item.result = std::move(known);
        item.gpu = lane.uuid;
        if (send(*claim, item)) observer().on_item(item, claim->calls, 0);
        return std::nullopt;
    }
    const Item item{next_id_++, *problem};
    in_hand_[item.id] = {*claim, *problem};
    return item;
}

void FleetSource::done(const LaneView&, std::size_t id, SweepItem item) {
    const auto found = in_hand_.find(id);
    if (found == in_hand_.end()) return;
    const InHand in_hand = std::move(found->second);
    in_hand_.erase(found);
    count_as_useful();
    switch (item.state) {
        case SweepItem::State::tuned:
        case SweepItem::State::fresh:
            if (item.result) {
                if (!item.result->not_stored.empty())
                    remark_once("winners are sent to the store, and not kept here: " + item.result->not_stored);
                send(in_hand.claim, item);
                break;
            }
            fail(in_hand.claim, fleet::Loss::released, "");
            break;
        case SweepItem::State::failed:
            fail(in_hand.claim, fleet::Loss::failed, item.detail);
            break;
        case SweepItem::State::interrupted:
        case SweepItem::State::skipped_for_budget:
        case SweepItem::State::in_work:
            fail(in_hand.claim, fleet::Loss::released, "");
            break;
    }
    observer().on_item(item, in_hand.claim.calls, 0);
    pass_on_remarks();
}

void FleetSource::failed(std::size_t id, Failure why, const std::string& detail) {
    const auto found = in_hand_.find(id);
    if (found == in_hand_.end()) return;
    const InHand in_hand = std::move(found->second);
    in_hand_.erase(found);
    SweepItem item;
    item.problem = in_hand.problem;
    item.detail = detail;
    const bool is_loss = why == Failure::lost_twice;
    item.state = is_loss ? SweepItem::State::failed : SweepItem::State::interrupted;
    fail(in_hand.claim, is_loss ? fleet::Loss::crashed : fleet::Loss::released, detail);
    observer().on_item(item, in_hand.claim.calls, 0);
}

}  // namespace autotune::tuner
