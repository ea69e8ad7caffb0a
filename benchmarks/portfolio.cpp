// Makes portfolios from trials, and reports the errors of the cost models (benchmarks/README.md).
#include "db/portfolio.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <future>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <random>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "benchmarks/candidate_text.h"
#include "db/store/store.h"
#include "src/catalogue/catalogue.h"
#include "src/core/error.h"
#include "src/core/statistics/statistics.h"
#include "src/dispatch/offers.h"
#include "src/dispatch/rules/stored_winner.h"

namespace autotune::portfolio {
namespace {

using Json = nlohmann::json;

constexpr double kNearBest = 1.03;           // a portfolio should be within this factor of the best known
constexpr std::size_t kLeastTrials = 8;      // a problem with fewer trials does not count
constexpr std::size_t kLeastForRegret = 10;  // a median needs at least this many problems
constexpr std::size_t kOffersTried = 1000;
constexpr std::size_t kBestOfSpace = 4;    // instances that a random problem adds to the pool
constexpr double kNearBestOfSpace = 1.05;  // instances predicted further behind its best than this are not added
constexpr std::size_t kFewProblems = 30;   // a class with fewer problems also uses configs that serve all classes

struct Options {
    std::vector<std::string> databases, trials;
    std::string out, dump, prune, variant, pool, arch = "sm_90a";
    std::size_t count = 48;
    int drawn = 0;  // the number of random problems of a class for which times are predicted
    int whole = 0;  // for this many of them, the best configs of whole spaces are added to the pool
};

Options parse(int count, char** words) {
    Options options;
    const std::map<std::string, std::function<void(const char*)>> known = {
        {"--database", [&](const char* word) { options.databases.emplace_back(word); }},
        {"--trials", [&](const char* word) { options.trials.emplace_back(word); }},
        {"--out", [&](const char* word) { options.out = word; }},
        {"--prune", [&](const char* word) { options.prune = word; }},
        {"--variant", [&](const char* word) { options.variant = word; }},
        {"--pool", [&](const char* word) { options.pool = word; }},
        {"--drawn", [&](const char* word) { options.drawn = std::atoi(word); }},
        {"--whole", [&](const char* word) { options.whole = std::atoi(word); }},
        {"--dump", [&](const char* word) { options.dump = word; }},
        {"--count", [&](const char* word) { options.count = std::strtoull(word, nullptr, 10); }}};
    for (int i = 1; i < count; i += 2) {
        const auto option = known.find(words[i]);
        if (option == known.end() || i + 1 == count)
            throw Error(ErrorCode::usage, std::string(words[i]) + " is no option with a value of portfolio");
        option->second(words[i + 1]);
    }
    if (options.databases.empty() && options.trials.empty() && options.prune.empty())
        throw Error(ErrorCode::usage,
                    "usage: portfolio --database FILE [...] --trials JSONL [...] | --prune FILE [--variant 'FAMILY NAME=VALUE'] "
                    "[--count 48] [--out FILE]");
    return options;
}

// A problem with its measured times.
struct Measured {
    Problem problem;
    std::vector<std::pair<Candidate, double>> trials;
    std::map<std::size_t, double> instances;           // the best time of each tried instance, by its number
    std::map<std::string, std::vector<double>> exact;  // by candidate
    double best_us = std::numeric_limits<double>::infinity();
};

class Maker {
  public:
    explicit Maker(const Options& options) : options_(options), device_(*reference_device(options.arch)) {}
    void run();

  private:
    Problem problem_of_class(const std::string& class_key, const std::string& shape) const;
    void read_database(const std::string& path);
    void read_trials(const std::string& path);
    void add(const Problem& problem, const Candidate& candidate, double us);
    void print_errors() const;
    void dump() const;
    // Chooses candidates without the problem `left_out`, and without instances that are legal for no problem of the class.
    std::vector<Candidate> choose(std::vector<const Measured*> problems, const Measured* left_out, const std::string& class_key);
    // Names today's templates of the candidates' families. The portfolio is legal for these templates.
    void name_templates(db::Portfolio& portfolio) const;
    bool serves(const Candidate& candidate, const std::string& class_key) const;
    bool serves(std::size_t instance, const std::string& class_key);
    std::size_t number_of(const std::string& instance, const Candidate& whole);
    std::optional<std::size_t> known_number(const Problem& problem, const Candidate& candidate) const;
    std::vector<Problem> drawn_problems(const std::string& class_key) const;
    void draw(const std::string& class_key);
    std::vector<Candidate> best_of_spaces(const Problem& problem) const;
    void add_best_of_spaces(const std::vector<std::string>& class_keys);
    void prune(std::ofstream& out) const;
    Candidate completed(const Candidate& candidate, const std::string& class_key) const;
    std::vector<Candidate> with_variants(const std::vector<Candidate>& candidates, const std::string& class_key) const;
    // The portfolio of a class. If the class has few problems, it also has configs that serve all classes.
    std::vector<Candidate> portfolio_of(const std::string& class_key, const std::vector<const Measured*>& problems,
                                        const Measured* left_out);
    double regret(const Measured& at, const std::vector<Candidate>& offers) const;
    std::map<std::string, std::vector<const Measured*>> classes() const;

    Options options_;
    Device device_;
    Catalogue catalogue_ = Catalogue::embedded();
    std::map<std::string, Measured> measured_;    // by problem
    std::map<std::string, std::size_t> numbers_;  // number of each instance
    std::vector<Candidate> of_instance_;
    std::map<std::pair<std::string, std::size_t>, bool> serves_;  // by class and instance
    std::vector<Candidate> pool_;
    std::set<std::string> pooled_;  // those candidates, as text
    // By class; the portfolio is also made for these, in addition to measured problems
    std::map<std::string, std::vector<Measured>> drawn_;
};

// Makes a problem of a class key, such as "gemm a=bf16 ... align=16,16,16".
Problem Maker::problem_of_class(const std::string& class_key, const std::string& shape) const {
    ProblemRequest request{"gemm", shape, {}};
    std::istringstream words(class_key);
    std::string word;
    words >> word;
    while (words >> word) request.options[word.substr(0, word.find('='))] = word.substr(word.find('=') + 1);
    return catalogue_.problem(request);
}

std::size_t Maker::number_of(const std::string& instance, const Candidate& whole) {
    const auto [entry, is_new] = numbers_.try_emplace(instance, of_instance_.size());
    if (is_new) of_instance_.push_back(whole);
    return entry->second;
}
std::optional<std::size_t> Maker::known_number(const Problem& problem, const Candidate& candidate) const {
    const auto found = numbers_.find(instance_key(catalogue_, problem, device_, candidate));
    return found == numbers_.end() ? std::nullopt : std::optional(found->second);
}

void Maker::add(const Problem& problem, const Candidate& candidate, double us) {
    const Family* family = catalogue_.find_family(candidate.family);
    if (family == nullptr || family->refuses(problem, device_)) return;
    Measured& at = measured_[problem.key()];
    at.problem = problem;
    const SearchSpace rules = family->rules(problem, device_);
    const Candidate whole{candidate.family, rules.canonical(candidate.config)};
    if (!rules.contains(whole.config)) return;  // it was measured with another version of the template
    at.trials.emplace_back(whole, us);
    const std::size_t number = number_of(candidate.family + " " + rules.compile_part(whole.config).to_string(), whole);
    const auto [entry, is_new] = at.instances.try_emplace(number, us);
    if (!is_new) entry->second = std::min(entry->second, us);
    at.exact[whole.to_string()].push_back(us);
    at.best_us = std::min(at.best_us, us);
}

void Maker::read_database(const std::string& path) {
    db::Store store = db::Store::open({.path = path, .read_only = true});
    store.for_each({}, [&](const Winner& winner) {
        const auto problem = problem_of(catalogue_, winner);
        if (!problem) return true;
        for (const StoredTrial& row : store.trials(*problem, winner.device))
            if (row.trial.timing && row.trial.status == TrialStatus::ok && row.method.starts_with("stream"))
                add(*problem, row.trial.candidate, row.trial.timing->median_us);
        return true;
    });
}

// Reads lines as random_gemms --json writes them.
void Maker::read_trials(const std::string& path) {
    std::ifstream file(path);
    if (!file) throw Error(ErrorCode::usage, "cannot read " + path);
    for (std::string line; std::getline(file, line);) {
        const Json row = Json::parse(line);
        const auto key = row.at("problem").get<std::string>();
        const std::size_t space = key.rfind(' ');
        const Problem problem = problem_of_class(key.substr(0, space), key.substr(space + 1));
        for (const Json& each : row.at("contestants"))
            if (!each.at("us").is_null()) add(problem, candidate_of(each.at("candidate")), each.at("us"));
    }
}

void Maker::print_errors() const {
    std::map<std::string, std::vector<double>> logs;
    for (const auto& [key, at] : measured_) {
        const bool is_aligned = at.problem.class_key().ends_with("align=16,16,16");
        const bool is_zero = at.problem.word("beta") == "zero";
        for (const auto& [candidate, us] : at.trials) {
            if (us > 2.5 * at.best_us) continue;  // nobody takes these
            const auto predicted = catalogue_.find_family(candidate.family)->predict_us(at.problem, candidate.config, device_);
            if (predicted)
                logs[candidate.family + (is_aligned ? "" : ", unaligned") + (is_zero ? "" : ", beta any")].push_back(
                    std::log(us / *predicted));
        }
    }
    std::printf("%-44s %8s %10s %10s\n", "measured / predicted", "trials", "geomean", "deviation");
    for (const auto& [name, values] : logs) {
        double sum = 0, squares = 0;
        for (const double value : values) sum += value;
        const double mean = sum / static_cast<double>(values.size());
        for (const double value : values) squares += (value - mean) * (value - mean);
        std::printf("%-44s %8zu %10.3f %9.1f%%\n", name.c_str(), values.size(), std::exp(mean),
                    100 * std::sqrt(squares / static_cast<double>(values.size())));
    }
}

void Maker::dump() const {
    std::ofstream file(options_.dump);
    for (const auto& [key, at] : measured_) {
        for (const auto& [candidate, us] : at.trials) {
            const auto predicted = catalogue_.find_family(candidate.family)->predict_us(at.problem, candidate.config, device_);
            file << Json{{"problem", key},
                         {"candidate", candidate.to_string()},
                         {"us", us},
                         {"predicted_us", predicted.value_or(0)}}
                        .dump()
                 << "\n";
        }
    }
}

// Whether the candidate is legal for some problem of the class.
bool Maker::serves(const Candidate& candidate, const std::string& class_key) const {
    for (const int m : {4096, 1, 16, 64, 129, 256, 384, 512, 768, 1000, 2048, 16384}) {
        for (const int n : {4096, 64, 256, 512, 768, 1000, 2112, 20000}) {
            for (const int k : {4096, 64, 256, 512, 1000, 2048, 8191, 30000}) {
                const std::string shape = std::to_string(m) + "x" + std::to_string(n) + "x" + std::to_string(k);
                const Problem problem = problem_of_class(class_key, shape);
                if (!OfferRanking(catalogue_, problem, device_).best({&candidate, 1}, 1).empty()) return true;
            }
        }
    }
    return false;
}
bool Maker::serves(std::size_t instance, const std::string& class_key) {
    const auto [entry, is_new] = serves_.try_emplace({class_key, instance}, false);
    if (is_new) entry->second = serves(of_instance_.at(instance), class_key);
    return entry->second;
}

void Maker::name_templates(db::Portfolio& portfolio) const {
    portfolio.templates.clear();
    for (const Candidate& each : portfolio.candidates)
        if (const Family* family = catalogue_.find_family(each.family))
            portfolio.templates.try_emplace(each.family, catalogue_.template_identity(*family));
}

// Removes candidates that are legal for no problem of their class, from shipped portfolios whose trials are no longer available.
void Maker::prune(std::ofstream& out) const {
    const auto fail = [](const std::string& text) { throw Error(ErrorCode::database, text); };
    for (db::Portfolio& each : db::read_portfolios(options_.prune, fail)) {
        const std::size_t before = each.candidates.size();
        for (Candidate& candidate : each.candidates) candidate = completed(candidate, each.class_key);
        std::erase_if(each.candidates, [&](const Candidate& candidate) { return !serves(candidate, each.class_key); });
        if (!options_.variant.empty()) each.candidates = with_variants(each.candidates, each.class_key);
        if (each.candidates.size() > options_.count) each.candidates.resize(options_.count);
        std::printf("%-90s %zu of %zu\n", each.class_key.c_str(), each.candidates.size(), before);
        name_templates(each);
        if (out.is_open()) out << db::to_json_line(each) << "\n";
    }
}

// The candidate with all parameters of its family, because a config that lacks one is legal for no problem. Parameters that the
// family got later have the default's value.
Candidate Maker::completed(const Candidate& candidate, const std::string& class_key) const {
    const Family* const family = catalogue_.find_family(candidate.family);
    if (family == nullptr) return candidate;
    for (const char* const shape : {"4096x4096x4096", "16x4096x4096"}) {
        const Problem problem = problem_of_class(class_key, shape);
        if (family->refuses(problem, device_)) continue;
        const Config usual = family->default_config(problem, device_);
        Candidate whole{candidate.family, {}};
        for (const auto& [name, value] : usual.values()) whole.config.set(name, candidate.config.find(name).value_or(value));
        return whole;
    }
    return candidate;
}

// Each candidate. If its variant with the values of --variant is predicted to be faster by more than a percent, the variant
// follows it.
std::vector<Candidate> Maker::with_variants(const std::vector<Candidate>& candidates, const std::string& class_key) const {
    const Candidate change = candidate_of(options_.variant);
    const auto is_faster = [&](const Candidate& candidate, const Candidate& variant) {
        for (const char* const shape :
             {"2048x4096x1024", "4096x4096x4096", "8192x4096x2048", "4096x8192x1024", "16384x8192x512"}) {
            const Problem problem = problem_of_class(class_key, shape);
            OfferRanking ranking(catalogue_, problem, device_);
            const auto before = ranking.best({&candidate, 1}, 1), after = ranking.best({&variant, 1}, 1);
            if (!after.empty() && !before.empty() && after[0].predicted_us < 0.99 * before[0].predicted_us) return true;
        }
        return false;
    };
    std::vector<Candidate> all;
    for (const Candidate& candidate : candidates) {
        all.push_back(candidate);
        Candidate variant = candidate;
        for (const auto& [name, value] : change.config.values()) variant.config.set(name, value);
        if (candidate.family == change.family && is_faster(candidate, variant)) all.push_back(variant);
    }
    return all;
}

// Chooses greedily. First comes the candidate that brings most problems near their best, then the one that brings them nearest.
std::vector<Candidate> Maker::choose(std::vector<const Measured*> problems, const Measured* left_out,
                                     const std::string& class_key) {
    std::erase(problems, left_out);
    std::vector<Candidate> chosen;
    std::vector<bool> taken(of_instance_.size());
    std::vector<double> reached(problems.size(), 3.0);  // for each problem, the chosen configs' best time / the best time
    while (chosen.size() < options_.count) {
        std::vector<double> gains(of_instance_.size());
        for (std::size_t i = 0; i < problems.size(); ++i) {
            const bool is_own = problems[i]->problem.class_key() == class_key;
            for (const auto& [instance, us] : problems[i]->instances) {
                const double ratio = us / problems[i]->best_us;
                if (ratio >= reached[i] || taken[instance] || (!is_own && !serves(instance, class_key))) continue;
                const bool arrives = ratio <= kNearBest && reached[i] > kNearBest;
                gains[instance] += std::log(reached[i] / ratio) + (arrives ? 0.1 : 0.0);
            }
        }
        const auto best = std::max_element(gains.begin(), gains.end());
        if (best == gains.end() || *best < 0.005) break;
        const auto number = static_cast<std::size_t>(best - gains.begin());
        taken[number] = true;
        chosen.push_back(of_instance_[number]);
        for (std::size_t i = 0; i < problems.size(); ++i) {
            const auto tried = problems[i]->instances.find(number);
            if (tried != problems[i]->instances.end()) reached[i] = std::min(reached[i], tried->second / problems[i]->best_us);
        }
    }
    return chosen;
}

// The loss of the library's choice among the offers. The choice is the first candidate in the library's ranking that was tried
// for the problem.
double Maker::regret(const Measured& at, const std::vector<Candidate>& offers) const {
    for (const auto& ranked : OfferRanking(catalogue_, at.problem, device_).best(offers, kOffersTried)) {
        if (const auto exact = at.exact.find(ranked.candidate.to_string()); exact != at.exact.end())
            return stats::median(exact->second) / at.best_us - 1;
        const auto number = known_number(at.problem, ranked.candidate);
        const auto tried = number ? at.instances.find(*number) : at.instances.end();
        if (tried != at.instances.end()) return tried->second / at.best_us - 1;
    }
    return -1;
}

std::map<std::string, std::vector<const Measured*>> Maker::classes() const {
    std::map<std::string, std::vector<const Measured*>> classes;
    for (const auto& [class_key, drawn] : drawn_) classes[class_key];
    for (const auto& [key, at] : measured_) {
        const std::string class_key = at.problem.class_key();
        if (at.trials.size() >= kLeastTrials && (drawn_.empty() || drawn_.contains(class_key))) classes[class_key].push_back(&at);
    }
    return classes;
}

std::vector<Candidate> Maker::portfolio_of(const std::string& class_key, const std::vector<const Measured*>& problems,
                                           const Measured* left_out) {
    std::vector<const Measured*> own = problems;
    if (const auto drawn = drawn_.find(class_key); drawn != drawn_.end())
        for (const Measured& each : drawn->second) own.push_back(&each);
    std::vector<Candidate> chosen = choose(own, left_out, class_key);
    if (own.size() >= kFewProblems) return chosen;
    std::vector<const Measured*> all;
    for (const auto& [other, each] : classes()) all.insert(all.end(), each.begin(), each.end());
    for (Candidate& each : choose(all, left_out, class_key)) {
        if (chosen.size() == options_.count) break;
        if (std::find(chosen.begin(), chosen.end(), each) == chosen.end()) chosen.push_back(std::move(each));
    }
    return chosen;
}

// Random problems of the class, with extents as random_gemms draws them.
std::vector<Problem> Maker::drawn_problems(const std::string& class_key) const {
    std::mt19937_64 random(7);
    const bool is_aligned = class_key.ends_with("align=16,16,16");
    const auto extent = [&](double low, double high, std::int64_t unit) {
        const double chance = static_cast<double>(random() >> 11) * 0x1p-53;
        const auto value = static_cast<std::int64_t>(std::exp(std::log(low) + chance * std::log(high / low)));
        return std::to_string(is_aligned ? std::max(unit, value / unit * unit) : value | 1);
    };
    std::vector<Problem> problems;
    for (int i = 0; i < options_.drawn; ++i) {
        const std::int64_t unit = i % 2 == 0 ? 8 : 128;  // the extents of models are mostly round
        const std::string rows = extent(1, 16384, 8), n = extent(64, 32768, unit);
        problems.push_back(problem_of_class(class_key, rows + "x" + n + "x" + extent(64, 32768, unit)));
    }
    return problems;
}

// Predicts the times of every instance in the pool for random problems of the class.
void Maker::draw(const std::string& class_key) {
    for (Problem& problem : drawn_problems(class_key)) {
        Measured at;
        at.problem = std::move(problem);
        for (const auto& ranked : OfferRanking(catalogue_, at.problem, device_).best(pool_, pool_.size())) {
            const std::size_t number =
                number_of(instance_key(catalogue_, at.problem, device_, ranked.candidate), ranked.candidate);
            const auto [entry, is_new] = at.instances.try_emplace(number, ranked.predicted_us);
            if (!is_new) entry->second = std::min(entry->second, ranked.predicted_us);
            at.best_us = std::min(at.best_us, ranked.predicted_us);
        }
        drawn_[class_key].push_back(std::move(at));
    }
}

// The instances of all families that are predicted fastest, whether or not they were tried.
std::vector<Candidate> Maker::best_of_spaces(const Problem& problem) const {
    std::map<std::string, std::pair<double, Candidate>> best;  // by instance
    double least_us = std::numeric_limits<double>::infinity();
    for (const Family* family : catalogue_.families_of(problem.op)) {
        if (family->refuses(problem, device_)) continue;
        const SearchSpace space = family->rules(problem, device_);
        const Predictor predict = family->predictor(problem, device_);
        for (const Config& config : space.enumerate()) {
            const auto us = predict(config);
            if (!us || *us > kNearBestOfSpace * least_us) continue;
            least_us = std::min(least_us, *us);
            const std::string instance = std::string(family->name()) + " " + space.compile_part(config).to_string();
            const auto [entry, is_new] = best.try_emplace(instance, *us, Candidate{std::string(family->name()), config});
            if (!is_new && *us < entry->second.first) entry->second = {*us, {std::string(family->name()), config}};
        }
    }
    std::vector<std::pair<double, Candidate>> ordered;
    for (auto& [instance, each] : best)
        if (each.first <= kNearBestOfSpace * least_us) ordered.push_back(std::move(each));
    std::stable_sort(ordered.begin(), ordered.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    std::vector<Candidate> first;
    for (std::size_t i = 0; i < std::min(kBestOfSpace, ordered.size()); ++i) first.push_back(std::move(ordered[i].second));
    return first;
}

// Adds the instances that a tune would try first. Some of them are not in stored trials, because older cost models chose those
// trials. For 36 problems the library's choice was 10.7 % slower than the best on average without them, and 5.1 % with them
// (H200, 2026-11-26).
void Maker::add_best_of_spaces(const std::vector<std::string>& class_keys) {
    std::vector<std::future<std::vector<Candidate>>> found;
    for (const std::string& class_key : class_keys) {
        found.push_back(std::async(std::launch::async, [this, class_key] {
            std::vector<Candidate> all;
            const std::vector<Problem> problems = drawn_problems(class_key);
            for (int i = 0; i < std::min(options_.whole, options_.drawn); ++i)
                for (Candidate& each : best_of_spaces(problems[static_cast<std::size_t>(i)])) all.push_back(std::move(each));
            return all;
        }));
    }
    for (auto& each : found)
        for (Candidate& candidate : each.get())
            if (pooled_.insert(candidate.to_string()).second) pool_.push_back(std::move(candidate));
}

void Maker::run() {
    std::ofstream out(options_.out);
    if (!options_.prune.empty()) return prune(out);
    for (const std::string& path : options_.databases) read_database(path);
    for (const std::string& path : options_.trials) read_trials(path);
    print_errors();
    if (!options_.dump.empty()) dump();
    if (options_.drawn > 0) {
        const auto fail = [](const std::string& text) { throw Error(ErrorCode::database, text); };
        for (const db::Portfolio& each : db::read_portfolios(options_.pool, fail))
            for (const Candidate& candidate : each.candidates)
                if (pooled_.insert(candidate.to_string()).second) pool_.push_back(candidate);
        for (const Candidate& candidate : of_instance_)
            if (pooled_.insert(candidate.to_string()).second) pool_.push_back(candidate);
        std::vector<std::string> class_keys;
        for (const char* const type_and_layout : {"f16 nn", "bf16 nt", "bf16 tn", "f16 tt"}) {
            const std::string type(type_and_layout, std::strchr(type_and_layout, ' '));
            for (const char* const beta : {"zero", "any"})
                for (const char* const align : {"16,16,16", "2,2,2"})
                    class_keys.push_back("gemm a=" + type + " b=" + type + " c=" + type + " compute=" + type +
                                         " acc=f32 layout=" + (std::strchr(type_and_layout, ' ') + 1) + " beta=" + beta +
                                         " align=" + align);
        }
        add_best_of_spaces(class_keys);
        for (const std::string& class_key : class_keys) draw(class_key);
    }
    std::printf("\n%-90s %8s %9s %8s %8s %8s\n", "class", "problems", "instances", "within3%", "regret%", "p90%");
    for (const auto& [class_key, problems] : classes()) {
        const std::vector<Candidate> chosen = portfolio_of(class_key, problems, nullptr);
        std::vector<double> regrets;
        int within = 0;
        for (std::size_t left_out = 0; left_out < problems.size(); ++left_out) {
            double nearest = 9;
            for (const Candidate& each : chosen) {
                const auto number = known_number(problems[left_out]->problem, each);
                const auto tried = number ? problems[left_out]->instances.find(*number) : problems[left_out]->instances.end();
                if (tried != problems[left_out]->instances.end())
                    nearest = std::min(nearest, tried->second / problems[left_out]->best_us);
            }
            within += nearest <= kNearBest ? 1 : 0;
            const double lost = regret(*problems[left_out], portfolio_of(class_key, problems, problems[left_out]));
            if (lost >= 0) regrets.push_back(lost);
        }
        std::sort(regrets.begin(), regrets.end());
        db::Portfolio made{"gemm", options_.arch, class_key, chosen};
        made.problems = static_cast<int>(problems.size());
        name_templates(made);
        if (regrets.size() >= kLeastForRegret) {
            made.regret_median = std::round(regrets[regrets.size() / 2] * 1e4) / 1e4;
            made.regret_p90 = std::round(regrets[regrets.size() * 9 / 10] * 1e4) / 1e4;
        }
        std::printf("%-90s %8zu %9zu %8d %8.1f %8.1f\n", class_key.c_str(), problems.size(), chosen.size(), within,
                    100 * made.regret_median, 100 * made.regret_p90);
        if (out.is_open()) out << db::to_json_line(made) << "\n";
    }
}

}  // namespace
}  // namespace autotune::portfolio

int main(int count, char** words) {
    try {
        autotune::portfolio::Maker(autotune::portfolio::parse(count, words)).run();
        return 0;
    } catch (const autotune::Error& error) {
        std::fprintf(stderr, "portfolio: %s\n", error.what());
        return error.code() == autotune::ErrorCode::usage ? 2 : 1;
    }
}
