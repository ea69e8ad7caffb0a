#include "tuner/session/tune/candidates.h"

#include <algorithm>
#include <cmath>
#include <future>
#include <iterator>
#include <limits>
#include <map>
#include <set>
#include <system_error>
#include <tuple>

#include "src/core/error.h"
#include "src/core/system/processors.h"
#include "src/core/text.h"
#include "tuner/search/search_domain.h"

namespace autotune::tuner {
namespace {

// Candidates predicted slower than the best by this factor are not tried first; models err by a factor of less than 7. One run of
// attention/naive on 4x16x4096x128 takes 332 ms of an H200, 700 times the best, and was two thirds of a short search.
constexpr double kMaxPredictedRatio = 30;

// The best of another family is tried early unless it is predicted slower than the best of all by more than this factor.
constexpr double kSlowestOther = 3;

std::vector<const Family*> chosen_families(const Catalogue& catalogue, const Problem& problem, const Choice& choice) {
    const std::vector<const Family*> all = catalogue.families_of(problem.op);
    if (choice.families.empty()) return all;
    std::vector<const Family*> chosen;
    for (const std::string& name : choice.families) {
        const auto found = std::find_if(all.begin(), all.end(), [&](const Family* family) { return family->name() == name; });
        if (found == all.end()) {
            std::vector<std::string> known;
            for (const Family* family : all) known.emplace_back(family->name());
            throw Error(ErrorCode::usage, "op " + problem.op + " has no family '" + name + "'; it has: " + join(known));
        }
        chosen.push_back(*found);
    }
    return chosen;
}

ConfigList points_of(const SearchSpace& space, const Choice& choice) {
    if (choice.named.empty()) return list_sample(space, choice.pins, Candidates::kMostPointsPerFamily);
    std::vector<Config> points;
    for (const NamedConfig& named : space.named) {
        if (named.name != choice.named) continue;
        Config config = named.config;
        for (const auto& [name, value] : choice.pins.values())
            if (config.find(name)) config.set(name, value);
        config = space.canonical(config);
        if (space.contains(config)) points.push_back(config);
    }
    return {space.parameters, points};
}

// An op may have problems without elements, which the library answers without a kernel.
void refuse_nothing(const Catalogue& catalogue, const Problem& problem) {
    if (catalogue.op_of(problem).bytes(problem) > 0) return;
    throw Error(ErrorCode::usage,
                "the problem " + problem.key() + " has no elements: there is nothing to run; give a larger shape");
}

void refuse_unknown_pins(const std::vector<Candidates::Part>& parts, const Choice& choice) {
    for (const auto& [name, value] : choice.pins.values()) {
        std::vector<std::string> known;
        bool is_known = false;
        for (const Candidates::Part& part : parts) {
            for (const Parameter& parameter : part.space.parameters) known.push_back(parameter.name);
            is_known = is_known || part.space.find(name) != nullptr;
        }
        std::sort(known.begin(), known.end());
        known.erase(std::unique(known.begin(), known.end()), known.end());
        if (!is_known) throw Error(ErrorCode::usage, "no family has a parameter '" + name + "'; known: " + join(known));
    }
}

// Computes on another thread; but at the first use if there is little to do or the system refuses a thread.
template <class Work>
auto begin(const Work& work, bool by_another) {
    try {
        if (by_another) return std::async(std::launch::async, work);
    } catch (const std::system_error&) {
    }
    return std::async(std::launch::deferred, work);
}

// Whether two configs of a family probably work or fail together: few of their compile parameters differ.
bool alike(const SearchSpace& space, const Config& left, const Config& right) {
    constexpr std::ptrdiff_t kApart = 3;
    return std::count_if(space.parameters.begin(), space.parameters.end(), [&](const Parameter& parameter) {
               return parameter.kind == ParameterKind::compile && left.find(parameter.name) != right.find(parameter.name);
           }) < kApart;
}

// Finds a few candidates that have, together, each value of each compile parameter with which some candidate is predicted nearly
// as fast as the best. An error of a cost model often belongs to a value, and one try tells. The tile of 128x240 for f16
// 5000x3000x1000 was predicted 5 % behind and is 12 % faster; by prediction alone a search of 49 trials never came to it.
class ValueCover {
  public:
    // Candidates that are predicted slower than the best by more than this are no reason to try a value.
    static constexpr double kNear = 1.08;

    // Offers a candidate with a number of the caller's.
    void offer(double predicted_us, std::size_t number, const SearchSpace& space, const Config& config) {
        for_each_value(space, config, [&](const Value& value) {
            const auto [best, is_new] = best_.try_emplace(value, Best{predicted_us, number, config});
            if (!is_new && predicted_us < best->second.predicted_us) best->second = {predicted_us, number, config};
        });
    }
    // The values of this candidate need no other.
    void cover(const SearchSpace& space, const Config& config) {
        for_each_value(space, config, [&](const Value& value) { covered_.insert(value); });
    }
    // The numbers of at most `count` candidates, the best predicted first. Values whose best candidate is predicted slowest
    // choose theirs first, because it has common values too.
    std::vector<std::size_t> choose(std::size_t count) {
        std::vector<const std::pair<const Value, Best>*> order;
        for (const auto& one : best_) order.push_back(&one);
        std::stable_sort(order.begin(), order.end(), [](const auto* left, const auto* right) {
            return left->second.predicted_us > right->second.predicted_us;
        });
        std::vector<std::pair<double, std::size_t>> chosen;
        for (const auto* one : order) {
            const auto& [value, best] = *one;
            if (covered_.contains(value)) continue;
            cover(*std::get<0>(value), best.config);
            chosen.emplace_back(best.predicted_us, best.number);
        }
        std::sort(chosen.begin(), chosen.end());
        std::vector<std::size_t> numbers;
        for (std::size_t i = 0; i < std::min(count, chosen.size()); ++i) numbers.push_back(chosen[i].second);
        return numbers;
    }

  private:
    using Value = std::tuple<const SearchSpace*, std::size_t, std::int64_t>;  // a family's space, a parameter, its value
    struct Best {
        double predicted_us = 0;
        std::size_t number = 0;
        Config config;
    };

    template <class Visit>
    static void for_each_value(const SearchSpace& space, const Config& config, const Visit& visit) {
        for (std::size_t i = 0; i < space.parameters.size(); ++i) {
            const Parameter& parameter = space.parameters[i];
            const auto value = parameter.kind == ParameterKind::compile ? config.find(parameter.name) : std::nullopt;
            if (value) visit(Value{&space, i, *value});
        }
    }

    std::map<Value, Best> best_;
    std::set<Value> covered_;
};

void refuse_unknown_name(const std::vector<Candidates::Part>& parts, const Choice& choice) {
    if (choice.named.empty()) return;
    std::vector<std::string> known;
    for (const Candidates::Part& part : parts) {
        for (const NamedConfig& named : part.space.named) known.push_back(named.name);
    }
    if (std::find(known.begin(), known.end(), choice.named) != known.end()) return;
    throw Error(ErrorCode::usage, "no config is named '" + choice.named + "'; known: " + join(known));
}

}  // namespace

Candidates::Candidates(Bare, const Catalogue& catalogue, const Problem& problem, const Device& device, const Choice& choice)
    : problem_(problem), device_(device), choice_(choice) {
    refuse_nothing(catalogue, problem);
    for (const Family* family : chosen_families(catalogue, problem, choice)) {
        if (const auto reason = why_unable(*family, problem, device)) {
            refusals_.add(family->name(), *reason);
            continue;
        }
        parts_.push_back({family,
                          family->space(problem, device),
                          {},
                          0,
                          catalogue.template_identity(*family),
                          family->predictor(problem, device),
                          {},
                          0});
    }
    refuse_unknown_pins(parts_, choice);
    refuse_unknown_name(parts_, choice);
    if (parts_.empty()) throw Error(ErrorCode::no_valid_config, refusals_.sentence(problem, device));
}

Candidates::Candidates(const Catalogue& catalogue, const Problem& problem, const Device& device, const Choice& choice)
    : Candidates(Bare{}, catalogue, problem, device, choice) {
    list();
}

std::unique_ptr<Candidates> Candidates::unlisted(const Catalogue& catalogue, const Problem& problem, const Device& device,
                                                 const Choice& choice) {
    return std::unique_ptr<Candidates>(new Candidates(Bare{}, catalogue, problem, device, choice));
}

// Families in parallel: the largest takes most of a second.
void Candidates::list() {
    std::vector<std::future<ConfigList>> points;
    for (const Part& part : parts_)
        points.push_back(begin([this, &part] { return points_of(part.space, choice_); }, parts_.size() > 1));
    for (std::size_t i = 0; i < parts_.size(); ++i) {
        Part& part = parts_[i];
        part.points = points[i].get();
        for (const Candidate& one : first_)
            if (one.family == part.family->name()) part.points.insert(one.config);
        part.first = size_;
        if (part.points.empty()) refusals_.add(part.family->name(), "no legal config");
        size_ += part.points.size();
    }
    if (size_ == 0) throw Error(ErrorCode::no_valid_config, refusals_.sentence(problem_, device_));
}

std::optional<double> Candidates::Part::predict_us(const Config& config) const {
    const std::optional<double> predicted_us = predictor(config);
    return predicted_us ? std::optional(*predicted_us * errors.factor(config)) : std::nullopt;
}

void Candidates::correct(const std::vector<CostCorrection>& corrections) {
    for (Part& part : parts_) {
        for (const CostCorrection& one : corrections) {
            if (one.family != part.family->name() || one.template_identity != part.template_identity) continue;
            part.errors = LearnedErrors(part.space, one);
            part.learned_problems = one.problems;
        }
    }
}

// REQUIRES: the config is legal.
bool Candidates::is_open_to(const Part& part, const Config& config) const {
    if (!choice_.named.empty()) return false;  // that one alone
    for (const auto& [name, value] : choice_.pins.values()) {
        if (part.space.find(name) != nullptr && config.find(name) != value) return false;
    }
    return true;
}

// The configs of a descent, from the family's best-predicted start to a config that no small change is predicted to improve.
std::vector<Candidates::Met> Candidates::descend(const Part& part) const {
    constexpr int kMostSteps = 12;
    const std::string family(part.family->name());
    std::vector<Met> met;
    const auto meet = [&](const Config& config) {
        const auto plain_us = is_open_to(part, config) ? part.predictor(config) : std::nullopt;
        if (!plain_us) return std::numeric_limits<double>::infinity();
        met.push_back({*plain_us * part.errors.factor(config), *plain_us, {family, config}});
        return met.back().corrected_us;
    };
    Config here;
    double here_us = std::numeric_limits<double>::infinity();
    const auto move_to = [&](const Config& config) {
        const double predicted_us = meet(config);
        if (predicted_us >= here_us) return;
        here_us = predicted_us;
        here = config;
    };
    if (!part.space.default_config.values().empty()) move_to(part.space.canonical(part.space.default_config));
    for (const NamedConfig& named : part.space.named) {
        const Config config = part.space.canonical(named.config);
        if (part.space.contains(config)) move_to(config);
    }
    for (int step = 0; step < kMostSteps && std::isfinite(here_us); ++step) {
        const double before_us = here_us;
        for (const Config& config : part.space.neighbours(here)) move_to(config);
        if (here_us == before_us) break;
    }
    return met;
}

void Candidates::choose_first(const std::vector<Candidate>& known) {
    constexpr std::size_t kFound = 10, kConsidered = 4'000;
    for (const Candidate& one : known) {
        const Part* in = part(one.family);
        const std::optional<Config> adopted = in == nullptr ? std::nullopt : in->space.adopt(one.config);
        if (!adopted || !is_open_to(*in, *adopted)) continue;
        const Candidate legal{one.family, in->space.canonical(*adopted)};
        if (std::find(first_.begin(), first_.end(), legal) == first_.end()) first_.push_back(legal);
    }
    std::vector<std::future<std::vector<Met>>> descents;
    for (const Part& part : parts_) descents.push_back(begin([this, &part] { return descend(part); }, parts_.size() > 1));
    std::vector<Met> met;
    for (auto& descent : descents) {
        std::vector<Met> more = descent.get();
        met.insert(met.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
    }
    double in_front_us = std::numeric_limits<double>::infinity();
    for (const Met& one : met) in_front_us = std::min(in_front_us, one.corrected_us);
    const std::vector<Candidate> ordered = in_two_orders(std::move(met), kConsidered);
    ValueCover values;
    for (std::size_t i = 0; i < ordered.size(); ++i) {
        const Part& in = *part(ordered[i].family);
        const double predicted_us = in.predict_us(ordered[i].config).value_or(std::numeric_limits<double>::infinity());
        if (predicted_us <= ValueCover::kNear * in_front_us) values.offer(predicted_us, i, in.space, ordered[i].config);
    }
    const std::size_t known_count = first_.size(), wanted = known_count + kFound;
    const auto is_chosen = [&](const Candidate& one) { return std::find(first_.begin(), first_.end(), one) != first_.end(); };
    if (!ordered.empty() && !is_chosen(ordered.front())) first_.push_back(ordered.front());
    for (std::size_t i = known_count; i < first_.size(); ++i) values.cover(part(first_[i].family)->space, first_[i].config);
    for (const std::size_t i : values.choose(kFound - 1))
        if (!is_chosen(ordered[i])) first_.push_back(ordered[i]);
    for (const Candidate& candidate : ordered) {
        if (first_.size() >= wanted) break;
        const Part& in = *part(candidate.family);
        const auto is_alike = [&](const Candidate& other) {
            return other.family == candidate.family && alike(in.space, other.config, candidate.config);
        };
        const auto found = first_.begin() + static_cast<std::ptrdiff_t>(known_count);
        if (!is_chosen(candidate) && std::none_of(found, first_.end(), is_alike)) first_.push_back(candidate);
    }
    put_other_families(ordered, known_count, kSlowestOther * in_front_us);
}

// Kernels of one family often fail together. So the best candidates of the next families come early, and a short search does not
// end with failures of one family alone.
void Candidates::put_other_families(const std::vector<Candidate>& ordered, std::size_t known_count, double slowest_us) {
    constexpr std::size_t kFirstPlace = 2, kFamilies = 3;
    std::set<std::string> met;
    if (first_.size() > known_count) met.insert(first_[known_count].family);
    std::size_t place = known_count + kFirstPlace;
    for (const Candidate& candidate : ordered) {
        if (met.size() > kFamilies || place > first_.size()) return;
        const auto predicted_us = part(candidate.family)->predict_us(candidate.config);
        if (!predicted_us || *predicted_us > slowest_us || !met.insert(candidate.family).second) continue;
        const auto before = std::find(first_.begin(), first_.end(), candidate);
        if (before != first_.end() && before < first_.begin() + static_cast<std::ptrdiff_t>(place)) continue;
        if (before != first_.end()) first_.erase(before);
        first_.insert(first_.begin() + static_cast<std::ptrdiff_t>(place++), candidate);
    }
}

// The corrections may be wrong for this problem, and would hide the candidates that the cost models alone put first: of 30
// products that were swept twice, after different problems, one got a kernel that took a third longer. So one candidate in four
// is the best by the uncorrected prediction.
std::vector<Candidate> Candidates::in_two_orders(std::vector<Met> met, std::size_t most) const {
    if (met.empty()) return {};
    const auto by = [&](double Met::*time_us) {
        std::vector<const Met*> order;
        for (const Met& one : met) order.push_back(&one);
        std::sort(order.begin(), order.end(), [&](const Met* left, const Met* right) {
            return std::tie(left->*time_us, left->candidate) < std::tie(right->*time_us, right->candidate);
        });
        return order;
    };
    std::vector<const Met*> corrected = by(&Met::corrected_us), plain;
    const double limit_us = kMaxPredictedRatio * corrected.front()->corrected_us;
    std::erase_if(corrected, [&](const Met* one) { return one->corrected_us > limit_us; });
    if (std::any_of(parts_.begin(), parts_.end(), [](const Part& part) { return part.learned_problems > 0; })) {
        plain = by(&Met::plain_us);
        std::erase_if(plain, [&](const Met* one) { return one->corrected_us > limit_us; });
    }
    constexpr std::size_t kShareOfPlain = 3;
    std::vector<Candidate> order;
    for (std::size_t i = 0; i < std::min(most, corrected.size()); ++i) {
        order.push_back(corrected[i]->candidate);
        if (i % kShareOfPlain == kShareOfPlain - 1 && i / kShareOfPlain < plain.size())
            order.push_back(plain[i / kShareOfPlain]->candidate);
    }
    return order;
}

// Split among threads: 300,000 points take a few tenths of a second.
void Candidates::predict_all() {
    std::vector<std::optional<double>> predicted(size_);
    constexpr std::size_t kLeastShare = 10'000;
    const auto threads = static_cast<std::size_t>(std::min(usable_processors(), 8));
    const std::size_t share = std::max(kLeastShare, size_ / threads + 1);
    std::vector<std::future<void>> done;
    for (const Part& part : parts_) {
        for (std::size_t from = 0; from < part.points.size(); from += share) {
            const std::size_t to = std::min(from + share, part.points.size());
            const auto work = [&predicted, &part, from, to] {
                Config config = part.points[from];
                for (std::size_t i = from; i < to; ++i) {
                    part.points.read(i, config);
                    predicted[part.first + i] = part.predict_us(config);
                }
            };
            done.push_back(begin(work, size_ > kLeastShare));
        }
    }
    for (std::future<void>& one : done) one.get();
    predicted_us_ = std::move(predicted);
}

const Candidates::Part& Candidates::part_of(std::size_t point) const {
    const auto after = std::find_if(parts_.begin(), parts_.end(), [&](const Part& part) {
        return point >= part.first && point < part.first + part.points.size();
    });
    check(after != parts_.end(), "a point outside the candidates");
    return *after;
}

const Candidates::Part* Candidates::part(const std::string& family) const {
    for (const Part& part : parts_) {
        if (part.family->name() == family) return &part;
    }
    return nullptr;
}

Candidate Candidates::at(std::size_t point) const {
    const Part& part = part_of(point);
    return {std::string(part.family->name()), part.points[point - part.first]};
}

std::optional<std::size_t> Candidates::find(const Candidate& candidate) const {
    const Part* in = part(candidate.family);
    if (in == nullptr) return std::nullopt;
    const auto place = in->points.find(in->space.canonical(candidate.config));
    return place ? std::optional(in->first + *place) : std::nullopt;
}

std::optional<double> Candidates::predict_us(std::size_t point) const {
    if (!predicted_us_.empty()) return predicted_us_.at(point);
    const Part& part = part_of(point);
    return part.predict_us(part.points[point - part.first]);
}

std::vector<std::size_t> Candidates::best_named(std::size_t count) const {
    std::vector<std::pair<double, std::size_t>> named;
    for (const Part& part : parts_) {
        for (const NamedConfig& one : part.space.named) {
            const auto point = find({std::string(part.family->name()), one.config});
            const auto predicted_us = point ? predict_us(*point) : std::nullopt;
            if (predicted_us) named.emplace_back(*predicted_us, *point);
        }
    }
    std::sort(named.begin(), named.end());
    std::vector<std::size_t> chosen;
    for (const auto& [predicted_us, point] : named)
        if (chosen.size() < count && predicted_us <= kMaxPredictedRatio * named.front().first) chosen.push_back(point);
    return chosen;
}

// The best predicted, only one of those that are alike: they work or fail together, and the prediction may be wrong. Values of
// parameters that the first candidates do not have come first.
std::vector<std::size_t> Candidates::most_promising(std::size_t count) const {
    constexpr std::size_t kConsidered = 4'000, kOfValues = 10;
    std::vector<std::pair<double, std::size_t>> order;
    for (std::size_t point = 0; point < size_; ++point) {
        if (const auto predicted_us = predict_us(point)) order.emplace_back(*predicted_us, point);
    }
    const double best_us = order.empty() ? 0 : std::min_element(order.begin(), order.end())->first;
    ValueCover values;
    for (const Candidate& one : first_) values.cover(part(one.family)->space, one.config);
    Config config;  // of this part
    const Part* of = nullptr;
    for (const auto& [predicted_us, point] : order) {
        if (predicted_us > ValueCover::kNear * best_us) continue;
        const Part& part = part_of(point);
        if (&part != of) config = part.points[point - part.first];
        of = &part;
        part.points.read(point - part.first, config);
        values.offer(predicted_us, point, part.space, config);
    }
    std::vector<std::size_t> chosen = values.choose(kOfValues);
    const std::size_t wanted = std::max(count, chosen.size() + count / 2);
    const auto last = order.begin() + static_cast<std::ptrdiff_t>(std::min(kConsidered, order.size()));
    std::partial_sort(order.begin(), last, order.end());
    order.erase(last, order.end());
    const auto are_alike = [&](std::size_t left, std::size_t right) {
        const Part& part = part_of(left);
        if (&part != &part_of(right)) return false;
        return alike(part.space, part.points[left - part.first], part.points[right - part.first]);
    };
    if (!order.empty()) chosen.insert(chosen.begin(), order.front().second);
    for (const auto& [predicted_us, point] : order) {
        if (chosen.size() >= wanted) break;
        if (std::none_of(chosen.begin(), chosen.end(), [&](std::size_t other) { return are_alike(point, other); }))
            chosen.push_back(point);
    }
    return chosen;
}

LaunchPlan Candidates::plan(std::size_t point) const {
    const Part& part = part_of(point);
    return part.family->plan(problem_, part.points[point - part.first], device_);
}

std::vector<std::size_t> Candidates::defaults() const {
    std::vector<std::pair<std::size_t, std::optional<double>>> all;
    double best_us = std::numeric_limits<double>::infinity();
    for (const Part& part : parts_) {
        const auto point = find({std::string(part.family->name()), part.space.default_config});
        if (!point) continue;
        all.emplace_back(*point, predict_us(*point));
        best_us = std::min(best_us, all.back().second.value_or(best_us));
    }
    std::vector<std::size_t> chosen;
    for (const auto& [point, predicted_us] : all)
        if (!predicted_us || *predicted_us <= kMaxPredictedRatio * best_us) chosen.push_back(point);
    return chosen;
}

std::vector<std::size_t> Candidates::all_seeds(std::vector<std::size_t> seeds) const {
    // Fewer if choose_first() has added some: descents end in one of many local optima.
    const std::size_t promising = first_.empty() ? 10 : 6, named = first_.empty() ? 6 : 4;
    for (const Candidate& one : first_)
        if (const auto point = find(one)) seeds.push_back(*point);
    for (const std::vector<std::size_t>& more : {defaults(), most_promising(promising), best_named(named)})
        seeds.insert(seeds.end(), more.begin(), more.end());
    std::vector<std::size_t> unique;
    for (const std::size_t seed : seeds) {
        if (std::find(unique.begin(), unique.end(), seed) == unique.end()) unique.push_back(seed);
    }
    return unique;
}

Domain Candidates::domain(std::vector<std::size_t> seeds) const {
    std::vector<DomainPart> shares;
    for (const Part& part : parts_) shares.push_back({part.space.parameters, part.points});
    Domain domain = make_domain(shares);
    domain.prior = [this](std::size_t point) { return predict_us(point); };
    domain.seeds = std::move(seeds);
    return domain;
}

bool is_open(const Choice& choice) {
    return choice.families.empty() && choice.pins.empty() && choice.named.empty();
}

std::string restriction_of(const Choice& choice, const Catalogue& catalogue, const Problem& problem, const Device& device) {
    std::vector<std::string> words;
    const auto is_left_out = [&](const Family* family) {
        const bool is_named = std::find(choice.families.begin(), choice.families.end(), family->name()) != choice.families.end();
        return !is_named && !family->refuses(problem, device);
    };
    const std::vector<const Family*> all = catalogue.families_of(problem.op);
    if (!choice.families.empty() && std::any_of(all.begin(), all.end(), is_left_out)) {
        for (const std::string& family : std::set<std::string>(choice.families.begin(), choice.families.end()))
            words.push_back("family=" + family);
    }
    if (!choice.named.empty()) words.push_back("config=" + choice.named);
    for (const auto& [name, value] :
         std::map<std::string, std::int64_t>(choice.pins.values().begin(), choice.pins.values().end()))
        words.push_back(name + "=" + std::to_string(value));
    std::string text;
    for (const std::string& word : words) text += (text.empty() ? "" : " ") + word;
    return text;
}

bool allows(const Choice& choice, const Candidate& candidate) {
    if (!choice.named.empty()) return false;  // which config that is depends on the problem
    const auto& families = choice.families;
    if (!families.empty() && std::find(families.begin(), families.end(), candidate.family) == families.end()) return false;
    for (const auto& [name, value] : choice.pins.values()) {
        if (candidate.config.find(name) != value) return false;
    }
    return true;
}

}  // namespace autotune::tuner
