// Verification by samples and product check on the scripted driver, whose arithmetic is right at this size.
#include "tests/support/fake/fake_test.h"
#include "tests/tuner/verify/sampled_verify.h"

namespace autotune::tuner::test::sampled_verify_fake_test {
namespace {

using autotune::test::fake_test;

TEST(SampledVerifyOnFake, ARightKernelPasses) {
    fake_test("", [] {
        expect_a_right_kernel_passes({"hgemm", "150x170x64", {}});
        expect_a_right_kernel_passes({"bgemm", "150x170x40", {{"layout", "tn"}, {"beta", "1"}, {"ldc", "176"}}});
    });
}

TEST(SampledVerifyOnFake, OneWrongElementIsFoundWhereverItIs) {
    fake_test("", [] { expect_one_wrong_element_is_found({"hgemm", "150x170x64", {}}); });
}

TEST(SampledVerifyOnFake, OtherBitsAreAllowedToAKernelThatPromisedNone) {
    fake_test("", [] { expect_other_bits_are_allowed_without_a_promise({"hgemm", "150x170x64", {}}); });
}

}  // namespace
}  // namespace autotune::tuner::test::sampled_verify_fake_test
