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

// The cost models' errors for the problem's class on this card with this NVRTC, learned from trials.
std::vector<CostCorrection> corrections_for(const Problem& problem, const TuneServices& services, const std::string& nvrtc);
// One correction for each family: that of the problem's class, or else that of the class with the most tuned problems. The effect
// of a parameter is much the same for another layout or type.
std::vector<CostCorrection> nearest_corrections(const Problem& problem, const TuneServices& services, const std::string& nvrtc);

// The store's knowledge about a problem from earlier runs, and which of it is still valid.
class EarlierRuns {
  public:
    // Nothing is known.
    EarlierRuns() = default;
    // Reads the store. Without a store nothing is known.
    EarlierRuns(const Problem& problem, const Candidates& candidates, const TuneServices& services, const Choice& choice = {});

    // The stored winners with whose configs a search of the problem begins, the problem's own first: as they were stored, legal
    // here or not.
    static std::vector<Candidate> winners(const Problem& problem, const TuneServices& services, const Choice& choice);

    // The valid winner, maybe stale.
    const std::optional<db::Winner>& previous() const { return previous_; }
    // The points with which a search begins, most promising first: the winners of this problem, its fastest trials, winners of
    // near problems and of other devices. Points may repeat.
    const std::vector<std::size_t>& seeds() const { return seeds_; }
    // Adds a trial that the journal kept. Its time counts as known.
    void add(std::size_t point, db::StoredTrial trial) { trials_[point] = std::move(trial); }

    // The conditions of this run, which decide whether a stored trial counts.
    struct Today {
        std::string nvrtc, method;
        bool retune = false;  // whether times must be measured again
    };
    struct Known {
        std::optional<double> time_us;  // nullopt: it failed
    };
    // The result of a point that need not be tried; nullopt: it must be tried. Failures caused by the candidate count unless
    // another compiler made them. Times by today's method count too, except those of the fastest, which are measured again.
    std::optional<Known> known(std::size_t point, const Today& today) const;

    const std::map<std::size_t, db::StoredTrial>& trials() const { return trials_; }

  private:
    void add_seed(const Candidates& candidates, const Candidate& candidate);

    std::optional<db::Winner> previous_;
    std::vector<std::size_t> seeds_;
    std::map<std::size_t, db::StoredTrial> trials_;
    std::set<std::size_t> retimed_;  // points that are known and fast, and are measured again
};

}  // namespace autotune::tuner
