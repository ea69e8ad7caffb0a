#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "kernel_templates/common/harness.h"
#include "src/core/op.h"
#include "src/core/problem.h"
#include "src/gpu/driver.h"

namespace autotune::tuner {

// A stretch of device memory.
struct Region {
    gpu::DeviceAddress address = 0;
    std::size_t bytes = 0;
};

// The kernels that serve measuring and verifying (kernel_templates/common/harness.cuh), in the bench worker's context. Everything
// but fill and poison waits for its answer. Throws DriverError. REQUIRES: the stream outlives it.
class Harness {
  public:
    Harness(std::shared_ptr<const gpu::Driver> driver, std::shared_ptr<const gpu::Library> library, const gpu::Stream& stream);

    void fill(const Operand& operand, gpu::DeviceAddress address, int index, const Fill& fill, std::uint64_t seed);
    // NaN in every element, and a known byte in the gaps between rows.
    void poison(const Operand& operand, gpu::DeviceAddress address);
    CompareResult compare(const Operand& operand, gpu::DeviceAddress address, gpu::DeviceAddress expected,
                          gpu::DeviceAddress bound);
    std::uint64_t checksum(Region region);
    // The operand, or its transpose, times the vector x, batch by batch, in integers. `odd` counts elements that are no integers.
    struct Projection {
        std::vector<std::int64_t> values;
        std::uint64_t odd = 0;
    };
    Projection project(const Operand& operand, gpu::DeviceAddress address, bool transposed, const std::vector<std::int64_t>& x);
    // How many bytes of the regions differ from the red zones' pattern.
    std::uint64_t altered_bytes(const std::vector<Region>& zones);
    // How many bytes between the rows of a poisoned operand were written since.
    std::uint64_t altered_gap_bytes(const Operand& operand, gpu::DeviceAddress address);
    // Known work with a known answer: false means that the device does not compute.
    bool canary();

  private:
    struct Shape {
        std::uint32_t blocks, threads;
    };
    void launch(const gpu::Function& function, Shape shape, void** parameters);
    void clear_answer();
    std::uint64_t read_answer();

    std::shared_ptr<const gpu::Driver> driver_;
    std::shared_ptr<const gpu::Library> library_;
    const gpu::Stream& stream_;
    gpu::Function fill_, poison_, compare_, checksum_, redzone_, gap_, project_, canary_;
    gpu::Buffer answer_;
};

}  // namespace autotune::tuner
