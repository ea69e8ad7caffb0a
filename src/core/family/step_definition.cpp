#include "src/core/family/step_definition.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <optional>
#include <string_view>

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

constexpr std::int64_t kMostRounds = 1024;
constexpr std::string_view kZeroEntry = "_autotune_zero_step", kCopyEntry = "_autotune_copy_step";

// A launch in which each thread moves 16 bytes, several times if there are many bytes.
LaunchStep byte_launch(std::string_view entry, std::size_t bytes) {
    constexpr std::uint32_t kThreads = 256;
    constexpr std::size_t kBytesOfABlock = std::size_t{kThreads} * 16, kMostBlocks = 2048;
    LaunchStep step;
    step.entry = entry;
    step.grid.x =
        static_cast<std::uint32_t>(std::clamp<std::size_t>((bytes + kBytesOfABlock - 1) / kBytesOfABlock, 1, kMostBlocks));
    step.block.x = kThreads;
    return step;
}

LaunchStep copy_launch(Argument from, Argument to, std::size_t bytes) {
    LaunchStep step = byte_launch(kCopyEntry, bytes);
    step.arguments = {from, to, I64Arg{static_cast<std::int64_t>(bytes)}};
    return step;
}

}  // namespace

LaunchStep zero_launch(Argument to, std::size_t bytes) {
    LaunchStep step = byte_launch(kZeroEntry, bytes);
    step.arguments = {to, I64Arg{static_cast<std::int64_t>(bytes)}};
    return step;
}

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
                  Expression(from.repeat),
                  {}};
        for (const StepDefinition::Argument& argument : from.arguments)
            step.arguments.push_back(is_named(argument.kind) ? Expression() : Expression(argument.value));
        steps_.push_back(std::move(step));
    }
}

// The problem and the memory for which steps are made, and the steps made so far.
struct StepMaker::Target {
    const Problem& problem;
    const std::map<std::string, WorkspacePlace>& workspaces;
    const TensorArgument& tensor_argument;
    std::vector<LaunchStep>& made;

    const WorkspacePlace& place_of(const std::string& name) const {
        const auto found = workspaces.find(name);
        if (found == workspaces.end()) throw Error(ErrorCode::usage, "there is no workspace '" + name + "'");
        return found->second;
    }
    Argument value_of(const StepDefinition::Argument& argument, const Expression& expression,
                      const Expression::Scope& scope) const {
        switch (argument.kind) {
            case ArgumentKind::tensor:
                return tensor_argument(index_of(problem.tensors, argument.value, problem.op, "tensor"));
            case ArgumentKind::scalar:
                return ScalarArg{static_cast<int>(index_of(problem.scalars, argument.value, problem.op, "scalar"))};
            case ArgumentKind::named_workspace:
                return WorkspaceArg{place_of(argument.value).offset_bytes};
            case ArgumentKind::pick: {
                const std::int64_t number = expression.evaluate(scope);
                if (number < 0 || number >= std::ssize(argument.of))
                    does_not_fit(expression, number,
                                 "is the number of none of its " + std::to_string(argument.of.size()) +
                                     " arguments, which are counted from 0");
                const StepDefinition::Argument& one = argument.of[static_cast<std::size_t>(number)];
                return value_of(one, is_named(one.kind) ? Expression() : Expression(one.value), scope);
            }
            default:
                return number_argument(argument.kind, expression, scope);
        }
    }
    std::size_t bytes_of(const StepDefinition::Argument& argument) const {
        if (argument.kind == ArgumentKind::named_workspace) return place_of(argument.value).bytes;
        const std::size_t index = index_of(problem.tensors, argument.value, problem.op, "tensor");
        return static_cast<std::size_t>(problem.tensors[index].span_bytes());
    }
};

void StepMaker::add(const Step& step, const Expression::Scope& scope, const Target& target) const {
    if (step.when.evaluate(scope) == 0) return;
    const std::vector<StepDefinition::Argument>& arguments = step.definition.arguments;
    if (step.definition.action != StepDefinition::Action::launch) {
        std::size_t bytes = SIZE_MAX;
        std::vector<Argument> places;
        for (std::size_t i = 0; i < arguments.size(); ++i) {
            bytes = std::min(bytes, target.bytes_of(arguments[i]));
            places.push_back(target.value_of(arguments[i], step.arguments[i], scope));
        }
        if (bytes == 0) return;
        target.made.push_back(step.definition.action == StepDefinition::Action::zero
                                  ? zero_launch(places.at(0), bytes)
                                  : copy_launch(places.at(0), places.at(1), bytes));
        return;
    }
    LaunchStep launch;
    launch.entry = step.definition.entry;
    launch.grid = launch_dims(step.grid, scope);
    if (launch.grid.x == 0 || launch.grid.y == 0 || launch.grid.z == 0) return;
    launch.block = launch_dims(step.block, scope);
    launch.cluster = launch_dims(step.cluster, scope);
    launch.dynamic_smem_bytes = launch_number(step.dynamic_smem_bytes, scope);
    launch.programmatic_dependent = step.programmatic_dependent.evaluate(scope) != 0;
    for (std::size_t i = 0; i < arguments.size(); ++i)
        launch.arguments.push_back(target.value_of(arguments[i], step.arguments[i], scope));
    target.made.push_back(std::move(launch));
}

std::vector<LaunchStep> StepMaker::make(const Problem& problem, const Expression::Scope& scope,
                                        const std::map<std::string, WorkspacePlace>& workspaces,
                                        const TensorArgument& tensor_argument) const {
    std::vector<LaunchStep> all;
    const Target target{problem, workspaces, tensor_argument, all};
    for (auto first = steps_.begin(); first != steps_.end();) {
        const auto end = std::find_if(first + 1, steps_.end(), [&](const Step& each) {
            return !each.definition.loops_with(first->definition) || each.definition.repeat == "1";
        });
        const std::int64_t rounds = first->repeat.evaluate(scope);
        if (rounds < 0 || rounds > kMostRounds)
            does_not_fit(first->repeat, rounds, "is no number of repeats; it is 0 to " + std::to_string(kMostRounds));
        for (std::int64_t round = 0; round < rounds; ++round) {
            const Expression::Scope inside = [&](std::string_view name) -> std::optional<Expression::Value> {
                if (name == first->definition.index && !name.empty()) return round;
                return scope(name);
            };
            for (auto step = first; step != end; ++step) add(*step, inside, target);
        }
        first = end;
    }
    return all;
}

bool is_kernel_expression(const std::string& kernel) {
    return kernel.find_first_of("<:") != std::string::npos;
}

std::string kernel_base_name(const std::string& kernel) {
    std::string name = kernel.substr(0, kernel.find('<'));
    if (const std::size_t colon = name.rfind(':'); colon != std::string::npos) name = name.substr(colon + 1);
    const std::size_t first = name.find_first_not_of(' '), last = name.find_last_not_of(' ');
    return first == std::string::npos ? "" : name.substr(first, last - first + 1);
}

bool needs_helpers(const std::vector<StepDefinition>& steps) {
    return std::any_of(steps.begin(), steps.end(),
                       [](const StepDefinition& step) { return step.action != StepDefinition::Action::launch; });
}

std::string step_helpers(const std::string& symbol) {
    return R"(
// ---- what autotune adds for steps that write zeros or copy ----
#line 1 "autotune_steps.cuh"
extern "C" __global__ void )" +
           symbol + std::string(kZeroEntry) + R"((unsigned char* to, long long bytes) {
    const long long first = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
    const long long step = static_cast<long long>(gridDim.x) * blockDim.x;
    const long long words = reinterpret_cast<unsigned long long>(to) % 16 == 0 ? bytes / 16 : 0;
    for (long long i = first; i < words; i += step) reinterpret_cast<uint4*>(to)[i] = make_uint4(0, 0, 0, 0);
    for (long long i = words * 16 + first; i < bytes; i += step) to[i] = 0;
}
extern "C" __global__ void )" +
           symbol + std::string(kCopyEntry) + R"((const unsigned char* from, unsigned char* to, long long bytes) {
    const long long first = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
    const long long step = static_cast<long long>(gridDim.x) * blockDim.x;
    const unsigned long long both = reinterpret_cast<unsigned long long>(from) | reinterpret_cast<unsigned long long>(to);
    const long long words = both % 16 == 0 ? bytes / 16 : 0;
    for (long long i = first; i < words; i += step)
        reinterpret_cast<uint4*>(to)[i] = reinterpret_cast<const uint4*>(from)[i];
    for (long long i = words * 16 + first; i < bytes; i += step) to[i] = from[i];
}
)";
}

}  // namespace autotune
