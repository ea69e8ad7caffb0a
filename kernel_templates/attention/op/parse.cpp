// Makes problems from words, from a program's description and from a Spec.
#include <algorithm>
#include <cmath>

#include "kernel_templates/attention/op/attention_problem.h"
#include "kernel_templates/request.h"
#include "src/core/error.h"
#include "src/core/integer_math.h"

namespace autotune::attention {
namespace {

constexpr double kLargestScale = 1e30;
constexpr std::array<const char*, 4> kNames = {"q", "k", "v", "o"};

void check_range(const std::string& what, std::int64_t value, std::int64_t least, std::int64_t most) {
    if (value < least || value > most)
        refuse(what + " is " + std::to_string(value) + "; attention takes " + std::to_string(least) + " to " +
               std::to_string(most));
}

void check_head_size(const char* name, std::int64_t size) {
    if (size < kHeadSizeStep || size > kMostHeadSize || size % kHeadSizeStep != 0)
        refuse(std::string(name) + " is " + std::to_string(size) + "; attention takes multiples of 8 from 8 to 256");
}

void check_total(const std::string& of, std::int64_t total, std::int64_t sequences, std::int64_t longest) {
    check_range("the number of all packed " + of, total, 0, kMostLength);
    if (longest > total)
        refuse("the longest sequence has " + std::to_string(longest) + " " + of + ", more than the " + std::to_string(total) +
               " of all");
    if (total > 0 && (sequences == 0 || (total - 1) / sequences >= longest))
        refuse(std::to_string(sequences) + " sequences of at most " + std::to_string(longest) + " " + of + " are less than " +
               std::to_string(total) + " in all");
}

void check_sizes(const Spec& spec) {
    check_range("the batch", spec.b, 0, kLargestExtent);
    check_range("the number of query heads", spec.q_heads, 0, kLargestExtent);
    check_range("the number of key heads", *spec.kv_heads, 0, kLargestExtent);
    check_range("the number of queries", spec.q_len, 0, kMostLength);
    check_range("the number of keys", *spec.kv_len, 0, kMostLength);
    if (*spec.kv_heads == 0 ? spec.q_heads != 0 : spec.q_heads % *spec.kv_heads != 0)
        refuse("there are " + std::to_string(spec.q_heads) + " query heads, which is no multiple of the " +
               std::to_string(*spec.kv_heads) + " key heads");
    if (spec.q_heads > 0 && spec.b > kLargestExtent / spec.q_heads) refuse("batch and query heads make more than 2^31 - 1 heads");
    if (*spec.kv_heads > 0 && spec.b > kLargestExtent / *spec.kv_heads)
        refuse("batch and key heads make more than 2^31 - 1 heads");
    check_head_size("d", spec.d);
    check_head_size("dv", *spec.dv);
    if (!spec.is_packed) return;
    check_total("queries", *spec.total_q, spec.b, spec.q_len);
    check_total("keys", *spec.total_kv, spec.b, *spec.kv_len);
}

void check_mask(const Spec& spec) {
    const std::vector<std::string> words = mask_words();
    if (std::find(words.begin(), words.end(), spec.mask) == words.end()) refuse("unknown mask '" + spec.mask + "'");
    const bool is_window = spec.mask.starts_with("window");
    if (!is_window && (spec.left || spec.right)) refuse("left and right belong to mask window, and mask is " + spec.mask);
    if (is_window && !spec.left) refuse("mask " + spec.mask + " needs left, how many keys before its own a query sees");
    if (spec.left) check_range("left", *spec.left, 0, kMostLength);
    if (spec.right) check_range("right", *spec.right, 0, kMostLength);
}

Strides dense(const Spec& spec, std::int64_t heads, std::int64_t length, std::int64_t size) {
    const auto product = [](std::int64_t left, std::int64_t right) {
        const std::optional<std::int64_t> all = checked_product(left, right);
        if (!all) refuse("a tensor has more elements than 64 bits count; make the shape smaller");
        return *all;
    };
    const std::int64_t of_batch = product(product(heads, size), length);
    if (spec.is_bshd) return {of_batch, size, heads * size};
    return {of_batch, length * size, size};
}

}  // namespace

void check_no_overlap(const Tensor& tensor) {
    if (!tensor.is_empty() && overlaps_itself(tensor.dims))
        refuse("tensor " + tensor.name +
               ": its strides let elements overlap; give strides that keep batches, heads and rows apart");
}

int row_alignment(int base, const Tensor& tensor) {
    const auto bytes = static_cast<std::int64_t>(size_bytes(tensor.dtype));
    int shared = std::min(base, alignment_class(tensor.dims[kColumn].extent * bytes));
    for (const int dim : {kBatch, kHead, kRow}) {
        const Dim& each = tensor.dims[static_cast<std::size_t>(dim)];
        if (each.extent > 1) shared = std::min(shared, alignment_of_stride(each.stride, bytes));
    }
    return shared;
}

Strides given_strides(const DescribedTensors& tensors, const char* name) {
    const std::vector<Dim> dims = tensors.dims(name);
    const bool is_empty = std::any_of(dims.begin(), dims.end(), [](const Dim& dim) { return dim.extent == 0; });
    if (!is_empty && dims[kColumn].stride != 1 && dims[kColumn].extent > 1)
        refuse(std::string("tensor ") + name + ": the last dimension is not contiguous; attention takes a stride of 1 there");
    return {dims[kBatch].stride, dims[kHead].stride, dims[kRow].stride};
}

void check_extents(const DescribedTensors& tensors, const char* name, const std::vector<std::int64_t>& wanted) {
    const std::vector<Dim> dims = tensors.dims(name);
    for (std::size_t i = 0; i < wanted.size(); ++i) {
        if (dims[i].extent != wanted[i])
            refuse(std::string("tensor ") + name + " has an extent of " + std::to_string(dims[i].extent) +
                   " where the others say " + std::to_string(wanted[i]));
    }
}

namespace {

Tensor make_tensor(const Spec& given, int index) {
    Spec spec = given;
    if (spec.is_packed) spec.b = 1, spec.q_len = *spec.total_q, spec.kv_len = spec.total_kv;
    const bool of_queries = index == kQ || index == kO;
    const auto number = static_cast<std::size_t>(index);
    const std::int64_t heads = of_queries ? spec.q_heads : *spec.kv_heads;
    const std::int64_t length = of_queries ? spec.q_len : *spec.kv_len;
    const std::int64_t size = index == kQ || index == kK ? spec.d : *spec.dv;
    Strides strides = spec.strides[number].value_or(dense(spec, heads, length, size));
    if (spec.is_packed) strides.batch = 0;  // Packed sequences follow each other as rows do.
    Tensor tensor;
    tensor.name = kNames[number];
    tensor.dtype = spec.type;
    tensor.access = index == kO ? Access::out : Access::in;
    tensor.dims = {{spec.b, strides.batch}, {heads, strides.head}, {length, strides.row}, {size, 1}};
    check_tensor_size(tensor);
    if (tensor.is_written()) check_no_overlap(tensor);
    tensor.alignment_bytes = row_alignment(spec.align[number], tensor);
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
    if (spec.has_lse) tensor.dims = dense_dims({spec.b, spec.q_heads, spec.q_len});
    if (spec.has_lse && spec.is_packed) tensor.dims = dense_dims({1, spec.q_heads, *spec.total_q});
    return tensor;
}

Tensor make_offsets(const Spec& spec, const char* name) {
    Tensor tensor;
    tensor.name = name;
    tensor.dtype = DType::i32;
    tensor.alignment_bytes = 4;
    tensor.is_optional = true;
    tensor.dims = dense_dims({spec.b + 1});
    return tensor;
}

std::string alignments(const std::vector<Tensor>& tensors) {
    std::string text;
    for (std::size_t i = 0; i < kNames.size(); ++i)
        text += (text.empty() ? "" : ",") + std::to_string(tensors[i].alignment_bytes);
    return text;
}

float checked_scale(const Spec& spec) {
    const double scale = spec.scale.value_or(1 / std::sqrt(static_cast<double>(spec.d)));
    if (!(scale > 0) || scale > kLargestScale || static_cast<float>(scale) == 0)
        refuse("scale is " + to_string(AttributeValue(scale)) + "; give a number above 0, up to 1e30");
    return static_cast<float>(scale);
}

void parse_extents(const std::string& shape, Spec& spec) {
    if (shape.find('*') != std::string::npos)
        refuse("shape '" + shape + "': give the batch as the first extent, BxHxSxD: batch, query heads, queries, head size");
    const auto dimensions = std::count(shape.begin(), shape.end(), 'x') + 1;
    if (dimensions == 8) {  // a packed shape is printed in this form
        const std::vector<std::int64_t> n = parse_shape(shape, "BxHxGxSxTxDxPxR").extents;
        spec.b = n[0], spec.q_heads = n[1], spec.kv_heads = n[2], spec.q_len = n[3], spec.kv_len = n[4], spec.d = n[5];
        spec.total_q = n[6], spec.total_kv = n[7];
        return;
    }
    if (dimensions == 6) {  // a problem's shape is printed in this form
        const std::vector<std::int64_t> n = parse_shape(shape, "BxHxGxSxTxD").extents;
        spec.b = n[0], spec.q_heads = n[1], spec.kv_heads = n[2], spec.q_len = n[3], spec.kv_len = n[4], spec.d = n[5];
        return;
    }
    const std::vector<std::int64_t> n = parse_shape(shape, "BxHxSxD").extents;
    spec.b = n[0], spec.q_heads = n[1], spec.q_len = n[2], spec.d = n[3];
}

// An option that repeats a part of a long shape must agree with the shape.
void settle(const char* name, std::optional<std::int64_t> given, std::optional<std::int64_t>& value) {
    if (given && value && *value != *given)
        refuse(std::string(name) + " is " + std::to_string(*given) + ", but the shape says " + std::to_string(*value));
    if (given) value = given;
}

std::optional<std::int64_t> distance(const RequestOptions& options, const char* name) {
    const std::optional<double> value = options.number(name);
    if (!value) return std::nullopt;
    if (*value != std::floor(*value) || *value < 0 || *value > static_cast<double>(kMostLength))
        refuse(std::string(name) + " is " + to_string(AttributeValue(*value)) + "; give a whole number from 0 to 2^30 - 1");
    return static_cast<std::int64_t>(*value);
}

DType checked_type(DType type, const char* tensor) {
    if (type != DType::f32 && type != DType::f16 && type != DType::bf16)
        refuse(std::string("tensor ") + tensor + " is " + std::string(to_string(type)) + "; attention takes bf16, f16 and f32");
    return type;
}

bool is_tf32(const std::string& compute, DType type) {
    if (compute == "tf32" && type != DType::f32)
        refuse("compute tf32 is for f32 tensors, and these are " + std::string(to_string(type)));
    return compute == "tf32";
}

void check_lse(const DescribedTensors& tensors, const Spec& spec) {
    check_extents(tensors, "lse", {spec.b, spec.q_heads, spec.q_len});
    if (tensors.at("lse").dtype != DType::f32)
        refuse("tensor lse is " + std::string(to_string(tensors.at("lse").dtype)) + "; attention writes f32");
    const std::vector<Dim> dims = tensors.dims("lse");
    if (std::any_of(dims.begin(), dims.end(), [](const Dim& dim) { return dim.extent == 0; })) return;
    std::optional<std::int64_t> count = 1;
    for (std::size_t i = dims.size(); i-- > 0;) {
        if (!count || (dims[i].extent != 1 && dims[i].stride != *count))
            refuse("tensor lse has gaps; attention writes it without");
        count = checked_product(*count, dims[i].extent);
    }
}

std::optional<std::int64_t> window_number(const DescribedTensors& tensors, const char* name) {
    const double none = -1e300;
    const double value = tensors.number(name, none);
    if (value == none) return std::nullopt;
    if (value != std::floor(value) || std::fabs(value) > 1e15)
        refuse(std::string(name) + " is " + to_string(AttributeValue(value)) + "; give a whole number");
    return static_cast<std::int64_t>(value);
}

}  // namespace

std::vector<std::string> mask_words() {
    return {"none", "causal", "causal_bottom_right", "window", "window_bottom_right"};
}

namespace {

// The rows of sequences whose mean length is half of the longest.
std::int64_t half_filled(std::int64_t sequences, std::int64_t longest) {
    return std::max(longest, sequences * longest / 2);
}

}  // namespace

Problem make_problem(const Spec& given) {
    Spec spec = given;
    if (!spec.kv_heads) spec.kv_heads = spec.q_heads;
    if (!spec.kv_len) spec.kv_len = spec.q_len;
    if (!spec.dv) spec.dv = spec.d;
    if (spec.is_packed && !spec.total_q) spec.total_q = half_filled(spec.b, spec.q_len);
    if (spec.is_packed && !spec.total_kv) spec.total_kv = half_filled(spec.b, *spec.kv_len);
    check_sizes(spec);
    check_mask(spec);
    Problem problem;
    problem.op = "attention";
    problem.extents = {{"b", spec.b},         {"q_heads", spec.q_heads}, {"kv_heads", *spec.kv_heads},
                       {"q_len", spec.q_len}, {"kv_len", *spec.kv_len},  {"d", spec.d}};
    if (spec.is_packed) {
        problem.extents.push_back({"total_q", *spec.total_q});
        problem.extents.push_back({"total_kv", *spec.total_kv});
    }
    for (const int index : {kQ, kK, kV, kO}) problem.tensors.push_back(make_tensor(spec, index));
    problem.tensors.push_back(make_lse(spec));
    if (spec.is_packed) {
        problem.tensors.push_back(make_offsets(spec, "q_offsets"));
        problem.tensors.push_back(make_offsets(spec, "kv_offsets"));
    }
    problem.scalars = {{"scale", checked_scale(spec)}};
    const std::string type(to_string(spec.type));
    problem.attributes = {{"dtype", type}, {"compute", spec.is_tf32 ? "tf32" : type}, {"mask", spec.mask}};
    if (spec.mask.starts_with("window")) {
        problem.attributes.push_back({"left", *spec.left});
        problem.attributes.push_back({"right", spec.right.value_or(0)});
    }
    if (spec.is_packed) problem.attributes.push_back({"packed", std::string("yes")});
    problem.attributes.push_back({"lse", std::string(spec.has_lse ? "yes" : "no")});
    problem.attributes.push_back({"order", std::string(spec.is_bshd ? "bshd" : "bhsd")});
    problem.attributes.push_back({"dv", *spec.dv});
    problem.attributes.push_back({"align", alignments(problem.tensors)});
    return problem;
}

Spec spec_of(const Problem& problem) {
    const View view(problem);
    Spec spec;
    spec.b = view.b, spec.q_heads = view.q_heads, spec.kv_heads = view.kv_heads;
    spec.q_len = view.q_len, spec.kv_len = view.kv_len, spec.d = view.d, spec.dv = view.dv;
    spec.is_packed = view.is_packed;
    if (view.is_packed) spec.total_q = view.total_q, spec.total_kv = view.total_kv;
    spec.type = view.type;
    spec.is_tf32 = view.is_tf32;
    spec.mask = problem.word("mask");
    if (problem.has_attribute("left")) spec.left = problem.integer("left");
    if (problem.has_attribute("right")) spec.right = problem.integer("right");
    spec.has_lse = view.has_lse;
    spec.scale = problem.scalars[kScale].number();
    spec.is_bshd = problem.word("order") == "bshd";
    for (std::size_t i = 0; i < kNames.size(); ++i) spec.align[i] = problem.tensors[i].alignment_bytes;
    return spec;
}

Problem parse(const Op& op, const ProblemRequest& request) {
    return make_problem(parse_spec(op, request));
}

Spec parse_spec(const Op& op, const ProblemRequest& request) {
    const RequestOptions options(op, request);
    Spec spec;
    parse_extents(request.shape, spec);
    settle("kv-heads", options.positive("kv-heads"), spec.kv_heads);
    settle("kv-len", options.positive("kv-len"), spec.kv_len);
    spec.dv = options.positive("dv");
    const std::optional<DType> type = parse_dtype(options.word("dtype", "bf16"));
    check(type.has_value(), "attention allows an unknown type");
    spec.type = *type;
    const std::string compute = options.word("compute", options.word("dtype", "bf16"));
    spec.is_tf32 = is_tf32(compute, spec.type);
    if (!spec.is_tf32 && compute != to_string(spec.type))
        refuse("compute is " + compute + ", but the tensors are " + std::string(to_string(spec.type)) +
               "; give that, or tf32 for f32");
    spec.mask = options.word("mask", "none");
    spec.left = distance(options, "left");
    spec.right = distance(options, "right");
    spec.has_lse = options.word("lse", "no") == "yes";
    spec.is_packed = options.word("packed", "no") == "yes";
    settle("total-q", options.positive("total-q"), spec.total_q);
    settle("total-kv", options.positive("total-kv"), spec.total_kv);
    if (!spec.is_packed && (spec.total_q || spec.total_kv))
        refuse("numbers of all queries and keys belong to packed sequences: packed=yes");
    spec.is_bshd = options.word("order", spec.is_packed ? "bshd" : "bhsd") == "bshd";
    spec.scale = options.number("scale");
    const std::vector<int> align = parse_alignments(options, size_bytes(spec.type), {kNames.begin(), kNames.end()});
    std::copy(align.begin(), align.end(), spec.align.begin());
    return spec;
}

namespace {

std::int64_t sequences_of(const DescribedTensors& tensors, const char* name) {
    const TensorDescription* const offsets = tensors.find(name);
    if (offsets == nullptr) refuse(std::string("packed sequences have q_offsets and kv_offsets, and ") + name + " is missing");
    if (offsets->dtype != DType::i32)
        refuse(std::string("tensor ") + name + " is " + std::string(to_string(offsets->dtype)) + "; attention reads i32");
    const Dim dim = tensors.dims(name)[0];
    if (dim.extent < 1)
        refuse(std::string("tensor ") + name + " has an extent of " + std::to_string(dim.extent) +
               "; give where each sequence begins, and the end of the last");
    if (dim.extent > 1 && dim.stride != 1) refuse(std::string("tensor ") + name + " is not contiguous");
    return dim.extent - 1;
}

std::int64_t longest(const DescribedTensors& tensors, const char* name, std::int64_t total) {
    const auto given = tensors.number(name, static_cast<double>(total));
    if (given != std::floor(given) || given < 0 || given > static_cast<double>(total))
        refuse(std::string(name) + " is " + to_string(AttributeValue(given)) +
               "; give the rows of the longest sequence, from 0 to " + std::to_string(total));
    return static_cast<std::int64_t>(given);
}

// The tensors have a batch of one, and the rows of all sequences.
void read_packing(const DescribedTensors& tensors, Spec& spec) {
    if (spec.b != 1) refuse("packed sequences lie in the rows of one batch, and tensor q has " + std::to_string(spec.b));
    spec.is_packed = true;
    spec.b = sequences_of(tensors, "q_offsets");
    if (sequences_of(tensors, "kv_offsets") != spec.b)
        refuse("q_offsets and kv_offsets differ in length; both have one offset more than sequences");
    spec.total_q = spec.q_len, spec.total_kv = spec.kv_len;
    spec.q_len = longest(tensors, "max_q", *spec.total_q);
    spec.kv_len = longest(tensors, "max_kv", *spec.total_kv);
}

}  // namespace

DescribedProblem described(const Op& op, const ProblemDescription& description) {
    const DescribedTensors tensors(op, description);
    Spec spec = described_spec(tensors);
    if (tensors.find("q_offsets") == nullptr && tensors.find("kv_offsets") == nullptr)
        return {make_problem(spec), {kQ, kK, kV, kO, kLse}};
    read_packing(tensors, spec);
    return {make_problem(spec), {kQ, kK, kV, kO, kLse, kQOffsets, kKvOffsets}};
}

Spec described_spec(const DescribedTensors& tensors) {
    Spec spec;
    const std::vector<Dim> q = tensors.dims("q"), k = tensors.dims("k"), v = tensors.dims("v");
    spec.b = q[kBatch].extent, spec.q_heads = q[kHead].extent, spec.q_len = q[kRow].extent, spec.d = q[kColumn].extent;
    spec.kv_heads = k[kHead].extent, spec.kv_len = k[kRow].extent, spec.dv = v[kColumn].extent;
    check_head_size("d", spec.d);
    check_head_size("dv", *spec.dv);
    check_extents(tensors, "k", {spec.b, *spec.kv_heads, *spec.kv_len, spec.d});
    check_extents(tensors, "v", {spec.b, *spec.kv_heads, *spec.kv_len, *spec.dv});
    check_extents(tensors, "o", {spec.b, spec.q_heads, spec.q_len, *spec.dv});
    spec.type = checked_type(tensors.at("q").dtype, "q");
    for (std::size_t i = 0; i < kNames.size(); ++i) {
        const TensorDescription& tensor = tensors.at(kNames[i]);
        if (tensor.dtype != spec.type)
            refuse(std::string("tensor ") + kNames[i] + " is " + std::string(to_string(tensor.dtype)) + " but q is " +
                   std::string(to_string(spec.type)));
        spec.strides[i] = given_strides(tensors, kNames[i]);
        spec.align[i] = tensor.alignment_bytes;
    }
    const std::string compute = tensors.word("compute", to_string(spec.type));
    spec.is_tf32 = is_tf32(compute, spec.type);
    if (!spec.is_tf32 && compute != to_string(spec.type))
        refuse("compute is " + compute + ", but the tensors are " + std::string(to_string(spec.type)) +
               "; give that, or tf32 for f32");
    spec.mask = tensors.word("mask", "none");
    spec.left = window_number(tensors, "left");
    spec.right = window_number(tensors, "right");
    spec.has_lse = tensors.find("lse") != nullptr;
    if (spec.has_lse) check_lse(tensors, spec);
    spec.is_bshd = spec.q_heads > 1 && spec.q_len > 1 && spec.strides[kQ]->head < spec.strides[kQ]->row;
    return spec;
}

}  // namespace autotune::attention
