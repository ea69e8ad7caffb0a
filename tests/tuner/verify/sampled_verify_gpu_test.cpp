// Verification by samples and product check on a GPU.
#include "tests/support/gpu_gate.h"
#include "tests/tuner/verify/sampled_verify.h"

namespace autotune::tuner::test {
namespace {

class SampledVerifyOnGpu : public autotune::test::GpuTest {};

TEST_F(SampledVerifyOnGpu, ARightKernelPasses) {
    expect_a_right_kernel_passes({"hgemm", "1000x1300x700", {}});
    expect_a_right_kernel_passes({"bgemm", "1000x1300x700", {{"layout", "tn"}, {"beta", "1"}, {"ldc", "1304"}}});
    expect_a_right_kernel_passes({"hgemm_f16acc", "300x500x900", {{"layout", "nt"}, {"batch", "3"}}});
}

TEST_F(SampledVerifyOnGpu, OneWrongElementIsFoundWhereverItIs) {
    expect_one_wrong_element_is_found({"hgemm", "1000x1300x700", {}});
}

TEST_F(SampledVerifyOnGpu, OtherBitsAreAllowedToAKernelThatPromisedNone) {
    expect_other_bits_are_allowed_without_a_promise({"hgemm", "1000x1300x700", {}});
}

}  // namespace
}  // namespace autotune::tuner::test
