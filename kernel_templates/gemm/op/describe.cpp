// Makes a Spec from a program's descriptions of A, B and C.
#include <algorithm>
#include <array>

#include "kernel_templates/gemm/op/epilogue.h"
#include "kernel_templates/gemm/op/gemm_problem.h"
#include "kernel_templates/gemm/op/scaling.h"
#include "kernel_templates/request.h"

namespace autotune::gemm {
namespace {

// A matrix of a description, with its batch and with rows and columns as in the product.
struct DescribedMatrix {
    std::string name;
    Dim batch, rows, cols;
    int alignment_bytes = 16;

    bool is_empty() const { return batch.extent == 0 || rows.extent == 0 || cols.extent == 0; }
    DescribedMatrix transposed() const { return {name, batch, cols, rows, alignment_bytes}; }
    bool may_be_plain() const { return cols.stride == 1 || cols.extent == 1; }
    bool may_be_transposed() const { return rows.stride == 1 || rows.extent == 1; }
    // Whether it is stored transposed, judged by the strides. A single column that is contiguous is taken as a row of the
    // transpose, because that has the better alignment.
    bool looks_transposed() const {
        if (!may_be_plain()) return true;
        return cols.extent == 1 && rows.stride == 1 && rows.extent > 1;
    }
};

DescribedMatrix logical(const DescribedTensors& tensors, const std::string& name) {
    const std::vector<Dim> dims = tensors.dims(name);
    return {name, dims[0], dims[1], dims[2], tensors.at(name).alignment_bytes};
}

void check_extents(const std::array<DescribedMatrix, 3>& matrices) {
    const auto same = [](const std::string& what, std::int64_t left, std::int64_t right) {
        if (left != right) refuse(what + " differ: " + std::to_string(left) + " and " + std::to_string(right));
    };
    const auto& [a, b, c] = matrices;
    same("the rows of a and c", a.rows.extent, c.rows.extent);
    same("the columns of a and the rows of b", a.cols.extent, b.rows.extent);
    same("the columns of b and c", b.cols.extent, c.cols.extent);
    same("the batches of a and c", a.batch.extent, c.batch.extent);
    same("the batches of b and c", b.batch.extent, c.batch.extent);
    const std::array<std::pair<const char*, std::int64_t>, 4> extents = {
        {{"m", c.rows.extent}, {"n", c.cols.extent}, {"k", a.cols.extent}, {"batch", c.batch.extent}}};
    for (const auto& [name, value] : extents) {
        check_extent(name, value);
    }
}

// `said` tells whether the description's layout means transposed, in row-major terms; nullopt if no layout is stated. `if_empty`
// is the answer for a matrix without elements.
bool is_transposed(const DescribedMatrix& matrix, std::optional<bool> said, bool if_empty = false) {
    if (matrix.is_empty()) return said.value_or(if_empty);  // whatever its strides are
    const bool transposed = said.value_or(matrix.looks_transposed());
    if (transposed ? !matrix.may_be_transposed() : !matrix.may_be_plain())
        refuse("tensor " + matrix.name + " has strides " + std::to_string(matrix.rows.stride) + " and " +
               std::to_string(matrix.cols.stride) + "; one of its last two dimensions must be contiguous" +
               (said ? ", as the layout says which" : ""));
    return transposed;
}

// The matrix as it is stored. With a single row, the caller's distance between rows counts only if a row fits into it.
Spec::Stored stored(const DescribedMatrix& matrix, bool transposed) {
    Spec::Stored made{.ld = {}, .stride = {}, .alignment_bytes = matrix.alignment_bytes};
    if (matrix.is_empty()) return made;
    const Dim& lines = transposed ? matrix.cols : matrix.rows;
    const Dim& line = transposed ? matrix.rows : matrix.cols;
    if (lines.extent > 1 || lines.stride >= line.extent) made.ld = lines.stride;
    if (matrix.batch.extent > 1) made.stride = matrix.batch.stride;
    return made;
}

// The element type of the bias, which an attribute may state too.
std::string bias_word(const DescribedTensors& tensors) {
    const TensorDescription* const bias = tensors.find(kBias);
    const std::string own(bias == nullptr ? kBiases[0] : to_string(bias->dtype));
    const std::string said = tensors.word("bias", own);
    if (bias != nullptr && said != own) refuse("tensor bias is " + own + ", but the attribute bias is " + said);
    if (std::find(kBiases.begin(), kBiases.end(), said) == kBiases.end())
        refuse("tensor bias is " + said + "; a bias is bf16, f16 or f32");
    return said;
}

// Checks a tensor of the epilogue. It must be given if the problem has it, be dense, and have the right extent.
void check_epilogue_tensor(const DescribedTensors& tensors, std::string_view name, bool is_wanted) {
    const std::string text(name);
    const TensorDescription* const tensor = tensors.find(text);
    if (is_wanted && tensor == nullptr) refuse("the problem needs the tensor " + text);
    if (!is_wanted && tensor != nullptr) refuse("tensor " + text + " is given, but the attributes say that there is none");
    if (tensor == nullptr) return;
    if (name != kBias && tensor->dtype != DType::f32)
        refuse("tensor " + text + " is " + std::string(to_string(tensor->dtype)) + "; it is one f32");
    const std::int64_t wanted = name == kBias ? tensors.dims("c").back().extent : 1;
    const Dim dim = tensors.dims(text).back();
    if (dim.extent != wanted || (dim.extent > 1 && dim.stride != 1))
        refuse("tensor " + text + " has " + std::to_string(dim.extent) + " elements, " + std::to_string(dim.stride) +
               " apart; it has " + std::to_string(wanted) + ", side by side");
}

// The types of the tensors. Attributes that state a type must agree with it.
Types types_of(const DescribedTensors& tensors) {
    Types types{tensors.at("a").dtype,       tensors.at("b").dtype,      tensors.at("c").dtype,
                tensors.word("compute", ""), tensors.word("acc", "f32"), tensors.word("scale", kScalings[0])};
    types.bias = bias_word(tensors);
    types.scale_d = tensors.word("scale_d", kScalesOfC[tensors.find(kScaleD) == nullptr ? 0 : 1]);
    types.amax = tensors.word("amax", kAmaxes[tensors.find(kAmaxD) == nullptr ? 0 : 1]);
    for (const auto& [name, is_wanted] :
         {std::pair{kBias, types.bias != kBiases[0]}, std::pair{kScaleD, types.scale_d != kScalesOfC[0]},
          std::pair{kAmaxD, types.amax != kAmaxes[0]}})
        check_epilogue_tensor(tensors, name, is_wanted);
    return checked_types(std::move(types));
}

// A scale with the dimensions of `wanted`. The caller may give those of the mode, or add extents of 1 anywhere.
Tensor scale_as(const Tensor& wanted, const TensorDescription& given, const std::string& form) {
    std::vector<Dim> left;
    for (const Dim& dim : given.dims) {
        if (dim.extent != 1) left.push_back(dim);
    }
    Tensor scale = wanted;
    std::size_t at = 0;
    for (Dim& dim : scale.dims) {
        if (dim.extent == 1)
            dim.stride = 0;
        else if (at < left.size() && left[at].extent == dim.extent)
            dim.stride = left[at++].stride;
        else
            at = left.size() + 1;
    }
    if (at != left.size()) {
        std::string extents;
        for (const Dim& dim : given.dims) extents += (extents.empty() ? "" : "x") + std::to_string(dim.extent);
        refuse("tensor " + given.name + " is " + (extents.empty() ? "one element" : extents) + "; this scale has " + form +
               ", here " + std::to_string(wanted.elements()) + " elements");
    }
    if (given.dtype != DType::f32)
        refuse("tensor " + given.name + " is " + std::string(to_string(given.dtype)) + "; scales are f32");
    check_tensor_size(scale);
    for (const Dim& dim : scale.dims) {
        if (dim.stride > kLargestExtent)  // kernels keep some of these distances in 32 bits
            refuse("tensor " + given.name + " has a stride of " + std::to_string(dim.stride) + "; scales lie at most " +
                   std::to_string(kLargestExtent) + " elements apart");
    }
    return scale;
}

// The scales that the attribute and the extents require.
std::vector<Tensor> scales_of(const DescribedTensors& tensors, const Types& types, const std::vector<Extent>& extents) {
    const auto word = std::find(kScalings.begin(), kScalings.end(), types.scale);
    const auto scaling = static_cast<Scaling>(word - kScalings.begin());
    for (const char* name : {"scale_a", "scale_b"}) {
        if (scaling == Scaling::none && tensors.find(name) != nullptr)
            refuse(std::string("tensor ") + name + " is given, but the attribute scale is none; say tensor, row or block");
        if (scaling != Scaling::none && tensors.find(name) == nullptr)
            refuse("scale is " + types.scale + ", which needs the tensor " + name);
    }
    std::vector<Tensor> scales = scale_tensors(scaling, extents);
    for (std::size_t i = 0; i < scales.size(); ++i)
        scales[i] = scale_as(scales[i], tensors.at(scales[i].name), scale_form(scaling, kScaleA + static_cast<int>(i)));
    return scales;
}

// Whether C is stored column by column.
bool is_column_major(const DescribedMatrix& c, const DescribedTensors& tensors) {
    const std::string order = tensors.word("order", "");
    if (order.empty()) return !c.is_empty() && c.looks_transposed() && c.may_be_transposed();
    return order == "column";
}

}  // namespace

// A column-major C = A B is, in the same memory, a row-major C' = B' A'.
DescribedProblem described(const Op& op, const ProblemDescription& description) {
    const DescribedTensors tensors(op, description);
    std::array<DescribedMatrix, 3> matrices = {logical(tensors, "a"), logical(tensors, "b"), logical(tensors, "c")};
    check_extents(matrices);
    const bool swaps = is_column_major(matrices[kC], tensors);
    if (swaps) matrices = {matrices[kB].transposed(), matrices[kA].transposed(), matrices[kC].transposed()};
    std::optional<bool> said_a, said_b;
    if (const auto layout = tensors.find_word("layout")) {
        said_a = layout->at(swaps ? 1 : 0) == 't';
        said_b = layout->at(swaps ? 0 : 1) == 't';
    }
    const auto& [a, b, c] = matrices;
    is_transposed(c, false);
    Spec spec;
    spec.m = c.rows.extent, spec.n = c.cols.extent, spec.k = a.cols.extent, spec.batch = c.batch.extent;
    spec.types = types_of(tensors);
    spec.trans_a = is_transposed(a, said_a);
    spec.trans_b = is_transposed(b, said_b, is_fp8(spec.types.b));
    spec.reads_c = tensors.word("beta", "zero") != "zero";
    spec.beta = spec.reads_c ? 1 : 0;
    spec.stored = {stored(a, spec.trans_a), stored(b, spec.trans_b), stored(c, false)};
    if (swaps && spec.types.scale == kScalings[static_cast<std::size_t>(Scaling::block)])
        refuse("scale block is for a C stored by rows: A has scales of rows and B of blocks");
    if (swaps && spec.types.bias != kBiases[0]) refuse("a bias is of columns, for a C stored by rows; store C so");
    spec.scales =
        scales_of(tensors, spec.types,
                  {{"m", swaps ? spec.n : spec.m}, {"n", swaps ? spec.m : spec.n}, {"k", spec.k}, {"batch", spec.batch}});
    if (swaps) {
        std::swap(spec.types.a, spec.types.b);
        std::reverse(spec.scales.begin(), spec.scales.end());
    }
    DescribedProblem result{make_problem(spec), {kA, kB, kC}};
    if (swaps) result.order = {kB, kA, kC};
    if (!spec.scales.empty()) {
        result.order.push_back(swaps ? kScaleB : kScaleA);
        result.order.push_back(swaps ? kScaleA : kScaleB);
        result.problem.tensors[kScaleA].name = "scale_a";
        result.problem.tensors[kScaleB].name = "scale_b";
    }
    const std::vector<TensorForm> forms = op.tensors();
    for (std::size_t i = result.order.size(); i < result.problem.tensors.size(); ++i) {
        const auto form = std::find_if(forms.begin(), forms.end(),
                                       [&](const TensorForm& each) { return each.name == result.problem.tensors[i].name; });
        result.order.push_back(static_cast<std::size_t>(form - forms.begin()));
    }
    return result;
}

}  // namespace autotune::gemm
