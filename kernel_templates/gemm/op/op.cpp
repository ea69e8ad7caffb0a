#include "src/core/op/op.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>

#include "kernel_templates/gemm/op/epilogue.h"
#include "kernel_templates/gemm/op/gemm_problem.h"
#include "kernel_templates/gemm/op/scaling.h"
#include "src/core/error.h"
#include "src/core/immortal.h"
#include "src/core/integer_math.h"

namespace autotune {
namespace {

using gemm::kFast;
using gemm::kFp8;
using gemm::kTf32;
using gemm::kTf32x3;
using gemm::View;

// These numbers must be the same as in reference.cuh: the tile, the threads, and k between two checks of the partial sums.
constexpr std::int64_t kReferenceTile = 64;
constexpr std::int64_t kReferencePeakEvery = 64;
constexpr std::uint32_t kReferenceThreads = 128;
constexpr std::int64_t kMostBlocks = 2147483647;

class GemmOp final : public Op {
  public:
    std::string_view name() const override { return "gemm"; }
    std::string_view about() const override { return "C = alpha A B + beta C, row-major, batched"; }
    std::string_view shape_form() const override { return "MxNxK"; }
    std::vector<OpAlias> aliases() const override;
    std::vector<OpOption> options() const override;
    std::vector<ProblemRequest> examples() const override;

    std::vector<TensorForm> tensors() const override;
    std::vector<OpOption> attributes() const override;

    Problem problem(const ProblemRequest& request) const override { return gemm::parse(*this, request); }
    DescribedProblem described(const ProblemDescription& description) const override {
        return gemm::described(*this, description);
    }
    std::optional<std::vector<EmptySum>> empty_sums(const Problem& problem) const override;
    double flops(const Problem& problem) const override;
    double bytes(const Problem& problem) const override;
    std::string_view rate_unit() const override { return "tflops"; }

    std::vector<OpTest> tests(const Problem& problem) const override { return gemm::tests(problem); }
    std::vector<Binding> reference_facts(const Problem& problem) const override;
    LaunchPlan reference_plan(const Problem& problem, const OpTest& test) const override;
    std::vector<Subproblem> subproblems(const Problem& problem, std::uint64_t seed) const override {
        return gemm::subproblems(problem, seed);
    }
    std::vector<Expected> reference_on_host(const Problem& problem, const OpTest& test,
                                            std::span<const std::vector<double>> tensors) const override;
    std::vector<Problem> edge_case_problems(const Problem& problem, const Config& config) const override {
        return gemm::edge_case_problems(*this, problem, config);
    }
};

std::vector<OpAlias> GemmOp::aliases() const {
    return {{"hgemm", {{"dtype", "f16"}, {"acc", "f32"}}},
            {"hgemm_f16acc", {{"dtype", "f16"}, {"acc", "f16"}}},
            {"bgemm", {{"dtype", "bf16"}, {"acc", "f32"}}},
            {"sgemm", {{"dtype", "f32"}, {"compute", "f32"}, {"acc", "f32"}}},
            {"tf32gemm", {{"dtype", "f32"}, {"compute", kTf32}, {"acc", "f32"}}},
            {"sgemm_tc", {{"dtype", "f32"}, {"compute", kTf32x3}, {"acc", "f32"}}},
            {"fp8gemm", {{"dtype", "e4m3"}, {"compute", kFp8}}}};
}

const char* acc_about() {
    return "accumulator, f32 if left out; f32fast, of fp8: sums stay in the tensor cores, with about 13 bits of fraction";
}

OpOption scale_option() {
    return {"scale",
            {gemm::kScalings.begin(), gemm::kScalings.end()},
            "",
            "what of A and B, in fp8, has a factor in tensors scale_a and scale_b; none if left out"};
}

// The additional options of fp8 products.
std::vector<OpOption> epilogue_options() {
    return {{"bias",
             {gemm::kBiases.begin(), gemm::kBiases.end()},
             "",
             "of fp8: element type of the tensor bias, which is added to each column of C; none if left out"},
            {"scale_d",
             {gemm::kScalesOfC.begin(), gemm::kScalesOfC.end()},
             "",
             "tensor: a C in fp8 is multiplied by tensor scale_d before it is rounded; none if left out"},
            {"amax",
             {gemm::kAmaxes.begin(), gemm::kAmaxes.end()},
             "",
             "of fp8, yes: tensor amax_d is raised to the largest magnitude of C before scale_d; no if left out"}};
}

template <class Item>
std::vector<Item> joined(std::vector<Item> all, std::vector<Item> more) {
    all.insert(all.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
    return all;
}

std::vector<OpOption> GemmOp::options() const {
    const std::vector<std::string> types = {"f16", "bf16", "f32", "e4m3", "e5m2"};
    return joined({{"dtype", types, "", "element type of A, B and C; of fp8, of A and B"},
                   {"layout", {"nn", "nt", "tn", "tt"}, "", "A then B: n as in the formula, t stored transposed"},
                   {"acc", {"f32", "f16", kFast}, "", acc_about()},
                   {"alpha", {}, "number", "factor of A B"},
                   {"beta", {}, "number, zero or any", "factor of C; any: the winner must serve every value"},
                   {"batch", {}, "integer >= 1", "how many products of one shape"},
                   {"lda", {}, "integer >= a row's elements", "elements between rows of A as stored"},
                   {"ldb", {}, "integer >= a row's elements", "elements between rows of B as stored"},
                   {"ldc", {}, "integer >= a row's elements", "elements between rows of C"},
                   {"stride_a", {}, "integer >= one matrix", "elements between batches of A"},
                   {"stride_b", {}, "integer >= one matrix", "elements between batches of B"},
                   {"stride_c", {}, "integer >= one matrix", "elements between batches of C"},
                   {"align", {}, "power of two <= 16, one or one per tensor", "bytes that divide the base addresses"},
                   {"a", types, "", "element type of A, where it is named alone"},
                   {"b", types, "", "element type of B"},
                   {"c", types, "", "element type of C; bf16 if left out where A and B are fp8"},
                   {"compute",
                    {"f16", "bf16", "f32", kTf32, kTf32x3, kFp8},
                    "",
                    "what the multiplier works in: the type of A and B if left out; tf32 and tf32x3 are for f32"},
                   scale_option()},
                  epilogue_options());
}

// Each tensor has its own strides. So it may be a matrix, a transpose or a part of a larger matrix.
std::vector<TensorForm> GemmOp::tensors() const {
    return {{"a", Access::in, {"batch", "m", "k"}},
            {"b", Access::in, {"batch", "k", "n"}},
            {"c", Access::inout, {"batch", "m", "n"}, false, "read where beta is any"},
            {"scale_a", Access::in, {"batch", "m", "k/128"}, true, "f32, of fp8: as many dimensions as the attribute scale has"},
            {"scale_b", Access::in, {"batch", "n", "k/128"}, true, "f32, of fp8: a row for each column of B, or for 128 of them"},
            {"bias", Access::in, {"n"}, true, "of fp8: added to each column of C; bf16, f16 or f32"},
            {"scale_d", Access::in, {"1"}, true, "f32, of a C in fp8: multiplies what is written"},
            {"amax_d", Access::inout, {"1"}, true, "f32, of fp8: raised to the largest magnitude of C before scale_d"}};
}

std::vector<OpOption> GemmOp::attributes() const {
    return joined({{"acc", {"f32", "f16", kFast}, "", acc_about()},
                   {"beta", {"zero", "any"}, "", "zero, the usual: every call passes beta = 0 and C is not read"},
                   {"layout", {"nn", "nt", "tn", "tt"}, "", "A then B, t: transposed as stored; if left out, the strides tell"},
                   {"order", {"row", "column"}, "", "of C, and of what layout's letters mean; if left out, C's strides tell"},
                   {"compute",
                    {"f16", "bf16", "f32", kTf32, kTf32x3, kFp8},
                    "",
                    "what the multiplier works in; the type of A and B if left out"},
                   scale_option()},
                  epilogue_options());
}

std::vector<ProblemRequest> GemmOp::examples() const {
    std::vector<ProblemRequest> requests = {{"hgemm", "4096x4096x2048", {}}};
    for (const char* op : {"hgemm", "hgemm_f16acc", "bgemm"}) {
        for (const char* layout : {"nn", "nt", "tn", "tt"}) {
            requests.push_back({op, "1024x768x512", {{"layout", layout}}});
            requests.push_back({op, "129x513x1023", {{"layout", layout}, {"beta", "any"}}});
        }
    }
    for (const char* op : {"sgemm", "tf32gemm", "sgemm_tc"}) {
        for (const char* layout : {"nn", "nt", "tn", "tt"}) {
            requests.push_back({op, "512x384x256", {{"layout", layout}}});
            requests.push_back({op, "129x257x511", {{"layout", layout}, {"beta", "any"}}});
        }
    }
    const std::string fast = kFast;
    requests.push_back({"fp8gemm", "1024x768x512", {}});
    requests.push_back({"fp8gemm", "512x384x1024", {{"acc", fast}, {"c", "f16"}}});
    requests.push_back({"fp8gemm", "129x513x1040", {{"acc", fast}, {"c", "f32"}, {"scale", "row"}, {"beta", "any"}}});
    requests.push_back({"fp8gemm", "300x520x640", {{"a", "e5m2"}, {"scale", "tensor"}}});
    requests.push_back({"fp8gemm", "384x640x1000", {{"scale", "block"}, {"align", "16,16,16"}}});
    requests.push_back({"fp8gemm", "65x255x1023", {{"scale", "block"}, {"beta", "any"}}});
    requests.push_back({"fp8gemm", "16x4096x4096", {{"acc", fast}, {"scale", "row"}}});
    requests.push_back({"fp8gemm", "3*256x192x256", {{"b", "e5m2"}, {"scale", "row"}, {"ldb", "272"}}});
    requests.push_back({"fp8gemm",
                        "512x384x640",
                        {{"c", "e4m3"}, {"scale", "tensor"}, {"bias", "bf16"}, {"scale_d", "tensor"}, {"amax", "yes"}}});
    requests.push_back({"fp8gemm", "131x273x528", {{"acc", fast}, {"scale", "row"}, {"bias", "bf16"}}});
    requests.push_back({"fp8gemm",
                        "2*200x136x272",
                        {{"scale", "block"}, {"c", "e5m2"}, {"bias", "f32"}, {"scale_d", "tensor"}, {"beta", "any"}}});
    requests.push_back({"fp8gemm", "16x512x1024", {{"acc", fast}, {"c", "f16"}, {"bias", "f16"}, {"amax", "yes"}}});
    requests.push_back({"hgemm", "16*512x512x512", {{"align", "8,4,2"}}});
    requests.push_back({"bgemm", "1x515x1031", {{"layout", "nt"}}});
    requests.push_back({"hgemm", "3x1027x515", {{"layout", "tn"}, {"beta", "any"}}});
    requests.push_back({"bgemm", "1x4096x4096", {{"layout", "nt"}, {"ldb", "4104"}, {"alpha", "0.5"}, {"beta", "2"}}});
    return requests;
}

std::optional<std::vector<EmptySum>> GemmOp::empty_sums(const Problem& problem) const {
    if (problem.tensors[gemm::kC].is_empty()) return std::vector<EmptySum>{};  // if there are no elements, amax keeps its value
    const View view(problem);
    if (view.k != 0) return std::nullopt;
    EmptySum c{.tensor = gemm::kC};
    if (view.reads_c) c.factor = gemm::kBeta;
    c.bias = gemm::find_tensor(problem, gemm::kBias);
    c.scale = gemm::find_tensor(problem, gemm::kScaleD);
    c.amax = gemm::find_tensor(problem, gemm::kAmaxD);
    return std::vector<EmptySum>{c};
}

double GemmOp::flops(const Problem& problem) const {
    const View view(problem);
    return 2.0 * static_cast<double>(view.m) * static_cast<double>(view.n) * static_cast<double>(view.k) *
           static_cast<double>(view.batch);
}

double GemmOp::bytes(const Problem& problem) const {
    double total = 0;
    for (const Tensor& tensor : problem.tensors) {
        const double once = static_cast<double>(tensor.elements()) * static_cast<double>(size_bytes(tensor.dtype));
        total += tensor.access == Access::inout ? 2 * once : once;
    }
    return total;
}

std::vector<Binding> GemmOp::reference_facts(const Problem& problem) const {
    const View view(problem);
    const gemm::Epilogue epilogue = gemm::epilogue_of(problem);
    return {{"a_type", view.in},
            {"b_type", view.b.dtype},
            {"out_type", view.out},
            {"trans_a", view.trans_a ? 1 : 0},
            {"trans_b", view.trans_b ? 1 : 0},
            {"scale_mode", static_cast<std::int64_t>(gemm::scaling_of(problem))},
            {"bias_type", epilogue.bias.value_or(DType::f32)},
            {"saturation", gemm::is_fp8(view.out) ? static_cast<std::int64_t>(gemm::saturation_of(view.out)) : 0}};
}

// The step that checks amax: it reduces the largest values that the main kernel left in the workspace.
LaunchStep amax_step(const Problem& problem, const gemm::Tolerance& allowed) {
    const bool is_whole = problem.word("amax") != gemm::kPartialAmax;
    LaunchStep step;
    step.entry = "_amax";
    step.block.x = 1;
    step.arguments = {gemm::address_of(problem, gemm::kAmaxD),
                      WorkspaceArg{0},
                      ExpectedArg{1},
                      BoundArg{1},
                      F32Arg{static_cast<float>(allowed.of_amax)},
                      F32Arg{is_whole ? 0.0F : std::numeric_limits<float>::infinity()}};
    return step;
}

// The arguments are a, b, c, expected, bound, alpha, beta, then the five numbers of Tolerance, then m .. stride_c as for every
// gemm kernel, then the scales, bias and scale_d, and the address for the largest value and bound.
LaunchPlan GemmOp::reference_plan(const Problem& problem, const OpTest& test) const {
    const View view(problem);
    const gemm::Tolerance allowed = gemm::tolerance(problem, test);
    const auto tiles = [](std::int64_t extent) { return (extent + kReferenceTile - 1) / kReferenceTile; };

    LaunchStep step;
    step.grid.x = narrow<std::uint32_t>(std::min(tiles(view.m) * tiles(view.n) * view.batch, kMostBlocks));
    step.block.x = kReferenceThreads;
    step.arguments = {TensorArg{gemm::kA},
                      TensorArg{gemm::kB},
                      TensorArg{gemm::kC},
                      ExpectedArg{},
                      BoundArg{},
                      ScalarArg{gemm::kAlpha},
                      ScalarArg{gemm::kBeta},
                      F32Arg{static_cast<float>(allowed.norm)},
                      F32Arg{static_cast<float>(allowed.value)},
                      F32Arg{static_cast<float>(allowed.input)},
                      F32Arg{static_cast<float>(allowed.floor)},
                      F32Arg{static_cast<float>(allowed.partial)}};
    const std::vector<Argument> common = gemm::arguments(problem);
    constexpr std::ptrdiff_t kFirstExtent = 5;  // a, b, c, alpha and beta come before it; the workspace comes last
    step.arguments.insert(step.arguments.end(), common.begin() + kFirstExtent, common.end() - 1);
    const std::vector<Argument> scales = gemm::scale_arguments(problem);
    step.arguments.insert(step.arguments.end(), scales.begin(), scales.end());
    step.arguments.push_back(gemm::address_of(problem, gemm::kBias));
    step.arguments.push_back(gemm::address_of(problem, gemm::kScaleD));
    LaunchPlan plan;
    if (gemm::epilogue_of(problem).keeps_amax) {
        plan.workspace_bytes = plan.workspace_zero_bytes = 2 * sizeof(double);
        step.arguments.push_back(WorkspaceArg{0});
        plan.steps = {step, amax_step(problem, allowed)};
    } else {
        step.arguments.push_back(I64Arg{0});
        plan.steps = {step};
    }
    return plan;
}

// Computes one element on the host, from values in the order in which they are stored.
struct HostElement {
    double product = 0;
    double squares = 0;
    double peak = 0;  // the largest partial sum in the order of k
};

// Scales an operand's elements in line `line` of a batch.
class HostScale {
  public:
    HostScale(const Problem& problem, std::span<const std::vector<double>> values, int tensor)
        : scaling_(gemm::scaling_of(problem)),
          strides_(gemm::scale_strides(problem, tensor)),
          lines_(scaling_ == gemm::Scaling::block && tensor == gemm::kScaleB ? gemm::kScaleBlock : 1) {
        if (scaling_ != gemm::Scaling::none) values_ = values[static_cast<std::size_t>(tensor)].data();
    }
    double at(std::int64_t batch, std::int64_t line, std::int64_t k) const {
        if (values_ == nullptr) return 1;
        return values_[batch * strides_.batch + line / lines_ * strides_.line + k / gemm::kScaleBlock * strides_.k];
    }

  private:
    gemm::Scaling scaling_;
    gemm::ScaleStrides strides_;
    std::int64_t lines_;
    const double* values_ = nullptr;
};

HostElement host_product(const Problem& problem, const View& view, std::span<const std::vector<double>> values,
                         std::int64_t batch, std::pair<std::int64_t, std::int64_t> at) {
    const auto [row, col] = at;
    const HostScale scale_a(problem, values, gemm::kScaleA), scale_b(problem, values, gemm::kScaleB);
    const double* const a = values[gemm::kA].data() + batch * view.a.batch_stride + (view.trans_a ? row : row * view.a.ld);
    const double* const b = values[gemm::kB].data() + batch * view.b.batch_stride + (view.trans_b ? col * view.b.ld : col);
    const std::int64_t step_a = view.trans_a ? view.a.ld : 1;
    const std::int64_t step_b = view.trans_b ? 1 : view.b.ld;
    HostElement sums;
    for (std::int64_t k = 0; k < view.k; ++k) {
        const double term = a[k * step_a] * scale_a.at(batch, row, k) * (b[k * step_b] * scale_b.at(batch, col, k));
        sums.product += term;
        sums.squares += term * term;
        if ((k + 1) % kReferencePeakEvery == 0 || k + 1 == view.k) sums.peak = std::max(sums.peak, std::fabs(sums.product));
    }
    return sums;
}

// Applies the epilogue to scaled sums, column after column, and keeps the amax.
class HostEpilogue {
  public:
    HostEpilogue(const Problem& problem, std::span<const std::vector<double>> values)
        : bias_(values_of(problem, values, gemm::kBias)), most_(gemm::saturation_of(problem.tensors[gemm::kC].dtype)) {
        if (const std::vector<double>* scale = values_of(problem, values, gemm::kScaleD)) scale_ = scale->front();
        if (const std::vector<double>* amax = values_of(problem, values, gemm::kAmaxD)) largest_ = amax->front();
    }
    double biased(double value, std::int64_t col) const {
        return bias_ == nullptr ? value : value + (*bias_)[static_cast<std::size_t>(col)];
    }
    double scale() const { return scale_; }
    double stored(double value) const { return std::clamp(value * scale_, -most_, most_); }
    void count(double value, double bound) {
        is_nan_ = is_nan_ || std::isnan(value);
        largest_ = std::max(largest_, std::fabs(value));
        largest_bound_ = std::max(largest_bound_, bound);
    }
    Expected amax(double of_amax) const {
        return {{is_nan_ ? std::numeric_limits<double>::quiet_NaN() : largest_}, {largest_bound_ + of_amax * largest_}};
    }

  private:
    static const std::vector<double>* values_of(const Problem& problem, std::span<const std::vector<double>> values,
                                                std::string_view name) {
        const std::optional<int> tensor = gemm::find_tensor(problem, name);
        return tensor ? &values[static_cast<std::size_t>(*tensor)] : nullptr;
    }

    const std::vector<double>* bias_;
    double scale_ = 1, most_, largest_ = 0, largest_bound_ = 0;
    bool is_nan_ = false;
};

std::vector<Expected> GemmOp::reference_on_host(const Problem& problem, const OpTest& test,
                                                std::span<const std::vector<double>> tensors) const {
    const View view(problem);
    const gemm::Tolerance allowed = gemm::tolerance(problem, test);
    const double alpha = problem.scalars[gemm::kAlpha].number();
    const double beta = problem.scalars[gemm::kBeta].number();
    HostEpilogue epilogue(problem, tensors);
    Expected c;
    for (std::int64_t batch = 0; batch < view.batch; ++batch) {
        for (std::int64_t row = 0; row < view.m; ++row) {
            for (std::int64_t col = 0; col < view.n; ++col) {
                const HostElement sums = host_product(problem, view, tensors, batch, {row, col});
                const auto at = static_cast<std::size_t>(batch * view.c.batch_stride + row * view.c.ld + col);
                const double added = beta == 0 ? 0 : beta * tensors[gemm::kC][at];
                const double value = epilogue.biased(alpha * sums.product + added, col), stored = epilogue.stored(value);
                const double lost = allowed.norm * std::sqrt(sums.squares) + allowed.partial * sums.peak;
                const double bound = std::fabs(alpha) * lost + allowed.input * std::fabs(added);
                c.values.push_back(stored);
                c.bounds.push_back(bound * epilogue.scale() + allowed.value * std::fabs(stored) + allowed.floor);
                epilogue.count(value, bound);
            }
        }
    }
    std::vector<Expected> outputs = {std::move(c)};
    if (test.outputs.size() > 1) outputs.push_back(epilogue.amax(allowed.of_amax));
    return outputs;
}

}  // namespace

const Op& op_gemm() {
    static const Immortal<GemmOp> op;
    return *op;
}

}  // namespace autotune
