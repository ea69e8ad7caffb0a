#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "src/core/family/step_definition.h"
#include "src/core/op/kernel_source.h"
#include "src/core/op/op.h"

namespace autotune {

// An op as data, for kernels of a user: how its problems are described, what they cost and what their right answers are.
// DefinedOp makes an Op of it, which is treated like any other.
struct OpDefinition {
    struct Attribute {
        std::string name;
        std::vector<std::string> values;  // the values are words, or integers as text
        bool is_word = true;
        std::string otherwise;  // the value if none is given
        std::string about = {};
    };
    // The content of a tensor before a run. Values are expressions over the problem, by name: "mean", "deviation", "low", "high",
    // "count", "value", "total", "parts", "longest".
    struct Content {
        std::string kind = "normal";
        std::map<std::string, std::string> values = {};
        std::string file = {};  // kind npy: the file's name, as the kernel file gives it
        std::string path = {};  // the file's path; not part of an identity
    };
    struct Tensor {
        std::string name;
        std::string dtype;                      // a type's word, or the name of an attribute whose words are types
        std::vector<std::string> shape = {};    // expressions
        std::vector<std::string> strides = {};  // expressions, in elements; empty means dense
        Access access = Access::in;
        int align = 0;  // bytes; 0: as shape, strides and type allow, at most 16
        Content fill = {};
        std::string symbol = {};  // a __constant__ or __device__ array of the source that gets the content before launches
        bool is_checked = true;   // false: kernels may leave anything in it
        bool is_reset = true;     // inout: filled again before each timed launch too
    };
    struct Scalar {
        std::string name;
        std::string type;   // f32, i32 or u64
        std::string value;  // an expression over the problem
    };
    // Replaces the bound that follows from the FLOPs: |out - expected| <= rtol |expected| + atol.
    struct Tolerance {
        std::string tensor;
        double rtol = 0, atol = 0;
    };
    struct Example {
        std::vector<std::int64_t> extents;
        std::map<std::string, std::string> attributes = {};
    };

    std::string name;  // "user_conv2d"
    std::string about;
    std::vector<std::string> extents = {};
    std::vector<Example> examples = {};  // the first is the default
    std::string flops = "0";
    std::string bytes = {};  // if empty, the spans of the tensors that are read and written
    std::vector<Attribute> attributes = {};
    std::vector<Tensor> tensors = {};
    std::vector<Scalar> scalars = {};
    std::vector<Let> lets = {};
    // The kernels that compute the right answer in double, from the same source; none: answers are not verified.
    std::vector<StepDefinition> reference = {};
    std::vector<StepDefinition> prepare = {};  // derive tensors from others after each fill
    bool widens_inputs = true;                 // whether the reference gets floating-point tensors as double
    bool has_exact_test = true;
    std::vector<Tolerance> tolerances = {};
    KernelSource source = {};

    bool is_verified() const { return !reference.empty(); }
    // Whether some tensor has the extent as a dimension of its own; otherwise callers give it as an attribute.
    bool is_given_by_a_tensor(const std::string& extent) const;
    // All facts that determine a problem and its right answer, as one text, which is part of a template's identity.
    std::string canonical_rules() const;
};

// The writes of symbols that launches of an op's kernels need before their first step.
std::vector<SymbolWrite> symbol_writes(const OpDefinition& definition, const Problem& problem);

// Text that is appended to a user's source in the reference's translation unit: kernels that widen tensors and compute expected
// values and bounds. Their names begin with `symbol`.
std::string reference_helpers(const std::string& symbol);

// The op that a definition describes. Immutable.
class DefinedOp final : public Op {
  public:
    // Throws Error{usage}, or ExpressionError for an expression that does not parse or names that define each other.
    explicit DefinedOp(std::shared_ptr<const OpDefinition> definition);
    ~DefinedOp() override;

    const OpDefinition& definition() const { return *definition_; }
    const std::shared_ptr<const OpDefinition>& shared_definition() const { return definition_; }

    // The problem with these extents. Throws Error{usage}: an extent or attribute that is not allowed, a negative extent.
    Problem problem_of(const std::vector<std::int64_t>& extents, const std::map<std::string, std::string>& attributes) const;

    std::string_view name() const override { return definition_->name; }
    std::string_view about() const override { return definition_->about; }
    std::string_view shape_form() const override { return shape_form_; }
    std::vector<OpAlias> aliases() const override { return {}; }
    std::vector<OpOption> options() const override;
    std::vector<ProblemRequest> examples() const override;
    std::vector<TensorForm> tensors() const override;
    std::vector<OpOption> attributes() const override { return options(); }
    Problem problem(const ProblemRequest& request) const override;
    DescribedProblem described(const ProblemDescription& description) const override;

    double flops(const Problem& problem) const override;
    double bytes(const Problem& problem) const override;
    double reference_flops(const Problem& problem) const override;
    std::string_view rate_unit() const override { return rate_unit_; }

    std::vector<OpTest> tests(const Problem& problem) const override;
    std::vector<Binding> reference_facts(const Problem& problem) const override;
    LaunchPlan reference_plan(const Problem& problem, const OpTest& test) const override;
    DataRules data_rules(const Problem& problem) const override;
    std::vector<Expected> reference_on_host(const Problem& problem, const OpTest& test,
                                            std::span<const std::vector<double>> tensors) const override;
    std::vector<Problem> edge_case_problems(const Problem& problem, const Config& config) const override;

  private:
    struct Compiled;
    Tensor tensor_of(std::size_t index, const Problem& so_far) const;
    Fill fill_of(std::size_t index, const Problem& problem) const;
    std::vector<OutputCheck> outputs_of(const Problem& problem) const;

    std::shared_ptr<const OpDefinition> definition_;
    std::unique_ptr<const Compiled> compiled_;
    std::string shape_form_;
    std::string_view rate_unit_ = "gb_per_s";
};

}  // namespace autotune
