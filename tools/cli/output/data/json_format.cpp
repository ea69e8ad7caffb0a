#include "tools/cli/output/data/json_format.h"

#include <nlohmann/json.hpp>

#include "src/records/record_writer.h"
#include "tools/cli/output/text/text_format.h"

namespace autotune::cli {
namespace {

template <typename T>
Json or_null(const std::optional<T>& value) {
    return value ? Json(*value) : Json(nullptr);
}

Json known_or_null(int value) {
    return value < 0 ? Json(nullptr) : Json(value);
}

void add_warnings(Session& session, Json& json) {
    if (const std::vector<std::string> warnings = session.take_warnings(); !warnings.empty()) json["warnings"] = warnings;
}

}  // namespace

std::string json_text(const Json& json) {
    return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Json problem_json(const Problem& problem) {
    Json extents = Json::object(), traits = Json::object();
    for (const Extent& extent : problem.extents) extents[extent.name] = extent.value;
    for (const Attribute& attribute : problem.attributes) {
        std::visit([&](const auto& value) { traits[attribute.name] = value; }, attribute.value);
    }
    return {{"op", problem.op}, {"shape", problem.shape()}, {"extents", extents}, {"traits", traits}, {"key", problem.key()}};
}

Json identity_json(const DeviceIdentity& identity) {
    Json json{{"name", identity.name},
              {"key", identity.key()},
              {"arch", arch_or_empty(identity)},
              {"compute_capability", std::to_string(identity.cc_major) + "." + std::to_string(identity.cc_minor)}};
    json.update(records::json_of(identity, kInReports));
    return json;
}

Json device_json(const Device& device) {
    Json json = identity_json(device.identity);
    json["clock_mhz"] = device.clock_mhz;
    json["memory_gb_per_s"] = device.memory_gb_per_s;
    return json;
}

Json config_json(const Config& config) {
    return records::json_of(config);
}

Json compile_json(const CompileReport& report) {
    return records::json_of(report, kInReports);
}

Json conditions_json(const Conditions& conditions) {
    return records::json_of(conditions, kInReports);
}

Json provenance_json(const db::Provenance& provenance) {
    return records::json_of(provenance, kInReports);
}

Json timing_json(const Timing& timing, const Op* op, const Problem* problem) {
    Json json = records::json_of(timing, kInReports);
    if (op != nullptr && problem != nullptr) json[std::string(op->rate_unit())] = rate(*op, *problem, timing.median_us);
    return json;
}

Json evidence_json(const db::Evidence& evidence) {
    return records::json_of(evidence, kInReports);
}

Json item_json(const Catalogue& catalogue, const tuner::SweepItem& item) {
    const Op& op = catalogue.op_of(item.problem);
    Json json{{"problem", problem_json(item.problem)}, {"state", state_text(item.state)}, {"seconds", item.seconds}};
    json["winner"] = item.result ? winner_json(item.result->winner, &op, &item.problem) : Json(nullptr);
    return json;
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
    json["restricted_to"] = winner.restricted_to.empty() ? Json(nullptr) : Json(winner.restricted_to);
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
    session.document().add(json_text(json));
}

JsonList::JsonList(Session& session, const Json& head, const std::string& name) : session_(session), head_(json_text(head)) {
    head_.back() = head_.size() > 2 ? ',' : ' ';
    head_ += json_text(Json(name)) + ":[\n";
}

JsonList::~JsonList() {
    if (!is_open_ || is_finished_) return;
    try {
        finish(Json::object());
    } catch (...) {
        // A destructor must not throw, and the command is already ending with an error.
    }
}

void JsonList::open() {
    if (!is_open_) session_.out() << head_;
    is_open_ = true;
}

void JsonList::add(const Json& element) {
    add_text(json_text(element));
}

void JsonList::add_text(const std::string& element) {
    open();
    session_.out() << (written_++ == 0 ? "" : ",\n") << element;
}

void JsonList::finish(Json tail) {
    open();
    is_finished_ = true;
    add_warnings(session_, tail);
    std::string rest = json_text(tail);
    rest.front() = tail.empty() ? ' ' : ',';
    session_.out() << (written_ == 0 ? "]" : "\n]") << rest << "\n";
    session_.out().flush();
}

}  // namespace autotune::cli
