#include "tools/cli/output/json_format.h"

#include <nlohmann/json.hpp>

#include "tools/cli/output/text_format.h"

namespace autotune::cli {
namespace {

template <typename T>
Json or_null(const std::optional<T>& value) {
    return value ? Json(*value) : Json(nullptr);
}

Json known_or_null(int value) {
    return value < 0 ? Json(nullptr) : Json(value);
}

Json finalist_json(const db::Finalist& finalist) {
    Json json{{"name", finalist.name}};
    if (finalist.candidate) {
        json["family"] = finalist.candidate->family;
        json["config"] = config_json(finalist.candidate->config);
    }
    json.update(timing_json(finalist.timing));
    json["ratio"] = finalist.ratio;
    json["ratio_low"] = finalist.ratio_low;
    json["ratio_high"] = finalist.ratio_high;
    json["tie"] = finalist.tie;
    json["after_itself_us"] = or_null(finalist.after_itself_us);
    json["after_trigger_us"] = or_null(finalist.after_trigger_us);
    json["sm_clock_mhz"] = or_null(finalist.conditions.sm_clock_mhz);
    json["power_w"] = or_null(finalist.conditions.power_w);
    return json;
}

std::string text_of(const Json& json) {
    return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

void add_warnings(Session& session, Json& json) {
    if (const std::vector<std::string> warnings = session.take_warnings(); !warnings.empty()) json["warnings"] = warnings;
}

}  // namespace

Json problem_json(const Problem& problem) {
    Json extents = Json::object(), traits = Json::object();
    for (const Extent& extent : problem.extents) extents[extent.name] = extent.value;
    for (const Attribute& attribute : problem.attributes) {
        std::visit([&](const auto& value) { traits[attribute.name] = value; }, attribute.value);
    }
    return {{"op", problem.op}, {"shape", problem.shape()}, {"extents", extents}, {"traits", traits}, {"key", problem.key()}};
}

Json identity_json(const DeviceIdentity& identity) {
    return {{"name", identity.name},
            {"key", identity.key()},
            {"arch", arch_or_empty(identity)},
            {"compute_capability", std::to_string(identity.cc_major) + "." + std::to_string(identity.cc_minor)},
            {"sm_count", identity.sm_count},
            {"l2_mib", identity.l2_mib},
            {"memory_gib", identity.memory_gib},
            {"bus_bits", identity.bus_bits}};
}

Json device_json(const Device& device) {
    Json json = identity_json(device.identity);
    json["clock_mhz"] = device.clock_mhz;
    json["memory_gb_per_s"] = device.memory_gb_per_s;
    return json;
}

Json config_json(const Config& config) {
    Json json = Json::object();
    for (const auto& [name, value] : config.values()) json[name] = value;
    return json;
}

Json compile_json(const CompileReport& report) {
    return {{"registers", known_or_null(report.registers)},
            {"spill_bytes", report.spill_bytes},
            {"static_smem_bytes", report.static_smem_bytes},
            {"wgmma_serialised", report.wgmma_serialised},
            {"compile_ms", report.compile_ms},
            {"cubin_bytes", report.cubin_bytes},
            {"from_cache", report.from_cache}};
}

Json conditions_json(const Conditions& conditions) {
    return {{"sm_clock_mhz", or_null(conditions.sm_clock_mhz)},
            {"power_w", or_null(conditions.power_w)},
            {"temperature_c", or_null(conditions.temperature_c)},
            {"throttle_reasons", or_null(conditions.throttle_reasons)}};
}

Json provenance_json(const db::Provenance& provenance) {
    return {{"driver", provenance.driver},
            {"nvrtc", provenance.nvrtc},
            {"device_name", provenance.device_name},
            {"power_limit_w", provenance.power_limit_w},
            {"method", provenance.method},
            {"tool_version", provenance.tool_version},
            {"date", provenance.date}};
}

Json timing_json(const Timing& timing, const Op* op, const Problem* problem) {
    Json json{{"median_us", timing.median_us},
              {"low_us", timing.low_us},
              {"high_us", timing.high_us},
              {"min_us", timing.min_us},
              {"samples", timing.samples}};
    if (op != nullptr && problem != nullptr) json[std::string(op->rate_unit())] = rate(*op, *problem, timing.median_us);
    return json;
}

Json evidence_json(const db::Evidence& evidence) {
    Json finalists = Json::array(), failures = Json::object();
    for (const db::Finalist& finalist : evidence.finalists) finalists.push_back(finalist_json(finalist));
    for (const auto& [status, count] : evidence.failures) failures[status] = count;
    return {{"rounds", evidence.rounds},
            {"decided_by", evidence.decided_by},
            {"max_error", or_null(evidence.max_error)},
            {"accumulation_error", or_null(evidence.accumulation_error)},
            {"space_legal", evidence.space_legal},
            {"tried", evidence.tried},
            {"failed", evidence.failed},
            {"failures", failures},
            {"seconds", evidence.seconds},
            {"compile_seconds", evidence.compile_seconds},
            {"verify_seconds", evidence.verify_seconds},
            {"measure_seconds", evidence.measure_seconds},
            {"stopped_by", evidence.stopped_by},
            {"seed", evidence.seed},
            {"conditions", conditions_json(evidence.conditions)},
            {"finalists", finalists}};
}

Json phases_json(const tuner::TunePhases& phases) {
    return {{"start_s", phases.start_s},
            {"setup_s", phases.setup_s},
            {"first_verified_s", phases.first_verified_s},
            {"search_s", phases.search_s},
            {"starved_s", phases.starved_s},
            {"loaded_s", phases.loaded_s},
            {"busy_s", phases.busy_s},
            {"verify_s", phases.verify_s},
            {"measure_s", phases.measure_s},
            {"second_rung_s", phases.second_rung_s},
            {"warm_s", phases.warm_s},
            {"rounds_s", phases.rounds_s},
            {"neighbours_s", phases.neighbours_s},
            {"total_s", phases.total_s}};
}

Json winner_json(const db::Winner& winner, const Op* op, const Problem* problem) {
    Json json{{"family", winner.candidate.family}, {"config", config_json(winner.candidate.config)}};
    json.update(timing_json(winner.timing, op, problem));
    json["compile"] = compile_json(winner.compile);
    json["provenance"] = provenance_json(winner.provenance);
    json["template_identity"] = winner.template_identity;
    json["shipped"] = winner.shipped;
    json["doubt"] = winner.doubt.empty() ? Json(nullptr) : Json(winner.doubt);
    return json;
}

Json compiled_row_json(const tuner::CompiledRow& row) {
    Json json{{"family", row.candidate.family}, {"config", config_json(row.candidate.config)}, {"status", to_string(row.status)}};
    json["registers"] = known_or_null(row.report.registers);
    json["spill_bytes"] = row.report.spill_bytes;
    json["smem_bytes"] = row.smem_bytes;
    json["occupancy"] = row.occupancy;
    json["predicted_us"] = or_null(row.predicted_us);
    json["compile_ms"] = row.report.compile_ms;
    json["from_cache"] = row.report.from_cache;
    if (!row.detail.empty()) json["detail"] = row.detail;
    return json;
}

void print_json(Session& session, Json json) {
    add_warnings(session, json);
    session.document().add(text_of(json));
}

JsonList::JsonList(Session& session, const Json& head, const std::string& name) : session_(session), head_(text_of(head)) {
    head_.back() = head_.size() > 2 ? ',' : ' ';
    head_ += text_of(Json(name)) + ":[\n";
}

JsonList::~JsonList() {
    if (!is_open_ || is_finished_) return;
    try {
        finish(Json::object());
    } catch (...) {
        // A destructor does not throw; the command ends with an error as it is.
    }
}

void JsonList::open() {
    if (!is_open_) session_.out() << head_;
    is_open_ = true;
}

void JsonList::add(const Json& element) {
    add_text(text_of(element));
}

void JsonList::add_text(const std::string& element) {
    open();
    session_.out() << (written_++ == 0 ? "" : ",\n") << element;
}

void JsonList::finish(Json tail) {
    open();
    is_finished_ = true;
    add_warnings(session_, tail);
    std::string rest = text_of(tail);
    rest.front() = tail.empty() ? ' ' : ',';
    session_.out() << (written_ == 0 ? "]" : "\n]") << rest << "\n";
    session_.out().flush();
}

}  // namespace autotune::cli
