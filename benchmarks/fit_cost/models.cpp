// Predicts the trials of a file with constants of the cost models that fit_cost.py sets (benchmarks/README.md). fit_cost.py
// compiles this file together with copies of the models that read each constant from `fit_cost_numbers`.
#include <algorithm>
#include <array>
#include <cstdio>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "benchmarks/candidate_text.h"
#include "kernel_templates/gemm/dot/geometry.h"
#include "kernel_templates/gemm/dot_windows/geometry.h"
#include "kernel_templates/gemm/gemv/geometry.h"
#include "kernel_templates/gemm/mma/geometry.h"
#include "kernel_templates/gemm/wgmma/geometry.h"
#include "kernel_templates/gemm/wgmma_nonpersistent/geometry.h"
#include "kernel_templates/gemm/wmma/geometry.h"
#include "src/catalogue/catalogue.h"
#include "src/core/statistics/trial.h"

// The constants of each model, in the order of kFamilies, which fit_cost.py knows too.
double fit_cost_numbers[7][1024];
long fit_cost_turn = 0;  // counts sets of constants

namespace autotune::fit_cost {
namespace {

using Json = nlohmann::json;

constexpr std::array<const char*, 7> kFamilies = {"gemm/wgmma", "gemm/wgmma_nonpersistent", "gemm/gemv", "gemm/mma", "gemm/wmma",
                                                  "gemm/dot",   "gemm/dot_windows"};

struct Trial {
    std::function<double(const Device&)> predict;
    std::size_t family;
    const Device* device;
};

std::function<double(const Device&)> predictor(std::size_t family, const Problem& problem, const Config& config) {
    const gemm::Gemm g(problem);
    switch (family) {
        case 0:
            return [g, s = wgmma::ResolvedConfig(config, g)](const Device& device) { return wgmma::predict(g, s, device); };
        case 1:
            return [g, s = wgmma_nonpersistent::ResolvedConfig(config, g)](const Device& device) {
                return wgmma_nonpersistent::predict(g, s, device);
            };
        case 2:
            return [x = gemv::Streams(g), s = resolve<gemv::ResolvedConfig>(config)](const Device& device) {
                return gemv::predict(x, s, device);
            };
        case 3:
            return [g, s = resolve<mma::ResolvedConfig>(config)](const Device& device) { return mma::predict_us(g, s, device); };
        case 4:
            return
                [g, s = resolve<wmma::ResolvedConfig>(config)](const Device& device) { return wmma::predict_us(g, s, device); };
        case 5:
            return [x = dot::Streams(g), s = resolve<dot::ResolvedConfig>(config)](const Device& device) {
                return dot::predict(x, s, device);
            };
        default:
            return [x = gemm::Streams(g), s = resolve<dot_windows::ResolvedConfig>(config)](const Device& device) {
                return dot_windows::predict(x, s, device);
            };
    }
}

// The config of a trial. If the trial is older than a parameter, it gets the parameter's first value.
Config recorded(const SearchSpace& space, const Config& config) {
    Config full = config;
    for (const Parameter& parameter : space.parameters)
        if (!full.find(parameter.name)) full.set(parameter.name, parameter.values.front());
    return space.canonical(full);
}

// Parses the form of a problem's key, such as "gemm a=bf16 ... align=16,16,16 96x192x3728".
Problem problem_of(const Catalogue& catalogue, const std::string& key) {
    const std::size_t space = key.rfind(' ');
    ProblemRequest request{"gemm", key.substr(space + 1), {}};
    std::istringstream words(key.substr(0, space));
    std::string word;
    words >> word;
    while (words >> word) request.options[word.substr(0, word.find('='))] = word.substr(word.find('=') + 1);
    return catalogue.problem(request);
}

class Models {
  public:
    // Reads lines {"problem", "candidate", "device": {"l2_mib", "memory_gb_per_s"}}. Prints for each line whether it is legal
    // today, and its family.
    void read(const std::string& path);
    // Reads requests from standard input (a family's number and then its constants, in binary) and answers with predictions.
    void serve();

  private:
    const Device& device_of(const Json& row);

    std::map<std::pair<int, double>, Device> devices_;  // devices by the properties in which cards of one architecture differ
    Catalogue catalogue_ = Catalogue::embedded();
    std::vector<Trial> trials_;
};

const Device& Models::device_of(const Json& row) {
    Device device = *reference_device("sm_90a");
    device.identity.l2_mib = row.at("l2_mib");
    device.memory_gb_per_s = row.at("memory_gb_per_s");
    return devices_.try_emplace({device.identity.l2_mib, device.memory_gb_per_s}, device).first->second;
}

void Models::read(const std::string& path) {
    std::ifstream file(path);
    std::map<std::string, Problem> problems;
    std::map<std::string, SearchSpace> rules;
    for (std::string line; std::getline(file, line);) {
        const Json row = Json::parse(line);
        const std::string key = row.at("problem");
        const Device& device = device_of(row.at("device"));
        const Candidate candidate = candidate_of(row.at("candidate"));
        const auto family = std::find(kFamilies.begin(), kFamilies.end(), candidate.family) - kFamilies.begin();
        bool is_legal = family < static_cast<std::ptrdiff_t>(kFamilies.size());
        if (is_legal) {
            const auto [entry, is_new] = problems.try_emplace(key);
            if (is_new) entry->second = problem_of(catalogue_, key);
            const auto [rule, first] = rules.try_emplace(key + candidate.family + std::to_string(device.identity.l2_mib));
            const Family& of = *catalogue_.find_family(candidate.family);
            if (of.refuses(entry->second, device)) {
                is_legal = false;
            } else {
                if (first) rule->second = of.rules(entry->second, device);
                const Config config = recorded(rule->second, candidate.config);
                is_legal = rule->second.contains(config);
                if (is_legal)
                    trials_.push_back({predictor(static_cast<std::size_t>(family), entry->second, config),
                                       static_cast<std::size_t>(family), &device});
            }
        }
        std::printf("%td\n", is_legal ? family : std::ptrdiff_t{-1});
    }
    std::fflush(stdout);
}

void Models::serve() {
    std::int64_t head[2];  // a family and the number of its constants
    while (std::fread(head, sizeof head, 1, stdin) == 1) {
        if (std::fread(fit_cost_numbers[head[0]], sizeof(double), static_cast<std::size_t>(head[1]), stdin) !=
            static_cast<std::size_t>(head[1]))
            return;
        ++fit_cost_turn;
        std::vector<double> us;
        for (const Trial& trial : trials_)
            if (trial.family == static_cast<std::size_t>(head[0])) us.push_back(trial.predict(*trial.device));
        std::fwrite(us.data(), sizeof(double), us.size(), stdout);
        std::fflush(stdout);
    }
}

}  // namespace
}  // namespace autotune::fit_cost

int main(int count, char** words) {
    if (count != 2) return 2;
    autotune::fit_cost::Models models;
    models.read(words[1]);
    models.serve();
}
