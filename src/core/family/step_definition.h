#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "src/core/family/launch_plan.h"
#include "src/core/family/names.h"

namespace autotune {

// A launch as a user describes it: expressions over the names of FamilyDefinition.
struct StepDefinition {
    // A value for a kernel's parameter. `value` is the name of a tensor, a scalar or a workspace, or an expression.
    struct Argument {
        enum class Kind : std::uint8_t { tensor, scalar, i32, i64, workspace, u32, u64, f32, f64, boolean, named_workspace };
        Kind kind = Kind::i32;
        std::string value;
    };

    std::string entry = {};  // as LaunchStep::entry
    // Expressions. Defaults: 1, or 0 for shared memory. A 0 in the grid omits the step.
    std::array<std::string, 3> grid = {"1", "1", "1"};
    std::array<std::string, 3> block = {"1", "1", "1"};
    std::array<std::string, 3> cluster = {"1", "1", "1"};
    std::string dynamic_smem_bytes = "0";
    std::string programmatic_dependent = "0";
    std::vector<Argument> arguments = {};
    std::string when = "1";   // 0: the step is omitted
    std::string kernel = {};  // its name in a user's source; empty in templates
};

// Makes launch steps from definitions for one problem. `workspaces`: offsets by name.
class StepMaker {
  public:
    // Throws ExpressionError.
    explicit StepMaker(const std::vector<StepDefinition>& steps);
    // The steps that are not omitted. `tensor_argument` makes the argument for the tensor of an index. Throws Error{usage}: a
    // name that the problem does not have, a number that is not valid for a launch or does not fit.
    using TensorArgument = std::function<Argument(std::size_t index)>;
    std::vector<LaunchStep> make(const Problem& problem, const Expression::Scope& scope,
                                 const std::map<std::string, std::size_t>& workspaces,
                                 const TensorArgument& tensor_argument) const;

  private:
    struct Step {
        StepDefinition definition;
        std::array<Expression, 3> grid, block, cluster;
        Expression dynamic_smem_bytes, programmatic_dependent, when;
        std::vector<Expression> arguments;  // 0 if an argument is a name
    };
    std::vector<Step> steps_;
};

}  // namespace autotune
