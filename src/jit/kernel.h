#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "src/core/family/launch_plan.h"
#include "src/core/problem/problem.h"
#include "src/gpu/driver/driver.h"
#include "src/jit/cubin_cache.h"
#include "src/jit/map_cache.h"

namespace autotune::jit {

// A launch's inputs besides its plan. Addresses by tensor index, scalars (Scalar::bits()) by scalar index.
struct LaunchInputs {
    std::span<const gpu::DeviceAddress> tensors;
    std::span<const std::uint64_t> scalars;
    gpu::DeviceAddress workspace = 0;
    // used in reference plans only, by output
    std::span<const gpu::DeviceAddress> expected = {};
    std::span<const gpu::DeviceAddress> bounds = {};
};

// A compiled instance loaded on the device, with its launch for one problem. Tuner and library start every kernel through it. Its
// constructor loads the code and resolves every step's function, so that enqueue() does nothing but launch. Immutable after
// construction; enqueue() may be called from many threads.
class BoundLaunch {
  public:
    // REQUIRES: a context is current; `context_id`, if given, is its id, otherwise the driver is queried. Throws DriverError
    // (refused: the device cannot run this launch).
    BoundLaunch(std::shared_ptr<const gpu::Driver> driver, std::shared_ptr<const gpu::Library> library, const std::string& symbol,
                const Problem& problem, LaunchPlan plan, std::optional<std::uint64_t> context_id = std::nullopt);

    const LaunchPlan& plan() const { return plan_; }
    // Enqueues all steps and, unless they were written already, the contents of symbols before them: no allocation, no
    // synchronisation. Tensor maps are encoded per call from the addresses (host arithmetic). Returns the first CUresult that is
    // not success, 0 otherwise; CUDA_ERROR_INVALID_VALUE if `inputs` has fewer tensors, scalars or outputs than the plan uses.
    enum class Symbols : std::uint8_t { write, keep };
    int enqueue(const LaunchInputs& inputs, gpu::StreamHandle stream, Symbols symbols = Symbols::write) const noexcept;
    bool writes_symbols() const { return !symbol_targets_.empty(); }
    // Enqueues the writes of symbols alone.
    int write_symbols(const LaunchInputs& inputs, gpu::StreamHandle stream) const noexcept;
    gpu::Function::Info info() const;  // The facts about the first step's function.

  private:
    // A write of the plan whose variable the code has.
    struct SymbolTarget {
        gpu::DeviceAddress address = 0;
        SymbolWrite write;
    };
    int write_symbol(const SymbolTarget& target, const LaunchInputs& inputs, gpu::StreamHandle stream) const noexcept;

    std::shared_ptr<const gpu::Driver> driver_;
    std::shared_ptr<const gpu::Library> library_;
    std::vector<DType> tensor_types_;
    LaunchPlan plan_;
    std::vector<gpu::Function> functions_;  // one per step
    std::vector<SymbolTarget> symbol_targets_;
    std::vector<std::unique_ptr<MapCache>> map_caches_;  // one for each tensor map, in the order of steps and arguments
    std::size_t tensors_needed_ = 0;
    std::size_t scalars_needed_ = 0;
    std::size_t outputs_needed_ = 0;
};

}  // namespace autotune::jit
