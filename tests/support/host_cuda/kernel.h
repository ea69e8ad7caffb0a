#pragma once

#include <string>
#include <vector>

#include "src/core/family/launch_plan.h"
#include "src/jit/render.h"
#include "tests/support/host_cuda/machine/block_machine.h"

namespace autotune::test::host_cuda {

// The architectures for which texts are rendered: the second for families that need more than the first has. Clusters of several
// blocks are not supported.
inline constexpr const char* kArch = "sm_80";
inline constexpr const char* kLaterArch = "sm_90a";

// A rendered text as a library of this process. Throws Error{usage} with the compiler's output if g++ cannot compile it.
class HostKernel {
  public:
    explicit HostKernel(const jit::Rendered& rendered);
    ~HostKernel();
    HostKernel(const HostKernel&) = delete;
    HostKernel& operator=(const HostKernel&) = delete;

    // Runs all blocks, one after the other. `words`: the parameters, one each. Throws KernelFault.
    void launch(const LaunchStep& step, std::vector<u64> words, Schedule schedule);

  private:
    void* find(const std::string& name) const;
    void poison_shared(const LaunchStep& step) const;

    std::string symbol_;
    void* library_ = nullptr;
    BlockMachine machine_;
};

}  // namespace autotune::test::host_cuda
