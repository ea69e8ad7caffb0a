#include "db/json_values.h"

#include "db/validate.h"

namespace autotune::db {

using Json = nlohmann::ordered_json;

Json json_of(const NamedIntegers& pairs) {
    Json object = Json::object();
    for (const auto& [name, value] : pairs) object[name] = value;
    return object;
}

Json json_of(const Config& config) {
    return json_of(config.values());
}

Json json_of(const Timing& timing) {
    return {{"median_us", timing.median_us},
            {"low_us", timing.low_us},
            {"high_us", timing.high_us},
            {"min_us", timing.min_us},
            {"samples", timing.samples}};
}

Json json_of(const CompileReport& report) {
    return {{"registers", report.registers},
            {"spill_bytes", report.spill_bytes},
            {"static_smem_bytes", report.static_smem_bytes},
            {"wgmma_serialised", report.wgmma_serialised},
            {"setmaxnreg_ignored", report.setmaxnreg_ignored},
            {"compile_ms", report.compile_ms},
            {"cubin_bytes", report.cubin_bytes}};
}

Json json_of(const Conditions& conditions) {
    Json object = Json::object();
    if (conditions.sm_clock_mhz) object["sm_clock_mhz"] = *conditions.sm_clock_mhz;
    if (conditions.power_w) object["power_w"] = *conditions.power_w;
    if (conditions.temperature_c) object["temperature_c"] = *conditions.temperature_c;
    if (conditions.throttle_reasons) object["throttle_reasons"] = *conditions.throttle_reasons;
    return object;
}

NamedIntegers read_named_integers(const JsonValue& value, const std::string& where) {
    NamedIntegers pairs;
    const auto* members = value.get<JsonValue::Members>();
    if (members == nullptr) throw bad_record(where + " is not an object");
    if (members->size() > kMaxParameters) throw bad_record(where + " has more than 64 members");
    for (const auto& [name, number] : *members) {
        if (!is_name(name)) throw bad_record("a name in " + where + " is not one of [a-z0-9_]");
        pairs.emplace_back(name, integer_of(number, where + "." + name));
    }
    return pairs;
}

Config read_config(const JsonValue& value, const std::string& where) {
    Config config;
    for (const auto& [name, number] : read_named_integers(value, where)) config.set(name, number);
    return config;
}

Config read_config(const Json& json, const std::string& where) {
    return read_config(value_of(json), where);
}

void read(Fields& fields, Timing& timing) {
    fields.need("median_us", timing.median_us);
    fields.may("low_us", timing.low_us);
    fields.may("high_us", timing.high_us);
    fields.may("min_us", timing.min_us);
    fields.may("samples", timing.samples);
}

void read(Fields& fields, CompileReport& report) {
    fields.may("registers", report.registers);
    fields.may("spill_bytes", report.spill_bytes);
    fields.may("static_smem_bytes", report.static_smem_bytes);
    fields.may("wgmma_serialised", report.wgmma_serialised);
    fields.may("setmaxnreg_ignored", report.setmaxnreg_ignored);
    fields.may("compile_ms", report.compile_ms);
    fields.may("cubin_bytes", report.cubin_bytes);
}

void read(Fields& fields, Conditions& conditions) {
    fields.may("sm_clock_mhz", conditions.sm_clock_mhz);
    fields.may("power_w", conditions.power_w);
    fields.may("temperature_c", conditions.temperature_c);
    fields.may("throttle_reasons", conditions.throttle_reasons);
}

}  // namespace autotune::db
