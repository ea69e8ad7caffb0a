#include <cmath>
#include <nlohmann/json.hpp>

#include "db/json_values.h"
#include "db/store.h"
#include "db/validate.h"
#include "src/core/error.h"

namespace autotune::db {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kFormat = 1;

// ---- writing ----

Json device_json(const DeviceIdentity& device, const std::string& name) {
    return {{"cc_major", device.cc_major},
            {"cc_minor", device.cc_minor},
            {"sm_count", device.sm_count},
            {"l2_mib", device.l2_mib},
            {"memory_gib", device.memory_gib},
            {"bus_bits", device.bus_bits},
            {"name", name}};
}

Json problem_json(const Winner& winner) {
    Json extents = Json::object();
    for (const Extent& extent : winner.extents) extents[extent.name] = extent.value;
    return {{"class", winner.class_key}, {"extents", extents}};
}

Json provenance_json(const Provenance& from) {
    return {{"driver", from.driver},
            {"nvrtc", from.nvrtc},
            {"power_limit_w", from.power_limit_w},
            {"method", from.method},
            {"tool_version", from.tool_version},
            {"date", from.date}};
}

Json finalist_json(const Finalist& finalist) {
    Json object = {{"name", finalist.name}};
    if (finalist.candidate) {
        object["family"] = finalist.candidate->family;
        object["config"] = json_of(finalist.candidate->config);
    }
    object["timing"] = json_of(finalist.timing);
    object["ratio"] = finalist.ratio;
    object["ratio_low"] = finalist.ratio_low;
    object["ratio_high"] = finalist.ratio_high;
    object["tie"] = finalist.tie;
    if (finalist.after_itself_us) object["after_itself_us"] = *finalist.after_itself_us;
    if (finalist.after_trigger_us) object["after_trigger_us"] = *finalist.after_trigger_us;
    if (const Json conditions = json_of(finalist.conditions); !conditions.empty()) object["conditions"] = conditions;
    return object;
}

Json evidence_json(const Evidence& evidence) {
    Json object = {{"rounds", evidence.rounds}, {"decided_by", evidence.decided_by}};
    if (evidence.max_error) object["max_error"] = *evidence.max_error;
    if (evidence.accumulation_error) object["accumulation_error"] = *evidence.accumulation_error;
    object["space_legal"] = evidence.space_legal;
    object["tried"] = evidence.tried;
    object["failed"] = evidence.failed;
    object["seconds"] = evidence.seconds;
    object["compile_seconds"] = evidence.compile_seconds;
    object["verify_seconds"] = evidence.verify_seconds;
    object["measure_seconds"] = evidence.measure_seconds;
    object["stopped_by"] = evidence.stopped_by;
    object["seed"] = evidence.seed;
    object["conditions"] = json_of(evidence.conditions);
    Json finalists = Json::array();
    for (const Finalist& finalist : evidence.finalists) finalists.push_back(finalist_json(finalist));
    object["finalists"] = finalists;
    Json failures = Json::object();
    for (const auto& [status, count] : evidence.failures) failures[status] = count;
    object["failures"] = failures;
    return object;
}

// ---- reading ----

DeviceIdentity read_device(Fields fields) {
    DeviceIdentity device;
    fields.need("cc_major", device.cc_major);
    fields.need("cc_minor", device.cc_minor);
    fields.need("sm_count", device.sm_count);
    fields.need("l2_mib", device.l2_mib);
    fields.need("memory_gib", device.memory_gib);
    fields.need("bus_bits", device.bus_bits);
    fields.may("name", device.name);
    fields.finish();
    return device;
}

void read_problem(Fields fields, Winner& winner) {
    fields.need("class", winner.class_key);
    for (const auto& [name, value] : read_named_integers(fields.object("extents"), "problem.extents"))
        winner.extents.push_back({name, value});
    fields.finish();
}

Provenance read_provenance(Fields fields) {
    Provenance from;
    fields.may("driver", from.driver);
    fields.may("nvrtc", from.nvrtc);
    fields.may("power_limit_w", from.power_limit_w);
    fields.may("method", from.method);
    fields.may("tool_version", from.tool_version);
    fields.may("date", from.date);
    fields.finish();
    return from;
}

Finalist read_finalist(const JsonValue& value) {
    Fields fields(value, "finalist");
    Finalist finalist;
    fields.need("name", finalist.name);
    if (const JsonValue* config = fields.find("config")) {
        Candidate& candidate = finalist.candidate.emplace();
        fields.need("family", candidate.family);
        candidate.config = read_config(*config, "finalist.config");
    }
    finalist.timing = read_whole<Timing>(fields.object("timing"), "finalist.timing");
    fields.may("ratio", finalist.ratio);
    fields.may("ratio_low", finalist.ratio_low);
    fields.may("ratio_high", finalist.ratio_high);
    fields.may("tie", finalist.tie);
    fields.may("after_itself_us", finalist.after_itself_us);
    fields.may("after_trigger_us", finalist.after_trigger_us);
    if (const JsonValue* conditions = fields.find("conditions"))
        finalist.conditions = read_whole<Conditions>(*conditions, "finalist.conditions");
    fields.finish();
    return finalist;
}

void read_evidence_lists(Fields& fields, Evidence& evidence) {
    if (const JsonValue* finalists = fields.find("finalists")) {
        const auto* elements = finalists->get<JsonValue::Elements>();
        if (elements == nullptr) throw bad_record("evidence.finalists is not an array");
        for (const JsonValue& finalist : *elements) evidence.finalists.push_back(read_finalist(finalist));
    }
    if (const JsonValue* failures = fields.find("failures")) {
        for (const auto& [status, count] : read_named_integers(*failures, "evidence.failures")) {
            if (count < 0 || count > INT32_MAX) throw bad_record("evidence.failures." + status + " is out of range");
            evidence.failures.emplace_back(status, static_cast<int>(count));
        }
    }
}

Evidence read_evidence(Fields fields) {
    Evidence evidence;
    fields.may("rounds", evidence.rounds);
    fields.may("decided_by", evidence.decided_by);
    fields.may("max_error", evidence.max_error);
    fields.may("accumulation_error", evidence.accumulation_error);
    fields.may("space_legal", evidence.space_legal);
    fields.may("tried", evidence.tried);
    fields.may("failed", evidence.failed);
    fields.may("seconds", evidence.seconds);
    fields.may("compile_seconds", evidence.compile_seconds);
    fields.may("verify_seconds", evidence.verify_seconds);
    fields.may("measure_seconds", evidence.measure_seconds);
    fields.may("stopped_by", evidence.stopped_by);
    fields.may("seed", evidence.seed);
    if (const JsonValue* conditions = fields.find("conditions"))
        evidence.conditions = read_whole<Conditions>(*conditions, "conditions");
    read_evidence_lists(fields, evidence);
    fields.finish();
    return evidence;
}

void require_arch(const std::string& arch, const DeviceIdentity& device) {
    if (auto why = why_invalid(device)) throw bad_record(*why);
    const std::string expected = arch_of(device.cc_major, device.cc_minor);
    if (arch != expected) throw bad_record("\"arch\" does not match the device, which is " + expected);
}

Winner read_winner(Fields fields) {
    Winner winner;
    int format = kFormat;
    std::string arch;
    fields.may("format", format);
    if (format != kFormat) throw bad_record("\"format\" is not 1: a newer autotune wrote it");
    fields.need("op", winner.op);
    fields.need("arch", arch);
    read_problem(Fields(fields.object("problem"), "problem"), winner);
    winner.device = read_device(Fields(fields.object("device"), "device"));
    require_arch(arch, winner.device);
    fields.need("template", winner.template_identity);
    fields.need("family", winner.candidate.family);
    winner.candidate.config = read_config(fields.object("config"), "config");
    winner.timing = read_whole<Timing>(fields.object("timing"), "timing");
    if (const JsonValue* compile = fields.find("compile")) winner.compile = read_whole<CompileReport>(*compile, "compile");
    if (const JsonValue* from = fields.find("provenance")) winner.provenance = read_provenance(Fields(*from, "provenance"));
    winner.provenance.device_name = winner.device.name;
    if (const JsonValue* evidence = fields.find("evidence")) winner.evidence = read_evidence(Fields(*evidence, "evidence"));
    fields.may("doubt", winner.doubt);
    fields.finish();
    return winner;
}

}  // namespace

std::string to_json_line(const Winner& winner) {
    if (auto why = why_invalid(winner)) throw Error(ErrorCode::database, "a winner cannot be written as a line: " + *why);
    const std::string& name = winner.provenance.device_name.empty() ? winner.device.name : winner.provenance.device_name;
    // The first members are what the shipped layer looks for before it parses a line.
    Json line = {{"op", winner.op},
                 {"arch", arch_of(winner.device.cc_major, winner.device.cc_minor)},
                 {"problem", problem_json(winner)},
                 {"device", device_json(winner.device, name)},
                 {"template", winner.template_identity},
                 {"family", winner.candidate.family},
                 {"config", json_of(winner.candidate.config)},
                 {"timing", json_of(winner.timing)},
                 {"compile", json_of(winner.compile)},
                 {"provenance", provenance_json(winner.provenance)},
                 {"evidence", evidence_json(winner.evidence)}};
    if (!winner.doubt.empty()) line["doubt"] = winner.doubt;
    return line.dump();
}

Winner from_json_line(std::string_view line) {
    const JsonValue value = parse_line(line);
    Winner winner = read_winner(Fields(value, "the line"));
    if (auto why = why_invalid(winner)) throw bad_record(*why);
    return winner;
}

}  // namespace autotune::db
