#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "src/gpu/blas_api.h"
#include "src/gpu/driver/driver.h"

namespace autotune::gpu {

// One product in the terms of cuBLAS: matrices are column-major, out = alpha op(first) op(second) + beta out, `batch` times.
// Tensors are given by their position in the addresses of a launch. All codes are those of blas_api.h.
struct BlasProduct {
    struct Matrix {
        int tensor = 0;
        int type = blas::kR16F;
        std::int64_t rows = 0, cols = 0, ld = 0, batch_stride = 0;  // as stored
        std::uint32_t alignment_bytes = 16;
    };
    // An attribute of cuBLASLt's descriptor. cublasGemmEx has none and ignores them.
    struct Attribute {
        int name = 0;  // blas::DescriptorAttribute
        std::int32_t value = 0;
        std::size_t bytes = sizeof(value);  // the size of the attribute, 1 or 4
    };
    struct Address {
        int name = 0;
        int tensor = 0;
    };

    int first_op = blas::kPlain, second_op = blas::kPlain;
    std::int64_t m = 0, n = 0, k = 0, batch = 1;
    Matrix first, second, out;
    int added_type = -1;  // type of the matrix that beta multiplies, if it is not the result's: cuBLASLt cannot add an fp8 matrix
    int compute = blas::kCompute32F;
    int scale_type = blas::kR32F;
    // alpha and beta in the scale type: cuBLAS reads two bytes if the compute type is 16F.
    std::array<std::byte, 8> alpha{}, beta{};
    std::vector<Attribute> attributes{};  // fast accumulation, scale modes
    std::vector<Address> addresses{};     // scale tensors: set to the tensor's address before each launch
};

// A number as the bytes of a scale type.
std::array<std::byte, 8> blas_scalar(double value, int scale_type);

// cuBLASLt's descriptors of one product and the algorithms that it proposes for it. Keeps the library open.
class BlasLtPlan {
  public:
    virtual ~BlasLtPlan() = default;
    // The number of algorithms. They are in the order of cuBLASLt's own ranking, best first.
    virtual std::size_t algorithms() const = 0;
    // Enqueues the product. Throws Error{driver}.
    virtual void run(std::size_t algorithm, std::span<const DeviceAddress> tensors, StreamHandle stream) = 0;
};

// cuBLAS and cuBLASLt of one release, if found (dlopen, own prototypes).
class Blas : public std::enable_shared_from_this<Blas> {
  public:
    // Searches the loader's own path, then `folders` (library_folders.h). nullptr if the libraries are not found. REQUIRES: a
    // context is current at every call.
    static std::shared_ptr<Blas> load(std::shared_ptr<const Driver> driver, const std::vector<std::string>& folders = {});
    ~Blas();
    std::string version() const;  // "13.1.0"

    // Prepares cublasGemmEx for capture: its handle, and a workspace of its own.
    void prepare();
    // Enqueues the product with the default heuristic of cublasGemmEx (strided batch where batch > 1). REQUIRES: prepare().
    // Throws Error{driver}.
    void run(const BlasProduct& product, std::span<const DeviceAddress> tensors, StreamHandle stream);

    // Queries cuBLASLt's heuristics; `requested` >= 32. Without an algorithm for the product the plan has none. Throws
    // Error{driver}.
    std::shared_ptr<BlasLtPlan> plan(const BlasProduct& product, int requested);

  private:
    Blas();
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

}  // namespace autotune::gpu
