// Families defined by data as JSON.
#include "src/core/error.h"
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

Json write_step(const FamilyDefinition::Step& step) {
    Json arguments = Json::array();
    for (const FamilyDefinition::Argument& argument : step.arguments)
        arguments.push_back({static_cast<int>(argument.kind), argument.value});
    return {{"entry", step.entry},
            {"grid", step.grid},
            {"block", step.block},
            {"cluster", step.cluster},
            {"dynamic_smem_bytes", step.dynamic_smem_bytes},
            {"programmatic_dependent", step.programmatic_dependent},
            {"arguments", std::move(arguments)}};
}

FamilyDefinition::Argument read_argument(const Json& json) {
    const int kind = json.at(0).get<int>();
    check(kind >= 0 && kind <= static_cast<int>(FamilyDefinition::Argument::Kind::workspace), "unknown argument in a message");
    return {static_cast<FamilyDefinition::Argument::Kind>(kind), json.at(1).get<std::string>()};
}

FamilyDefinition::Step read_step_definition(const Json& json) {
    FamilyDefinition::Step step;
    json.at("entry").get_to(step.entry);
    json.at("grid").get_to(step.grid);
    json.at("block").get_to(step.block);
    json.at("cluster").get_to(step.cluster);
    json.at("dynamic_smem_bytes").get_to(step.dynamic_smem_bytes);
    json.at("programmatic_dependent").get_to(step.programmatic_dependent);
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
    return definition;
}

}  // namespace autotune::tuner::wire
