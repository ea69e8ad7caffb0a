#pragma once

#include <memory>
#include <string>

#include "src/gpu/vendor_blas.h"
#include "tuner/measure/meter.h"

namespace autotune::tuner {

// The vendor's libraries as runnables, in the bench worker: "cublas" with its default heuristic, "cublaslt" with the fastest of
// all the heuristics that it returns (fastest_of), to be timed by the caller in rounds of its own.
class VendorRunner {
  public:
    explicit VendorRunner(BenchGpu& gpu);
    // Why the rival cannot run this problem; empty once `runnable` can. Throws DriverError.
    std::string prepare(const std::string& name, Workbench& bench, Meter& meter, Runnable& runnable);

  private:
    std::string prepare_lt(Workbench& bench, Meter& meter, Runnable& runnable);
    void run_lt(int index, const Problem& problem, std::span<const gpu::DeviceAddress> tensors);

    BenchGpu& gpu_;
    std::shared_ptr<gpu::VendorBlas> blas_;
    gpu::Buffer workspace_;
};

}  // namespace autotune::tuner
