// The mutants of families that run on the host: the tests of their op must reject each of them, with the reference's own bounds.
// This includes mutants that race, because the host's two orders of threads and of copies are the extremes. The sound text with
// the same config must pass, which proves that the fault is found.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <set>
#include <sstream>

#include "tests/kernel_templates/mutants.h"
#include "tests/support/host_cuda/candidate.h"

namespace autotune::test {
namespace {

// The host finds races in small problems too, so 256x256x1024 becomes 128x128x256.
std::string smaller(const std::string& shape) {
    std::string result;
    std::istringstream words(shape);
    int place = 0;
    for (std::string extent; std::getline(words, extent, 'x'); ++place)
        result += (place == 0 ? "" : "x") + std::to_string(std::min(std::stol(extent), place < 2 ? 128L : 256L));
    return result;
}

std::string findings(Mutant mutant, const Catalogue& catalogue) {
    const Family& family = *catalogue.find_family(mutant.family);
    if (!mutant.host_shape.empty()) mutant.shape = mutant.host_shape;
    if (mutant.races) mutant.shape = smaller(mutant.shape);
    const Problem problem = problem_of(mutant, catalogue);
    return host_cuda::HostCandidate(catalogue, family, problem, host_cuda::config_with(family, problem, mutant.config))
        .examine(problem);
}

std::vector<Mutant> on_host() {
    std::vector<Mutant> all = mutants();
    std::erase_if(all, [](const Mutant& each) { return !runs_on_host(each); });
    return all;
}

// One for each family and config that the mutants above change.
std::vector<Mutant> distinct_configs() {
    std::vector<Mutant> all;
    std::set<std::string> seen;
    for (const Mutant& mutant : on_host())
        if (seen.insert(mutant.family + " " + mutant.config).second) all.push_back(mutant);
    return all;
}

class MutantOnHost : public ::testing::TestWithParam<Mutant> {};

TEST_P(MutantOnHost, IsRejected) {
    const std::string found = findings(GetParam(), mutated(GetParam()));
    EXPECT_FALSE(found.empty()) << "a wrong kernel passes";
    std::printf("%s\n", found.c_str());
}

class SoundOnHost : public ::testing::TestWithParam<Mutant> {};

TEST_P(SoundOnHost, PassesWithoutTheFault) {
    EXPECT_EQ(findings(GetParam(), Catalogue::embedded()), "");
}

INSTANTIATE_TEST_SUITE_P(Each, MutantOnHost, ::testing::ValuesIn(on_host()), [](const auto& entry) { return entry.param.name; });
INSTANTIATE_TEST_SUITE_P(Each, SoundOnHost, ::testing::ValuesIn(distinct_configs()),
                         [](const auto& entry) { return entry.param.name; });

}  // namespace
}  // namespace autotune::test
