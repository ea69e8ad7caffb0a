#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "tuner/session/tune.h"
#include "tuner/session/tune/candidates.h"

namespace autotune::tuner {

// The cost models' errors as trials of the problem's class on this card show them, with this NVRTC.
std::vector<CostCorrection> corrections_for(const Problem& problem, const TuneServices& services, const std::string& nvrtc);

// What earlier runs left in the store of a problem, and what of it still counts.
class EarlierRuns {
  public:
    // Nothing is known.
    EarlierRuns() = default;
    // Reads it. Without a store nothing is known.
    EarlierRuns(const Problem& problem, const Candidates& candidates, const TuneServices& services, const Choice& choice = {});

    // The stored winners whose configs a search of the problem begins with, the problem's own first: as they were stored, legal
    // here or not.
    static std::vector<Candidate> winners(const Problem& problem, const TuneServices& services, const Choice& choice);

    // The valid winner, maybe stale.
    const std::optional<db::Winner>& previous() const { return previous_; }
    // What a search begins with, most promising first: the winners of this problem, its fastest trials, winners of near problems
    // and of other devices. Points may repeat.
    const std::vector<std::size_t>& seeds() const { return seeds_; }
    // A trial that the journal kept. Its time counts.
    void add(std::size_t point, db::StoredTrial trial) { trials_[point] = std::move(trial); }

    // The conditions of this run, under which a stored trial counts or does not.
    struct Today {
        std::string nvrtc, method;
        bool retune = false;  // times are to be taken again
    };
    struct Known {
        std::optional<double> time_us;  // nullopt: it failed
    };
    // What a point counts as without being tried. nullopt: it is to be tried. Failures of the candidate count, unless another
    // compiler made them; so do times of today's method, except those of the fastest, which are measured anew.
    std::optional<Known> known(std::size_t point, const Today& today) const;

    const std::map<std::size_t, db::StoredTrial>& trials() const { return trials_; }

  private:
    void add_seed(const Candidates& candidates, const Candidate& candidate);

    std::optional<db::Winner> previous_;
    std::vector<std::size_t> seeds_;
    std::map<std::size_t, db::StoredTrial> trials_;
    std::set<std::size_t> retimed_;  // known and fast: measured again
};

}  // namespace autotune::tuner
