#pragma once

#include <algorithm>
#include <deque>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "db/store/matching.h"
#include "db/store/trials.h"
#include "db/winner_store.h"
#include "src/core/problem/device_key.h"
#include "src/records/validate.h"

namespace autotune::test {

// A WinnerStore in memory, for tests of code above the interface: no file, no shipped layer, no failures.
class MemoryStore final : public db::WinnerStore {
  public:
    std::vector<Winner> find(const Problem& problem, const DeviceIdentity& device) const override {
        std::vector<Winner> found;
        for (const Winner& winner : winners_)
            if (is_of(winner, problem, device) && winner.extents == problem.extents) found.push_back(winner);
        return found;
    }
    std::vector<Winner> near(const Problem& problem, const DeviceIdentity& device, std::size_t limit) const override {
        std::vector<Winner> found;
        for (const Winner& winner : winners_)
            if (is_of(winner, problem, device) && winner.extents != problem.extents) found.push_back(records::brief(winner));
        std::stable_sort(found.begin(), found.end(), [&](const Winner& a, const Winner& b) {
            return db::log_distance(a.extents, problem.extents) < db::log_distance(b.extents, problem.extents);
        });
        if (found.size() > limit) found.resize(limit);
        return found;
    }

    std::vector<Winner> near_of_other_cards(const Problem& problem, const DeviceIdentity& device,
                                            std::size_t limit) const override {
        std::vector<Winner> found;
        for (const Winner& winner : winners_)
            if (winner.class_key == problem.class_key() && have_same_chip(winner.device, device))
                found.push_back(records::brief(winner));
        std::stable_sort(found.begin(), found.end(), [&](const Winner& a, const Winner& b) {
            return db::log_distance(a.extents, problem.extents) < db::log_distance(b.extents, problem.extents);
        });
        if (found.size() > limit) found.resize(limit);
        return found;
    }

    void put(const Winner& winner) override { put_all({&winner, 1}); }
    void put_all(std::span<const Winner> winners) override {
        std::vector<Winner> rows;
        for (const Winner& winner : winners) {
            rows.push_back(records::tidied(winner));
            if (const auto why = records::why_invalid(rows.back())) throw refused(*why);
        }
        for (Winner& row : rows) {
            std::erase_if(winners_, [&](const Winner& ours) { return has_key_of(ours, row); });
            if (row.doubt.empty() && row.restricted_to.empty()) {
                Problem tuned;
                tuned.extents = row.extents;
                const std::string key = row.class_key + " " + tuned.shape();
                std::erase_if(misses_, [&](const db::MissRow& miss) {
                    return miss.problem_key == key && miss.device_key == row.device.key();
                });
            }
            winners_.push_front(std::move(row));
        }
    }
    std::vector<Winner> list(const db::Filter& filter) const override {
        std::vector<Winner> rows;
        for (const Winner& winner : winners_)
            if (rows.size() < filter.limit && db::matches(winner, filter)) rows.push_back(records::brief(winner));
        return rows;
    }
    void scan(const db::Filter& filter, const std::function<bool(const Winner&)>& use) const override {
        const std::vector<Winner> rows = list(filter);
        (void)std::all_of(rows.begin(), rows.end(), std::ref(use));
    }
    std::vector<Winner> list_shipped(const db::Filter&) const override { return {}; }
    std::int64_t count(const db::Filter& filter) const override {
        return std::count_if(winners_.begin(), winners_.end(), [&](const Winner& each) { return db::matches(each, filter); });
    }
    void for_each(const db::Filter& filter, const std::function<bool(const Winner&)>& use) const override {
        const std::deque<Winner> rows = winners_;  // `use` may call the store
        hand_over(rows.begin(), rows.end(), filter, use);
    }
    void for_each_oldest_first(const db::Filter& filter, const std::function<bool(const Winner&)>& use,
                               const std::function<void(const std::string&)>&) const override {
        const std::deque<Winner> rows = winners_;
        hand_over(rows.rbegin(), rows.rend(), filter, use);
    }
    std::optional<Winner> same_key(const Winner& winner) const override {
        const auto ours =
            std::find_if(winners_.begin(), winners_.end(), [&](const Winner& each) { return has_key_of(each, winner); });
        return ours == winners_.end() ? std::nullopt : std::optional(*ours);
    }
    std::int64_t remove(const db::Filter& filter) override {
        for (const Winner& winner : winners_) {
            if (!db::matches(winner, filter)) continue;
            std::erase_if(trials_, [&](const Tried& each) {
                return is_of(winner, each.problem, each.device) && winner.extents == each.problem.extents;
            });
        }
        return static_cast<std::int64_t>(std::erase_if(winners_, [&](const Winner& each) { return db::matches(each, filter); }));
    }

    void record(const Problem& problem, const DeviceIdentity& device, const StoredTrial& trial) override {
        if (const auto why = db::why_invalid(db::problem_key_of(problem, device), trial)) throw refused(*why);
        std::erase_if(trials_, [&](const Tried& each) {
            return is_same(each, problem, device) && each.trial.nvrtc == trial.nvrtc &&
                   each.trial.template_identity == trial.template_identity && each.trial.trial.candidate == trial.trial.candidate;
        });
        trials_.push_back({problem, device, trial});
        trials_.back().trial.trial.detail = records::cleaned(trial.trial.detail, records::kMaxDetail);
    }
    bool flush() override { return true; }
    std::vector<StoredTrial> trials(const Problem& problem, const DeviceIdentity& device) const override {
        std::vector<StoredTrial> found;
        for (const Tried& each : trials_)
            if (is_same(each, problem, device)) found.push_back(each.trial);
        return found;
    }

    void record_misses(std::span<const db::Miss> misses) override {
        for (const auto& [problem, device, origin, count] : misses) {
            const auto known = std::find_if(misses_.begin(), misses_.end(), [&](const db::MissRow& each) {
                return each.problem_key == problem.key() && each.device_key == device.key();
            });
            db::MissRow miss{problem.key(), problem.op, problem.class_key(), problem.shape(), device.key(), "", origin, count};
            if (known != misses_.end()) {
                miss.count += known->count;
                misses_.erase(known);
            }
            misses_.push_back(miss);
        }
        std::stable_sort(misses_.begin(), misses_.end(),
                         [](const db::MissRow& a, const db::MissRow& b) { return a.count > b.count; });
    }
    void forget_misses(std::span<const Problem> problems, const DeviceIdentity& device) override {
        for (const Problem& problem : problems)
            std::erase_if(misses_, [&](const db::MissRow& miss) {
                return miss.problem_key == problem.key() && miss.device_key == device.key();
            });
    }
    std::vector<db::MissRow> misses(std::size_t limit = SIZE_MAX) const override {
        const auto count = static_cast<std::ptrdiff_t>(std::min(limit, misses_.size()));
        return {misses_.begin(), misses_.begin() + count};
    }
    std::int64_t count_misses() const override { return static_cast<std::int64_t>(misses_.size()); }

    std::vector<CostCorrection> corrections(const std::string& device_key, const std::string& class_key) const override {
        std::vector<CostCorrection> found;
        for (const CostCorrection& one : corrections_)
            if (one.device_key == device_key && (class_key.empty() || one.class_key == class_key)) found.push_back(one);
        std::sort(found.begin(), found.end(),
                  [](const CostCorrection& a, const CostCorrection& b) { return key_of(a) < key_of(b); });
        return found;
    }
    void put_corrections(std::span<const CostCorrection> corrections) override {
        for (const CostCorrection& one : corrections)
            if (const auto why = records::why_invalid(one)) throw refused(*why);
        for (const CostCorrection& one : corrections) {
            std::erase_if(corrections_, [&](const CostCorrection& old) {
                return old.device_key == one.device_key && key_of(old) == key_of(one);
            });
            corrections_.push_back(one);
        }
    }

    const std::string& path() const override { return path_; }
    std::string describe() const override { return "in memory, " + std::to_string(winners_.size()) + " winners"; }
    db::FileHealth check() const override { return {}; }
    db::RepairReport repair() override { return {}; }
    std::vector<db::Warning> warnings() const override { return {}; }
    bool is_read_only() const override { return false; }

  private:
    struct Tried {
        Problem problem;
        DeviceIdentity device;
        StoredTrial trial;
    };

    static std::tuple<std::string, std::string, std::string, std::string> key_of(const CostCorrection& one) {
        return {one.family, one.class_key, one.template_identity, one.nvrtc};
    }
    static bool is_of(const Winner& winner, const Problem& problem, const DeviceIdentity& device) {
        return winner.class_key == problem.class_key() && winner.device.key() == device.key();
    }
    static bool is_same(const Tried& tried, const Problem& problem, const DeviceIdentity& device) {
        return tried.problem.key() == problem.key() && tried.device.key() == device.key();
    }
    static bool has_key_of(const Winner& a, const Winner& b) {
        return a.class_key == b.class_key && a.extents == b.extents && a.device.key() == b.device.key() &&
               a.candidate.family == b.candidate.family && a.template_identity == b.template_identity &&
               a.restricted_to == b.restricted_to;
    }
    db::DatabaseError refused(const std::string& why) const {
        return {db::DatabaseFault::other, "the store in memory cannot take a row (" + why + ")"};
    }
    template <class Iterator>
    static void hand_over(Iterator from, Iterator end, const db::Filter& filter, const std::function<bool(const Winner&)>& use) {
        for (; from != end; ++from)
            if (db::matches(*from, filter) && !use(*from)) return;
    }

    std::string path_ = ":memory:";
    std::deque<Winner> winners_;  // newest first
    std::vector<Tried> trials_;   // in the order in which they were last recorded
    std::deque<db::MissRow> misses_;
    std::vector<CostCorrection> corrections_;
};

}  // namespace autotune::test
