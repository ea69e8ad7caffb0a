#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "src/core/family/expression.h"
#include "src/core/family/family.h"
#include "src/core/family/step_definition.h"

namespace autotune {

struct OpDefinition;

// A family as data: parameters, constraints and launch as expressions, and the text of its kernels. It can be read from a file,
// sent to another process and stored; DefinedFamily makes a Family of it, which the tuner treats as any other.
//
// Names in expressions, besides the config's parameters:
//   m, n, ...            the problem's extents and integer attributes, by their names
//   dtype.f16            1 if the attribute `dtype` is the word f16, otherwise 0
//   a.align, a.type_bytes, a.elements, a.extent0 .. a.stride4   of the tensor a: bytes, and dimensions counted from the first
//   cc, sms, smem_per_block, smem_per_sm, registers_per_sm, threads_per_block, threads_per_sm, l2_bytes, warp     of the device
//   layout               the word of an attribute or of a parameter that has words
//   threads              a let
struct FamilyDefinition {
    // A condition that must hold, and the reason given if a config or a problem breaks it.
    struct Rule {
        std::string holds;  // an expression
        std::string reason;
    };

    using Argument = StepDefinition::Argument;
    using Step = StepDefinition;

    // A named part of the kernels' scratch memory.
    struct Workspace {
        std::string name;
        std::string bytes;          // an expression
        bool is_zero_once = false;  // must be zero before the first launch; each launch sets it to zero again
        bool is_zero_each = false;  // set to zero before the first step of each launch, which is timed
    };

    // The value of a placeholder in the text: an expression over problem and device, or the element type of a tensor.
    struct Fact {
        std::string name;
        std::string value;  // an expression; the tensor's name if is_type
        bool is_type = false;
    };

    std::string name;  // "add/mine": the op's name first
    std::string about;
    int version = 1;                 // raised when the meaning of a parameter changes
    std::vector<Rule> accepts = {};  // over problem and device only
    std::vector<Parameter> parameters = {};
    std::vector<Rule> constraints = {};
    Config default_config = {};  // if it is not legal, the first legal config is used
    std::vector<NamedConfig> named = {};
    std::vector<Fact> facts = {};
    std::vector<Step> steps = {};
    std::string workspace_bytes = "0";
    std::string workspace_zero_bytes = "0";
    bool is_deterministic = true;
    std::string predicted_us = {};  // an expression, for ranking only; "" means no prediction
    std::string text = {};

    // ---- additional members for families of users' kernels ----
    // The op in the same file, which also has the source; nullptr: an op of the catalogue, and `text` is a template.
    std::shared_ptr<const OpDefinition> op = {};
    std::vector<Let> lets = {};
    std::vector<std::string> constants = {};  // lets that the source gets as macros, in this order
    // Compile parameters that the source gets only as template arguments of its kernels. They are not macros, because a macro
    // would replace the template parameter of the same name.
    std::vector<std::string> template_parameters = {};
    ParameterWords words = {};
    std::vector<Workspace> workspaces = {};  // behind `workspace_bytes`
    std::string deterministic = {};          // an expression that replaces is_deterministic; empty: none

    // Whether its launches need the kernels of step_helpers().
    bool needs_helpers() const;
    // All members except `text` that determine the meaning of a config, as one text, which is part of the template's identity.
    // Names and sentences for people are left out.
    std::string canonical_rules() const;
};

// The family that a definition describes. Immutable.
class DefinedFamily final : public Family {
  public:
    // Throws Error{usage} with the name of the family and what is wrong: a name without an op, an expression that does not parse,
    // a parameter without values or given twice, a fact with the name of a parameter.
    explicit DefinedFamily(FamilyDefinition definition);

    const FamilyDefinition& definition() const { return definition_; }

    std::string_view name() const override { return definition_.name; }
    std::string_view about() const override { return definition_.about; }
    int space_version() const override { return definition_.version; }
    std::optional<std::string> refuses(const Problem& problem, const Device& device) const override;
    SearchSpace space(const Problem& problem, const Device& device) const override;
    std::vector<Binding> facts(const Problem& problem) const override;
    LaunchPlan plan(const Problem& problem, const Config& config, const Device& device) const override;
    Predictor predictor(const Problem& problem, const Device& device) const override;

    // The macros that a user's source gets for a config, in order: compile parameters, then constants. Throws ExpressionError for
    // a constant that depends on a device.
    using Macro = std::pair<std::string, std::string>;
    std::vector<Macro> macros(const Problem& problem, const Config& config) const;
    // The name of a step's kernel for a config: "gemm<128, float>" for "gemm<BM, T>". Only what stands in <> changes.
    std::string kernel_name(const std::string& kernel, const Problem& problem, const Config& config) const;

  private:
    struct Rule {
        Expression holds;
        std::string reason;
    };
    Expression parsed(const std::string& text) const;
    // A parameter's value as the source gets it.
    std::string spelled(const Parameter& parameter, const Config& config) const;
    void check_names() const;
    std::vector<std::string> parameters_in(const Expression& expression) const;

    FamilyDefinition definition_;
    std::vector<Rule> accepts_, constraints_;
    std::vector<Expression> facts_;  // 0 for element types
    Lets lets_;
    std::optional<StepMaker> steps_;
    std::vector<Expression> workspaces_;
    Expression workspace_bytes_, workspace_zero_bytes_;
    std::optional<Expression> deterministic_;
    std::optional<Expression> predicted_us_;
};

}  // namespace autotune
