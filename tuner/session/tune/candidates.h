#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "src/catalogue/catalogue.h"
#include "src/core/problem/device.h"
#include "src/core/space/config_list.h"
#include "src/dispatch/rules/refusals.h"
#include "src/records/correction.h"
#include "tuner/search/search.h"
#include "tuner/session/tune.h"
#include "tuner/session/tune/learned_errors.h"

namespace autotune::tuner {

// All candidates for a problem on a device, numbered family by family.
class Candidates {
  public:
    struct Part {
        const Family* family = nullptr;
        SearchSpace space;
        ConfigList points;
        std::size_t first = 0;  // number of points[0]
        std::string template_identity;
        Predictor predictor;
        LearnedErrors errors{};    // corrections of the predictor; none: its predictions are used unchanged
        int learned_problems = 0;  // the number of problems from which the corrections were learned

        std::optional<double> predict_us(const Config& config) const;
    };

    // From a family with more legal points a sample of this size is searched.
    static constexpr std::size_t kMostPointsPerFamily = 200'000;

    // Lists all candidates. Throws Error{usage} for an unknown family, parameter, value or named config, listing the known ones;
    // Error{no_valid_config} with each family's reason if nothing is left.
    Candidates(const Catalogue& catalogue, const Problem& problem, const Device& device, const Choice& choice);

    // Makes the same object in two steps: refusals and the first candidates of a search are known before the space is listed,
    // which takes a second. Throws like the constructor, except for a choice that leaves no config.
    static std::unique_ptr<Candidates> unlisted(const Catalogue& catalogue, const Problem& problem, const Device& device,
                                                const Choice& choice);
    // From now on predicted times are corrected by what was learned about today's templates. REQUIRES: before choose_first() and
    // list().
    void correct(const std::vector<CostCorrection>& corrections);
    // Chooses the candidates that a search tries first: those of `known` that are legal here, in their order, and then the best
    // predicted ones, found from the families' defaults and named configs, and only one of each group of similar ones. They are
    // in the list even if a sample would leave them out. REQUIRES: not listed yet.
    void choose_first(const std::vector<Candidate>& known);
    void put_other_families(const std::vector<Candidate>& ordered, std::size_t known_count, double slowest_us);
    const std::vector<Candidate>& first() const { return first_; }
    // Throws Error{no_valid_config} like the constructor. REQUIRES: not listed yet.
    void list();

    std::size_t size() const { return size_; }
    Candidate at(std::size_t point) const;
    const Part& part_of(std::size_t point) const;
    // The part of a family by name; nullptr if it is not searched.
    const Part* part(const std::string& family) const;
    std::optional<std::size_t> find(const Candidate& candidate) const;
    const std::vector<Part>& parts() const { return parts_; }
    // Corrected.
    std::optional<double> predict_us(std::size_t point) const;
    // Predicts every point now, on several threads, because a search needs all of them.
    void predict_all();
    LaunchPlan plan(std::size_t point) const;

    // The points that a search tries first: `seeds`, then the families' defaults (except hopeless ones), then the best predicted
    // of all and of the named ones, each once.
    std::vector<std::size_t> all_seeds(std::vector<std::size_t> seeds) const;
    // The domain for a search strategy. REQUIRES: this object outlives it.
    Domain domain(std::vector<std::size_t> seeds) const;

  private:
    struct Bare {};  // nothing is listed
    Candidates(Bare, const Catalogue& catalogue, const Problem& problem, const Device& device, const Choice& choice);
    bool is_open_to(const Part& part, const Config& config) const;
    // A candidate met on the way to the best predicted ones, with its time as predicted after and before corrections.
    struct Met {
        double corrected_us = 0, plain_us = 0;
        Candidate candidate;
    };
    std::vector<Met> descend(const Part& part) const;
    std::vector<Candidate> in_two_orders(std::vector<Met> met, std::size_t most) const;
    std::vector<std::size_t> defaults() const;
    std::vector<std::size_t> most_promising(std::size_t count) const;
    std::vector<std::size_t> best_named(std::size_t count) const;

    Problem problem_;
    Device device_;
    Choice choice_;
    std::vector<Part> parts_;
    Refusals refusals_;
    std::vector<Candidate> first_;
    std::size_t size_ = 0;
    std::vector<std::optional<double>> predicted_us_;  // by point, after predict_all()
};

// Whether a choice restricts nothing.
bool is_open(const Choice& choice);
// The restriction that a choice puts on a search of the problem: "family=gemm/mma stages=3", as in Winner::restricted_to. Empty
// if it leaves every config of every family that accepts the problem.
std::string restriction_of(const Choice& choice, const Catalogue& catalogue, const Problem& problem, const Device& device);
// Whether a choice allows the candidate.
bool allows(const Choice& choice, const Candidate& candidate);

}  // namespace autotune::tuner
