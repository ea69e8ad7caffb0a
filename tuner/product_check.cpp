#include "tuner/product_check.h"

#include "src/core/error.h"

namespace autotune::tuner {

ProductCheck::ProductCheck(Harness& harness, const Problem& problem, const ProductForm& form,
                           std::span<const gpu::DeviceAddress> tensors, std::uint64_t seed)
    : harness_(harness), out_(matrix_view(problem.tensors[static_cast<std::size_t>(form.out)])) {
    const auto project = [&](int tensor, bool transposed, const std::vector<std::int64_t>& x) {
        const auto index = static_cast<std::size_t>(tensor);
        const Harness::Projection found = harness.project(matrix_view(problem.tensors[index]), tensors[index], transposed, x);
        check(found.odd == 0, "a tensor of a product check holds no integers");
        return found.values;
    };
    for (int i = 0; i < kVectors; ++i) {
        Vector vector;
        vector.weights =
            freivalds_weights(seed + static_cast<std::uint64_t>(i), static_cast<std::size_t>(out_.cols * out_.batch));
        const std::vector<std::int64_t> right = project(form.right, form.right_transposed, vector.weights);
        vector.expected = project(form.left, form.left_transposed, right);
        for (std::int64_t& value : vector.expected) value *= form.product_factor;
        if (form.out_factor != 0) {
            const std::vector<std::int64_t> added = project(form.out, false, vector.weights);
            for (std::size_t row = 0; row < added.size(); ++row) vector.expected[row] += form.out_factor * added[row];
        }
        vectors_.push_back(std::move(vector));
    }
}

std::string ProductCheck::judge(gpu::DeviceAddress out) const {
    for (const Vector& vector : vectors_) {
        const Harness::Projection found = harness_.project(out_, out, false, vector.weights);
        if (found.odd > 0) return std::to_string(found.odd) + " elements are no integers or were never written";
        for (std::size_t row = 0; row < found.values.size(); ++row) {
            if (found.values[row] == vector.expected[row]) continue;
            return "row " + std::to_string(row % static_cast<std::size_t>(out_.rows)) + " is not that of the product";
        }
    }
    return "";
}

}  // namespace autotune::tuner
