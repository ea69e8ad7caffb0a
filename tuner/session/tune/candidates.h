#pragma once

#include <optional>
#include <string>
#include <vector>

#include "src/catalogue/catalogue.h"
#include "src/core/problem/device.h"
#include "tuner/search/search.h"
#include "tuner/session/tune.h"

namespace autotune::tuner {

// Everything that may be tried for a problem on a device, numbered family by family.
class Candidates {
  public:
    struct Part {
        const Family* family = nullptr;
        SearchSpace space;
        std::vector<Config> points;
        std::size_t first = 0;  // number of points[0]
        std::string template_identity;
        Predictor predictor;
    };

    // Of a family with more legal points a sample of so many is searched.
    static constexpr std::size_t kMostPointsPerFamily = 200'000;

    // Throws Error{usage} for an unknown family, parameter, value or named config, listing the known ones; Error{no_valid_config}
    // with each family's reason if nothing is left.
    Candidates(const Catalogue& catalogue, const Problem& problem, const Device& device, const Choice& choice);

    std::size_t size() const { return size_; }
    Candidate at(std::size_t point) const;
    const Part& part_of(std::size_t point) const;
    // The part of a family by name; nullptr if it is not searched.
    const Part* part(const std::string& family) const;
    std::optional<std::size_t> find(const Candidate& candidate) const;
    const std::vector<Part>& parts() const { return parts_; }
    std::optional<double> predict_us(std::size_t point) const;
    // Predicts every point now, on several threads: a search asks for all of them.
    void predict_all();
    LaunchPlan plan(std::size_t point) const;

    // These, the families' defaults after them (but for hopeless ones) and then what the cost models say is best, of all and of
    // the named ones, nothing twice: what a search tries first.
    std::vector<std::size_t> all_seeds(std::vector<std::size_t> seeds) const;
    // The domain for a search strategy. REQUIRES: this object outlives it.
    Domain domain(std::vector<std::size_t> seeds) const;

  private:
    std::vector<std::size_t> defaults() const;
    std::vector<std::size_t> most_promising(std::size_t count) const;
    std::vector<std::size_t> best_named(std::size_t count) const;

    Problem problem_;
    Device device_;
    std::vector<Part> parts_;
    std::size_t size_ = 0;
    std::vector<std::optional<double>> predicted_us_;  // by point, after predict_all()
};

// Whether a choice leaves everything open.
bool is_open(const Choice& choice);
// What a choice narrows a search of the problem to: "family=gemm/mma stages=3", as Winner::restricted_to has it. Empty if it
// leaves every config of every family that accepts the problem.
std::string restriction_of(const Choice& choice, const Catalogue& catalogue, const Problem& problem, const Device& device);
// Whether a candidate is among those that a choice allows.
bool allows(const Choice& choice, const Candidate& candidate);

}  // namespace autotune::tuner
