// Converts words to a Spec.
#include <algorithm>
#include <array>

#include "kernel_templates/gemm/op/epilogue.h"
#include "kernel_templates/gemm/op/gemm_problem.h"
#include "kernel_templates/gemm/op/scaling.h"
#include "kernel_templates/request.h"
#include "src/core/error.h"

namespace autotune::gemm {
namespace {

struct Sizes {
    std::int64_t m, n, k, batch;
};

Sizes parse_sizes(const Op& op, const ProblemRequest& request, const RequestOptions& options) {
    const ShapeNumbers numbers = parse_shape(request.shape, op.shape_form());
    const std::optional<std::int64_t> batch = options.positive("batch");
    if (batch && numbers.batch && *batch != *numbers.batch) {
        refuse("the shape '" + request.shape + "' and batch " + std::to_string(*batch) + " disagree; give the batch once");
    }
    const std::int64_t count = batch.value_or(numbers.batch.value_or(1));
    if (count > kLargestExtent) {
        refuse("batch is " + std::to_string(count) + "; the largest is " + std::to_string(kLargestExtent));
    }
    return {numbers.extents[0], numbers.extents[1], numbers.extents[2], count};
}

DType type_of(const std::string& word) {
    const std::optional<DType> type = parse_dtype(word);
    if (!type) internal_error("gemm allows the unknown type '" + word + "'");
    return *type;
}

// --dtype is the type of A, B and C. Without --dtype, a single type that is given also applies to the others. A product of fp8
// has a C in bf16 unless C's type is given.
Types parse_types(const RequestOptions& options) {
    std::string usual = options.word("dtype", "");
    for (const char* name : {"a", "b", "c"}) {
        if (usual.empty()) usual = options.word(name, "");
    }
    const std::string compute = options.word("compute", "");
    if (usual.empty()) usual = compute.empty() ? "f16" : compute.starts_with("tf32") ? "f32" : compute == kFp8 ? "e4m3" : compute;
    Types types;
    types.a = type_of(options.word("a", usual));
    types.b = type_of(options.word("b", usual));
    types.c = type_of(options.word("c", is_fp8(types.a) ? to_string(DType::bf16) : usual));
    types.compute = compute;
    types.acc = options.word("acc", "f32");
    types.scale = options.word("scale", kScalings[0]);
    types.bias = options.word("bias", kBiases[0]);
    types.scale_d = options.word("scale_d", kScalesOfC[0]);
    types.amax = options.word("amax", kAmaxes[0]);
    return checked_types(std::move(types));
}

// The size of the smallest element, of which every alignment is a multiple.
std::size_t smallest_element(const Types& types) {
    return std::min({size_bytes(types.a), size_bytes(types.b), size_bytes(types.c)});
}

struct Beta {
    std::string word;
    double value = 0;
};

Beta parse_beta(const RequestOptions& options) {
    const std::string text = options.word("beta", "zero");
    if (text == "zero") return {"zero", 0};
    if (text == "any") return {"any", 1};
    const double value = options.number("beta").value_or(0);
    return {value == 0 ? "zero" : "any", value};
}

float number_or(const RequestOptions& options, std::string_view name, float otherwise) {
    const std::optional<double> value = options.number(name);
    return value ? static_cast<float>(*value) : otherwise;
}

}  // namespace

Problem parse(const Op& op, const ProblemRequest& request) {
    const RequestOptions options(op, request);
    const Sizes size = parse_sizes(op, request, options);
    const Types types = parse_types(options);
    const Beta beta = parse_beta(options);
    const std::string layout = options.word("layout", is_fp8(types.a) ? "nt" : "nn");
    Spec spec;
    spec.m = size.m, spec.n = size.n, spec.k = size.k, spec.batch = size.batch;
    spec.types = types;
    spec.trans_a = layout[0] == 't';
    spec.trans_b = layout[1] == 't';
    spec.reads_c = beta.word != "zero";
    spec.alpha = number_or(options, "alpha", 1);
    spec.beta = static_cast<float>(beta.value);
    const std::vector<int> alignments = parse_alignments(options, smallest_element(types), {"a", "b", "c"});
    // For scales and biases our kernels only need the alignment of an element. cuBLASLt needs 16 bytes.
    spec.vector_alignment = *std::min_element(alignments.begin(), alignments.end());
    const std::array<std::string, 3> names = {"a", "b", "c"};
    for (std::size_t i = 0; i < names.size(); ++i) {
        spec.stored[i].ld = options.positive("ld" + names[i]);
        spec.stored[i].stride = options.positive("stride_" + names[i]);
        spec.stored[i].alignment_bytes = alignments[i];
        const std::size_t element = size_bytes(std::array{types.a, types.b, types.c}[i]);
        if (alignments[i] < static_cast<int>(element))
            refuse("align is " + std::to_string(alignments[i]) + " for " + names[i] + ", of which an element has " +
                   std::to_string(element) + " bytes; give that or more");
    }
    return make_problem(spec);
}

}  // namespace autotune::gemm
