// Runs every mutant through the verifier on a GPU: it must reject mutants that change a result, and find those that only race by
// repetition. The same config of the sound template must pass, which proves that the fault is found. Prints a table.
// AUTOTUNE_MUTANTS=races runs only the racing ones, for compute-sanitizer's racecheck, which names them by symbol.
#include <cstdio>
#include <cstdlib>
#include <map>
#include <set>

#include "src/core/error.h"
#include "tests/conformance/compile_together.h"
#include "tests/kernel_templates/mutants.h"
#include "tests/support/gpu_gate.h"
#include "tests/support/nvrtc_for_tests.h"
#include "tuner/verify/repeatability.h"
#include "tuner/verify/verifier.h"

namespace autotune::test {
namespace {

// A candidate on its problem: the mutant, or the sound template. It has no source if the device does not have the family, and a
// failure if the template has changed so that the mutant no longer applies.
struct Subject {
    Catalogue catalogue;
    Problem problem;
    LaunchPlan plan;
    jit::Rendered rendered, reference;
    std::string failure;
};

// The indices of the mutants whose tests the filter and the shard select.
std::set<std::size_t> selected() {
    std::set<std::size_t> chosen;
    const testing::UnitTest& all = *testing::UnitTest::GetInstance();
    for (int i = 0; i < all.total_test_suite_count(); ++i) {
        const testing::TestSuite& suite = *all.GetTestSuite(i);
        for (int j = 0; j < suite.total_test_count(); ++j) {
            const testing::TestInfo& test = *suite.GetTestInfo(j);
            if (test.should_run() && test.value_param() != nullptr) chosen.insert(std::stoul(test.value_param()));
        }
    }
    return chosen;
}

// Compiled kernels and the verifier's GPU objects. They are made once for all tests.
class Laboratory {
  public:
    Laboratory()
        : driver_(gpu::Driver::load()),
          gpu_{driver_, gpu::Context(driver_, 0), gpu::Stream(driver_), driver_->device(0)},
          nvrtc_(gpu::Nvrtc::load(nvrtc_search(driver_->version() / 1000))),
          target_{gpu_.device.arch(), nvrtc_->version()},
          harness_(driver_, library_of(compile(jit::render_harness(sound_, target_))), gpu_.stream) {
        std::vector<jit::Rendered> wanted;
        for (const std::size_t number : selected()) {
            for (const bool is_mutated : {true, false}) {
                const Subject& subject =
                    subjects_.emplace(2 * number + !is_mutated, this->subject(mutants()[number], is_mutated)).first->second;
                if (subject.rendered.symbol.empty()) continue;
                wanted.push_back(subject.rendered);
                wanted.push_back(subject.reference);
            }
        }
        results_ = compile_together(*nvrtc_, no_cache_, wanted);
    }

    const Device& device() const { return gpu_.device; }
    Subject& mutant(std::size_t number) { return subjects_.at(2 * number); }
    Subject& sound(std::size_t number) { return subjects_.at(2 * number + 1); }

    // Returns the fault that a run shows, or "" if every run is right.
    std::string examine(const Subject& subject, int runs) {
        if (!subject.failure.empty()) return "does not compile: " + subject.failure;
        const jit::CompileResult& kernel = results_.at(subject.rendered.identity);
        if (!kernel.compiled) return "does not compile: " + kernel.failure;
        tuner::ProblemFixture bench(gpu_, harness_, sound_.op_of(subject.problem), subject.problem, {.timing = false});
        const auto reference = library_of(results_.at(subject.reference.identity));
        const tuner::Reference known = bench.compute_reference({reference, subject.reference.symbol}, true);
        if (known != tuner::Reference::full) return "the reference does not fit";
        tuner::Runnable runnable = bench.bind({library_of(kernel), subject.rendered.symbol}, subject.plan);
        const tuner::Verification found = tuner::verify_on_device(harness_, bench, runnable);
        if (!found.right || runs == 1) return found.detail;
        return tuner::check_same_bits(harness_, bench, runnable, {.most_runs = runs, .least_runs = runs});
    }

  private:
    jit::CompileResult compile(const jit::Rendered& rendered) const { return jit::compile(*nvrtc_, no_cache_, rendered); }
    std::shared_ptr<const gpu::Library> library_of(const jit::CompileResult& result) const {
        check(result.compiled.has_value(), result.failure);
        return std::make_shared<const gpu::Library>(driver_, result.compiled->cubin);
    }
    Subject subject(const Mutant& mutant, bool is_mutated) const {
        try {
            return rendered(mutant, is_mutated ? mutated(mutant) : sound_);
        } catch (const Error& error) {
            Subject none{sound_, {}, {}, {}, {}, error.what()};
            none.rendered.source = "none";
            return none;
        }
    }
    Subject rendered(const Mutant& mutant, Catalogue catalogue) const {
        const Family& family = *catalogue.find_family(mutant.family);
        Problem problem = problem_of(mutant, catalogue);
        if (family.refuses(problem, gpu_.device)) return {std::move(catalogue), std::move(problem), {}, {}, {}, ""};
        const SearchSpace space = family.space(problem, gpu_.device);
        const Config config = config_of(mutant, space);
        jit::Rendered rendered = jit::render(catalogue, family, problem, space, config, target_);
        jit::Rendered reference = jit::render_reference(sound_, sound_.op_of(problem), problem, target_);
        LaunchPlan plan = family.plan(problem, config, gpu_.device);
        return {std::move(catalogue), std::move(problem), std::move(plan), std::move(rendered), std::move(reference), ""};
    }

    std::shared_ptr<const gpu::Driver> driver_;
    tuner::WorkerGpu gpu_;
    std::shared_ptr<const gpu::Nvrtc> nvrtc_;
    jit::Target target_;
    Catalogue sound_ = Catalogue::embedded();
    jit::CubinCache no_cache_{""};
    tuner::Harness harness_;
    std::map<std::size_t, Subject> subjects_;
    std::map<std::string, jit::CompileResult> results_;
};

std::vector<std::size_t> numbers() {
    const char* only = std::getenv("AUTOTUNE_MUTANTS");
    const bool races = only != nullptr && std::string(only) == "races";
    std::vector<std::size_t> chosen;
    for (std::size_t i = 0; i < mutants().size(); ++i) {
        if (!races || mutants()[i].races) chosen.push_back(i);
    }
    return chosen;
}

class MutantOnGpu : public GpuTest, public ::testing::WithParamInterface<std::size_t> {
  protected:
    void SetUp() override {
        GpuTest::SetUp();
        if (IsSkipped() || HasFatalFailure()) return;
        if (laboratory_ == nullptr) laboratory_ = std::make_unique<Laboratory>();
        if (laboratory_->mutant(GetParam()).rendered.source.empty()) GTEST_SKIP() << "not for " << device().arch();
    }
    static void TearDownTestSuite() { laboratory_.reset(); }

    static inline std::unique_ptr<Laboratory> laboratory_;
};

// There are fewer runs under a sanitizer, which makes each run a hundred times slower.
int runs_of_a_race() {
    const char* text = std::getenv("AUTOTUNE_MUTANT_RUNS");
    return text == nullptr ? 300 : std::atoi(text);
}

TEST_P(MutantOnGpu, IsRejected) {
    const Mutant& mutant = mutants()[GetParam()];
    if (mutant.hangs) GTEST_SKIP() << "it waits for ever, which a GPU does not end";
    const std::string found = laboratory_->examine(laboratory_->mutant(GetParam()), mutant.races ? runs_of_a_race() : 1);
    std::printf("%-44s %-18s %s\n", mutant.name.c_str(), laboratory_->mutant(GetParam()).rendered.symbol.c_str(),
                found.empty() ? "NOT SHOWN by repetition" : found.c_str());
    EXPECT_TRUE(mutant.races || !found.empty()) << "a wrong kernel passes";
    EXPECT_EQ(found.find("does not compile"), std::string::npos) << found;
}

TEST_P(MutantOnGpu, PassesWithoutItsFault) {
    EXPECT_EQ(laboratory_->examine(laboratory_->sound(GetParam()), 1), "");
}

INSTANTIATE_TEST_SUITE_P(Each, MutantOnGpu, ::testing::ValuesIn(numbers()),
                         [](const auto& entry) { return mutants()[entry.param].name; });

}  // namespace
}  // namespace autotune::test
