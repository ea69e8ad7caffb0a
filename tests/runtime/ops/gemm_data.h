#pragma once

#include <autotune/autotune.h>

#include <cmath>
#include <cstddef>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "src/core/problem/dtype.h"
#include "src/gpu/driver/driver.h"

namespace autotune::runtime::test {

// A small problem with leading dimensions and strides written out.
inline autotune_gemm_problem gemm(std::int64_t m, std::int64_t n, std::int64_t k) {
    autotune_gemm_problem problem = {};
    problem.struct_size = sizeof(problem);
    problem.m = m;
    problem.n = n;
    problem.k = k;
    problem.batch = 1;
    problem.accumulator = AUTOTUNE_F32;
    return problem;
}

// The three matrices of a problem in device memory, filled with integers from -2 to 2, and the right product: computed on the
// host in double from the definition in autotune.h, and exact if the sums are.
class GemmData {
  public:
    GemmData(std::shared_ptr<const gpu::Driver> driver, const autotune_gemm_problem& problem, unsigned seed = 1)
        : problem_(problem),
          type_(problem.ab_type == AUTOTUNE_BF16 ? DType::bf16 : DType::f16),
          a_(shape(problem.m, problem.k, problem.trans_a != 0, {problem.lda, problem.stride_a})),
          b_(shape(problem.k, problem.n, problem.trans_b != 0, {problem.ldb, problem.stride_b})),
          c_(shape(problem.m, problem.n, false, {problem.ldc, problem.stride_c})) {
        for (Matrix* each : {&a_, &b_, &c_}) {
            fill(*each, seed++);
            each->device = gpu::Buffer(driver, each->host.size() * 2);
            each->device.upload(std::as_bytes(std::span(each->host)));
        }
    }

    const void* a() const { return address(a_); }
    const void* b() const { return address(b_); }
    void* c() const { return address(c_); }

    // How many elements of C differ from alpha op(A) op(B) + beta C. Gaps between rows must be unchanged.
    int wrong(float alpha, float beta) const {
        std::vector<std::uint16_t> got(c_.host.size());
        c_.device.download(std::as_writable_bytes(std::span(got)));
        std::vector<std::uint16_t> expected = c_.host;
        for (std::int64_t batch = 0; batch < problem_.batch; ++batch)
            for (std::int64_t i = 0; i < problem_.m; ++i)
                for (std::int64_t j = 0; j < problem_.n; ++j) {
                    const std::size_t at = index(c_, batch, i, j);
                    const double value = alpha * product(batch, i, j) + (beta == 0 ? 0 : beta * decode(type_, c_.host[at]));
                    expected[at] = static_cast<std::uint16_t>(encode(type_, value));
                }
        int count = 0;
        for (std::size_t at = 0; at < got.size(); ++at) count += decode(type_, got[at]) == decode(type_, expected[at]) ? 0 : 1;
        return count;
    }

  private:
    struct Matrix {
        std::int64_t ld = 0, stride = 0;
        bool transposed = false;
        std::vector<std::uint16_t> host;
        gpu::Buffer device;
    };

    // The matrix for op(X) with `rows` x `cols`, stored transposed or not, in the problem's order.
    Matrix shape(std::int64_t rows, std::int64_t cols, bool transposed, std::pair<std::int64_t, std::int64_t> given) const {
        Matrix matrix;
        matrix.transposed = transposed;
        if (transposed) std::swap(rows, cols);
        if (problem_.order == AUTOTUNE_COLUMN_MAJOR) std::swap(rows, cols);
        matrix.ld = given.first == 0 ? cols : given.first;
        matrix.stride = given.second == 0 ? rows * matrix.ld : given.second;
        matrix.host.resize(static_cast<std::size_t>((problem_.batch - 1) * matrix.stride + rows * matrix.ld));
        return matrix;
    }
    void fill(Matrix& matrix, unsigned seed) const {
        for (std::uint16_t& word : matrix.host) {
            seed = seed * 1664525U + 1013904223U;
            word = static_cast<std::uint16_t>(encode(type_, static_cast<int>((seed >> 16) % 5) - 2));
        }
    }
    // Index of op(X)[row, col].
    std::size_t index(const Matrix& matrix, std::int64_t batch, std::int64_t row, std::int64_t col) const {
        if (matrix.transposed) std::swap(row, col);
        if (problem_.order == AUTOTUNE_COLUMN_MAJOR) std::swap(row, col);
        return static_cast<std::size_t>(batch * matrix.stride + row * matrix.ld + col);
    }
    double product(std::int64_t batch, std::int64_t i, std::int64_t j) const {
        double sum = 0;
        for (std::int64_t k = 0; k < problem_.k; ++k)
            sum += decode(type_, a_.host[index(a_, batch, i, k)]) * decode(type_, b_.host[index(b_, batch, k, j)]);
        return sum;
    }
    static void* address(const Matrix& matrix) { return reinterpret_cast<void*>(matrix.device.address()); }

    autotune_gemm_problem problem_;
    DType type_;
    Matrix a_, b_, c_;
};

}  // namespace autotune::runtime::test
