#include "kernel_templates/gemm/op/scaling.h"
#include "kernel_templates/gemm/rivals/blas_product.h"
#include "src/core/error.h"
#include "src/rivals/rival.h"

namespace autotune {
namespace {

constexpr int kHeuristics = 64;  // cuBLASLt may return fewer

gpu::BlasProduct product_of(const Problem& problem) {
    std::string why;
    const auto product = gemm::blas_product(problem, &why);
    check(product.has_value(), "a rival was prepared for a problem that it refuses: " + why);
    return *product;
}

// Base of cuBLAS and cuBLASLt: one library, opened at first use.
class BlasRival : public Rival {
  public:
    std::string refuses(const Problem& problem) const override {
        std::string why;
        gemm::blas_product(problem, &why);
        return why;
    }
    PreparedRival prepare(const Problem& problem, const RivalGpu& gpu) override {
        if (blas_ == nullptr) blas_ = gpu::Blas::load(gpu.driver, gpu.library_folders);
        if (blas_ == nullptr) return {.why_not = "cuBLAS was not found"};
        return ways(blas_, product_of(problem), gpu.stream);
    }

  private:
    virtual PreparedRival ways(const std::shared_ptr<gpu::Blas>& blas, const gpu::BlasProduct& product,
                               gpu::StreamHandle stream) const = 0;

    std::shared_ptr<gpu::Blas> blas_;
};

// cublasGemmEx with its default heuristic: the usual call of a program.
class Cublas final : public BlasRival {
  public:
    std::string_view name() const override { return "cublas"; }
    std::string refuses(const Problem& problem) const override {
        if (gemm::is_fp8(problem.tensors.front().dtype)) return "cuBLAS: cublasGemmEx multiplies no fp8; cublaslt does";
        return BlasRival::refuses(problem);
    }

  private:
    PreparedRival ways(const std::shared_ptr<gpu::Blas>& blas, const gpu::BlasProduct& product,
                       gpu::StreamHandle stream) const override {
        blas->prepare();
        return {.ways = {[=](std::span<const gpu::DeviceAddress> tensors) { blas->run(product, tensors, stream); }}};
    }
};

// Every algorithm that cuBLASLt's heuristics return.
class CublasLt final : public BlasRival {
  public:
    std::string_view name() const override { return "cublaslt"; }
    bool joins_tunes() const override { return false; }

  private:
    PreparedRival ways(const std::shared_ptr<gpu::Blas>& blas, const gpu::BlasProduct& product,
                       gpu::StreamHandle stream) const override {
        const std::shared_ptr<gpu::BlasLtPlan> plan = blas->plan(product, kHeuristics);
        PreparedRival prepared;
        for (std::size_t i = 0; i < plan->algorithms(); ++i) {
            prepared.ways.emplace_back([=](std::span<const gpu::DeviceAddress> tensors) { plan->run(i, tensors, stream); });
        }
        if (prepared.ways.empty()) prepared.why_not = "cuBLASLt offers no algorithm for this problem";
        return prepared;
    }
};

}  // namespace

std::vector<std::unique_ptr<Rival>> rivals_gemm();

std::vector<std::unique_ptr<Rival>> rivals_gemm() {
    std::vector<std::unique_ptr<Rival>> all;
    all.push_back(std::make_unique<Cublas>());
    all.push_back(std::make_unique<CublasLt>());
    return all;
}

}  // namespace autotune
