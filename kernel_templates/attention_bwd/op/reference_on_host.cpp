#include <cmath>
#include <limits>

#include "kernel_templates/attention_bwd/op/bwd_problem.h"

namespace autotune::attention_bwd {
namespace {

// One pair of a query and a key that it sees.
struct Pair {
    double p, ps;              // the weight, and the weight times (dp - delta)
    double p_error, ps_error;  // the allowed errors of p and ps
};

class Sums {
  public:
    explicit Sums(std::size_t count) : values_(count), errors_(count) {}
    void add(std::size_t at, double weight, double error, double factor) {
        values_[at] += weight * factor;
        errors_[at] += error * std::fabs(factor);
    }
    Expected expected(double scale, const Bounds& bounds) const {
        Expected all;
        for (std::size_t i = 0; i < values_.size(); ++i) {
            all.values.push_back(values_[i] * scale);
            all.bounds.push_back(errors_[i] * scale + bounds.output * std::fabs(values_[i] * scale) + bounds.least);
        }
        return all;
    }

  private:
    std::vector<double> values_, errors_;
};

}  // namespace

std::vector<Expected> reference_on_host(const Problem& problem, const OpTest& test,
                                        std::span<const std::vector<double>> tensors) {
    const View view(problem);
    const Bounds bounds = bounds_of(view, test);
    const double scale = problem.scalars[attention::kScale].number();
    const auto at = [&](int tensor, const attention::Strides& strides, std::int64_t b, std::int64_t head, std::int64_t row) {
        return tensors[static_cast<std::size_t>(tensor)].data() + b * strides.batch + head * strides.head + row * strides.row;
    };
    const auto size = [](std::int64_t value) { return static_cast<std::size_t>(value); };
    Sums dq(size(view.rows() * view.d)), dk(size(view.b * view.kv_heads * view.kv_len * view.d)),
        dv(size(view.b * view.kv_heads * view.kv_len * view.dv));
    for (std::int64_t line = 0; line < view.rows(); ++line) {
        const std::int64_t row = line % view.q_len, head = line / view.q_len % view.q_heads, b = line / view.q_len / view.q_heads;
        const std::int64_t kv_head = head / view.group();
        const double lse = tensors[kLse][size(line)];
        if (lse == -std::numeric_limits<double>::infinity()) continue;
        const double* const q = at(kQ, view.strides[kQ], b, head, row);
        const double* const gradient = at(kDo, view.do_strides, b, head, row);
        const double* const o = at(kO, view.strides[kO], b, head, row);
        double delta = 0, delta_size = 0;
        for (std::int64_t i = 0; i < view.dv; ++i) {
            delta += gradient[i] * o[i];
            delta_size += std::fabs(gradient[i] * o[i]);
        }
        for (std::int64_t key = view.band.first_key(row, view.kv_len); key < view.band.end_key(row, view.kv_len); ++key) {
            const double* const k = at(kK, view.strides[kK], b, kv_head, key);
            const double* const v = at(kV, view.strides[kV], b, kv_head, key);
            double product = 0, product_size = 0, dp = 0, dp_size = 0;
            for (std::int64_t i = 0; i < view.d; ++i) product += q[i] * k[i], product_size += std::fabs(q[i] * k[i]);
            for (std::int64_t i = 0; i < view.dv; ++i) dp += gradient[i] * v[i], dp_size += std::fabs(gradient[i] * v[i]);
            const double x = scale * product;
            const double off =
                bounds.weight + bounds.exponent * (std::fabs(x) + std::fabs(lse)) + bounds.product * scale * product_size;
            Pair pair{};
            pair.p = std::exp(x - lse);
            pair.ps = pair.p * (dp - delta);
            pair.p_error = pair.p * off;
            pair.ps_error = pair.p * (off * std::fabs(dp - delta) + bounds.product * (dp_size + delta_size));
            const std::int64_t other = (b * view.kv_heads + kv_head) * view.kv_len + key;
            for (std::int64_t i = 0; i < view.d; ++i) {
                dq.add(size(line * view.d + i), pair.ps, pair.ps_error, k[i]);
                dk.add(size(other * view.d + i), pair.ps, pair.ps_error, q[i]);
            }
            for (std::int64_t i = 0; i < view.dv; ++i) dv.add(size(other * view.dv + i), pair.p, pair.p_error, gradient[i]);
        }
    }
    return {dq.expected(scale, bounds), dk.expected(scale, bounds), dv.expected(1, bounds)};
}

}  // namespace autotune::attention_bwd
