#pragma once

#include <array>
#include <string>
#include <vector>

#include "src/core/family/expression.h"
#include "src/core/family/family.h"

namespace autotune {

// A family as data: parameters, constraints and launch as expressions, and the text of its kernels. It can be read from a file,
// sent to another process and stored; DefinedFamily makes a Family of it, which the tuner treats as any other.
//
// Names in expressions, besides the config's parameters:
//   m, n, ...            the problem's extents and integer attributes, by their names
//   dtype.f16            1 if the attribute `dtype` is the word f16, otherwise 0
//   a.align, a.type_bytes, a.elements, a.extent0 .. a.stride4   of the tensor a: bytes, and dimensions counted from the first
//   cc, sms, smem_per_block, smem_per_sm, registers_per_sm, threads_per_block, threads_per_sm, l2_bytes     of the device
struct FamilyDefinition {
    // What must hold, and why a config or a problem that breaks it is out.
    struct Rule {
        std::string holds;  // an expression
        std::string reason;
    };

    // A value of a kernel's parameter. `value` is the name of a tensor or a scalar, or an expression.
    struct Argument {
        enum class Kind : std::uint8_t { tensor, scalar, i32, i64, workspace };
        Kind kind = Kind::i32;
        std::string value;
    };

    struct Step {
        std::string entry = {};  // as LaunchStep::entry
        // Expressions; what is left out is 1, or 0 for shared memory.
        std::array<std::string, 3> grid = {"1", "1", "1"};
        std::array<std::string, 3> block = {"1", "1", "1"};
        std::array<std::string, 3> cluster = {"1", "1", "1"};
        std::string dynamic_smem_bytes = "0";
        std::string programmatic_dependent = "0";
        std::vector<Argument> arguments = {};
    };

    // What a placeholder of the text stands for: an expression over problem and device, or the element type of a tensor.
    struct Fact {
        std::string name;
        std::string value;  // an expression; the tensor's name where is_type
        bool is_type = false;
    };

    std::string name;  // "add/mine": the op's name first
    std::string about;
    int version = 1;                 // raised when the meaning of a parameter changes
    std::vector<Rule> accepts = {};  // over problem and device alone
    std::vector<Parameter> parameters = {};
    std::vector<Rule> constraints = {};
    Config default_config = {};  // if it is not legal, the first legal config is used
    std::vector<NamedConfig> named = {};
    std::vector<Fact> facts = {};
    std::vector<Step> steps = {};
    std::string workspace_bytes = "0";
    std::string workspace_zero_bytes = "0";
    bool is_deterministic = true;
    std::string predicted_us = {};  // an expression for ranking; "" has no opinion
    std::string text = {};

    // Everything but `text` that decides what a config means, as one text: part of the template's identity. Names and sentences
    // for people play no part.
    std::string canonical_rules() const;
};

// The family that a definition describes. Immutable.
class DefinedFamily final : public Family {
  public:
    // Throws Error{usage}, naming the family and what is wrong with it: a name without an op, an expression that does not parse,
    // a parameter without values or given twice, a fact named like a parameter.
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

  private:
    struct Rule {
        Expression holds;
        std::string reason;
    };
    struct Step {
        std::array<Expression, 3> grid, block, cluster;
        Expression dynamic_smem_bytes, programmatic_dependent;
        std::vector<Expression> arguments;  // 0 where an argument is a name
    };

    Expression parsed(const std::string& text) const;
    void check_names() const;
    std::vector<std::string> parameters_in(const Expression& expression) const;
    LaunchStep launch_step(std::size_t index, const Problem& problem, const Expression::Scope& scope) const;

    FamilyDefinition definition_;
    std::vector<Rule> accepts_, constraints_;
    std::vector<Expression> facts_;  // 0 for element types
    std::vector<Step> steps_;
    Expression workspace_bytes_, workspace_zero_bytes_;
    std::optional<Expression> predicted_us_;
};

}  // namespace autotune
