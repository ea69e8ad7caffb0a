#include "tuner/vendor_runner.h"

#include "src/core/error.h"
#include "src/core/statistics.h"

namespace autotune::tuner {
namespace {

constexpr int kHeuristics = 32;
constexpr std::size_t kWorkspaceBytes = std::size_t{64} << 20;

}  // namespace

VendorRunner::VendorRunner(BenchGpu& gpu) : gpu_(gpu), blas_(gpu::VendorBlas::load(gpu.driver, gpu.library_folders)) {}

std::string VendorRunner::prepare(const std::string& name, Workbench& bench, Meter& meter, Runnable& runnable) {
    if (blas_ == nullptr) return "the vendor's BLAS library was not found";
    if (std::string refused = blas_->refuses(bench.problem()); !refused.empty()) return refused;
    runnable.deterministic = false;  // not promised by the vendor, and not ours to judge
    if (name == "cublaslt") return prepare_lt(bench, meter, runnable);
    if (name != "cublas") return "unknown rival '" + name + "': cublas and cublaslt are known";
    runnable.enqueue = [this, &bench](std::span<const gpu::DeviceAddress> tensors) {
        blas_->run_default(bench.problem(), {tensors.begin(), tensors.end()}, gpu_.stream.handle());
    };
    return "";
}

void VendorRunner::run_lt(int index, const Problem& problem, std::span<const gpu::DeviceAddress> tensors) {
    blas_->lt_run(index, problem, {tensors.begin(), tensors.end()}, workspace_.address(), gpu_.stream.handle());
}

std::string VendorRunner::prepare_lt(Workbench& bench, Meter& meter, Runnable& runnable) {
    if (workspace_.bytes() == 0) workspace_ = gpu::Buffer(gpu_.driver, kWorkspaceBytes);
    const int found = blas_->lt_prepare(bench.problem(), kHeuristics, kWorkspaceBytes);
    int best = -1;
    double best_us = 0;
    for (int index = 0; index < found; ++index) {
        Runnable candidate;
        candidate.enqueue = [this, index, &bench](std::span<const gpu::DeviceAddress> tensors) {
            run_lt(index, bench.problem(), tensors);
        };
        try {
            const double time_us = stats::median(meter.sample(bench, candidate, {.samples = 5, .time_us = 2'000}));
            if (best < 0 || time_us < best_us) {
                best = index;
                best_us = time_us;
            }
        } catch (const gpu::DriverError& error) {
            if (error.severity() == gpu::Severity::sticky || error.severity() == gpu::Severity::lost) throw;
        }
    }
    if (best < 0) return "cuBLASLt offers no algorithm for this problem";
    runnable.enqueue = [this, best, &bench](std::span<const gpu::DeviceAddress> tensors) {
        run_lt(best, bench.problem(), tensors);
    };
    return "";
}

}  // namespace autotune::tuner
