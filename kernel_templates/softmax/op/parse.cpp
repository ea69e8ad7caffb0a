// Makes a problem from a request, from a program's description and from a Spec.
#include <algorithm>
#include <cmath>

#include "kernel_templates/request.h"
#include "kernel_templates/softmax/op/softmax_problem.h"
#include "src/core/error.h"
#include "src/core/integer_math.h"

namespace autotune::softmax {
namespace {

constexpr double kLargestScale = 1e30;

// The rows of x may be one and the same row in memory (a stride of 0); the rows of y must not overlap.
std::int64_t checked_ld(const char* name, Access access, std::optional<std::int64_t> given, const Spec& spec) {
    const std::int64_t ld = given.value_or(spec.cols);
    if (spec.rows == 0 || spec.cols == 0) return spec.cols;
    if (ld == 0 && access == Access::in) return 0;
    if (ld == 0)
        refuse(std::string("tensor ") + name + " repeats one row (a stride of 0), but each row is written; give " +
               std::to_string(spec.cols) + " or more");
    if (ld < spec.cols)
        refuse(std::string("ld") + name + " is " + std::to_string(ld) + ", but a row of " + name + " has " +
               std::to_string(spec.cols) + " elements; give that or more");
    return ld;
}

// The largest alignment that the base address and the begin and end of every row have. Accesses of that width cover a row.
int row_alignment(int base_alignment, std::int64_t ld, const Spec& spec) {
    const auto element_bytes = static_cast<std::int64_t>(size_bytes(spec.type));
    const int ends = std::min(base_alignment, alignment_class(spec.cols * element_bytes));
    return spec.rows > 1 ? std::min(ends, alignment_of_stride(ld, element_bytes)) : ends;
}

Tensor make_rows(const char* name, Access access, const Spec& spec) {
    const bool is_x = access == Access::in;
    const std::int64_t ld = checked_ld(name, access, is_x ? spec.ldx : spec.ldy, spec);
    Tensor tensor;
    tensor.name = name;
    tensor.dtype = spec.type;
    tensor.access = access;
    tensor.dims = {{spec.rows, ld}, {spec.cols, 1}};
    check_tensor_size(tensor);
    tensor.alignment_bytes = row_alignment(is_x ? spec.align_x : spec.align_y, ld, spec);
    return tensor;
}

Tensor make_lse(const Spec& spec) {
    Tensor tensor;
    tensor.name = "lse";
    tensor.dtype = DType::f32;
    tensor.access = Access::out;
    tensor.alignment_bytes = 4;
    tensor.is_optional = true;
    tensor.is_absent = !spec.has_lse;
    if (spec.has_lse) tensor.dims = {{spec.rows, 1}};
    return tensor;
}

// Rows of a tensor: all its dimensions but the last, which must be evenly spaced.
struct Rows {
    std::int64_t rows, cols;
    std::optional<std::int64_t> ld;  // none of a single row
};

Rows rows_of(const DescribedTensors& tensors, const char* name) {
    const std::vector<Dim> dims = tensors.dims(name);
    const Dim& last = dims.back();
    const std::string what = std::string("tensor ") + name;
    Rows rows{1, last.extent, {}};
    const bool is_empty = std::any_of(dims.begin(), dims.end(), [](const Dim& dim) { return dim.extent == 0; });
    if (!is_empty && last.stride != 1 && last.extent > 1)
        refuse(what + ": the last dimension is not contiguous; softmax takes a stride of 1 there");
    for (std::size_t i = dims.size() - 1; i-- > 0;) {
        if (dims[i].extent == 1) continue;
        if (!is_empty && !rows.ld) rows.ld = dims[i].stride;
        if (!is_empty && checked_product(rows.rows, *rows.ld) != dims[i].stride)
            refuse(what + ": its rows are not evenly spaced; softmax takes one distance from each row to the next");
        const std::optional<std::int64_t> count = checked_product(rows.rows, dims[i].extent);
        if (!count || *count > kLargestExtent) refuse(what + " has more than 2^31 - 1 rows");
        rows.rows = *count;
    }
    return rows;
}

void check_lse(const TensorDescription& lse, std::int64_t rows) {
    if (lse.dtype != DType::f32) refuse("tensor lse is " + std::string(to_string(lse.dtype)) + "; softmax writes f32");
    std::int64_t count = 1;
    for (std::size_t i = lse.dims.size(); i-- > 0;) {
        if (lse.dims[i].extent > 1 && rows > 0 && lse.dims[i].stride != count)
            refuse("tensor lse has gaps; softmax writes it without");
        const std::optional<std::int64_t> all = checked_product(count, lse.dims[i].extent);
        if (!all) refuse("tensor lse has more elements than x has rows");
        count = *all;
    }
    if (count != rows)
        refuse("tensor lse has " + std::to_string(count) + " elements, but x has " + std::to_string(rows) + " rows");
}

}  // namespace

Problem make_problem(const Spec& spec) {
    if (spec.cols < 0 || spec.cols > kMostCols)
        refuse("a row has " + std::to_string(spec.cols) + " elements; softmax takes up to " + std::to_string(kMostCols));
    if (spec.rows < 0 || spec.rows > kLargestExtent)
        refuse("there are " + std::to_string(spec.rows) + " rows; softmax takes up to " + std::to_string(kLargestExtent));
    if (!(std::fabs(spec.scale) <= kLargestScale) || spec.scale == 0)
        refuse("scale is " + to_string(AttributeValue(spec.scale)) + "; give a number other than 0 between -1e30 and 1e30");
    Problem problem;
    problem.op = "softmax";
    problem.extents = {{"rows", spec.rows}, {"cols", spec.cols}};
    problem.tensors = {make_rows("x", Access::in, spec), make_rows("y", Access::out, spec), make_lse(spec)};
    problem.attributes = {{"dtype", std::string(to_string(spec.type))},
                          {"scale", static_cast<double>(static_cast<float>(spec.scale))},
                          {"lse", std::string(spec.has_lse ? "yes" : "no")},
                          {"align", std::to_string(problem.tensors[kX].alignment_bytes) + "," +
                                        std::to_string(problem.tensors[kY].alignment_bytes)}};
    return problem;
}

Problem parse(const Op& op, const ProblemRequest& request) {
    const RequestOptions options(op, request);
    if (request.shape.find('*') != std::string::npos)
        refuse("shape '" + request.shape + "': softmax has no batch; give all rows as one number, ROWSxCOLS");
    const std::vector<std::int64_t> extents = parse_shape(request.shape, "RxC").extents;
    Spec spec;
    spec.rows = extents[0];
    spec.cols = extents[1];
    const std::optional<DType> type = parse_dtype(options.word("dtype", "bf16"));
    check(type.has_value(), "softmax allows an unknown type");
    spec.type = *type;
    spec.scale = options.number("scale").value_or(1);
    spec.has_lse = options.word("lse", "no") == "yes";
    spec.ldx = options.positive("ldx");
    spec.ldy = options.positive("ldy");
    const std::vector<int> alignments = parse_alignments(options, size_bytes(spec.type), {"x", "y"});
    spec.align_x = alignments[0];
    spec.align_y = alignments[1];
    return make_problem(spec);
}

DescribedProblem described(const Op& op, const ProblemDescription& description) {
    const DescribedTensors tensors(op, description);
    const Rows x = rows_of(tensors, "x");
    const Rows y = rows_of(tensors, "y");
    Spec spec;
    spec.type = tensors.at("x").dtype;
    if (spec.type != DType::f32 && spec.type != DType::f16 && spec.type != DType::bf16)
        refuse("tensor x is " + std::string(to_string(spec.type)) + "; softmax takes f32, f16 and bf16");
    if (tensors.at("y").dtype != spec.type)
        refuse("tensor y is " + std::string(to_string(tensors.at("y").dtype)) + " but x is " + std::string(to_string(spec.type)));
    if (x.rows != y.rows || x.cols != y.cols) refuse("tensors x and y differ in their extents");
    spec.rows = x.rows;
    spec.cols = x.cols;
    spec.ldx = x.ld;
    spec.ldy = y.ld;
    spec.align_x = tensors.at("x").alignment_bytes;
    spec.align_y = tensors.at("y").alignment_bytes;
    spec.scale = tensors.number("scale", 1);
    if (const TensorDescription* lse = tensors.find("lse")) {
        check_lse(*lse, spec.rows);
        spec.has_lse = true;
    }
    return {make_problem(spec), {kX, kY, kLse}};
}

std::vector<Problem> edge_case_problems(const Problem& problem) {
    const View view(problem);
    // The lengths of the problem's class are multiples of this.
    const std::int64_t step = std::max(view.align_x, view.align_y) / view.element_bytes;
    std::vector<Problem> neighbours;
    const auto add = [&](std::int64_t rows, std::int64_t cols, std::int64_t gap) {
        if (cols < 1 || rows < 1) return;
        Spec spec{rows,         cols,         cols + gap,   cols + 2 * gap,         view.type,
                  view.align_x, view.align_y, view.has_lse, problem.number("scale")};
        neighbours.push_back(make_problem(spec));
    };
    const std::int64_t rows = std::min<std::int64_t>(view.rows, 700);
    add(1, view.cols, 0);
    add(rows + 1, view.cols, step);
    add(67, step, 0);
    add(67, 3 * step, step);
    add(5, view.cols - step, 0);
    add(131, view.cols / 2 / step * step + step, 0);
    std::erase_if(neighbours, [&](const Problem& near) { return near.class_key() != problem.class_key(); });
    return neighbours;
}

}  // namespace autotune::softmax
