#include "src/core/tensor.h"

#include "src/core/error.h"

namespace autotune {

std::int64_t Tensor::elements() const {
    if (is_absent) return 0;
    std::int64_t count = 1;
    for (const Dim& dim : dims) count *= dim.extent;
    return count;
}

std::int64_t Tensor::span() const {
    if (elements() == 0) return 0;
    std::int64_t last = 0;
    for (const Dim& dim : dims) last += (dim.extent - 1) * dim.stride;
    return last + 1;
}

std::int64_t Tensor::offset_of(std::int64_t number) const {
    std::int64_t offset = 0;
    for (std::size_t i = dims.size(); i-- > 0;) {
        offset += number % dims[i].extent * dims[i].stride;
        number /= dims[i].extent;
    }
    return offset;
}

TypedMatrix matrix_view(const Tensor& tensor) {
    const std::size_t rank = tensor.dims.size();
    if (rank < 1 || rank > 3)
        internal_error("tensor " + tensor.name + " is no matrix: it has " + std::to_string(rank) + " dimensions");
    const Dim cols = tensor.dims[rank - 1];
    if (cols.stride != 1 && cols.extent > 1)
        internal_error("tensor " + tensor.name + " is no matrix: its rows are not contiguous");
    const Dim rows = rank >= 2 ? tensor.dims[rank - 2] : Dim{1, cols.extent};
    const Dim batch = rank == 3 ? tensor.dims[0] : Dim{1, rows.extent * rows.stride};
    TypedMatrix matrix;
    matrix.rows = rows.extent;
    matrix.cols = cols.extent;
    matrix.ld = rows.stride;
    matrix.batch = batch.extent;
    matrix.batch_stride = batch.stride;
    matrix.dtype = tensor.dtype;
    matrix.alignment_bytes = tensor.alignment_bytes;
    return matrix;
}

std::vector<Dim> dense_dims(const std::vector<std::int64_t>& extents) {
    std::vector<Dim> dims(extents.size());
    std::int64_t stride = 1;
    for (std::size_t i = extents.size(); i-- > 0;) {
        dims[i] = {extents[i], stride};
        stride *= extents[i];
    }
    return dims;
}

}  // namespace autotune
