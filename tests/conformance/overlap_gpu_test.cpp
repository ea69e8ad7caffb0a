// Chains of kernels that start before the previous kernel has ended, where this can change results. Every family with
// programmatic dependent launch must give the bits of the chain launched one kernel at a time, and each mutant that does not wait
// must be found.
#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <random>
#include <set>
#include <tuple>

#include "src/catalogue/catalogue.h"
#include "src/gpu/nvrtc.h"
#include "tests/conformance/compile_together.h"
#include "tests/conformance/overlap_chain.h"
#include "tests/kernel_templates/mutants.h"
#include "tests/support/gpu_gate.h"
#include "tests/support/nvrtc_for_tests.h"

namespace autotune::test {
namespace {

constexpr int kRuns = 40, kRunsOfMutants = 200;

// Products with a square weight matrix, so that C has the shape of A. Their sizes leave room on an SM for the next launch; one
// fills the GPU.
std::vector<ProblemRequest> chained_problems() {
    std::vector<ProblemRequest> all;
    for (const char* shape :
         {"1x2048x2048", "16x4096x4096", "64x1024x1024", "256x256x256", "512x512x512", "1000x1000x1000", "2048x2048x2048"}) {
        all.push_back({"bgemm", shape, {{"layout", "nt"}}});
        all.push_back({"hgemm", shape, {}});
    }
    all.push_back({"sgemm", "256x512x512", {}});
    all.push_back({"tf32gemm", "256x512x512", {{"layout", "nt"}}});
    all.push_back({"hgemm", "17x2049x2049", {}});
    for (const char* shape : {"1x2048x2048", "256x256x256", "1000x1000x1000"}) {
        all.push_back({"bgemm", shape, {{"layout", "nt"}, {"beta", "1"}}});
        all.push_back({"hgemm", shape, {{"beta", "1"}}});
    }
    // fp8 has no result of the operands' type. So the chain passes C on as the tensor that is added to, or as the next product's
    // scales.
    for (const char* acc : {"f32", "f32fast"}) {
        for (const char* shape : {"16x4096x4096", "256x256x256", "1000x1000x1008"})
            all.push_back({"fp8gemm", shape, {{"acc", acc}, {"beta", "1"}}});
        all.push_back({"fp8gemm", "4096x1x512", {{"acc", acc}, {"scale", "row"}, {"c", "f32"}}});
    }
    all.push_back({"fp8gemm", "512x512x512", {{"scale", "block"}, {"beta", "1"}}});
    for (const char* op : {"sadd", "badd"}) {
        for (const char* shape : {"1000", "65536", "4194304"}) all.push_back({op, shape, {}});
    }
    for (const char* shape : {"8x64", "128x1000", "132x4096", "600x8192", "4x131072"})
        all.push_back({"softmax", shape, {{"dtype", "bf16"}, {"scale", "8"}, {"lse", "yes"}}});
    // With the usual scale, attention applied to its own result converges to the same bits from any start, so a chain would not
    // show early reads.
    for (const char* mask : {"none", "causal"})
        all.push_back({"attention", "1x4x256x64", {{"dtype", "bf16"}, {"mask", mask}, {"scale", "1"}}});
    all.push_back({"attention", "2x8x4x64", {{"dtype", "bf16"}, {"kv-len", "1024"}, {"scale", "1"}}});
    return all;
}

// The default, and a seeded sample of the configs whose kernels may start early.
std::vector<Config> overlapping_configs(const Family& family, const Problem& problem, const Device& device, std::size_t count) {
    const SearchSpace space = family.space(problem, device);
    std::vector<Config> legal = space.enumerate({}, 10'000);
    std::mt19937_64 random(23);
    std::shuffle(legal.begin(), legal.end(), random);
    legal.insert(legal.begin(), space.default_config);
    std::vector<Config> chosen;
    for (const Config& config : legal) {
        if (chosen.size() == count) break;
        const LaunchPlan plan = family.plan(problem, config, device);
        const bool overlaps =
            std::any_of(plan.steps.begin(), plan.steps.end(), [](const auto& step) { return step.programmatic_dependent; });
        if (overlaps && plan.deterministic) chosen.push_back(config);
    }
    return chosen;
}

class OverlapTest : public GpuTest {
  protected:
    void SetUp() override {
        GpuTest::SetUp();
        if (IsSkipped() || HasFatalFailure()) return;
        nvrtc_ = gpu::Nvrtc::load(nvrtc_search(driver()->version() / 1000));
        target_ = {device().arch(), nvrtc_->version()};
        stream_.emplace(driver());
        static const jit::CompileResult harness = compiled(jit::render_harness(catalogue_, target_));  // the same in all tests
        harness_ = std::make_unique<tuner::Harness>(driver(), library_of(harness), *stream_);
    }
    void TearDown() override {
        harness_.reset();
        stream_.reset();
        GpuTest::TearDown();
    }

    jit::CompileResult compiled(const jit::Rendered& rendered) const { return jit::compile(*nvrtc_, cache_, rendered); }
    std::shared_ptr<const gpu::Library> library_of(const jit::CompileResult& result) const {
        check(result.compiled.has_value(), result.failure);
        return std::make_shared<const gpu::Library>(driver(), result.compiled->cubin);
    }

    struct Wanted {
        const Family* family = nullptr;
        Problem problem;
        Config config;
    };
    // The kernels in the given order, without those that the compiler's report rejects.
    std::vector<OverlapChain::Kernel> kernels(const Catalogue& catalogue, const std::vector<Wanted>& wanted) const {
        std::vector<jit::Rendered> rendered;
        for (const Wanted& one : wanted) {
            const SearchSpace space = one.family->space(one.problem, device());
            rendered.push_back(jit::render(catalogue, *one.family, one.problem, space, one.config, target_));
        }
        const auto results = compile_together(*nvrtc_, cache_, rendered);
        std::vector<OverlapChain::Kernel> all;
        for (std::size_t i = 0; i < wanted.size(); ++i) {
            const jit::CompileResult& result = results.at(rendered[i].identity);
            if (!result.rejected.empty()) continue;
            all.push_back({wanted[i].problem, wanted[i].family->plan(wanted[i].problem, wanted[i].config, device()),
                           library_of(result), rendered[i].symbol});
        }
        return all;
    }

    // The kernel that adds in place after each link. It is the default of the first family of op add that accepts it.
    OverlapChain::Kernel adding(const Tensor& handed) const {
        const Problem problem = catalogue_.problem(
            {"add", std::to_string(handed.elements()), {{"dtype", std::string(traits_of(handed.dtype).word)}}});
        for (const Family* family : catalogue_.families_of(problem.op)) {
            if (family->refuses(problem, device())) continue;
            Config config = family->space(problem, device()).default_config;
            return kernels(catalogue_, {{family, problem, config}}).at(0);
        }
        throw Error(ErrorCode::internal, "no family adds");
    }

    // Runs one chain, alone and with an addition after each link. The additions keep values from converging.
    int wrong(const std::vector<OverlapChain::Kernel>& links, int runs) {
        int found = 0;
        for (const bool adds : {false, true}) {
            if (adds && hand_over(links.front().problem).accumulates()) continue;
            OverlapChain chain(driver(), *stream_, *harness_, links);
            const Problem& problem = links.front().problem;
            const Tensor& handed = problem.tensors[static_cast<std::size_t>(hand_over(problem).written)];
            if (adds) chain.add_in_place(adding(handed));
            if (!adds && !chain.is_telling()) continue;
            found += chain.wrong(runs);
        }
        return found;
    }

    Catalogue catalogue_ = Catalogue::embedded();
    std::shared_ptr<const gpu::Nvrtc> nvrtc_;
    jit::CubinCache cache_{std::getenv("AUTOTUNE_CACHE_DIR") == nullptr ? "" : std::getenv("AUTOTUNE_CACHE_DIR")};
    jit::Target target_;
    std::optional<gpu::Stream> stream_;
    std::unique_ptr<tuner::Harness> harness_;
};

// The parameters of one test: a family, and the name of an op in chained_problems().
using FamilyAndWord = std::tuple<std::string, std::string>;

class OverlapOfFamily : public OverlapTest, public ::testing::WithParamInterface<FamilyAndWord> {};

TEST_P(OverlapOfFamily, GivesTheBitsOfOneLaunchAtATime) {
    const auto& [name, word] = GetParam();
    const Family& family = *catalogue_.find_family(name);
    int chains = 0;
    for (const ProblemRequest& request : chained_problems()) {
        if (request.op != word) continue;
        const Problem problem = catalogue_.problem(request);
        if (!hand_over(problem) || family.refuses(problem, device())) continue;
        std::vector<Wanted> wanted;
        for (const Config& config : overlapping_configs(family, problem, device(), 4))
            wanted.push_back({&family, problem, config});
        for (const OverlapChain::Kernel& kernel : kernels(catalogue_, wanted)) {
            ++chains;
            EXPECT_EQ(wrong({kernel}, kRuns), 0) << problem.key() << "\n" << kernel.symbol;
        }
    }
    std::printf("%s: %d chains\n", name.c_str(), chains);
    if (chains == 0) GTEST_SKIP() << family.name() << " has no programmatic dependent launch on the problems here";
}

std::vector<FamilyAndWord> families_and_words() {
    std::set<FamilyAndWord> all;
    const Catalogue catalogue = Catalogue::embedded();
    for (const ProblemRequest& request : chained_problems()) {
        for (const Family* family : catalogue.families_of(catalogue.problem(request).op)) all.emplace(family->name(), request.op);
    }
    return {all.begin(), all.end()};
}

std::string test_name(std::string words) {
    std::replace_if(
        words.begin(), words.end(), [](char c) { return std::isalnum(c) == 0; }, '_');
    return words;
}

INSTANTIATE_TEST_SUITE_P(Families, OverlapOfFamily, ::testing::ValuesIn(families_and_words()), [](const auto& parameter) {
    return test_name(std::get<0>(parameter.param) + "_" + std::get<1>(parameter.param));
});

class MixedOverlap : public OverlapTest, public ::testing::WithParamInterface<ProblemRequest> {};

// Kernels of several families run one after another, and each starts while another one ends.
TEST_P(MixedOverlap, FamiliesOfOneOpInTurn) {
    const Problem problem = catalogue_.problem(GetParam());
    if (!hand_over(problem)) GTEST_SKIP() << "no input has the shape of the output";
    std::vector<Wanted> wanted;
    for (const Family* family : catalogue_.families_of(problem.op)) {
        if (family->refuses(problem, device())) continue;
        for (const Config& config : overlapping_configs(*family, problem, device(), 1))
            wanted.push_back({family, problem, config});
    }
    if (wanted.size() < 2) GTEST_SKIP() << "one family alone starts early here";
    const std::vector<OverlapChain::Kernel> links = kernels(catalogue_, wanted);
    if (links.size() < 2) GTEST_SKIP() << "the compiler's report leaves one family here";
    EXPECT_EQ(wrong(links, kRuns), 0) << problem.key();
}

INSTANTIATE_TEST_SUITE_P(Problems, MixedOverlap, ::testing::ValuesIn(chained_problems()), [](const auto& parameter) {
    std::string words = parameter.param.op + " " + parameter.param.shape;
    for (const auto& [name, word] : parameter.param.options) words += " " + word;
    return test_name(words);
});

class OverlapMutant : public OverlapTest, public ::testing::WithParamInterface<Mutant> {
  protected:
    int examine(const Catalogue& catalogue, int runs) {
        const Mutant& mutant = GetParam();
        const Family& family = *catalogue.find_family(mutant.family);
        const Problem problem = problem_of(mutant, catalogue);
        if (family.refuses(problem, device())) return -1;
        const Config config = config_of(mutant, family.space(problem, device()));
        const std::vector<OverlapChain::Kernel> links = kernels(catalogue, {{&family, problem, config}});
        check(!links.empty(), "rejected by the compiler's report");
        return wrong(links, runs);
    }
};

TEST_P(OverlapMutant, IsFoundByAChain) {
    const int found = examine(mutated(GetParam()), kRunsOfMutants);
    if (found < 0) GTEST_SKIP() << "not for " << device().arch();
    std::printf("%-44s %d wrong of %d\n", GetParam().name.c_str(), found, 2 * kRunsOfMutants);
    EXPECT_GT(found, 0) << "a kernel that does not wait passes";
}

TEST_P(OverlapMutant, PassesWithoutItsFault) {
    EXPECT_LE(examine(catalogue_, kRuns), 0);
}

INSTANTIATE_TEST_SUITE_P(Each, OverlapMutant, ::testing::ValuesIn(overlap_mutants()),
                         [](const auto& entry) { return entry.param.name; });

}  // namespace
}  // namespace autotune::test
