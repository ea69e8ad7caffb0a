#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "src/core/problem/dtype.h"

namespace autotune {

enum class Access : std::uint8_t { in, out, inout };

// One dimension of a tensor: its extent, and the distance between neighbours in elements.
struct Dim {
    std::int64_t extent = 0;
    std::int64_t stride = 0;
    bool operator==(const Dim&) const = default;
};

// One array of a problem in device memory. Element (i0, i1, ...) is at base + i0 * dims[0].stride + i1 * dims[1].stride + ...;
// the last dimension varies fastest in the logical order, whatever the strides are. Without dimensions: one element. Strides are
// not negative; with a stride of 0 an input repeats its elements.
struct Tensor {
    static constexpr std::size_t kMostDims = 5;

    std::string name;
    DType dtype = DType::f32;
    Access access = Access::in;
    std::vector<Dim> dims;
    // A power of two up to 16 that divides the base address and the size of every line that kernels access.
    int alignment_bytes = 16;
    bool is_optional = false;  // a problem of the op may leave it out
    bool is_absent = false;    // this problem leaves it out: no memory, address 0; dims are empty

    // Product of the extents: 1 without dimensions, 0 if absent or any extent is 0. REQUIRES: it fits, as it does for a tensor
    // whose size was checked.
    std::int64_t elements() const;
    // Whether elements() is 0; works for any extents, without overflow.
    bool is_empty() const;
    // Whether a dimension of more than one element has a stride of 0.
    bool repeats() const;
    // Elements from the first to one past the last, gaps included. 0 if any extent is 0 or the tensor is absent.
    std::int64_t span() const;
    std::int64_t span_bytes() const { return span() * static_cast<std::int64_t>(size_bytes(dtype)); }
    // Whether there are elements between the first and the last that do not belong to the tensor.
    bool has_gaps() const { return span() > elements(); }
    bool is_written() const { return access != Access::in && !is_absent; }
    // Distance of an element from the base, in elements, by its number in the logical order. REQUIRES: number < elements().
    std::int64_t offset_of(std::int64_t number) const;
};

// A tensor of one to three dimensions as a batch of matrices, stored row by row: element (b, r, c) is at
// base + b * batch_stride + r * ld + c.
struct Matrix {
    std::int64_t rows = 0;
    std::int64_t cols = 0;  // the contiguous direction
    std::int64_t ld = 0;    // elements between rows
    std::int64_t batch = 1;
    std::int64_t batch_stride = 0;  // elements

    std::vector<Dim> dims() const { return {{batch, batch_stride}, {rows, ld}, {cols, 1}}; }
};

// A matrix with the facts that decide how its elements can be accessed.
struct TypedMatrix : Matrix {
    DType dtype = DType::f32;
    int alignment_bytes = 16;
};

// REQUIRES: at most three dimensions, the last with a stride of 1 (throws Error{internal} otherwise).
TypedMatrix matrix_view(const Tensor& tensor);

// Whether two elements may share memory: some stride is not greater than the span of the dimensions with smaller strides.
bool overlaps_itself(std::vector<Dim> dims);

// The memory of an array's elements, for comparing two arrays: the number of bytes from the base to the end of the last element,
// and, for each dimension of more than one element, its stride in bytes and its count. Made once for a problem; comparing
// allocates nothing.
class Footprint {
  public:
    Footprint() = default;
    // REQUIRES: the tensor's size was checked, so that its span in bytes fits in 64 bits.
    explicit Footprint(const Tensor& tensor);

    std::uint64_t bytes() const { return bytes_; }  // 0: no memory
    // Whether both have the same elements in the same order, of the same size.
    bool operator==(const Footprint&) const = default;

  private:
    friend bool meet(const Footprint& left, std::uint64_t left_base, const Footprint& right, std::uint64_t right_base);

    struct Step {
        std::uint64_t bytes = 0;
        std::uint64_t most = 0;  // the extent minus 1
        bool operator==(const Step&) const = default;
    };
    std::array<Step, Tensor::kMostDims> steps_{};
    std::size_t count_ = 0;
    std::uint64_t element_bytes_ = 0;
    std::uint64_t bytes_ = 0;
};

// Whether an element of one array overlaps an element of the other, in part or as a whole. Exact: arrays that alternate in one
// memory, such as columns of a larger matrix, do not overlap. If the exact answer would take longer than about 0.1 ms because of
// the combination of strides, the answer is true.
bool meet(const Footprint& left, std::uint64_t left_base, const Footprint& right, std::uint64_t right_base);

// Row-major strides without gaps for these extents.
std::vector<Dim> dense_dims(const std::vector<std::int64_t>& extents);

}  // namespace autotune
