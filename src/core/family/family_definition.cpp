#include "src/core/family/family_definition.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <map>
#include <set>

#include "src/core/error.h"

namespace autotune {
namespace {

using Values = std::map<std::string, std::int64_t, std::less<>>;

void add_tensor(const Tensor& tensor, Values& values) {
    values[tensor.name + ".align"] = tensor.alignment_bytes;
    values[tensor.name + ".type_bytes"] = static_cast<std::int64_t>(size_bytes(tensor.dtype));
    values[tensor.name + ".elements"] = tensor.elements();
    for (std::size_t i = 0; i < tensor.dims.size(); ++i) {
        values[tensor.name + ".extent" + std::to_string(i)] = tensor.dims[i].extent;
        values[tensor.name + ".stride" + std::to_string(i)] = tensor.dims[i].stride;
    }
}

// What a problem's names stand for.
Values values_of(const Problem& problem) {
    Values values;
    for (const Extent& extent : problem.extents) values[extent.name] = extent.value;
    for (const Attribute& attribute : problem.attributes) {
        if (const auto* integer = std::get_if<std::int64_t>(&attribute.value)) values[attribute.name] = *integer;
    }
    for (const Tensor& tensor : problem.tensors) add_tensor(tensor, values);
    return values;
}

Values values_of(const Problem& problem, const Device& device) {
    Values values = values_of(problem);
    values["cc"] = device.identity.cc();
    values["sms"] = device.identity.sm_count;
    values["l2_bytes"] = std::int64_t{device.identity.l2_mib} << 20;
    values["smem_per_block"] = device.limits.smem_per_block_bytes;
    values["smem_per_sm"] = device.limits.smem_per_sm_bytes;
    values["registers_per_sm"] = device.limits.registers_per_sm;
    values["threads_per_block"] = device.limits.threads_per_block;
    values["threads_per_sm"] = device.limits.threads_per_sm;
    return values;
}

// `attribute.word` for the attributes that are words: 1 for the one that it is.
std::optional<std::int64_t> compared_word(const std::vector<Attribute>& attributes, std::string_view name) {
    const std::size_t point = name.find('.');
    if (point == std::string_view::npos) return std::nullopt;
    for (const Attribute& attribute : attributes) {
        const auto* const word = std::get_if<std::string>(&attribute.value);
        if (word != nullptr && attribute.name == name.substr(0, point)) return *word == name.substr(point + 1) ? 1 : 0;
    }
    return std::nullopt;
}

// The names of a problem on a device, and of a config where there is one.
class Names {
  public:
    Names(const Problem& problem, Values values) : values_(std::move(values)), attributes_(problem.attributes) {}

    std::optional<std::int64_t> find(std::string_view name, const Config* config) const {
        if (config != nullptr) {
            if (const auto parameter = config->find(name)) return parameter;
        }
        if (const auto found = values_.find(name); found != values_.end()) return found->second;
        return compared_word(attributes_, name);
    }
    Expression::Scope scope(const Config* config = nullptr) const {
        return [this, config](std::string_view name) { return find(name, config); };
    }

  private:
    Values values_;
    std::vector<Attribute> attributes_;
};

std::size_t index_of_tensor(const Problem& problem, const std::string& name) {
    const auto found =
        std::find_if(problem.tensors.begin(), problem.tensors.end(), [&](const Tensor& t) { return t.name == name; });
    if (found == problem.tensors.end()) throw Error(ErrorCode::usage, "op '" + problem.op + "' has no tensor '" + name + "'");
    return static_cast<std::size_t>(found - problem.tensors.begin());
}

std::size_t index_of_scalar(const Problem& problem, const std::string& name) {
    const auto found =
        std::find_if(problem.scalars.begin(), problem.scalars.end(), [&](const Scalar& s) { return s.name == name; });
    if (found == problem.scalars.end()) throw Error(ErrorCode::usage, "op '" + problem.op + "' has no scalar '" + name + "'");
    return static_cast<std::size_t>(found - problem.scalars.begin());
}

std::int32_t narrow(std::int64_t value, const std::string& text) {
    if (value != static_cast<std::int32_t>(value))
        throw Error(ErrorCode::usage,
                    "expression '" + text + "' gives " + std::to_string(value) + ", which does not fit 32 bits");
    return static_cast<std::int32_t>(value);
}

// A launch's number, which must be one that the driver takes.
std::uint32_t launch_number(const Expression& expression, const Expression::Scope& scope) {
    const std::int64_t value = expression.evaluate(scope);
    if (value < 0 || value > std::numeric_limits<std::int32_t>::max())
        throw Error(ErrorCode::usage,
                    "expression '" + expression.text() + "' gives " + std::to_string(value) + ", which is no size of a launch");
    return static_cast<std::uint32_t>(value);
}

Dim3 launch_dims(const std::array<Expression, 3>& expressions, const Expression::Scope& scope) {
    return {launch_number(expressions[0], scope), launch_number(expressions[1], scope), launch_number(expressions[2], scope)};
}

// A config that makes a rule divide by zero breaks the rule.
bool holds(const Expression& rule, const Expression::Scope& scope) {
    try {
        return rule.evaluate(scope) != 0;
    } catch (const Error& error) {
        if (std::string_view(error.what()).find("division by zero") == std::string_view::npos) throw;
        return false;
    }
}

}  // namespace

std::string FamilyDefinition::canonical_rules() const {
    std::string all;
    // Length first, so that two fields never run into each other.
    const auto field = [&](const std::string& each) { all += std::to_string(each.size()) + ":" + each; };
    const auto number = [&](std::int64_t value) { field(std::to_string(value)); };
    number(version);
    for (const Rule& rule : accepts) field("accepts"), field(rule.holds);
    for (const Parameter& parameter : parameters) {
        field("parameter"), field(parameter.name), number(static_cast<int>(parameter.kind));
        for (const std::int64_t value : parameter.values) number(value);
    }
    for (const Rule& rule : constraints) field("constraint"), field(rule.holds);
    for (const Fact& fact : facts) field("fact"), field(fact.name), field(fact.value), number(fact.is_type ? 1 : 0);
    for (const Step& step : steps) {
        field("step"), field(step.entry), field(step.dynamic_smem_bytes), field(step.programmatic_dependent);
        for (const auto* dims : {&step.grid, &step.block, &step.cluster})
            for (const std::string& dim : *dims) field(dim);
        for (const Argument& argument : step.arguments) number(static_cast<int>(argument.kind)), field(argument.value);
    }
    field(workspace_bytes), field(workspace_zero_bytes), number(is_deterministic ? 1 : 0);
    return all;
}

Expression DefinedFamily::parsed(const std::string& text) const {
    try {
        return Expression(text);
    } catch (const Error& error) {
        throw Error(ErrorCode::usage, "family '" + definition_.name + "': " + error.what());
    }
}

DefinedFamily::DefinedFamily(FamilyDefinition definition) : definition_(std::move(definition)) {
    check_names();
    for (const FamilyDefinition::Rule& rule : definition_.accepts) accepts_.push_back({parsed(rule.holds), rule.reason});
    for (const FamilyDefinition::Rule& rule : definition_.constraints) constraints_.push_back({parsed(rule.holds), rule.reason});
    for (const FamilyDefinition::Fact& fact : definition_.facts)
        facts_.push_back(fact.is_type ? Expression() : parsed(fact.value));
    const auto three = [this](const std::array<std::string, 3>& texts) {
        return std::array<Expression, 3>{parsed(texts[0]), parsed(texts[1]), parsed(texts[2])};
    };
    for (const FamilyDefinition::Step& from : definition_.steps) {
        Step step{three(from.grid),
                  three(from.block),
                  three(from.cluster),
                  parsed(from.dynamic_smem_bytes),
                  parsed(from.programmatic_dependent),
                  {}};
        for (const FamilyDefinition::Argument& argument : from.arguments) {
            const bool is_named = argument.kind == FamilyDefinition::Argument::Kind::tensor ||
                                  argument.kind == FamilyDefinition::Argument::Kind::scalar;
            step.arguments.push_back(is_named ? Expression() : parsed(argument.value));
        }
        steps_.push_back(std::move(step));
    }
    workspace_bytes_ = parsed(definition_.workspace_bytes);
    workspace_zero_bytes_ = parsed(definition_.workspace_zero_bytes);
    if (!definition_.predicted_us.empty()) predicted_us_ = parsed(definition_.predicted_us);
}

void DefinedFamily::check_names() const {
    const auto refuse = [this](const std::string& what) {
        throw Error(ErrorCode::usage, "family '" + definition_.name + "': " + what);
    };
    const std::size_t slash = definition_.name.find('/');
    if (slash == std::string::npos || slash == 0 || slash + 1 == definition_.name.size())
        refuse("a family's name is its op's, a slash and its own, such as add/mine");
    if (definition_.steps.empty()) refuse("it launches nothing; give at least one step");
    std::set<std::string> names = {"symbol"};
    for (const Parameter& parameter : definition_.parameters) {
        if (parameter.values.empty()) refuse("parameter '" + parameter.name + "' has no values");
        if (!names.insert(parameter.name).second) refuse("parameter '" + parameter.name + "' is given twice");
    }
    for (const FamilyDefinition::Fact& fact : definition_.facts)
        if (!names.insert(fact.name).second) refuse("fact '" + fact.name + "' is given twice, or has a parameter's name");
}

std::optional<std::string> DefinedFamily::refuses(const Problem& problem, const Device& device) const {
    const Names names(problem, values_of(problem, device));
    for (const Rule& rule : accepts_) {
        if (!holds(rule.holds, names.scope())) return rule.reason;
    }
    if (space(problem, device).enumerate({}, 1).empty()) return "no config is legal for this problem";
    return std::nullopt;
}

std::vector<std::string> DefinedFamily::parameters_in(const Expression& expression) const {
    std::vector<std::string> found;
    for (const std::string& name : expression.names()) {
        const bool is_parameter = std::any_of(definition_.parameters.begin(), definition_.parameters.end(),
                                              [&](const Parameter& parameter) { return parameter.name == name; });
        if (is_parameter) found.push_back(name);
    }
    return found;
}

SearchSpace DefinedFamily::space(const Problem& problem, const Device& device) const {
    const auto names = std::make_shared<const Names>(problem, values_of(problem, device));
    SearchSpace space;
    space.version = definition_.version;
    space.parameters = definition_.parameters;
    for (const Rule& rule : constraints_) {
        space.constraints.push_back(
            {rule.reason, parameters_in(rule.holds),
             [names, expression = rule.holds](const Config& config) { return holds(expression, names->scope(&config)); }});
    }
    for (const NamedConfig& named : definition_.named) {
        if (space.contains(space.canonical(named.config))) space.named.push_back({named.name, space.canonical(named.config)});
    }
    const Config wanted = space.canonical(definition_.default_config);
    space.default_config = wanted;
    if (space.contains(wanted)) return space;
    const std::vector<Config> first = space.enumerate({}, 1);
    if (!first.empty()) space.default_config = first.front();
    return space;
}

std::vector<Binding> DefinedFamily::facts(const Problem& problem) const {
    const Names names(problem, values_of(problem));
    std::vector<Binding> bindings;
    for (std::size_t i = 0; i < facts_.size(); ++i) {
        const FamilyDefinition::Fact& fact = definition_.facts[i];
        if (fact.is_type) {
            bindings.push_back({fact.name, problem.tensors[index_of_tensor(problem, fact.value)].dtype});
        } else {
            bindings.push_back({fact.name, facts_[i].evaluate(names.scope())});
        }
    }
    return bindings;
}

LaunchStep DefinedFamily::launch_step(std::size_t index, const Problem& problem, const Expression::Scope& scope) const {
    const FamilyDefinition::Step& from = definition_.steps[index];
    const Step& step = steps_[index];
    LaunchStep launch;
    launch.entry = from.entry;
    launch.grid = launch_dims(step.grid, scope);
    launch.block = launch_dims(step.block, scope);
    launch.cluster = launch_dims(step.cluster, scope);
    launch.dynamic_smem_bytes = launch_number(step.dynamic_smem_bytes, scope);
    launch.programmatic_dependent = step.programmatic_dependent.evaluate(scope) != 0;
    for (std::size_t i = 0; i < from.arguments.size(); ++i) {
        using Kind = FamilyDefinition::Argument::Kind;
        const FamilyDefinition::Argument& argument = from.arguments[i];
        const auto value = [&] { return step.arguments[i].evaluate(scope); };
        if (argument.kind == Kind::tensor)
            launch.arguments.push_back(TensorArg{.index = static_cast<int>(index_of_tensor(problem, argument.value))});
        if (argument.kind == Kind::scalar)
            launch.arguments.push_back(ScalarArg{static_cast<int>(index_of_scalar(problem, argument.value))});
        if (argument.kind == Kind::i32) launch.arguments.push_back(I32Arg{narrow(value(), argument.value)});
        if (argument.kind == Kind::i64) launch.arguments.push_back(I64Arg{value()});
        if (argument.kind == Kind::workspace) launch.arguments.push_back(WorkspaceArg{static_cast<std::size_t>(value())});
    }
    return launch;
}

LaunchPlan DefinedFamily::plan(const Problem& problem, const Config& config, const Device& device) const {
    const Names names(problem, values_of(problem, device));
    const Expression::Scope scope = names.scope(&config);
    LaunchPlan plan;
    for (std::size_t i = 0; i < steps_.size(); ++i) plan.steps.push_back(launch_step(i, problem, scope));
    plan.workspace_bytes = static_cast<std::size_t>(std::max<std::int64_t>(workspace_bytes_.evaluate(scope), 0));
    plan.workspace_zero_bytes = static_cast<std::size_t>(std::max<std::int64_t>(workspace_zero_bytes_.evaluate(scope), 0));
    plan.deterministic = definition_.is_deterministic;
    return plan;
}

Predictor DefinedFamily::predictor(const Problem& problem, const Device& device) const {
    if (!predicted_us_) return Family::predictor(problem, device);
    return [names = Names(problem, values_of(problem, device)), expression = *predicted_us_](const Config& config) {
        return std::optional<double>(static_cast<double>(expression.evaluate(names.scope(&config))));
    };
}

}  // namespace autotune
