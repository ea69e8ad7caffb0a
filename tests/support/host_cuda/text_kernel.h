#pragma once

#include <string>
#include <vector>

#include "tests/support/host_cuda/kernel.h"

namespace autotune::test::host_cuda {

inline u64 word(const void* pointer) {
    return reinterpret_cast<u64>(pointer);
}

// Kernels k_<name> in a test's own source, each launched as one block.
class TextKernel {
  public:
    TextKernel(const char* text, const char* arch, std::size_t dynamic_smem_bytes)
        : kernel_({"k", "", text, {}, {}, arch}), dynamic_smem_bytes_(dynamic_smem_bytes) {}

    void launch(const char* entry, u32 threads, const std::vector<u64>& words, Schedule schedule = {}) {
        LaunchStep step;
        step.entry = entry;
        step.block.x = threads;
        step.dynamic_smem_bytes = dynamic_smem_bytes_;
        kernel_.launch(step, words, schedule);
    }
    // The machine's fault message; empty if there is none.
    std::string fault_of(const char* entry, u32 threads, const std::vector<u64>& words, Schedule schedule = {}) {
        try {
            launch(entry, threads, words, schedule);
        } catch (const KernelFault& fault) {
            return fault.what();
        }
        return "";
    }
    HostKernel& kernel() { return kernel_; }

  private:
    HostKernel kernel_;
    std::size_t dynamic_smem_bytes_;
};

}  // namespace autotune::test::host_cuda
