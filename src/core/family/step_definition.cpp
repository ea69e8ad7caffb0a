#include "src/core/family/step_definition.h"

#include <algorithm>
#include <bit>
#include <limits>

namespace autotune {
namespace {

using ArgumentKind = StepDefinition::Argument::Kind;

template <class Named>
std::size_t index_of(const std::vector<Named>& all, const std::string& name, const std::string& op, const char* what) {
    const auto found = std::find_if(all.begin(), all.end(), [&](const Named& each) { return each.name == name; });
    if (found == all.end()) throw Error(ErrorCode::usage, "op '" + op + "' has no " + what + " '" + name + "'");
    return static_cast<std::size_t>(found - all.begin());
}

[[noreturn]] void does_not_fit(const Expression& expression, std::int64_t value, const std::string& where) {
    throw ExpressionError(expression.text(), "it gives " + std::to_string(value) + ", which " + where, 0,
                          expression.text().size());
}

// A number of a launch. Throws if the driver would not accept it.
std::uint32_t launch_number(const Expression& expression, const Expression::Scope& scope) {
    const std::int64_t value = expression.evaluate(scope);
    if (value < 0 || value > std::numeric_limits<std::int32_t>::max()) does_not_fit(expression, value, "is no size of a launch");
    return static_cast<std::uint32_t>(value);
}

Dim3 launch_dims(const std::array<Expression, 3>& expressions, const Expression::Scope& scope) {
    return {launch_number(expressions[0], scope), launch_number(expressions[1], scope), launch_number(expressions[2], scope)};
}

bool is_named(ArgumentKind kind) {
    return kind == ArgumentKind::tensor || kind == ArgumentKind::scalar || kind == ArgumentKind::named_workspace;
}

template <class To>
To fitted(const Expression& expression, const Expression::Scope& scope) {
    const std::int64_t value = expression.evaluate(scope);
    if (!std::in_range<To>(value)) {
        does_not_fit(
            expression, value,
            std::is_unsigned_v<To> && value < 0 ? "is below 0" : "does not fit " + std::to_string(8 * sizeof(To)) + " bits");
    }
    return static_cast<To>(value);
}

// The argument's kind sets its size, because kernels read as many bytes of an argument as their parameter has.
Argument number_argument(ArgumentKind kind, const Expression& expression, const Expression::Scope& scope) {
    switch (kind) {
        case ArgumentKind::i32:
            return I32Arg{fitted<std::int32_t>(expression, scope)};
        case ArgumentKind::u32:
            return I32Arg{std::bit_cast<std::int32_t>(fitted<std::uint32_t>(expression, scope))};
        case ArgumentKind::u64:
            return I64Arg{std::bit_cast<std::int64_t>(fitted<std::uint64_t>(expression, scope))};
        case ArgumentKind::f32:
            return F32Arg{static_cast<float>(expression.evaluate_number(scope))};
        case ArgumentKind::f64:
            return I64Arg{std::bit_cast<std::int64_t>(expression.evaluate_number(scope))};
        case ArgumentKind::boolean:
            return I32Arg{expression.evaluate(scope) != 0 ? 1 : 0};
        case ArgumentKind::workspace:
            return WorkspaceArg{static_cast<std::size_t>(expression.evaluate(scope))};
        default:
            return I64Arg{expression.evaluate(scope)};
    }
}

}  // namespace

StepMaker::StepMaker(const std::vector<StepDefinition>& steps) {
    const auto three = [](const std::array<std::string, 3>& texts) {
        return std::array<Expression, 3>{Expression(texts[0]), Expression(texts[1]), Expression(texts[2])};
    };
    for (const StepDefinition& from : steps) {
        Step step{from,
                  three(from.grid),
                  three(from.block),
                  three(from.cluster),
                  Expression(from.dynamic_smem_bytes),
                  Expression(from.programmatic_dependent),
                  Expression(from.when),
                  {}};
        for (const StepDefinition::Argument& argument : from.arguments)
            step.arguments.push_back(is_named(argument.kind) ? Expression() : Expression(argument.value));
        steps_.push_back(std::move(step));
    }
}

std::vector<LaunchStep> StepMaker::make(const Problem& problem, const Expression::Scope& scope,
                                        const std::map<std::string, std::size_t>& workspaces,
                                        const TensorArgument& tensor_argument) const {
    std::vector<LaunchStep> all;
    for (const Step& step : steps_) {
        if (step.when.evaluate(scope) == 0) continue;
        LaunchStep launch;
        launch.entry = step.definition.entry;
        launch.grid = launch_dims(step.grid, scope);
        if (launch.grid.x == 0 || launch.grid.y == 0 || launch.grid.z == 0) continue;
        launch.block = launch_dims(step.block, scope);
        launch.cluster = launch_dims(step.cluster, scope);
        launch.dynamic_smem_bytes = launch_number(step.dynamic_smem_bytes, scope);
        launch.programmatic_dependent = step.programmatic_dependent.evaluate(scope) != 0;
        for (std::size_t i = 0; i < step.definition.arguments.size(); ++i) {
            const StepDefinition::Argument& argument = step.definition.arguments[i];
            if (argument.kind == ArgumentKind::tensor) {
                launch.arguments.push_back(tensor_argument(index_of(problem.tensors, argument.value, problem.op, "tensor")));
            } else if (argument.kind == ArgumentKind::scalar) {
                launch.arguments.emplace_back(
                    ScalarArg{static_cast<int>(index_of(problem.scalars, argument.value, problem.op, "scalar"))});
            } else if (argument.kind == ArgumentKind::named_workspace) {
                const auto found = workspaces.find(argument.value);
                if (found == workspaces.end()) throw Error(ErrorCode::usage, "there is no workspace '" + argument.value + "'");
                launch.arguments.emplace_back(WorkspaceArg{found->second});
            } else {
                launch.arguments.push_back(number_argument(argument.kind, step.arguments[i], scope));
            }
        }
        all.push_back(std::move(launch));
    }
    return all;
}

}  // namespace autotune
