#include "src/core/family/family_definition.h"

#include <algorithm>
#include <map>
#include <set>

#include "src/core/op/op_definition.h"

namespace autotune {
namespace {

constexpr std::size_t kWorkspaceAlignment = 256;

std::size_t index_of_tensor(const Problem& problem, const std::string& name) {
    const auto found =
        std::find_if(problem.tensors.begin(), problem.tensors.end(), [&](const Tensor& t) { return t.name == name; });
    if (found == problem.tensors.end()) throw Error(ErrorCode::usage, "op '" + problem.op + "' has no tensor '" + name + "'");
    return static_cast<std::size_t>(found - problem.tensors.begin());
}

// A config that makes a rule divide by zero breaks the rule.
bool holds(const Expression& rule, const Expression::Scope& scope) {
    try {
        return rule.evaluate(scope) != 0;
    } catch (const ExpressionError& error) {
        if (error.reason != "a division by zero") throw;
        return false;
    }
}

// The type's name in device code.
std::string_view type_in_source(DType type) {
    switch (type) {
        case DType::f16:
            return "__half";
        case DType::bf16:
            return "__nv_bfloat16";
        case DType::f32:
            return "float";
        case DType::f64:
            return "double";
        case DType::e4m3:
            return "__nv_fp8_e4m3";
        case DType::e5m2:
            return "__nv_fp8_e5m2";
        case DType::i32:
            return "int";
        case DType::i8:
            return "signed char";
        case DType::u8:
            return "unsigned char";
        case DType::i16:
            return "short";
        case DType::u16:
            return "unsigned short";
        case DType::u32:
            return "unsigned int";
        case DType::i64:
            return "long long";
        case DType::u64:
            return "unsigned long long";
    }
    internal_error("a type without a name in sources");
}

bool is_of_identifier(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

std::string in_source(const ExpressionValue& value, const Expression& expression) {
    if (const auto* const integer = std::get_if<std::int64_t>(&value)) return std::to_string(*integer);
    if (const auto* const word = std::get_if<std::string>(&value)) {
        const auto type = parse_dtype(*word);
        return type ? std::string(type_in_source(*type)) : *word;
    }
    throw ExpressionError(expression.text(), "a float stands where the source needs an integer or a word", 0,
                          expression.text().size());
}

}  // namespace

bool FamilyDefinition::needs_helpers() const {
    return autotune::needs_helpers(steps) ||
           std::any_of(workspaces.begin(), workspaces.end(), [](const Workspace& each) { return each.is_zero_each; });
}

std::string FamilyDefinition::canonical_rules() const {
    std::string all;
    // Each field is preceded by its length, so that two fields cannot run together.
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
        for (const Argument& argument : step.arguments) {
            number(static_cast<int>(argument.kind)), field(argument.value);
            for (const Argument& one : argument.of) number(static_cast<int>(one.kind)), field(one.value);
        }
        if (is_kernel_expression(step.kernel)) field("kernel"), field(step.kernel);
        if (step.when != "1") field("when"), field(step.when);
        if (step.action != Step::Action::launch) field("action"), number(static_cast<int>(step.action));
        if (step.repeat != "1") field("repeat"), field(step.repeat), field(step.index);
    }
    field(workspace_bytes), field(workspace_zero_bytes), number(is_deterministic ? 1 : 0);
    for (const Let& let : lets) field("let"), field(let.name), field(let.value);
    for (const std::string& constant : constants) field("constant"), field(constant);
    for (const std::string& parameter : template_parameters) field("template"), field(parameter);
    for (const auto& [parameter, spelled] : words) {
        field("words"), field(parameter);
        for (const std::string& word : spelled) field(word);
    }
    for (const Workspace& each : workspaces)
        field("workspace"), field(each.bytes), number(each.is_zero_once ? 1 : each.is_zero_each ? 2 : 0);
    if (!deterministic.empty()) field("deterministic"), field(deterministic);
    if (op != nullptr) field("op"), field(op->canonical_rules());
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
    try {
        lets_ = Lets(definition_.lets);
        steps_.emplace(definition_.steps);
    } catch (const ExpressionError& error) {
        throw Error(ErrorCode::usage, "family '" + definition_.name + "': " + error.what());
    }
    for (const FamilyDefinition::Workspace& each : definition_.workspaces) workspaces_.push_back(parsed(each.bytes));
    workspace_bytes_ = parsed(definition_.workspace_bytes);
    workspace_zero_bytes_ = parsed(definition_.workspace_zero_bytes);
    if (!definition_.deterministic.empty()) deterministic_ = parsed(definition_.deterministic);
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
    const Names names(problem, device, lets_, definition_.words);
    for (const Rule& rule : accepts_) {
        if (!holds(rule.holds, names.scope())) return rule.reason;
    }
    if (space(problem, device).enumerate({}, 1).empty()) return "no config is legal for this problem";
    return std::nullopt;
}

std::vector<std::string> DefinedFamily::parameters_in(const Expression& expression) const {
    std::vector<std::string> found;
    for (const std::string& name : lets_.names_of(expression)) {
        const bool is_parameter = std::any_of(definition_.parameters.begin(), definition_.parameters.end(),
                                              [&](const Parameter& parameter) { return parameter.name == name; });
        if (is_parameter) found.push_back(name);
    }
    return found;
}

SearchSpace DefinedFamily::space(const Problem& problem, const Device& device) const {
    const auto names = std::make_shared<const Names>(problem, device, lets_, definition_.words);
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
    const Names names(problem, lets_);
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

LaunchPlan DefinedFamily::plan(const Problem& problem, const Config& config, const Device& device) const {
    const Names names(problem, device, lets_, definition_.words);
    const Expression::Scope scope = names.scope(&config);
    const auto bytes_of = [&](const Expression& expression) {
        return static_cast<std::size_t>(std::max<std::int64_t>(expression.evaluate(scope), 0));
    };
    LaunchPlan plan;
    plan.workspace_bytes = bytes_of(workspace_bytes_);
    plan.workspace_zero_bytes = bytes_of(workspace_zero_bytes_);
    std::map<std::string, WorkspacePlace> places;
    // Workspaces that must be zero come first, because only leading bytes are zeroed.
    for (const bool is_zero_once : {true, false}) {
        for (std::size_t i = 0; i < workspaces_.size(); ++i) {
            const FamilyDefinition::Workspace& each = definition_.workspaces[i];
            if (each.is_zero_once != is_zero_once) continue;
            plan.workspace_bytes = (plan.workspace_bytes + kWorkspaceAlignment - 1) / kWorkspaceAlignment * kWorkspaceAlignment;
            const WorkspacePlace& place = places[each.name] = {plan.workspace_bytes, bytes_of(workspaces_[i])};
            plan.workspace_bytes += place.bytes;
            if (is_zero_once) plan.workspace_zero_bytes = plan.workspace_bytes;
            if (each.is_zero_each && place.bytes > 0)
                plan.steps.push_back(zero_launch(WorkspaceArg{place.offset_bytes}, place.bytes));
        }
    }
    const auto tensor_argument = [](std::size_t index) { return TensorArg{.index = static_cast<int>(index)}; };
    for (LaunchStep& step : steps_->make(problem, scope, places, tensor_argument)) plan.steps.push_back(std::move(step));
    if (definition_.op != nullptr) plan.symbol_writes = symbol_writes(*definition_.op, problem);
    plan.deterministic = deterministic_ ? deterministic_->evaluate(scope) != 0 : definition_.is_deterministic;
    return plan;
}

std::string DefinedFamily::spelled(const Parameter& parameter, const Config& config) const {
    const auto words = definition_.words.find(parameter.name);
    const std::int64_t value = config[parameter.name];
    return words == definition_.words.end() ? std::to_string(value) : words->second.at(static_cast<std::size_t>(value));
}

std::string DefinedFamily::kernel_name(const std::string& kernel, const Problem& problem, const Config& config) const {
    if (!is_kernel_expression(kernel)) return kernel;
    Names names(problem, lets_);
    names.know(definition_.words);
    const Expression::Scope scope = names.scope(&config);
    const auto value_of = [&](const std::string& name) -> std::optional<std::string> {
        for (const Parameter& parameter : definition_.parameters)
            if (parameter.name == name) return spelled(parameter, config);
        if (const Expression* const let = lets_.find(name)) return in_source(let->evaluate_value(scope), *let);
        const auto& attributes = problem.attributes;
        const auto attribute =
            std::find_if(attributes.begin(), attributes.end(), [&](const auto& each) { return each.name == name; });
        if (attribute != attributes.end()) {
            const Expression alone(name);
            return in_source(alone.evaluate_value(scope), alone);
        }
        return std::nullopt;
    };
    std::string out;
    const std::size_t begin = std::min(kernel.find('<'), kernel.size());
    out = kernel.substr(0, begin);
    for (std::size_t at = begin; at < kernel.size();) {
        std::size_t end = at;
        while (end < kernel.size() && is_of_identifier(kernel[end])) ++end;
        if (end == at) {
            out += kernel[at++];
            continue;
        }
        const std::string word = kernel.substr(at, end - at);
        const bool is_member = at >= 2 && kernel.compare(at - 2, 2, "::") == 0;
        const auto value = is_member ? std::nullopt : value_of(word);
        out += value.value_or(word);
        at = end;
    }
    return out;
}

std::vector<DefinedFamily::Macro> DefinedFamily::macros(const Problem& problem, const Config& config) const {
    std::vector<Macro> all;
    const auto& of_templates = definition_.template_parameters;
    for (const Parameter& parameter : definition_.parameters)
        if (parameter.kind == ParameterKind::compile &&
            std::find(of_templates.begin(), of_templates.end(), parameter.name) == of_templates.end())
            all.emplace_back(parameter.name, spelled(parameter, config));
    Names names(problem, lets_);
    names.know(definition_.words);
    const Expression::Scope scope = names.scope(&config);
    for (const std::string& name : definition_.constants) {
        const Expression* const let = lets_.find(name);
        check(let != nullptr, "a constant of a source that is no let");
        all.emplace_back(name, in_source(let->evaluate_value(scope), *let));
    }
    return all;
}

Predictor DefinedFamily::predictor(const Problem& problem, const Device& device) const {
    if (!predicted_us_) return Family::predictor(problem, device);
    return [names = Names(problem, device, lets_, definition_.words), expression = *predicted_us_](const Config& config) {
        return std::optional<double>(expression.evaluate_number(names.scope(&config)));
    };
}

}  // namespace autotune
