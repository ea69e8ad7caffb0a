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
        enum class Kind : std::uint8_t {
            tensor,
            scalar,
            i32,
            i64,
            workspace,
            u32,
            u64,
            f32,
            f64,
            boolean,
            named_workspace,
            pick
        };
        Kind kind = Kind::i32;
        std::string value;
        std::vector<Argument> of = {};  // pick: the candidates; `value` is the index of the one that is passed
    };

    // zero: writes zeros to its only argument, a tensor or workspace. copy: from its first argument to its second, as many bytes
    // as the smaller one has.
    enum class Action : std::uint8_t { launch, zero, copy };

    std::string entry = {};  // as LaunchStep::entry
    // Expressions. Defaults: 1, or 0 for shared memory. A 0 in the grid omits the step.
    std::array<std::string, 3> grid = {"1", "1", "1"};
    std::array<std::string, 3> block = {"1", "1", "1"};
    std::array<std::string, 3> cluster = {"1", "1", "1"};
    std::string dynamic_smem_bytes = "0";
    std::string programmatic_dependent = "0";
    std::vector<Argument> arguments = {};
    std::string when = "1";   // 0: the step is omitted
    std::string kernel = {};  // its name in a user's source, such as "scale" or "ns::gemm<BM, T>"; empty in templates
    Action action = Action::launch;
    // Consecutive steps with the same `repeat` and `index` are a loop: all of them, in order, for index 0, 1, ... repeat - 1.
    std::string repeat = "1";
    std::string index = {};  // a name that the loop's expressions may use; empty: none

    bool loops_with(const StepDefinition& other) const { return repeat == other.repeat && index == other.index; }
};

// Whether a kernel's name is an expression of C++, such as "ns::gemm<BM, T>", and no C name.
bool is_kernel_expression(const std::string& kernel);
// "gemm" of "ns::gemm<BM, T>".
std::string kernel_base_name(const std::string& kernel);

// The kernels that zero and copy steps launch, as text. Their names begin with `symbol`.
std::string step_helpers(const std::string& symbol);
// Whether a step needs them.
bool needs_helpers(const std::vector<StepDefinition>& steps);

// The position of a named workspace in the plan's whole workspace.
struct WorkspacePlace {
    std::size_t offset_bytes = 0;
    std::size_t bytes = 0;
};

// The launch of a step that writes zeros.
LaunchStep zero_launch(Argument to, std::size_t bytes);

// Makes launch steps from definitions for one problem.
class StepMaker {
  public:
    // Throws ExpressionError.
    explicit StepMaker(const std::vector<StepDefinition>& steps);
    // The steps that are not omitted. `tensor_argument` makes the argument for a tensor, given its index. Throws Error{usage}: a
    // name that the problem does not have, a number that is not valid for a launch or does not fit.
    using TensorArgument = std::function<Argument(std::size_t index)>;
    std::vector<LaunchStep> make(const Problem& problem, const Expression::Scope& scope,
                                 const std::map<std::string, WorkspacePlace>& workspaces,
                                 const TensorArgument& tensor_argument) const;

  private:
    struct Step {
        StepDefinition definition;
        std::array<Expression, 3> grid, block, cluster;
        Expression dynamic_smem_bytes, programmatic_dependent, when, repeat;
        std::vector<Expression> arguments;  // the expression 0 for an argument that is a name
    };
    struct Target;  // of a making
    void add(const Step& step, const Expression::Scope& scope, const Target& target) const;
    std::vector<Step> steps_;
};

}  // namespace autotune
