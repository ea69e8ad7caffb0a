#include "src/core/problem/tensor.h"

#include <algorithm>
#include <span>

#include "src/core/error.h"

namespace autotune {

std::int64_t Tensor::elements() const {
    if (is_empty()) return 0;
    std::int64_t count = 1;
    for (const Dim& dim : dims) count *= dim.extent;
    return count;
}

bool Tensor::is_empty() const {
    return is_absent || std::any_of(dims.begin(), dims.end(), [](const Dim& dim) { return dim.extent == 0; });
}

bool Tensor::repeats() const {
    return std::any_of(dims.begin(), dims.end(), [](const Dim& dim) { return dim.extent > 1 && dim.stride == 0; });
}

std::int64_t Tensor::span() const {
    if (is_empty()) return 0;
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

bool overlaps_itself(std::vector<Dim> dims) {
    std::sort(dims.begin(), dims.end(), [](const Dim& left, const Dim& right) { return left.stride < right.stride; });
    std::int64_t last = 0;
    for (const Dim& dim : dims) {
        if (dim.extent <= 1) continue;
        if (dim.stride <= last) return true;
        last += (dim.extent - 1) * dim.stride;
    }
    return false;
}

Footprint::Footprint(const Tensor& tensor)
    : element_bytes_(size_bytes(tensor.dtype)), bytes_(static_cast<std::uint64_t>(tensor.span_bytes())) {
    if (bytes_ == 0) return;
    for (const Dim& dim : tensor.dims) {
        if (dim.extent <= 1) continue;
        steps_[count_++] = {static_cast<std::uint64_t>(dim.stride) * element_bytes_, static_cast<std::uint64_t>(dim.extent - 1)};
    }
}

namespace {

// Between 0 and `most` steps of `bytes` each.
struct Walk {
    std::uint64_t bytes, most;
};

// Whether `distance` is a sum in which each step occurs some number of times. Tries the longest step first, with every count
// whose remainder the shorter steps can reach. `reach`: for each step, the largest sum of this and the shorter steps. Each try
// decrements `tries`; when it is 0, the result is true.
bool reaches(std::span<const Walk> steps, const std::uint64_t* reach, std::uint64_t distance, int& tries) {
    if (distance > *reach) return false;
    if (steps.empty()) return true;
    if (--tries < 0) return true;
    const Walk& longest = steps.front();
    const std::uint64_t rest = reach[1];
    const std::uint64_t least = distance > rest ? (distance - rest + longest.bytes - 1) / longest.bytes : 0;
    for (std::uint64_t count = std::min(longest.most, distance / longest.bytes) + 1; count-- > least;)
        if (reaches(steps.subspan(1), reach + 1, distance - count * longest.bytes, tries)) return true;
    return false;
}

}  // namespace

// An element of the left array is at left_base + a sum of its steps. It overlaps one of the right array if the two addresses
// differ by less than an element. The steps of the right array are counted from its end, so that all numbers are positive. The
// elements overlap if steps of both arrays can add up to one distance. Equal steps are merged: two arrays of the same layout need
// one step for each dimension.
bool meet(const Footprint& left, std::uint64_t left_base, const Footprint& right, std::uint64_t right_base) {
    if (left.bytes_ == 0 || right.bytes_ == 0) return false;
    if (left_base - right_base >= right.bytes_ && right_base - left_base >= left.bytes_) return false;
    std::array<Walk, 2 * Tensor::kMostDims + 1> steps{};
    std::size_t count = 0;
    std::uint64_t all = 0;
    const auto add = [&](std::uint64_t bytes, std::uint64_t most) {
        if (bytes == 0 || most == 0) return;
        all += bytes * most;
        const auto end = steps.begin() + count;
        const auto same = std::find_if(steps.begin(), end, [&](const Walk& step) { return step.bytes == bytes; });
        if (same == end) ++count;
        same->bytes = bytes;
        same->most += most;
    };
    for (std::size_t i = 0; i < left.count_; ++i) add(left.steps_[i].bytes, left.steps_[i].most);
    for (std::size_t i = 0; i < right.count_; ++i) add(right.steps_[i].bytes, right.steps_[i].most);
    add(1, left.element_bytes_ + right.element_bytes_ - 2);
    std::sort(steps.begin(), steps.begin() + count, [](const Walk& a, const Walk& b) { return a.bytes > b.bytes; });
    std::array<std::uint64_t, 2 * Tensor::kMostDims + 2> reach{};
    reach[0] = all;
    for (std::size_t i = 0; i < count; ++i) reach[i + 1] = reach[i] - steps[i].bytes * steps[i].most;
    constexpr int kMostTries = 20'000;
    int tries = kMostTries;
    const std::uint64_t distance = right_base + (right.bytes_ - 1) - left_base;
    return reaches({steps.data(), count}, reach.data(), distance, tries);
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
