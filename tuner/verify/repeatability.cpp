#include "tuner/verify/repeatability.h"

#include <algorithm>
#include <chrono>

#include "tuner/verify/verifier.h"

namespace autotune::tuner {
namespace {

constexpr double kSecondsPerWait = 0.02;
constexpr int kMostRunsPerWait = 32;
constexpr std::uint64_t kOddFactor = 0x9E3779B97F4A7C15U;
constexpr int kMostOutputs = 4;
static_assert(kMostRunsPerWait * kMostOutputs <= Harness::kMostQuestions);

// For each run, one checksum of all its outputs.
std::vector<std::uint64_t> answers_of_runs(Harness& harness, ProblemFixture& fixture, Runnable& runnable, int runs) {
    TestFixture& test = fixture.tests().front();
    DeviceChecks checks(harness);
    std::vector<DeviceChecks::CheckId> sums;
    for (int run = 0; run < runs; ++run) {
        fixture.restore_outputs(test);
        runnable.enqueue(test.tensors.addresses);
        for (const OutputCheck& output : test.test.outputs)
            sums.push_back(checks.checksum(test.tensors.buffers[static_cast<std::size_t>(output.tensor)].contents()));
    }
    checks.wait();
    const std::size_t outputs = test.test.outputs.size();
    std::vector<std::uint64_t> answers(static_cast<std::size_t>(runs), 0);
    // The sums are weighted, so that two outputs with exchanged contents differ.
    for (std::size_t i = 0; i < sums.size(); ++i)
        answers[i / outputs] = answers[i / outputs] * kOddFactor + checks.number(sums[i]);
    return answers;
}

}  // namespace

std::string check_same_bits(Harness& harness, ProblemFixture& fixture, Runnable& runnable, const RepeatabilityOptions& options) {
    using Clock = std::chrono::steady_clock;
    const auto begun = Clock::now();
    const auto spent = [&] { return std::chrono::duration<double>(Clock::now() - begun).count(); };
    const std::uint64_t first = answers_of_runs(harness, fixture, runnable, 1).front();
    const int runs_per_wait = static_cast<int>(std::clamp(kSecondsPerWait / spent(), 1.0, double{kMostRunsPerWait}));
    int done = 1;
    while (done < options.most_runs) {
        for (const std::uint64_t answer :
             answers_of_runs(harness, fixture, runnable, std::min(runs_per_wait, options.most_runs - done))) {
            ++done;
            if (answer != first) return "gives other bits in run " + std::to_string(done) + " on the same input";
        }
        if (done >= options.least_runs && spent() > options.seconds) break;
    }
    return "";
}

std::string check_repeatability(Harness& harness, ProblemFixture& fixture, Runnable& runnable) {
    constexpr int kJudgedRuns = 4;
    const std::string other_bits = check_same_bits(harness, fixture, runnable);
    if (other_bits.empty() || runnable.deterministic) return other_bits;
    const bool has_answers = !fixture.tests().front().answers.empty();
    for (int run = 0; run < kJudgedRuns && has_answers; ++run) {
        const Verification found = verify_on_device(harness, fixture, runnable);
        if (!found.right) return found.detail;
    }
    return "";
}

}  // namespace autotune::tuner
