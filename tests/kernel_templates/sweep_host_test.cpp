// Many random legal configs of every family that runs on the host, on a problem with tails; the last one also on the problems
// with which winners are verified. AUTOTUNE_HOST_CONFIGS sets how many per problem.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "tests/support/host_cuda/candidate.h"

namespace autotune::test {
namespace {

struct Swept {
    std::string family;
    std::string shape;
    std::map<std::string, std::string> options;
};

void PrintTo(const Swept& each, std::ostream* out) {
    *out << each.family << " " << each.shape;
}

// clang-format off
std::vector<Swept> swept() {
    std::vector<Swept> all;
    for (const auto& [family, dtype] : std::vector<std::pair<std::string, std::string>>{
             {"attention/naive", "f16"}, {"attention/simt", "f32"}, {"attention/simt", "bf16"}, {"attention/mma", "bf16"},
             {"attention_bwd/two_pass", "bf16"}, {"attention_bwd/simt", "f32"}, {"attention/wgmma", "bf16"}, {"attention_bwd/wgmma", "bf16"},
             {"attention_bwd/one_pass", "bf16"}}) {
        const bool is_forward = family.starts_with("attention/");
        for (auto options : std::vector<std::map<std::string, std::string>>{
                 {{"mask", "none"}, {"kv-len", "77"}, {"kv-heads", "1"}}, {{"mask", "causal_bottom_right"}, {"kv-len", "60"}},
                 {{"mask", "window"}, {"left", "9"}, {"right", "30"}, {"dv", "128"}}}) {
            options["dtype"] = dtype;
            if (is_forward) options["lse"] = "yes";
            all.push_back({family, "1x2x90x64", options});
        }
    }
    // Wide heads.
    all.push_back({"attention/simt", "1x1x70x256", {{"dtype", "f32"}, {"mask", "causal"}}});
    all.push_back({"attention/mma", "1x1x70x256", {{"dtype", "bf16"}, {"mask", "causal"}}});
    all.push_back({"attention/mma", "1x2x70x192", {{"dtype", "f16"}, {"dv", "128"}, {"mask", "causal"}, {"lse", "yes"}}});
    all.push_back({"attention/mma", "1x1x70x96", {{"dtype", "bf16"}, {"mask", "window"}, {"left", "0"}}});
    all.push_back({"attention_bwd/two_pass", "1x2x70x128", {{"dtype", "f16"}, {"kv-heads", "1"}, {"mask", "causal"}}});
    all.push_back({"attention_bwd/two_pass", "1x1x70x96", {{"dtype", "bf16"}, {"mask", "window_bottom_right"}, {"left", "30"}}});
    all.push_back({"attention_bwd/wgmma", "1x2x170x128", {{"dtype", "f16"}, {"kv-heads", "1"}, {"mask", "causal"}}});
    all.push_back({"attention_bwd/one_pass", "1x2x170x128", {{"dtype", "f16"}, {"kv-heads", "1"}, {"mask", "causal"}}});
    all.push_back({"attention_bwd/one_pass", "1x2x270x64", {{"dtype", "bf16"}, {"mask", "causal"}, {"deterministic", "any"}}});
    all.push_back({"attention_bwd/simt", "1x1x70x256", {{"dtype", "bf16"}, {"mask", "causal"}}});
    all.push_back({"attention/split", "1x6x3x64", {{"dtype", "bf16"}, {"kv-heads", "1"}, {"kv-len", "333"}, {"lse", "yes"}}});
    all.push_back({"attention/split", "2x4x5x128", {{"dtype", "f16"}, {"kv-heads", "2"}, {"kv-len", "150"}, {"mask", "causal_bottom_right"}}});
    all.push_back({"gemm/mma", "65x72x90", {{"dtype", "f16"}}});
    all.push_back({"gemm/simt", "65x72x90", {{"dtype", "bf16"}}});
    all.push_back({"gemm/simt_f32", "65x72x90", {{"dtype", "f32"}, {"compute", "f32"}}});
    all.push_back({"gemm/simt_f32", "65x72x92", {{"dtype", "f32"}, {"compute", "f32"}, {"layout", "nt"}}});
    all.push_back({"gemm/mma_tf32", "65x72x90", {{"dtype", "f32"}, {"compute", "tf32"}}});
    all.push_back({"gemm/gemv", "1x200x304", {{"dtype", "f16"}, {"layout", "nt"}}});
    all.push_back({"gemm/dot", "1x200x304", {{"dtype", "f16"}, {"layout", "nt"}}});
    all.push_back({"gemm/dot", "3x72x96", {{"dtype", "bf16"}, {"align", "2"}}});
    all.push_back({"gemm/dot_windows", "3x71x195", {{"dtype", "bf16"}, {"layout", "nt"}, {"align", "2"}}});
    all.push_back({"gemm/dot_windows", "3x171x95", {{"dtype", "f16"}, {"layout", "tn"}, {"align", "2"}}});
    all.push_back({"gemm/gemv", "3x72x96", {{"dtype", "bf16"}}});
    all.push_back({"softmax/rows", "37x1000", {{"dtype", "bf16"}, {"lse", "yes"}}});
    all.push_back({"add/vector", "5003", {{"dtype", "f16"}}});
    return all;
}
// clang-format on

// A legal config: random or, if few points are legal, some steps from the default.
Config drawn(const Family& family, const Problem& problem, const SearchSpace& rules, std::mt19937& random) {
    for (int attempt = 0; attempt < 2000; ++attempt) {
        Config config;
        for (const Parameter& parameter : rules.parameters)
            config.set(parameter.name, parameter.values[random() % parameter.values.size()]);
        if (rules.contains(config)) return config;
    }
    Config config = host_cuda::config_with(family, problem, "");
    for (int step = 0; step < 6; ++step) {
        const std::vector<Config> near = rules.neighbours(config);
        if (!near.empty()) config = near[random() % near.size()];
    }
    return config;
}

class Sweep : public ::testing::TestWithParam<Swept> {};

TEST_P(Sweep, EveryConfigPassesTheTestsOfItsOp) {
    const Catalogue catalogue = Catalogue::embedded();
    const Family& family = *catalogue.find_family(GetParam().family);
    const std::string op = GetParam().family.substr(0, GetParam().family.find('/'));
    const Problem problem = catalogue.problem({op, GetParam().shape, GetParam().options});
    const SearchSpace rules = family.rules(problem, host_cuda::device_for(family, problem));
    const char* const wanted = std::getenv("AUTOTUNE_HOST_CONFIGS");
    std::mt19937 random(7);
    for (int left = wanted == nullptr ? 10 : std::atoi(wanted); left > 0; --left) {
        const Config config = drawn(family, problem, rules, random);
        host_cuda::HostCandidate candidate(catalogue, family, problem, config);
        std::vector<Problem> problems = {problem};
        if (left == 1) {
            const std::vector<Problem> more = catalogue.op_of(problem).edge_case_problems(problem, config);
            problems.insert(problems.end(), more.begin(), more.end());
        }
        for (const Problem& each : problems)
            EXPECT_EQ(candidate.examine(each), "") << family.name() << " " << config.to_string() << " for " << each.key();
    }
}

INSTANTIATE_TEST_SUITE_P(Each, Sweep, ::testing::ValuesIn(swept()), [](const auto& entry) {
    std::string name = entry.param.family + "_" + std::to_string(entry.index);
    std::replace(name.begin(), name.end(), '/', '_');
    return name;
});

}  // namespace
}  // namespace autotune::test
