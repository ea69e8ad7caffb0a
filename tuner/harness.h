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

// The kernels that serve measuring and verifying (kernel_templates/common/harness.cuh), in the bench worker's context. Fills are
// enqueued, checksum, project and canary wait for their answer, and an Inquiry waits for many at once. Throws DriverError.
// REQUIRES: the stream outlives it.
class Harness {
  public:
    Harness(std::shared_ptr<const gpu::Driver> driver, std::shared_ptr<const gpu::Library> library, const gpu::Stream& stream);

    void fill(const Tensor& tensor, gpu::DeviceAddress address, int index, const Fill& fill, std::uint64_t seed);
    // A known byte everywhere, gaps included: NaN in elements of the types that have one.
    void poison(const Tensor& tensor, gpu::DeviceAddress address);
    std::uint64_t checksum(Region region);
    // The matrix, or its transpose, times the vector x, batch by batch, in integers. `odd` counts elements that are no integers.
    struct Projection {
        std::vector<std::int64_t> values;
        std::uint64_t odd = 0;
    };
    Projection project(const TypedMatrix& matrix, gpu::DeviceAddress address, bool transposed,
                       const std::vector<std::int64_t>& x);
    // Known work with a known answer: false means that the device does not compute.
    bool canary();

    static constexpr int kMostQuestions = 128;  // of one inquiry

  private:
    friend class Inquiry;
    struct Shape {
        std::uint32_t blocks, threads;
    };
    void launch(const gpu::Function& function, Shape shape, void** parameters);

    std::shared_ptr<const gpu::Driver> driver_;
    std::shared_ptr<const gpu::Library> library_;
    const gpu::Stream& stream_;
    gpu::Function fill_, poison_, compare_, checksum_, redzone_, gap_, project_, canary_;
    gpu::Buffer answers_;  // kMostQuestions of CompareResult, the largest answer
};

// Questions about what lies on the device when their turn on the stream comes: asked one after another, among other work,
// answered together after one wait. One at a time for a harness. Throws DriverError. REQUIRES: the harness outlives it; at most
// Harness::kMostQuestions.
class Inquiry {
  public:
    using Question = std::size_t;

    explicit Inquiry(Harness& harness);

    Question compare(const Tensor& tensor, gpu::DeviceAddress address, gpu::DeviceAddress expected, gpu::DeviceAddress bound);
    Question checksum(Region region);
    // How many bytes of the regions differ from the red zones' pattern.
    Question altered_bytes(const std::vector<Region>& zones);
    // How many bytes between the elements of a poisoned tensor were written since.
    Question altered_gap_bytes(const Tensor& tensor, gpu::DeviceAddress address);

    void wait();
    // REQUIRES: wait() was called since the question was asked.
    const CompareResult& comparison(Question question) const { return answers_.at(question); }
    // Of every other question.
    std::uint64_t number(Question question) const;

  private:
    friend class Harness;  // it asks questions of its own
    gpu::DeviceAddress next_answer();

    Harness& harness_;
    std::size_t asked_ = 0;
    std::vector<CompareResult> answers_;
};

}  // namespace autotune::tuner
