#include "tuner/measure/vendor_runner.h"

#include "tuner/measure/fastest_of.h"

namespace autotune::tuner {
namespace {

constexpr int kHeuristics = 64;  // it returns fewer where it has fewer
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
    std::vector<Runnable> choices(static_cast<std::size_t>(found));
    for (int index = 0; index < found; ++index) {
        choices[static_cast<std::size_t>(index)].enqueue = [this, index, &bench](std::span<const gpu::DeviceAddress> tensors) {
            run_lt(index, bench.problem(), tensors);
        };
    }
    const std::optional<std::size_t> best = fastest_of(meter, bench, choices);
    if (!best) return "cuBLASLt offers no algorithm for this problem";
    runnable.enqueue = std::move(choices[*best].enqueue);
    return "";
}

}  // namespace autotune::tuner
