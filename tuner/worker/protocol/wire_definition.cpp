// Writes and reads families and ops that are defined by data, as JSON. It is used only between processes of one tune; no file or
// import is read by it.
#include <map>

#include "src/core/error.h"
#include "src/core/op/op_definition.h"
#include "src/records/record_reader.h"
#include "src/records/record_writer.h"
#include "tuner/worker/protocol/wire.h"

namespace autotune::tuner::wire {
namespace {

using Rules = std::vector<FamilyDefinition::Rule>;

Json write_rules(const Rules& rules) {
    Json json = Json::array();
    for (const FamilyDefinition::Rule& rule : rules) json.push_back({rule.holds, rule.reason});
    return json;
}

Rules read_rules(const Json& json) {
    Rules rules;
    for (const Json& rule : json) rules.push_back({rule.at(0).get<std::string>(), rule.at(1).get<std::string>()});
    return rules;
}

Json write_argument(const FamilyDefinition::Argument& argument) {
    Json of = Json::array();
    for (const FamilyDefinition::Argument& one : argument.of) of.push_back(write_argument(one));
    return {static_cast<int>(argument.kind), argument.value, std::move(of)};
}

Json write_step(const FamilyDefinition::Step& step) {
    Json arguments = Json::array();
    for (const FamilyDefinition::Argument& argument : step.arguments) arguments.push_back(write_argument(argument));
    return {{"entry", step.entry},
            {"grid", step.grid},
            {"block", step.block},
            {"cluster", step.cluster},
            {"dynamic_smem_bytes", step.dynamic_smem_bytes},
            {"programmatic_dependent", step.programmatic_dependent},
            {"arguments", std::move(arguments)},
            {"when", step.when},
            {"kernel", step.kernel},
            {"action", static_cast<int>(step.action)},
            {"repeat", step.repeat},
            {"index", step.index}};
}

FamilyDefinition::Argument read_argument(const Json& json) {
    const int kind = json.at(0).get<int>();
    check(kind >= 0 && kind <= static_cast<int>(FamilyDefinition::Argument::Kind::pick), "unknown argument in a message");
    FamilyDefinition::Argument argument{static_cast<FamilyDefinition::Argument::Kind>(kind), json.at(1).get<std::string>()};
    for (const Json& one : json.at(2)) argument.of.push_back(read_argument(one));
    return argument;
}

FamilyDefinition::Step read_step_definition(const Json& json) {
    FamilyDefinition::Step step;
    json.at("entry").get_to(step.entry);
    json.at("grid").get_to(step.grid);
    json.at("block").get_to(step.block);
    json.at("cluster").get_to(step.cluster);
    json.at("dynamic_smem_bytes").get_to(step.dynamic_smem_bytes);
    json.at("programmatic_dependent").get_to(step.programmatic_dependent);
    json.at("when").get_to(step.when);
    json.at("kernel").get_to(step.kernel);
    const int action = json.at("action").get<int>();
    check(action >= 0 && action <= static_cast<int>(FamilyDefinition::Step::Action::copy), "unknown step in a message");
    step.action = static_cast<FamilyDefinition::Step::Action>(action);
    json.at("repeat").get_to(step.repeat);
    json.at("index").get_to(step.index);
    for (const Json& argument : json.at("arguments")) step.arguments.push_back(read_argument(argument));
    return step;
}

Json write_parameter(const Parameter& parameter) {
    return {{"name", parameter.name},
            {"values", parameter.values},
            {"launch", parameter.kind == ParameterKind::launch},
            {"about", parameter.about}};
}

Parameter read_parameter(const Json& json) {
    return {json.at("name").get<std::string>(), json.at("values").get<std::vector<std::int64_t>>(),
            json.at("launch").get<bool>() ? ParameterKind::launch : ParameterKind::compile, json.at("about").get<std::string>()};
}

Json write_lets(const std::vector<Let>& lets) {
    Json json = Json::array();
    for (const Let& let : lets) json.push_back({let.name, let.value});
    return json;
}

std::vector<Let> read_lets(const Json& json) {
    std::vector<Let> lets;
    for (const Json& let : json) lets.push_back({let.at(0).get<std::string>(), let.at(1).get<std::string>()});
    return lets;
}

Json write_texts(const std::vector<KernelText>& texts) {
    Json json = Json::array();
    for (const KernelText& text : texts) json.push_back({text.name, text.text});
    return json;
}

std::vector<KernelText> read_texts(const Json& json) {
    std::vector<KernelText> texts;
    for (const Json& text : json) texts.push_back({text.at(0).get<std::string>(), text.at(1).get<std::string>()});
    return texts;
}

Json write_op(const OpDefinition& op) {
    Json json{{"name", op.name},
              {"about", op.about},
              {"extents", op.extents},
              {"flops", op.flops},
              {"bytes", op.bytes},
              {"lets", write_lets(op.lets)},
              {"widens_inputs", op.widens_inputs},
              {"has_exact_test", op.has_exact_test},
              {"examples", Json::array()},
              {"attributes", Json::array()},
              {"tensors", Json::array()},
              {"scalars", Json::array()},
              {"reference", Json::array()},
              {"prepare", Json::array()},
              {"tolerances", Json::array()},
              {"source",
               {{"files", write_texts(op.source.files)},
                {"headers", write_texts(op.source.headers)},
                {"standard", op.source.standard},
                {"options", op.source.options},
                {"only_marked_functions", op.source.only_marked_functions},
                {"toolkit_folders", op.source.toolkit_folders},
                {"toolkit_version", op.source.toolkit_version}}}};
    for (const OpDefinition::Example& each : op.examples) json["examples"].push_back({each.extents, each.attributes});
    for (const OpDefinition::Attribute& each : op.attributes)
        json["attributes"].push_back({each.name, each.values, each.is_word, each.otherwise, each.about});
    for (const OpDefinition::Tensor& each : op.tensors)
        json["tensors"].push_back({each.name, each.dtype, each.shape, each.strides, static_cast<int>(each.access), each.align,
                                   each.fill.kind, each.fill.values, each.fill.file, each.fill.path, each.symbol, each.is_checked,
                                   each.is_reset});
    for (const OpDefinition::Scalar& each : op.scalars) json["scalars"].push_back({each.name, each.type, each.value});
    for (const StepDefinition& each : op.reference) json["reference"].push_back(write_step(each));
    for (const StepDefinition& each : op.prepare) json["prepare"].push_back(write_step(each));
    for (const OpDefinition::Tolerance& each : op.tolerances) json["tolerances"].push_back({each.tensor, each.rtol, each.atol});
    return json;
}

template <class Field>
void read_at(const Json& list, std::size_t at, Field& field) {
    list.at(at).get_to(field);
}

std::shared_ptr<const OpDefinition> read_op(const Json& json) {
    OpDefinition op;
    json.at("name").get_to(op.name);
    json.at("about").get_to(op.about);
    json.at("extents").get_to(op.extents);
    json.at("flops").get_to(op.flops);
    json.at("bytes").get_to(op.bytes);
    op.lets = read_lets(json.at("lets"));
    json.at("widens_inputs").get_to(op.widens_inputs);
    json.at("has_exact_test").get_to(op.has_exact_test);
    for (const Json& each : json.at("examples")) {
        OpDefinition::Example& example = op.examples.emplace_back();
        read_at(each, 0, example.extents), read_at(each, 1, example.attributes);
    }
    for (const Json& each : json.at("attributes")) {
        OpDefinition::Attribute& attribute = op.attributes.emplace_back();
        read_at(each, 0, attribute.name), read_at(each, 1, attribute.values), read_at(each, 2, attribute.is_word);
        read_at(each, 3, attribute.otherwise), read_at(each, 4, attribute.about);
    }
    for (const Json& each : json.at("tensors")) {
        OpDefinition::Tensor& tensor = op.tensors.emplace_back();
        read_at(each, 0, tensor.name), read_at(each, 1, tensor.dtype), read_at(each, 2, tensor.shape),
            read_at(each, 3, tensor.strides);
        const int access = each.at(4).get<int>();
        check(access >= 0 && access <= static_cast<int>(Access::inout), "unknown access in a message");
        tensor.access = static_cast<Access>(access);
        read_at(each, 5, tensor.align), read_at(each, 6, tensor.fill.kind), read_at(each, 7, tensor.fill.values);
        read_at(each, 8, tensor.fill.file), read_at(each, 9, tensor.fill.path), read_at(each, 10, tensor.symbol);
        read_at(each, 11, tensor.is_checked), read_at(each, 12, tensor.is_reset);
    }
    for (const Json& each : json.at("scalars")) {
        OpDefinition::Scalar& scalar = op.scalars.emplace_back();
        read_at(each, 0, scalar.name), read_at(each, 1, scalar.type), read_at(each, 2, scalar.value);
    }
    for (const Json& each : json.at("reference")) op.reference.push_back(read_step_definition(each));
    for (const Json& each : json.at("prepare")) op.prepare.push_back(read_step_definition(each));
    for (const Json& each : json.at("tolerances")) {
        OpDefinition::Tolerance& tolerance = op.tolerances.emplace_back();
        read_at(each, 0, tolerance.tensor), read_at(each, 1, tolerance.rtol), read_at(each, 2, tolerance.atol);
    }
    const Json& source = json.at("source");
    op.source.files = read_texts(source.at("files"));
    op.source.headers = read_texts(source.at("headers"));
    source.at("standard").get_to(op.source.standard);
    source.at("options").get_to(op.source.options);
    source.at("only_marked_functions").get_to(op.source.only_marked_functions);
    source.at("toolkit_folders").get_to(op.source.toolkit_folders);
    source.at("toolkit_version").get_to(op.source.toolkit_version);
    return std::make_shared<const OpDefinition>(std::move(op));
}

}  // namespace

Json write(const FamilyDefinition& definition) {
    Json json{{"name", definition.name},
              {"about", definition.about},
              {"version", definition.version},
              {"accepts", write_rules(definition.accepts)},
              {"constraints", write_rules(definition.constraints)},
              {"default", records::json_of(definition.default_config)},
              {"workspace_bytes", definition.workspace_bytes},
              {"workspace_zero_bytes", definition.workspace_zero_bytes},
              {"deterministic", definition.is_deterministic},
              {"predicted_us", definition.predicted_us},
              {"text", definition.text},
              {"parameters", Json::array()},
              {"named", Json::array()},
              {"facts", Json::array()},
              {"steps", Json::array()}};
    for (const Parameter& parameter : definition.parameters) json["parameters"].push_back(write_parameter(parameter));
    for (const NamedConfig& named : definition.named) json["named"].push_back({named.name, records::json_of(named.config)});
    for (const FamilyDefinition::Fact& fact : definition.facts) json["facts"].push_back({fact.name, fact.value, fact.is_type});
    for (const FamilyDefinition::Step& step : definition.steps) json["steps"].push_back(write_step(step));
    if (definition.op == nullptr) return json;
    json["op"] = write_op(*definition.op);
    json["lets"] = write_lets(definition.lets);
    json["constants"] = definition.constants;
    json["template_parameters"] = definition.template_parameters;
    json["words"] = std::map<std::string, std::vector<std::string>>(definition.words.begin(), definition.words.end());
    json["is_deterministic_if"] = definition.deterministic;
    json["workspaces"] = Json::array();
    for (const FamilyDefinition::Workspace& each : definition.workspaces)
        json["workspaces"].push_back({each.name, each.bytes, each.is_zero_once, each.is_zero_each});
    return json;
}

FamilyDefinition read_definition(const Json& json) {
    FamilyDefinition definition;
    json.at("name").get_to(definition.name);
    json.at("about").get_to(definition.about);
    json.at("version").get_to(definition.version);
    definition.accepts = read_rules(json.at("accepts"));
    definition.constraints = read_rules(json.at("constraints"));
    definition.default_config = records::read_config(json.at("default"), "default");
    json.at("workspace_bytes").get_to(definition.workspace_bytes);
    json.at("workspace_zero_bytes").get_to(definition.workspace_zero_bytes);
    json.at("deterministic").get_to(definition.is_deterministic);
    json.at("predicted_us").get_to(definition.predicted_us);
    json.at("text").get_to(definition.text);
    for (const Json& parameter : json.at("parameters")) definition.parameters.push_back(read_parameter(parameter));
    for (const Json& named : json.at("named"))
        definition.named.push_back({named.at(0).get<std::string>(), records::read_config(named.at(1), "named")});
    for (const Json& fact : json.at("facts"))
        definition.facts.push_back({fact.at(0).get<std::string>(), fact.at(1).get<std::string>(), fact.at(2).get<bool>()});
    for (const Json& step : json.at("steps")) definition.steps.push_back(read_step_definition(step));
    if (!json.contains("op")) return definition;
    definition.op = read_op(json.at("op"));
    definition.lets = read_lets(json.at("lets"));
    json.at("constants").get_to(definition.constants);
    json.at("template_parameters").get_to(definition.template_parameters);
    const auto words = json.at("words").get<std::map<std::string, std::vector<std::string>>>();
    definition.words = {words.begin(), words.end()};
    json.at("is_deterministic_if").get_to(definition.deterministic);
    for (const Json& each : json.at("workspaces"))
        definition.workspaces.push_back(
            {each.at(0).get<std::string>(), each.at(1).get<std::string>(), each.at(2).get<bool>(), each.at(3).get<bool>()});
    return definition;
}

}  // namespace autotune::tuner::wire
