#include "tuner/endurance.h"

#include <chrono>

namespace autotune::tuner {
namespace {

std::uint64_t answer_of_a_run(BenchGpu& gpu, Harness& harness, Workbench& bench, Runnable& runnable) {
    TestBench& test = bench.tests().front();
    bench.restore_outputs(test);
    runnable.enqueue(test.operands.addresses);
    gpu.stream.synchronize();
    return harness.checksum(test.operands.buffers[static_cast<std::size_t>(test.check.operand)].contents());
}

}  // namespace

std::string endure(BenchGpu& gpu, Harness& harness, Workbench& bench, Runnable& runnable, const EnduranceOptions& options) {
    using Clock = std::chrono::steady_clock;
    const auto begun = Clock::now();
    const std::uint64_t first = answer_of_a_run(gpu, harness, bench, runnable);
    for (int run = 2; run <= options.most_runs; ++run) {
        if (answer_of_a_run(gpu, harness, bench, runnable) != first) {
            return "gives other bits in run " + std::to_string(run) + " on the same input";
        }
        const std::chrono::duration<double> spent = Clock::now() - begun;
        if (run >= options.least_runs && spent.count() > options.seconds) break;
    }
    return "";
}

}  // namespace autotune::tuner
