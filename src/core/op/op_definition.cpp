#include "src/core/op/op_definition.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>

#include "src/core/error.h"
#include "src/core/integer_math.h"
#include "src/core/spelling.h"
#include "src/core/text.h"

namespace autotune {
namespace {

constexpr std::int64_t kMostExtent = std::int64_t{1} << 40;
constexpr std::int64_t kMostBytes = std::int64_t{1} << 46;
constexpr std::size_t kCopyAlignment = 256;
constexpr std::uint32_t kHelperThreads = 256;
constexpr std::int64_t kHelperBlocks = 16384;  // the helpers loop, so larger tensors need no more blocks than this
constexpr std::string_view kExact = "exact", kNumeric = "numeric";
// Recent cards do more operations per byte of memory traffic than this. So with fewer operations per byte, memory is the limit.
constexpr double kComputeBound = 20;

[[noreturn]] void refuse(const std::string& what) {
    throw Error(ErrorCode::usage, what);
}

// "[4096, 4096] with strides [4100, 1]".
std::string text_of(const std::vector<Dim>& dims) {
    std::vector<std::string> extents, strides;
    for (const Dim& dim : dims) {
        extents.push_back(std::to_string(dim.extent));
        strides.push_back(std::to_string(dim.stride));
    }
    return "[" + join(extents) + "] with strides [" + join(strides) + "]";
}

std::string upper(std::string text) {
    for (char& letter : text)
        if (letter >= 'a' && letter <= 'z') letter = static_cast<char>(letter - 'a' + 'A');
    return text;
}

std::int64_t extent_in(const std::string& text, const std::string& name) {
    std::int64_t value = 0;
    const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (code != std::errc{} || end != text.data() + text.size() || value < 0 || value > kMostExtent)
        refuse("extent " + name + " is '" + text + "'; it takes an integer of 0 to 2^40");
    return value;
}

// Half an ulp of the type in which sums are computed. For narrower types, too, this type is f32.
double accumulation_roundoff(DType type) {
    return 2 * unit_roundoff(type == DType::f64 ? DType::f64 : DType::f32);
}

I64Arg bits_argument(double value) {
    return I64Arg{std::bit_cast<std::int64_t>(value)};
}

// The format of a type as the helpers take it: bits, exponent and mantissa bits, and whether it has an infinity.
I64Arg format_argument(DType type) {
    const DTypeTraits& traits = traits_of(type);
    return I64Arg{traits.bits | std::int64_t{traits.exponent_bits} << 8 | std::int64_t{traits.mantissa_bits} << 16 |
                  std::int64_t{traits.has_infinity ? 1 : 0} << 24};
}

bool is_floating(const Tensor& tensor) {
    return traits_of(tensor.dtype).kind == NumberKind::floating;
}

std::uint32_t blocks_for(std::int64_t items) {
    return static_cast<std::uint32_t>(std::clamp<std::int64_t>(ceil_div(items, kHelperThreads), 1, kHelperBlocks));
}

void add_layout(const Tensor& tensor, std::vector<Argument>& arguments) {
    std::vector<Dim> dims = tensor.dims;
    while (dims.size() < Tensor::kMostDims) dims.insert(dims.begin(), {1, 0});
    for (const Dim& dim : dims) arguments.emplace_back(I64Arg{dim.extent});
    for (const Dim& dim : dims) arguments.emplace_back(I64Arg{dim.stride});
}

// Makes the reference's plan: inputs are widened into the workspace, the user's kernels run on them, and helpers compute expected
// values and bounds from the results.
class ReferencePlan {
  public:
    ReferencePlan(const OpDefinition& definition, const StepMaker& steps, const Problem& problem, const Names& names)
        : definition_(definition), steps_(steps), problem_(problem), names_(names) {}

    LaunchPlan make(const OpTest& test, double flops) {
        const bool is_exact = test.name == kExact;
        const std::size_t facts = take(2 * sizeof(double) * test.outputs.size());  // zero before
        plan_.workspace_zero_bytes = plan_.workspace_bytes;
        const std::vector<std::size_t> values = run(false);
        const std::vector<std::size_t> magnitudes = is_exact ? run(true) : std::vector<std::size_t>();
        std::int64_t floating_outputs = 0;
        for (const OutputCheck& output : test.outputs) {
            const Tensor& tensor = tensor_of(output);
            if (is_floating(tensor)) floating_outputs += tensor.elements();
        }
        terms_ = std::max(1.0, flops / (2.0 * static_cast<double>(std::max<std::int64_t>(floating_outputs, 1))));
        for (std::size_t i = 0; i < test.outputs.size(); ++i) {
            const auto index = static_cast<std::size_t>(test.outputs[i].tensor);
            if (problem_.tensors[index].elements() == 0) continue;
            const std::size_t at = facts + 2 * sizeof(double) * i;
            survey(index, values[index], is_exact ? std::optional(magnitudes[index]) : std::nullopt, at);
            expect(static_cast<int>(i), index, values[index], at, is_exact);
        }
        return std::move(plan_);
    }

  private:
    const Tensor& tensor_of(const OutputCheck& output) const { return problem_.tensors[static_cast<std::size_t>(output.tensor)]; }

    std::size_t take(std::size_t bytes) {
        const std::size_t offset = (plan_.workspace_bytes + kCopyAlignment - 1) / kCopyAlignment * kCopyAlignment;
        plan_.workspace_bytes = offset + std::max<std::size_t>(bytes, 8);
        return offset;
    }

    bool is_widened(const Tensor& tensor) const { return definition_.widens_inputs && is_floating(tensor); }

    void add_step(std::string entry, std::int64_t items, std::vector<Argument> arguments) {
        LaunchStep step;
        step.entry = std::move(entry);
        step.grid.x = blocks_for(items);
        step.block.x = kHelperThreads;
        step.arguments = std::move(arguments);
        plan_.steps.push_back(std::move(step));
    }

    // Offset of each tensor's copy; SIZE_MAX: the reference gets the tensor itself.
    std::vector<std::size_t> run(bool magnitudes) {
        std::vector<std::size_t> offsets(problem_.tensors.size(), SIZE_MAX);
        for (std::size_t i = 0; i < problem_.tensors.size(); ++i) {
            const Tensor& tensor = problem_.tensors[i];
            const bool is_wide = is_widened(tensor);
            const bool keeps = !is_wide && tensor.access == Access::in && !(magnitudes && is_floating(tensor));
            if (keeps || tensor.is_absent) continue;
            const std::int64_t span = tensor.span();
            offsets[i] = take(static_cast<std::size_t>(span) * (is_wide ? sizeof(double) : size_bytes(tensor.dtype)));
            if (span == 0) continue;
            const TensorArg from{.index = static_cast<int>(i)};
            if (is_wide) {
                add_step(
                    "_autotune_widen", span,
                    {from, format_argument(tensor.dtype), WorkspaceArg{offsets[i]}, I64Arg{span}, I32Arg{magnitudes ? 1 : 0}});
            } else {
                add_step("_autotune_copy", tensor.span_bytes(),
                         {from, format_argument(tensor.dtype), WorkspaceArg{offsets[i]}, I64Arg{span},
                          I32Arg{magnitudes && is_floating(tensor) ? 1 : 0}});
            }
        }
        write_symbols(magnitudes);
        const Expression::Scope scope = names_.scope();
        std::vector<LaunchStep> steps = steps_.make(problem_, scope, {}, [&](std::size_t index) -> Argument {
            if (offsets[index] == SIZE_MAX) return TensorArg{.index = static_cast<int>(index)};
            return WorkspaceArg{offsets[index]};
        });
        for (LaunchStep& step : steps) plan_.steps.push_back(std::move(step));
        return offsets;
    }

    // The reference may read symbols too, in their own type.
    void write_symbols(bool magnitudes) {
        const std::size_t first = plan_.symbol_writes.size();
        for (SymbolWrite& write : symbol_writes(definition_, problem_)) {
            const auto index = static_cast<std::size_t>(std::get<TensorArg>(write.from).index);
            const Tensor& tensor = problem_.tensors[index];
            if (magnitudes && is_floating(tensor)) {
                const std::size_t copy = take(write.bytes);
                add_step("_autotune_copy", tensor.span_bytes(),
                         {write.from, format_argument(tensor.dtype), WorkspaceArg{copy}, I64Arg{tensor.span()}, I32Arg{1}});
                write.from = WorkspaceArg{copy};
            }
            plan_.symbol_writes.push_back(std::move(write));
        }
        for (std::size_t i = first; i < plan_.symbol_writes.size(); ++i) plan_.symbol_writes[i].before_step = plan_.steps.size();
    }

    I64Arg written_format(const Tensor& tensor) const { return format_argument(is_widened(tensor) ? DType::f64 : tensor.dtype); }

    // Adds up squares, and counts the values that cannot be sums of integers.
    void survey(std::size_t index, std::size_t values, std::optional<std::size_t> magnitudes, std::size_t facts) {
        const Tensor& tensor = problem_.tensors[index];
        std::vector<Argument> arguments = {WorkspaceArg{values}, WorkspaceArg{magnitudes.value_or(values)},
                                           written_format(tensor),
                                           bits_argument(static_cast<double>(exact_integers(tensor.dtype))), WorkspaceArg{facts}};
        add_layout(tensor, arguments);
        add_step("_autotune_survey", tensor.elements(), std::move(arguments));
    }

    void expect(int output, std::size_t index, std::size_t values, std::size_t facts, bool is_exact) {
        const Tensor& tensor = problem_.tensors[index];
        double per_rms = 0, relative = 0, absolute = 0;
        const auto said = std::find_if(definition_.tolerances.begin(), definition_.tolerances.end(),
                                       [&](const OpDefinition::Tolerance& each) { return each.tensor == tensor.name; });
        if (said != definition_.tolerances.end()) {
            relative = said->rtol;
            absolute = said->atol;
        } else if (is_floating(tensor)) {
            constexpr double kFastMath = 16;
            per_rms = 6 * accumulation_roundoff(tensor.dtype) * std::sqrt(terms_) *
                      (definition_.source.uses_fast_math() ? kFastMath : 1);
            relative = 2 * unit_roundoff(tensor.dtype);
            absolute = underflow_roundoff(tensor.dtype);
        }
        std::vector<Argument> arguments = {
            WorkspaceArg{values},    written_format(tensor),  WorkspaceArg{facts},
            ExpectedArg{output},     BoundArg{output},        bits_argument(per_rms),
            bits_argument(relative), bits_argument(absolute), I32Arg{is_exact && is_floating(tensor) ? 1 : 0}};
        add_layout(tensor, arguments);
        add_step("_autotune_expect", tensor.elements(), std::move(arguments));
    }

    const OpDefinition& definition_;
    const StepMaker& steps_;
    const Problem& problem_;
    const Names& names_;
    LaunchPlan plan_;
    double terms_ = 1;
};

}  // namespace

bool KernelSource::uses_fast_math() const {
    return std::any_of(options.begin(), options.end(),
                       [](const std::string& option) { return option == "--use_fast_math" || option == "-use_fast_math"; });
}

bool OpDefinition::is_given_by_a_tensor(const std::string& extent) const {
    return std::any_of(tensors.begin(), tensors.end(), [&](const Tensor& tensor) {
        return std::find(tensor.shape.begin(), tensor.shape.end(), extent) != tensor.shape.end();
    });
}

std::string OpDefinition::canonical_rules() const {
    std::string all;
    const auto field = [&](std::string_view each) { all += std::to_string(each.size()) + ":" + std::string(each); };
    field("op"), field(name);
    for (const std::string& extent : extents) field("extent"), field(extent);
    for (const Attribute& attribute : attributes) {
        field("attribute"), field(attribute.name), field(attribute.otherwise);
        for (const std::string& value : attribute.values) field(value);
    }
    for (const Tensor& tensor : tensors) {
        field("tensor"), field(tensor.name), field(tensor.dtype), field(std::to_string(static_cast<int>(tensor.access)));
        field(std::to_string(tensor.align)), field(tensor.fill.kind);
        if (!tensor.fill.file.empty()) field("file"), field(tensor.fill.file);
        if (!tensor.symbol.empty()) field("symbol"), field(tensor.symbol);
        if (!tensor.is_checked) field("unchecked");
        if (!tensor.is_reset) field("not reset");
        for (const std::string& dim : tensor.shape) field("dim"), field(dim);
        for (const std::string& stride : tensor.strides) field("stride"), field(stride);
        for (const auto& [key, value] : tensor.fill.values) field(key), field(value);
    }
    for (const Scalar& scalar : scalars) field("scalar"), field(scalar.name), field(scalar.type), field(scalar.value);
    for (const Let& let : lets) field("let"), field(let.name), field(let.value);
    field("source"), field(source.standard), field(source.only_marked_functions ? "1" : "0"), field(source.toolkit_version);
    for (const std::string& option : source.options) field(option);
    return all;
}

struct DefinedOp::Compiled {
    explicit Compiled(const OpDefinition& from)
        : lets(from.lets), flops(from.flops), steps(from.reference), prepare(from.prepare) {
        if (!from.bytes.empty()) bytes = Expression(from.bytes);
        for (const OpDefinition::Tensor& tensor : from.tensors) {
            TensorTexts& texts = tensors.emplace_back();
            for (const std::string& dim : tensor.shape) texts.shape.emplace_back(dim);
            for (const std::string& stride : tensor.strides) texts.strides.emplace_back(stride);
            for (const auto& [key, value] : tensor.fill.values) texts.fill.emplace(key, Expression(value));
        }
        for (const OpDefinition::Scalar& scalar : from.scalars) scalars.emplace_back(scalar.value);
    }
    struct TensorTexts {
        std::vector<Expression> shape, strides;
        std::map<std::string, Expression> fill;
    };
    Lets lets;
    Expression flops;
    std::optional<Expression> bytes;
    std::vector<TensorTexts> tensors;
    std::vector<Expression> scalars;
    StepMaker steps, prepare;
};

DefinedOp::DefinedOp(std::shared_ptr<const OpDefinition> definition)
    : definition_(std::move(definition)), compiled_(std::make_unique<const Compiled>(*definition_)) {
    for (const std::string& extent : definition_->extents) shape_form_ += (shape_form_.empty() ? "" : "x") + upper(extent);
    if (definition_->examples.empty()) return;
    try {
        const Problem first = problem_of(definition_->examples.front().extents, definition_->examples.front().attributes);
        if (flops(first) > kComputeBound * bytes(first)) rate_unit_ = "tflops";
    } catch (const Error&) {
        // Callers that use this example will report the error.
    }
}

DefinedOp::~DefinedOp() = default;

std::vector<OpOption> DefinedOp::options() const {
    std::vector<OpOption> all;
    for (const OpDefinition::Attribute& attribute : definition_->attributes)
        all.push_back({attribute.name, attribute.values, "", attribute.about});
    return all;
}

std::vector<ProblemRequest> DefinedOp::examples() const {
    std::vector<ProblemRequest> all;
    for (const OpDefinition::Example& example : definition_->examples) {
        std::vector<std::string> extents;
        for (const std::int64_t extent : example.extents) extents.push_back(std::to_string(extent));
        all.push_back({definition_->name, join(extents, "x"), example.attributes});
    }
    return all;
}

std::vector<TensorForm> DefinedOp::tensors() const {
    std::vector<TensorForm> all;
    for (const OpDefinition::Tensor& tensor : definition_->tensors) all.push_back({tensor.name, tensor.access, tensor.shape});
    return all;
}

Tensor DefinedOp::tensor_of(std::size_t index, const Problem& so_far) const {
    const OpDefinition::Tensor& from = definition_->tensors[index];
    const Compiled::TensorTexts& texts = compiled_->tensors[index];
    const Names names(so_far, compiled_->lets);
    const Expression::Scope scope = names.scope();
    const auto non_negative = [&](const Expression& expression, const char* what) {
        const std::int64_t value = expression.evaluate(scope);
        if (value < 0)
            throw ExpressionError(expression.text(),
                                  std::string(what) + " of tensor " + from.name + " is " + std::to_string(value), 0,
                                  expression.text().size());
        return value;
    };
    Tensor tensor;
    tensor.name = from.name;
    tensor.access = from.access;
    const auto said = parse_dtype(from.dtype);
    tensor.dtype = said ? *said : parse_dtype(so_far.word(from.dtype)).value_or(DType::f32);
    std::vector<std::int64_t> extents;
    for (const Expression& dim : texts.shape) extents.push_back(non_negative(dim, "an extent"));
    tensor.dims = dense_dims(extents);
    for (std::size_t i = 0; i < texts.strides.size() && i < tensor.dims.size(); ++i)
        tensor.dims[i].stride = non_negative(texts.strides[i], "a stride");
    std::int64_t bytes = static_cast<std::int64_t>(size_bytes(tensor.dtype));
    for (const Dim& dim : tensor.dims) {
        const auto reach = checked_product(std::max<std::int64_t>(dim.extent, 1), std::max<std::int64_t>(dim.stride, 1));
        const auto all = reach ? checked_product(*reach, static_cast<std::int64_t>(size_bytes(tensor.dtype))) : std::nullopt;
        if (!all || *all > kMostBytes) refuse("tensor " + from.name + " of " + definition_->name + " takes more than 64 TiB");
        bytes = std::max(bytes, *all);
    }
    if (tensor.access != Access::in && overlaps_itself(tensor.dims))
        refuse("tensor " + from.name + " of " + definition_->name + " is written, and its strides put two elements in one place");
    // Without a stated alignment, the widest one that rows and type allow is taken.
    int align = 16;
    for (std::size_t i = 0; i + 1 < tensor.dims.size(); ++i)
        align = std::min(align, alignment_of_stride(tensor.dims[i].stride, static_cast<std::int64_t>(size_bytes(tensor.dtype))));
    tensor.alignment_bytes = from.align > 0 ? from.align : std::max(align, static_cast<int>(size_bytes(tensor.dtype)));
    return tensor;
}

Problem DefinedOp::problem_of(const std::vector<std::int64_t>& extents,
                              const std::map<std::string, std::string>& attributes) const {
    const std::string& op = definition_->name;
    if (extents.size() != definition_->extents.size())
        refuse("a shape of " + op + " has " + std::to_string(definition_->extents.size()) + " extents (" + shape_form_ +
               "), not " + std::to_string(extents.size()));
    Problem problem;
    problem.op = op;
    for (std::size_t i = 0; i < extents.size(); ++i) {
        if (extents[i] < 0 || extents[i] > kMostExtent)
            refuse("extent " + definition_->extents[i] + " is " + std::to_string(extents[i]) + "; it takes 0 to 2^40");
        problem.extents.push_back({definition_->extents[i], extents[i]});
    }
    for (const OpDefinition::Attribute& attribute : definition_->attributes) {
        const auto given = attributes.find(attribute.name);
        const std::string value = given == attributes.end() ? attribute.otherwise : known_word(given->second, attribute.values);
        if (std::find(attribute.values.begin(), attribute.values.end(), value) == attribute.values.end())
            refuse(attribute.name + " is one of " + join(attribute.values) + ", not '" + value + "'");
        if (attribute.is_word) {
            problem.attributes.push_back({attribute.name, value});
        } else {
            problem.attributes.push_back({attribute.name, std::int64_t{std::strtoll(value.c_str(), nullptr, 10)}});
        }
    }
    for (const auto& [name, value] : attributes) {
        const bool is_known = std::any_of(definition_->attributes.begin(), definition_->attributes.end(),
                                          [&](const OpDefinition::Attribute& each) { return each.name == name; });
        if (!is_known) refuse("op " + op + " has no option --" + name);
    }
    for (std::size_t i = 0; i < definition_->tensors.size(); ++i) problem.tensors.push_back(tensor_of(i, problem));
    const Names names(problem, compiled_->lets);
    for (std::size_t i = 0; i < definition_->scalars.size(); ++i) {
        const OpDefinition::Scalar& scalar = definition_->scalars[i];
        const Expression& text = compiled_->scalars[i];
        ScalarValue value = static_cast<float>(text.evaluate_number(names.scope()));
        if (scalar.type == "i32") value = static_cast<std::int32_t>(text.evaluate(names.scope()));
        if (scalar.type == "u64") value = static_cast<std::uint64_t>(text.evaluate(names.scope()));
        problem.scalars.push_back({scalar.name, value});
    }
    return problem;
}

Problem DefinedOp::problem(const ProblemRequest& request) const {
    if (request.shape.empty() && !definition_->examples.empty())
        return problem_of(definition_->examples.front().extents, request.options);
    const std::vector<std::string> parts = split(request.shape, 'x');
    std::vector<std::int64_t> extents;
    for (std::size_t i = 0; i < parts.size(); ++i)
        extents.push_back(
            extent_in(parts[i], i < definition_->extents.size() ? definition_->extents[i] : "number " + std::to_string(i + 1)));
    return problem_of(extents, request.options);
}

// If a dimension's expression is the name of an extent, the dimension gives that extent. An extent that no tensor gives is an
// attribute.
DescribedProblem DefinedOp::described(const ProblemDescription& description) const {
    const std::string& op = definition_->name;
    const auto given = [&](const std::string& name) -> const TensorDescription* {
        const auto found = std::find_if(description.tensors.begin(), description.tensors.end(),
                                        [&](const TensorDescription& each) { return each.name == name; });
        return found == description.tensors.end() ? nullptr : &*found;
    };
    std::vector<std::int64_t> extents(definition_->extents.size(), -1);
    for (const OpDefinition::Tensor& tensor : definition_->tensors) {
        const TensorDescription* const array = given(tensor.name);
        if (array == nullptr) refuse("op " + op + " needs tensor " + tensor.name);
        if (array->dims.size() != tensor.shape.size())
            refuse("tensor " + tensor.name + " of " + op + " has " + std::to_string(tensor.shape.size()) + " dimensions, not " +
                   std::to_string(array->dims.size()));
        for (std::size_t i = 0; i < tensor.shape.size(); ++i) {
            const auto named = std::find(definition_->extents.begin(), definition_->extents.end(), tensor.shape[i]);
            if (named != definition_->extents.end())
                extents[static_cast<std::size_t>(named - definition_->extents.begin())] = array->dims[i].extent;
        }
    }
    std::map<std::string, std::string> attributes;
    for (const Attribute& attribute : description.attributes) attributes[attribute.name] = to_string(attribute.value);
    for (std::size_t i = 0; i < extents.size(); ++i) {
        const std::string& extent = definition_->extents[i];
        if (const auto said = attributes.find(extent); said != attributes.end() && !definition_->is_given_by_a_tensor(extent)) {
            extents[i] = extent_in(said->second, extent);
            attributes.erase(said);
        }
        if (extents[i] < 0)
            refuse("no tensor of " + op + " has extent " + extent +
                   " as a dimension of its own; give it as an integer attribute");
    }
    DescribedProblem found{problem_of(extents, attributes), {}};
    for (std::size_t i = 0; i < found.problem.tensors.size(); ++i) {
        const Tensor& wanted = found.problem.tensors[i];
        const TensorDescription& array = *given(wanted.name);
        if (array.dtype != wanted.dtype)
            refuse("tensor " + wanted.name + " of " + op + " is " + std::string(to_string(wanted.dtype)) + ", not " +
                   std::string(to_string(array.dtype)));
        const bool fits = std::equal(
            array.dims.begin(), array.dims.end(), wanted.dims.begin(), wanted.dims.end(), [&](const Dim& one, const Dim& other) {
                // The stride of a dimension with one element does not matter.
                return one.extent == other.extent && (one.stride == other.stride || one.extent == 1 || wanted.is_empty());
            });
        if (!fits)
            refuse("tensor " + wanted.name + " of " + op + " has shape " + text_of(array.dims) + ", and the op's is " +
                   text_of(wanted.dims));
        if (array.alignment_bytes < wanted.alignment_bytes)
            refuse("tensor " + wanted.name + " of " + op + " must begin at a multiple of " +
                   std::to_string(wanted.alignment_bytes) + " bytes");
        found.order.push_back(i);
    }
    return found;
}

double DefinedOp::flops(const Problem& problem) const {
    const Names names(problem, compiled_->lets);
    return compiled_->flops.evaluate_number(names.scope());
}

double DefinedOp::bytes(const Problem& problem) const {
    if (compiled_->bytes) {
        const Names names(problem, compiled_->lets);
        return compiled_->bytes->evaluate_number(names.scope());
    }
    double all = 0;
    for (const Tensor& tensor : problem.tensors)
        all += static_cast<double>(tensor.elements()) * static_cast<double>(size_bytes(tensor.dtype)) *
               (tensor.access == Access::inout ? 2 : 1);
    return all;
}

// The operations of the reference: in double, for two tests, one of which is run twice.
double DefinedOp::reference_flops(const Problem& problem) const {
    return 3 * flops(problem);
}

Fill DefinedOp::fill_of(std::size_t index, const Problem& problem) const {
    const OpDefinition::Content& content = definition_->tensors[index].fill;
    const auto& texts = compiled_->tensors[index].fill;
    const Names names(problem, compiled_->lets);
    const auto number = [&](const char* key, double otherwise) {
        const auto found = texts.find(key);
        return static_cast<float>(found == texts.end() ? otherwise : found->second.evaluate_number(names.scope()));
    };
    const auto integer = [&](const char* key, std::int64_t otherwise) {
        const auto found = texts.find(key);
        return found == texts.end() ? otherwise : found->second.evaluate(names.scope());
    };
    if (content.kind == "uniform") return Fill::uniform(number("low", 0), number("high", 1) - number("low", 0));
    if (content.kind == "integers") {
        const std::int64_t low = integer("low", -2);
        return Fill::integers(low, std::max(low, integer("high", 2)));
    }
    if (content.kind == "indices") return Fill::indices(std::max<std::int64_t>(integer("count", 1), 1));
    if (content.kind == "constant") return Fill::constant(number("value", 0));
    if (content.kind == "npy") return Fill::constant(0);  // then the file's content
    if (content.kind == "offsets") {
        const std::int64_t total = integer("total", 0);
        const std::int64_t parts = std::max<std::int64_t>(problem.tensors[index].elements() - 1, 1);
        const std::int64_t even = ceil_div(std::max<std::int64_t>(total, 0), parts);
        return Fill::offsets(total, parts, std::max(even, std::min(integer("longest", even), total)));
    }
    return Fill::normal(number("mean", 0), number("deviation", 1));
}

std::vector<OutputCheck> DefinedOp::outputs_of(const Problem& problem) const {
    std::vector<OutputCheck> outputs;
    for (std::size_t i = 0; i < problem.tensors.size(); ++i)
        if (problem.tensors[i].is_written() && definition_->tensors[i].is_checked)
            outputs.push_back({.tensor = static_cast<int>(i)});
    return outputs;
}

DataRules DefinedOp::data_rules(const Problem& problem) const {
    DataRules rules{.may_answer_nan = true};
    for (std::size_t i = 0; i < problem.tensors.size(); ++i) {
        const OpDefinition::Tensor& tensor = definition_->tensors[i];
        if (tensor.access == Access::inout && tensor.is_reset) rules.reset.push_back(static_cast<int>(i));
        if (!tensor.fill.path.empty()) rules.files[static_cast<int>(i)] = tensor.fill.path;
    }
    const Names names(problem, compiled_->lets);
    rules.prepare.steps = compiled_->prepare.make(problem, names.scope(), {},
                                                  [](std::size_t index) { return TensorArg{.index = static_cast<int>(index)}; });
    return rules;
}

std::vector<OpTest> DefinedOp::tests(const Problem& problem) const {
    OpTest numeric{.name = std::string(kNumeric), .fills = {}, .outputs = outputs_of(problem), .is_typical = true};
    OpTest exact{.name = std::string(kExact), .fills = {}, .outputs = numeric.outputs};
    double elements = 0, most = 1e18;
    for (const Tensor& tensor : problem.tensors) {
        if (!tensor.is_written() || !is_floating(tensor)) continue;
        elements += static_cast<double>(tensor.elements());
        most = std::min(most, static_cast<double>(exact_integers(tensor.dtype)));
    }
    // A term is at most 4, and 1.44 on average. If a sum would be too long, some of its terms become zero.
    const double terms = std::max(1.0, flops(problem) / (2 * std::max(elements, 1.0)));
    const auto every = static_cast<std::int64_t>(std::clamp(std::ceil(3 * terms / most), 1.0, 1e6));
    for (std::size_t i = 0; i < problem.tensors.size(); ++i) {
        const Tensor& tensor = problem.tensors[i];
        const bool is_read = tensor.access != Access::out;
        numeric.fills.push_back(is_read ? fill_of(i, problem) : Fill::nan());
        // Numbers from a file may have a meaning, for example as indices, so the exact test does not replace them.
        const bool is_free = is_read && is_floating(tensor) && definition_->tensors[i].fill.path.empty();
        exact.fills.push_back(is_free ? Fill::integers(-2, 2, every) : numeric.fills.back());
    }
    std::vector<OpTest> all;
    if (definition_->has_exact_test && elements > 0) all.push_back(std::move(exact));
    all.push_back(std::move(numeric));
    return all;
}

std::vector<Binding> DefinedOp::reference_facts(const Problem&) const {
    return {};
}

LaunchPlan DefinedOp::reference_plan(const Problem& problem, const OpTest& test) const {
    const Names names(problem, compiled_->lets);
    return ReferencePlan(*definition_, compiled_->steps, problem, names).make(test, flops(problem));
}

std::vector<Expected> DefinedOp::reference_on_host(const Problem& problem, const OpTest&,
                                                   std::span<const std::vector<double>>) const {
    internal_error("the reference of " + problem.op + " is device code");
}

// Returns the examples of the same class.
std::vector<Problem> DefinedOp::edge_case_problems(const Problem& problem, const Config&) const {
    std::map<std::string, std::string> attributes;
    for (const Attribute& attribute : problem.attributes) attributes[attribute.name] = to_string(attribute.value);
    std::vector<Problem> all;
    for (const OpDefinition::Example& example : definition_->examples) {
        Problem other = problem_of(example.extents, attributes);
        if (other.key() != problem.key()) all.push_back(std::move(other));
    }
    return all;
}

std::vector<SymbolWrite> symbol_writes(const OpDefinition& definition, const Problem& problem) {
    std::vector<SymbolWrite> writes;
    for (std::size_t i = 0; i < definition.tensors.size() && i < problem.tensors.size(); ++i) {
        const auto bytes = static_cast<std::size_t>(problem.tensors[i].span_bytes());
        if (definition.tensors[i].symbol.empty() || bytes == 0) continue;
        writes.push_back({definition.tensors[i].symbol, TensorArg{.index = static_cast<int>(i)}, bytes});
    }
    return writes;
}

std::string reference_helpers(const std::string& symbol) {
    static constexpr std::string_view text = R"(
// ---- what autotune adds to the reference ----
#line 1 "autotune_reference.cuh"
namespace autotune_reference {
struct Layout {
    long long extent[5];
    long long stride[5];
    __device__ long long elements() const { return extent[0] * extent[1] * extent[2] * extent[3] * extent[4]; }
    __device__ long long offset(long long number) const {
        long long at = 0;
        for (int i = 4; i >= 0; --i) {
            at += number % extent[i] * stride[i];
            number /= extent[i];
        }
        return at;
    }
};
__device__ inline long long first() { return static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x; }
__device__ inline long long step() { return static_cast<long long>(gridDim.x) * blockDim.x; }
__device__ inline unsigned long long raw(const void* data, unsigned long long format, long long at) {
    switch (format & 255) {
        case 8: return static_cast<const unsigned char*>(data)[at];
        case 16: return static_cast<const unsigned short*>(data)[at];
        case 32: return static_cast<const unsigned int*>(data)[at];
        default: return static_cast<const unsigned long long*>(data)[at];
    }
}
__device__ inline void put(void* data, unsigned long long format, long long at, unsigned long long value) {
    switch (format & 255) {
        case 8: static_cast<unsigned char*>(data)[at] = static_cast<unsigned char>(value); break;
        case 16: static_cast<unsigned short*>(data)[at] = static_cast<unsigned short>(value); break;
        case 32: static_cast<unsigned int*>(data)[at] = static_cast<unsigned int>(value); break;
        default: static_cast<unsigned long long*>(data)[at] = value;
    }
}
// Exact, except for integers of 64 bits.
__device__ inline double decoded(unsigned long long value, unsigned long long format) {
    const int bits = static_cast<int>(format & 255), exponent_bits = static_cast<int>(format >> 8 & 255);
    const int mantissa_bits = static_cast<int>(format >> 16 & 255);
    if (exponent_bits == 0 && mantissa_bits == bits) return static_cast<double>(value);
    if (exponent_bits == 0) {
        const int unused = 64 - bits;
        return static_cast<double>(static_cast<long long>(value << unused) >> unused);
    }
    if (bits == 64) return __longlong_as_double(static_cast<long long>(value));
    const unsigned long long magnitude = value & ((1ULL << (bits - 1)) - 1);
    const bool has_infinity = (format >> 24 & 1) != 0;
    const unsigned long long infinity = has_infinity ? ((1ULL << exponent_bits) - 1) << mantissa_bits : (1ULL << (bits - 1)) - 1;
    double result;
    if (magnitude > infinity || (!has_infinity && magnitude == infinity)) return __longlong_as_double(0x7FF8000000000000LL);
    if (magnitude == infinity) {
        result = __longlong_as_double(0x7FF0000000000000LL);
    } else {
        const int exponent = static_cast<int>(magnitude >> mantissa_bits), bias = (1 << (exponent_bits - 1)) - 1;
        const double mantissa = static_cast<double>(static_cast<long long>(magnitude & ((1ULL << mantissa_bits) - 1)));
        const double whole = exponent == 0 ? mantissa : mantissa + static_cast<double>(1LL << mantissa_bits);
        const int power = (exponent == 0 ? 1 : exponent) - bias - mantissa_bits;
        result = whole * __longlong_as_double(static_cast<long long>(1023 + power) << 52);
    }
    return (value >> (bits - 1) & 1) != 0 ? -result : result;
}
__device__ inline double loaded(const void* data, unsigned long long format, long long at) {
    return decoded(raw(data, format, at), format);
}
__device__ inline double as_double(long long bits) { return __longlong_as_double(bits); }
}  // namespace autotune_reference

extern "C" __global__ void ${symbol}_autotune_widen(const void* from, unsigned long long format, double* to, long long count,
                                                    int magnitudes) {
    for (long long i = autotune_reference::first(); i < count; i += autotune_reference::step()) {
        const double value = autotune_reference::loaded(from, format, i);
        to[i] = magnitudes != 0 ? fabs(value) : value;
    }
}

extern "C" __global__ void ${symbol}_autotune_copy(const void* from, unsigned long long format, void* to, long long count,
                                                   int magnitudes) {
    const unsigned long long sign = 1ULL << ((format & 255) - 1);
    for (long long i = autotune_reference::first(); i < count; i += autotune_reference::step()) {
        const unsigned long long value = autotune_reference::raw(from, format, i);
        autotune_reference::put(to, format, i, magnitudes != 0 ? value & ~sign : value);
    }
}

// facts[0]: the sum of squares. facts[1]: how many values are no integers, or sums of magnitudes that the type does not hold.
extern "C" __global__ void ${symbol}_autotune_survey(const void* values, const void* magnitudes, unsigned long long format,
    long long most, double* facts, long long extent0, long long extent1, long long extent2, long long extent3, long long extent4,
    long long stride0, long long stride1, long long stride2, long long stride3, long long stride4) {
    const autotune_reference::Layout layout = {{extent0, extent1, extent2, extent3, extent4},
                                               {stride0, stride1, stride2, stride3, stride4}};
    double squares = 0.0, odd = 0.0;
    for (long long i = autotune_reference::first(); i < layout.elements(); i += autotune_reference::step()) {
        const long long at = layout.offset(i);
        const double value = autotune_reference::loaded(values, format, at);
        if (fabs(value) < 1e300) squares += value * value;
        const bool is_exact = value == rint(value) &&
            fabs(autotune_reference::loaded(magnitudes, format, at)) <= autotune_reference::as_double(most);
        if (!is_exact) odd += 1.0;
    }
    if (squares != 0.0) atomicAdd(&facts[0], squares);
    if (odd != 0.0) atomicAdd(&facts[1], odd);
}

extern "C" __global__ void ${symbol}_autotune_expect(const void* values, unsigned long long format, const double* facts,
    double* expected, double* bound, long long per_rms, long long relative, long long absolute, int exact, long long extent0,
    long long extent1, long long extent2, long long extent3, long long extent4, long long stride0, long long stride1,
    long long stride2, long long stride3, long long stride4) {
    const autotune_reference::Layout layout = {{extent0, extent1, extent2, extent3, extent4},
                                               {stride0, stride1, stride2, stride3, stride4}};
    const double rms = sqrt(facts[0] / static_cast<double>(layout.elements()));
    const bool is_exact = exact != 0 && facts[1] == 0.0;
    // Not every integer of 64 bits is a double: its bits are expected.
    const bool by_bits = (format & 0xFFFF) == 64 && relative == 0 && absolute == 0;
    for (long long i = autotune_reference::first(); i < layout.elements(); i += autotune_reference::step()) {
        const double value = autotune_reference::loaded(values, format, layout.offset(i));
        expected[i] = by_bits
            ? autotune_reference::as_double(static_cast<long long>(autotune_reference::raw(values, format, layout.offset(i))))
            : value;
        bound[i] = is_exact ? 0.0 : autotune_reference::as_double(per_rms) * rms +
            autotune_reference::as_double(relative) * fabs(value) + autotune_reference::as_double(absolute);
    }
}
)";
    std::string filled;
    std::string_view left = text;
    constexpr std::string_view kSymbol = "${symbol}";
    for (std::size_t at = left.find(kSymbol); at != std::string_view::npos; at = left.find(kSymbol)) {
        filled += std::string(left.substr(0, at)) + symbol;
        left.remove_prefix(at + kSymbol.size());
    }
    return filled + std::string(left);
}

}  // namespace autotune
