#include "tuner/session/idle/miss_source.h"

#include <algorithm>
#include <system_error>
#include <utility>

#include "src/dispatch/rules/stored_winner.h"

namespace autotune::tuner {
namespace {

constexpr double kReadEvery_s = 1;
// A program with an older plan may record a problem again that has a winner by now. Looking it up each time would cost a lane.
constexpr double kSettledFor_s = 600;
constexpr std::size_t kMostProblems = 20'000;

}  // namespace

MissSource::MissSource(std::vector<db::WinnerStore*> stores, const std::vector<LaneGpu>& gpus, const Catalogue& catalogue,
                       FailedProblems& failed, const ReadLoad& read, const IdleOptions& options, const std::atomic<bool>* stop,
                       IdleObserver& observer)
    : IdleSource(gpus, read, options, stop, observer),
      stores_(std::move(stores)),
      catalogue_(catalogue),
      failed_(failed),
      read_at_(stores_.size()) {}

// Cached: a database may have ten thousand misses, and is read again whenever its file has changed.
const std::optional<Problem>& MissSource::problem_of_miss(const db::MissRow& row) {
    if (problems_.size() > kMostProblems) problems_.clear();
    const auto [found, is_new] = problems_.try_emplace(row.class_key + " " + row.shape);
    if (is_new) found->second = problem_of(catalogue_, row);
    return found->second;
}

// Returns false if a database cannot be read now.
bool MissSource::read_misses(std::map<std::string, Missed>& to) {
    for (std::size_t i = 0; i < stores_.size(); ++i) {
        try {
            for (const db::MissRow& row : stores_[i]->misses()) {
                const std::optional<Problem>& problem = problem_of_miss(row);
                if (!problem) {
                    remark_once("the miss " + row.class_key + " " + row.shape + " is passed over: no op here knows it");
                    continue;
                }
                Missed found{*problem, problem->key(), row.device_key, 0, "", {}};
                Missed& missed = to.try_emplace(key_of(found), std::move(found)).first->second;
                missed.calls += row.count;
                missed.date = std::max(missed.date, row.date);
                missed.stores.push_back(i);
            }
        } catch (const db::DatabaseError& error) {
            remark_once(std::string(error.what()) + "; its misses are read when that is over");
            return false;
        }
    }
    return true;
}

// Databases are read again when their files have changed.
void MissSource::look_for_misses() {
    if (looked_at_ && seconds_since(*looked_at_) < kReadEvery_s) return;
    const bool is_first = !looked_at_;
    looked_at_ = Clock::now();
    std::vector<std::filesystem::file_time_type> times;
    for (const db::WinnerStore* store : stores_) {
        std::error_code failed;
        times.push_back(std::filesystem::last_write_time(store->path(), failed));
    }
    if (!is_first && times == read_at_) return;
    std::map<std::string, Missed> misses;
    if (!read_misses(misses)) return;
    misses_ = std::move(misses);
    read_at_ = std::move(times);
    for (const auto& [key, missed] : misses_)
        if (!has_card(missed.device_key))
            remark_once("misses of " + missed.device_key + " are left to a worker with such a card");
}

bool MissSource::has_card(const std::string& device_key) const {
    return std::any_of(gpus().begin(), gpus().end(), [&](const LaneGpu& gpu) { return gpu.device.identity.key() == device_key; });
}

bool MissSource::is_in_hand(const std::string& key) const {
    return std::any_of(in_hand_.begin(), in_hand_.end(), [&](const auto& each) { return key_of(each.second.missed) == key; });
}

// Whether the problem is for a card of one of the lanes, and was not tried lately.
bool MissSource::is_waiting(const std::string& key, const Missed& missed) const {
    if (!has_card(missed.device_key) || is_in_hand(key)) return false;
    if (!failed_.why(missed.problem_key, missed.device_key).empty()) return false;
    const auto settled = settled_at_.find(key);
    return settled == settled_at_.end() || seconds_since(settled->second) > kSettledFor_s;
}

bool MissSource::has_waiting() const {
    return std::any_of(misses_.begin(), misses_.end(), [&](const auto& each) { return is_waiting(each.first, each.second); });
}

std::size_t MissSource::waiting() const {
    return static_cast<std::size_t>(
        std::count_if(misses_.begin(), misses_.end(), [&](const auto& each) { return is_waiting(each.first, each.second); }));
}

// The problem with the most calls; among equals the latest.
const MissSource::Missed* MissSource::best_for(const std::string& device_key) const {
    const Missed* best = nullptr;
    for (const auto& [key, missed] : misses_) {
        if (missed.device_key != device_key || !is_waiting(key, missed)) continue;
        if (best == nullptr || std::pair(missed.calls, missed.date) > std::pair(best->calls, best->date)) best = &missed;
    }
    return best;
}

std::optional<WorkSource::Item> MissSource::take(const LaneView& lane, bool is_ahead) {
    look_for_misses();
    const bool is_idle = is_card_idle(lane, is_ahead);
    if (has_in_hand() || has_waiting()) count_as_useful();
    if (is_exhausted() || !is_idle) return std::nullopt;
    const Missed* const best = best_for(lane.device.identity.key());
    if (best == nullptr) return std::nullopt;
    const Item item{next_id_++, best->problem};
    in_hand_[item.id] = {*best, lane.index};
    return item;
}

// The first database already has the winner. The others get a copy, which deletes their miss.
void MissSource::share(const Missed& missed, const SweepItem& item, const Device& device) {
    const std::vector<Problem> tuned{missed.problem};
    for (const std::size_t i : missed.stores) {
        try {
            const bool is_of_first = i == 0 || !item.result || item.result->winner.shipped;
            if (!is_of_first) stores_[i]->put(item.result->winner);
            if (item.state == SweepItem::State::fresh) stores_[i]->forget_misses(tuned, device.identity);
        } catch (const db::DatabaseError& error) {
            remark_once(std::string(error.what()) + "; its miss stays, and the problem is found tuned later");
        }
    }
}

void MissSource::done(const LaneView& lane, std::size_t id, SweepItem item) {
    const auto found = in_hand_.find(id);
    if (found == in_hand_.end()) return;
    const Missed missed = std::move(found->second.missed);
    in_hand_.erase(found);
    count_as_useful();
    const std::string key = key_of(missed);
    const auto is_failure = [&](const std::string& why) {
        failed_.add(missed.problem_key, missed.device_key, why);
        ++counts_.failed;
    };
    switch (item.state) {
        case SweepItem::State::tuned:
        case SweepItem::State::fresh:
            if (item.result && !item.result->not_stored.empty()) {
                item.detail = "its winner is not stored: " + item.result->not_stored;
                is_failure(item.detail);
                break;
            }
            (item.state == SweepItem::State::tuned ? counts_.tuned : counts_.fresh) += 1;
            settled_at_[key] = Clock::now();
            share(missed, item, lane.device);
            break;
        case SweepItem::State::failed:
            is_failure(item.detail);
            break;
        case SweepItem::State::interrupted:
        case SweepItem::State::skipped_for_budget:
        case SweepItem::State::in_work:
            ++counts_.given_back;
            break;
    }
    looked_at_.reset();
    observer().on_item(item, missed.calls, waiting());
}

// An item that lanes could not finish is put off until tomorrow only if two lanes died on it.
void MissSource::failed(std::size_t id, Failure why, const std::string& detail) {
    const auto found = in_hand_.find(id);
    if (found == in_hand_.end()) return;
    const Missed missed = std::move(found->second.missed);
    in_hand_.erase(found);
    SweepItem item;
    item.problem = missed.problem;
    item.state = SweepItem::State::interrupted;
    item.detail = detail;
    if (why == Failure::lost_twice) {
        item.state = SweepItem::State::failed;
        failed_.add(missed.problem_key, missed.device_key, detail);
        ++counts_.failed;
    } else {
        ++counts_.given_back;
    }
    observer().on_item(item, missed.calls, waiting());
}

}  // namespace autotune::tuner
