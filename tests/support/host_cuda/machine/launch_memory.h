#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "src/core/family/launch_plan.h"
#include "src/core/op/oracle.h"
#include "tests/support/host_cuda/machine/block_machine.h"
#include "tests/support/host_cuda/machine/guarded_array.h"

namespace autotune::test::host_cuda {

using Bits = std::vector<std::byte>;

// The values with which a test fills the problem's tensors, in stored order; and as bits of the tensor's type.
std::vector<std::vector<double>> filled_tensors(const Problem& problem, const OpTest& test);
Bits encoded(DType type, const std::vector<double>& values);

// The memory of one run of a plan: tensors, workspace and, for a reference, results; each between protected pages.
class LaunchMemory {
  public:
    // `answers`: elements of each output that a reference writes. REQUIRES: problem and plan outlive this.
    LaunchMemory(const Problem& problem, const LaunchPlan& plan, const std::vector<Bits>& contents, GuardedArray::Side side,
                 const std::vector<std::int64_t>& answers = {});

    // The kernel's parameters.
    std::vector<u64> words(const LaunchStep& step) const;

    std::span<const std::byte> tensor(int index) const { return arrays_[static_cast<std::size_t>(index)].bytes(); }
    // The reference's result for an output.
    Expected answer(std::size_t output) const;
    // Forbidden writes, as text; empty if there are none. `before`: the tensors' former contents.
    std::string damage(const std::vector<Bits>& before) const;
    // "12 bytes behind the end of tensor k".
    std::string place_of(const void* address) const;

  private:
    u64 word(const Argument& argument) const;
    ::host_cuda::TensorMap map_of(const TensorMapArg& argument) const;
    bool gaps_are_as_before(std::size_t index, const Bits& before) const;

    const Problem& problem_;
    const LaunchPlan& plan_;
    std::vector<GuardedArray> arrays_, expected_, bounds_;
    GuardedArray workspace_;
};

}  // namespace autotune::test::host_cuda
