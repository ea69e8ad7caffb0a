// Verification by samples and product check on the scripted driver, whose arithmetic is right at this size.
#include "tests/support/fake/in_fake_process.h"
#include "tests/tuner/verify/sampled_verify.h"

namespace autotune::tuner::test::sampled_verify_fake_test {
namespace {

using autotune::test::in_fake_process;

TEST(SampledVerifyOnFake, ARightKernelPasses) {
    fake::Sandbox sandbox;
    if (!in_fake_process(sandbox)) return;
    expect_a_right_kernel_passes({"hgemm", "150x170x64", {}});
    expect_a_right_kernel_passes({"bgemm", "150x170x40", {{"layout", "tn"}, {"beta", "1"}, {"ldc", "176"}}});
}

TEST(SampledVerifyOnFake, OneWrongElementIsFoundWhereverItIs) {
    fake::Sandbox sandbox;
    if (!in_fake_process(sandbox)) return;
    expect_one_wrong_element_is_found({"hgemm", "150x170x64", {}});
}

TEST(SampledVerifyOnFake, OtherBitsAreAllowedToAKernelThatPromisedNone) {
    fake::Sandbox sandbox;
    if (!in_fake_process(sandbox)) return;
    expect_other_bits_are_allowed_without_a_promise({"hgemm", "150x170x64", {}});
}

}  // namespace
}  // namespace autotune::tuner::test::sampled_verify_fake_test
