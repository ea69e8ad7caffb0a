#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>
#include <optional>
#include <string>

#include "src/core/error.h"
#include "src/gpu/nvrtc.h"
#include "src/jit/compiler.h"
#include "tests/support/nvrtc_for_tests.h"
#include "tuner/verify/repeatability.h"
#include "tuner/verify/verifier.h"

namespace autotune::tuner::test {

// One problem whose right result is known only in samples and as a product, and a kernel that can be made wrong in one element.
class SampledBench {
  public:
    explicit SampledBench(const ProblemRequest& request)
        : driver_(gpu::Driver::load()),
          gpu_{driver_, gpu::Context(driver_, 0), gpu::Stream(driver_), driver_->device(0)},
          problem_(catalogue_.problem(request)) {
        nvrtc_ = gpu::Nvrtc::load(autotune::test::nvrtc_search());
        const jit::Target target{gpu_.device.arch(), nvrtc_->version()};
        harness_ = std::make_unique<Harness>(driver_, load(jit::render_harness(catalogue_, target)).library, gpu_.stream);
        const Op& op = catalogue_.op_of(problem_);
        bench_ = std::make_unique<ProblemFixture>(gpu_, *harness_, op, problem_, ProblemFixture::Options{.timing = false});
        known_ = bench_->compute_reference(load(jit::render_reference(catalogue_, op, problem_, target)), false);
        const Family& family = *catalogue_.find_family("gemm/simt");
        const SearchSpace space = family.space(problem_, gpu_.device);
        const Config config = space.canonical(space.default_config);
        kernel_.emplace(bench_->bind(load(jit::render(catalogue_, family, problem_, space, config, target)),
                                     family.plan(problem_, config, gpu_.device)));
    }

    Reference known() const { return known_; }
    Verification verify() { return verify_on_device(*harness_, *bench_, *kernel_); }
    // Verifies the kernel's result with other bits in one element.
    Verification verify_wrong_at(std::int64_t row, std::int64_t col) {
        Runnable wrong;
        wrong.enqueue = [&](std::span<const gpu::DeviceAddress> tensors) {
            kernel_->enqueue(tensors);
            gpu_.stream.synchronize();
            flip(row, col, tensors[2]);
        };
        return verify_on_device(*harness_, *bench_, wrong);
    }
    // The repeatability check of the kernel, which does or does not promise its bits, if one element is wrong in its runs `first`
    // to `last`.
    std::string repeatability_of(bool deterministic, int first, int last) {
        Runnable faulty;
        faulty.deterministic = deterministic;
        faulty.enqueue = [this, first, last, run = 0](std::span<const gpu::DeviceAddress> tensors) mutable {
            kernel_->enqueue(tensors);
            gpu_.stream.synchronize();
            if (++run >= first && run <= last) flip(0, 0, tensors[2]);
        };
        return tuner::check_repeatability(*harness_, *bench_, faulty);
    }
    // Whether a subproblem covers the element.
    bool is_sampled(std::int64_t row, std::int64_t col) {
        for (const Answer& part : bench_->tests().front().answers) {
            const TypedMatrix out = matrix_view(part.out);
            const std::int64_t from_row = part.first / out.ld, from_col = part.first % out.ld;
            if (row >= from_row && row < from_row + out.rows && col >= from_col && col < from_col + out.cols) return true;
        }
        return false;
    }

  private:
    ProblemFixture::Code load(const jit::Rendered& rendered) const {
        const jit::CompileResult result = jit::compile(*nvrtc_, jit::CubinCache(""), rendered);
        if (!result.compiled) throw Error(ErrorCode::compile_failed, result.failure + "\n" + result.log);
        return {std::make_shared<const gpu::Library>(driver_, result.compiled->cubin), rendered.symbol};
    }
    // Adds 1: the smallest error that the integers of the exact test can have.
    void flip(std::int64_t row, std::int64_t col, gpu::DeviceAddress out) {
        for (TestFixture& test : bench_->tests()) {
            if (test.tensors.addresses[2] != out) continue;
            GuardedBuffer& buffer = test.tensors.buffers[2];
            const TypedMatrix c = matrix_view(problem_.tensors[2]);
            const std::size_t at = buffer.offset() + static_cast<std::size_t>(row * c.ld + col) * size_bytes(c.dtype);
            std::uint16_t bits = 0;
            buffer.memory().download(std::as_writable_bytes(std::span(&bits, 1)), at);
            bits = static_cast<std::uint16_t>(encode(c.dtype, decode(c.dtype, bits) + 1));
            buffer.memory().upload(std::as_bytes(std::span(&bits, 1)), at);
        }
    }

    Catalogue catalogue_ = Catalogue::embedded();
    std::shared_ptr<const gpu::Driver> driver_;
    WorkerGpu gpu_;
    Problem problem_;
    std::shared_ptr<const gpu::Nvrtc> nvrtc_;
    std::unique_ptr<Harness> harness_;
    std::unique_ptr<ProblemFixture> bench_;
    Reference known_ = Reference::none;
    std::optional<Runnable> kernel_;
};

inline void expect_a_right_kernel_passes(const ProblemRequest& request) {
    SampledBench bench(request);
    EXPECT_EQ(bench.known(), Reference::sampled);
    const Verification found = bench.verify();
    EXPECT_TRUE(found.right) << found.detail;
}

inline void expect_one_wrong_element_is_found(const ProblemRequest& request) {
    SampledBench bench(request);
    EXPECT_TRUE(bench.is_sampled(0, 0));
    const Verification sampled = bench.verify_wrong_at(0, 0);
    EXPECT_NE(sampled.detail.find("exact test"), std::string::npos) << sampled.detail;
    std::int64_t row = 20, col = 20;
    while (bench.is_sampled(row, col)) col += ++row % 2;
    const Verification found = bench.verify_wrong_at(row, col);
    EXPECT_NE(found.detail.find("product check: row " + std::to_string(row)), std::string::npos) << found.detail;
}

inline void expect_other_bits_are_allowed_without_a_promise(const ProblemRequest& request) {
    constexpr int kAlways = 1 << 20;
    SampledBench bench(request);
    EXPECT_EQ(bench.repeatability_of(true, 0, 0), "");
    EXPECT_EQ(bench.repeatability_of(true, 2, 2), "gives other bits in run 2 on the same input");
    EXPECT_EQ(bench.repeatability_of(false, 2, 2), "");
    EXPECT_NE(bench.repeatability_of(false, 2, kAlways).find("exact test"), std::string::npos);
}

}  // namespace autotune::tuner::test
