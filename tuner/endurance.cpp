#include "tuner/endurance.h"

#include <algorithm>
#include <chrono>

namespace autotune::tuner {
namespace {

constexpr double kSecondsPerWait = 0.02;
constexpr int kMostRunsPerWait = 32;
static_assert(kMostRunsPerWait <= Harness::kMostQuestions);

std::vector<std::uint64_t> answers_of_runs(Harness& harness, Workbench& bench, Runnable& runnable, int runs) {
    TestBench& test = bench.tests().front();
    const Region answer = test.operands.buffers[static_cast<std::size_t>(test.check.operand)].contents();
    Inquiry inquiry(harness);
    std::vector<Inquiry::Question> sums;
    for (int run = 0; run < runs; ++run) {
        bench.restore_outputs(test);
        runnable.enqueue(test.operands.addresses);
        sums.push_back(inquiry.checksum(answer));
    }
    inquiry.wait();
    std::vector<std::uint64_t> answers;
    for (const Inquiry::Question sum : sums) answers.push_back(inquiry.number(sum));
    return answers;
}

}  // namespace

std::string endure(Harness& harness, Workbench& bench, Runnable& runnable, const EnduranceOptions& options) {
    using Clock = std::chrono::steady_clock;
    const auto begun = Clock::now();
    const auto spent = [&] { return std::chrono::duration<double>(Clock::now() - begun).count(); };
    const std::uint64_t first = answers_of_runs(harness, bench, runnable, 1).front();
    const int runs_per_wait = static_cast<int>(std::clamp(kSecondsPerWait / spent(), 1.0, double{kMostRunsPerWait}));
    int done = 1;
    while (done < options.most_runs) {
        for (const std::uint64_t answer :
             answers_of_runs(harness, bench, runnable, std::min(runs_per_wait, options.most_runs - done))) {
            ++done;
            if (answer != first) return "gives other bits in run " + std::to_string(done) + " on the same input";
        }
        if (done >= options.least_runs && spent() > options.seconds) break;
    }
    return "";
}

}  // namespace autotune::tuner
