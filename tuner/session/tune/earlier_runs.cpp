#include "tuner/session/tune/earlier_runs.h"

#include <algorithm>
#include <map>
#include <utility>

#include "src/records/evidence_check.h"
#include "tuner/session/tune/recall.h"

namespace autotune::tuner {
namespace {

constexpr std::size_t kRetimed = 16;  // number of fastest known trials that are measured again
constexpr std::size_t kNear = 3, kElsewhere = 4;

db::Filter on_any_device(const Problem& problem) {
    db::Filter filter;
    filter.op = problem.op;
    filter.class_key = problem.class_key();
    filter.extents = problem.extents;
    filter.limit = kElsewhere;
    return filter;
}

}  // namespace

std::vector<CostCorrection> corrections_for(const Problem& problem, const TuneServices& services, const std::string& nvrtc) {
    if (services.store == nullptr) return {};
    auto found = services.store->corrections(services.device.identity.key(), problem.class_key());
    std::erase_if(found, [&](const CostCorrection& one) { return one.nvrtc != nvrtc; });
    return found;
}

std::vector<CostCorrection> nearest_corrections(const Problem& problem, const TuneServices& services, const std::string& nvrtc) {
    if (services.store == nullptr) return {};
    const std::string own_class = problem.class_key();
    std::map<std::pair<std::string, std::string>, CostCorrection> nearest;  // by family and template
    for (CostCorrection& one : services.store->corrections(services.device.identity.key(), "")) {
        if (one.nvrtc != nvrtc) continue;
        const auto rank = [&](const CostCorrection& other) { return std::pair(other.class_key == own_class, other.problems); };
        const auto [place, is_new] = nearest.try_emplace({one.family, one.template_identity}, one);
        if (!is_new && rank(one) > rank(place->second)) place->second = std::move(one);
    }
    std::vector<CostCorrection> found;
    for (auto& [key, one] : nearest) found.push_back(std::move(one));
    return found;
}

EarlierRuns::EarlierRuns(const Problem& problem, const Candidates& candidates, const TuneServices& services,
                         const Choice& choice) {
    if (services.store == nullptr) return;
    const DeviceIdentity& device = services.device.identity;
    previous_ = valid_winner(problem, services);
    if (!previous_ || !candidates.find(previous_->candidate)) {  // a restricted search uses only the points of its space
        if (auto own = valid_winner(problem, services, choice)) previous_ = std::move(own);
    }
    if (previous_) add_seed(candidates, previous_->candidate);
    for (const db::Winner& winner : services.store->find(problem, device)) add_seed(candidates, winner.candidate);
    std::vector<std::pair<double, std::size_t>> timed;
    for (db::StoredTrial& stored : services.store->trials(problem, device)) {
        const auto point = candidates.find(stored.trial.candidate);
        if (says_unmeasured(stored.trial.detail)) continue;  // another measurement may succeed
        if (!point || stored.template_identity != candidates.part_of(*point).template_identity) continue;
        if (stored.trial.timing) timed.emplace_back(stored.trial.timing->median_us, *point);
        trials_[*point] = std::move(stored);
    }
    std::sort(timed.begin(), timed.end());
    for (std::size_t i = 0; i < std::min(kRetimed, timed.size()); ++i) {
        seeds_.push_back(timed[i].second);
        retimed_.insert(timed[i].second);
    }
    for (const db::Winner& near : services.store->near(problem, device, kNear)) add_seed(candidates, near.candidate);
    for (const db::Winner& elsewhere : services.store->list(on_any_device(problem))) add_seed(candidates, elsewhere.candidate);
}

std::vector<Candidate> EarlierRuns::winners(const Problem& problem, const TuneServices& services, const Choice& choice) {
    std::vector<Candidate> known;
    if (services.store == nullptr) return known;
    const DeviceIdentity& device = services.device.identity;
    if (const auto previous = valid_winner(problem, services, choice)) known.push_back(previous->candidate);
    for (const db::Winner& winner : services.store->find(problem, device)) known.push_back(winner.candidate);
    for (const db::Winner& near : services.store->near(problem, device, kNear)) known.push_back(near.candidate);
    for (const db::Winner& elsewhere : services.store->list(on_any_device(problem))) known.push_back(elsewhere.candidate);
    return known;
}

// A winner tuned with another version of its family's template may lack new parameters.
void EarlierRuns::add_seed(const Candidates& candidates, const Candidate& candidate) {
    const Candidates::Part* part = candidates.part(candidate.family);
    const std::optional<Config> adopted = part == nullptr ? std::nullopt : part->space.adopt(candidate.config);
    if (!adopted) return;
    if (const auto point = candidates.find({candidate.family, *adopted})) seeds_.push_back(*point);
}

std::optional<EarlierRuns::Known> EarlierRuns::known(std::size_t point, const Today& today) const {
    const auto found = trials_.find(point);
    if (found == trials_.end() || retimed_.contains(point)) return std::nullopt;
    const db::StoredTrial& stored = found->second;
    if (stored.nvrtc != today.nvrtc || !is_about_candidate(stored.trial.status, stored.trial.detail)) return std::nullopt;
    const bool failed = stored.trial.status != TrialStatus::ok;
    if (!failed && (today.retune || stored.method != today.method)) return std::nullopt;
    return Known{stored.trial.timing ? std::optional(stored.trial.timing->median_us) : std::nullopt};
}

}  // namespace autotune::tuner
