// The references for devices (<op>/op/reference.cuh) must agree with those on the host: right results and allowed errors, in
// every test of the op.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "tests/support/host_cuda/candidate.h"
#include "tests/support/host_cuda/machine/launch_memory.h"

namespace autotune::test {
namespace {

struct Judged {
    std::string name;
    std::string op, shape;
    std::map<std::string, std::string> options = {};
};

void PrintTo(const Judged& each, std::ostream* out) {
    *out << each.name;
}

// clang-format off
std::vector<Judged> judged() {
    return {
        {"attention_unmasked", "attention", "1x4x19x40", {{"dtype", "f32"}, {"kv-len", "300"}, {"kv-heads", "2"}, {"dv", "24"}, {"lse", "yes"}, {"order", "bshd"}}},
        {"attention_causal", "attention", "2x2x33x64", {{"dtype", "bf16"}, {"kv-len", "21"}, {"mask", "causal_bottom_right"}, {"lse", "yes"}}},
        {"attention_window", "attention", "1x1x50x32", {{"dtype", "f16"}, {"mask", "window"}, {"left", "9"}, {"right", "3"}}},
        {"attention_tf32", "attention", "1x1x9x64", {{"dtype", "f32"}, {"compute", "tf32"}, {"mask", "causal"}, {"lse", "yes"}}},
        {"gradients_unmasked", "attention_bwd", "1x4x19x40", {{"dtype", "f32"}, {"kv-len", "300"}, {"kv-heads", "2"}, {"dv", "24"}, {"order", "bshd"}}},
        {"gradients_causal", "attention_bwd", "2x2x33x64", {{"dtype", "bf16"}, {"kv-len", "21"}, {"mask", "causal_bottom_right"}}},
        {"gradients_window", "attention_bwd", "1x1x50x32", {{"dtype", "f16"}, {"mask", "window"}, {"left", "9"}, {"right", "3"}}},
        {"gradients_tf32", "attention_bwd", "1x1x9x64", {{"dtype", "f32"}, {"compute", "tf32"}, {"mask", "causal"}}},
        {"epilogue_of_fp8", "gemm", "20x70x140", {{"dtype", "e4m3"}, {"c", "e4m3"}, {"scale", "row"}, {"bias", "bf16"}, {"scale_d", "tensor"}, {"amax", "yes"}}},
        {"amax_of_fp8", "gemm", "20x70x140", {{"dtype", "e4m3"}, {"c", "f16"}, {"beta", "any"}, {"amax", "yes"}}},
        {"softmax", "softmax", "7x300", {{"dtype", "bf16"}, {"lse", "yes"}, {"scale", "-2"}}},
        {"add", "add", "777", {{"dtype", "f16"}}},
        {"gemm_f16", "gemm", "33x40x50", {{"dtype", "f16"}, {"layout", "nt"}}},
        {"gemm_long_k", "gemm", "9x12x200", {{"dtype", "f16"}}},
        {"gemm_batch", "gemm", "17x24x30", {{"dtype", "bf16"}, {"batch", "2"}, {"beta", "0.5"}, {"alpha", "0.75"}}},
        {"gemm_f32", "gemm", "17x24x30", {{"dtype", "f32"}, {"compute", "f32"}}},
    };
}
// clang-format on

// `relative` allows for the rounding of bounds, which devices get in f32. Values are f64.
bool is_same(double device, double host, double relative) {
    if (std::isnan(host) || std::isinf(host)) return std::isnan(host) ? std::isnan(device) : device == host;
    return std::fabs(device - host) <= relative * std::fabs(host) + 1e-300;
}

class ReferenceOnHost : public ::testing::TestWithParam<Judged> {};

TEST_P(ReferenceOnHost, SaysWhatTheHostsJudgeSays) {
    const Catalogue catalogue = Catalogue::embedded();
    const Problem problem = catalogue.problem({GetParam().op, GetParam().shape, GetParam().options});
    const Op& op = catalogue.op_of(problem);
    host_cuda::HostReference reference(catalogue, problem);
    for (const OpTest& test : op.tests(problem)) {
        const std::vector<Expected> host = op.reference_on_host(problem, test, host_cuda::filled_tensors(problem, test));
        const std::vector<Expected> device = reference.compute(problem, test);
        ASSERT_EQ(device.size(), host.size());
        for (std::size_t output = 0; output < host.size(); ++output) {
            int wrong_values = 0, wrong_bounds = 0;
            double largest = 0;
            for (const double value : host[output].values)
                largest = std::isfinite(value) ? std::max(largest, std::fabs(value)) : largest;
            for (std::size_t i = 0; i < host[output].values.size(); ++i) {
                const double value = host[output].values[i];
                const bool is_close = is_same(device[output].values[i], value, 1e-12) ||
                                      std::fabs(device[output].values[i] - value) <= 1e-12 * largest;
                wrong_values += is_close ? 0 : 1;
                wrong_bounds += is_same(device[output].bounds[i], host[output].bounds[i], 1e-5) ? 0 : 1;
            }
            EXPECT_EQ(wrong_values, 0) << test.name << ", output " << output;
            EXPECT_EQ(wrong_bounds, 0) << test.name << ", output " << output;
        }
    }
}

INSTANTIATE_TEST_SUITE_P(Each, ReferenceOnHost, ::testing::ValuesIn(judged()),
                         [](const auto& entry) { return entry.param.name; });

}  // namespace
}  // namespace autotune::test
