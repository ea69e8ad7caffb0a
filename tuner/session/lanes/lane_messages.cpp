#include "tuner/session/lanes/lane_messages.h"

#include <array>

#include "src/core/error.h"
#include "src/records/json_line.h"
#include "src/records/record_reader.h"
#include "src/records/record_writer.h"
#include "tuner/worker/protocol/wire.h"

namespace autotune::tuner {
namespace {

constexpr std::array kPhases = {&TunePhases::start_s,       &TunePhases::setup_s,   &TunePhases::first_verified_s,
                                &TunePhases::search_s,      &TunePhases::starved_s, &TunePhases::loaded_s,
                                &TunePhases::busy_s,        &TunePhases::verify_s,  &TunePhases::measure_s,
                                &TunePhases::second_rung_s, &TunePhases::warm_s,    &TunePhases::rounds_s,
                                &TunePhases::neighbours_s,  &TunePhases::total_s};

// Members are bound by position, so that a member that is added to a struct and forgotten here does not compile.
Json write_options(const TuneOptions& options) {
    const auto& [budget, choice, seed, strategy, finalists, tie_gap, retune, learning, method, keep] = options;
    const auto& [seconds, trials, patience, target_gain, target_us, trusts_learning] = budget;
    const auto& [families, pins, named] = choice;
    return {{"seconds", seconds},
            {"trials", trials},
            {"patience", patience},
            {"target_gain", target_gain},
            {"target_us", target_us},
            {"families", families},
            {"pins", records::json_of(pins)},
            {"named", named},
            {"trusts_learning", trusts_learning},
            {"seed", seed},
            {"strategy", strategy},
            {"finalists", finalists},
            {"tie_gap", tie_gap},
            {"retune", retune},
            {"learning", learning},
            {"method", method.text()},
            {"keep", keep}};
}

TuneOptions read_options(const Json& json) {
    TuneOptions options;
    options.budget.seconds = json.at("seconds").get<double>();
    options.budget.trials = json.at("trials").get<int>();
    options.budget.patience = json.at("patience").get<int>();
    options.budget.target_gain = json.at("target_gain").get<double>();
    options.budget.target_us = json.at("target_us").get<double>();
    options.budget.trusts_learning = json.at("trusts_learning").get<bool>();
    options.choice.families = json.at("families").get<std::vector<std::string>>();
    options.choice.pins = records::read_config(json.at("pins"), "pins");
    options.choice.named = json.at("named").get<std::string>();
    options.seed = json.at("seed").get<std::uint64_t>();
    options.strategy = json.at("strategy").get<std::string>();
    options.finalists = json.at("finalists").get<std::size_t>();
    options.tie_gap = json.at("tie_gap").get<double>();
    options.retune = json.at("retune").get<bool>();
    options.learning = json.at("learning").get<bool>();
    options.method = MeasuringMethod::of(json.at("method").get<std::string>());
    options.keep_folder = json.at("keep").get<std::string>();
    return options;
}

Json write_workers(const WorkerSettings& workers) {
    const auto& [binary, build, templates, cache, nvrtc, locks, compilers, device, launch_timeout_s, compile_cpu_s,
                 compile_guard_s, driver_major, profiled, libraries, host_locks, log] = workers;
    return {{"binary", binary},
            {"build", build},
            {"templates", templates},
            {"cache", cache},
            {"nvrtc", nvrtc},
            {"locks", locks},
            {"host_locks", host_locks},
            {"compilers", compilers},
            {"device", device},
            {"launch_timeout_s", launch_timeout_s},
            {"compile_cpu_s", compile_cpu_s},
            {"compile_guard_s", compile_guard_s},
            {"driver_major", driver_major},
            {"profiled", profiled},
            {"libraries", libraries},
            {"has_log", log != nullptr}};  // the lane has a log of its own
}

WorkerSettings read_workers(const Json& json) {
    WorkerSettings workers;
    workers.binary = json.at("binary").get<std::string>();
    workers.build = json.at("build").get<std::string>();
    workers.templates_folder = json.at("templates").get<std::string>();
    workers.cache_folder = json.at("cache").get<std::string>();
    workers.nvrtc_path = json.at("nvrtc").get<std::string>();
    workers.lock_folder = json.at("locks").get<std::string>();
    workers.host_lock_folder = json.at("host_locks").get<std::string>();
    workers.device = json.at("device").get<int>();
    workers.compile_workers = json.at("compilers").get<int>();
    workers.launch_timeout_s = json.at("launch_timeout_s").get<double>();
    workers.compile_cpu_s = json.at("compile_cpu_s").get<double>();
    workers.compile_guard_s = json.at("compile_guard_s").get<double>();
    workers.driver_major = json.at("driver_major").get<int>();
    workers.profiled = json.at("profiled").get<bool>();
    workers.library_folders = json.at("libraries").get<std::vector<std::string>>();
    return workers;
}

Json write_store(const db::OpenOptions& store) {
    return {{"path", store.path},       {"read_only", store.read_only},       {"create", store.create},
            {"shipped", store.shipped}, {"or_read_only", store.or_read_only}, {"missing_is_empty", store.missing_is_empty}};
}

db::OpenOptions read_store(const Json& json) {
    db::OpenOptions store;
    store.path = json.at("path").get<std::string>();
    store.read_only = json.at("read_only").get<bool>();
    store.create = json.at("create").get<bool>();
    store.shipped = json.at("shipped").get<std::vector<std::string>>();
    store.or_read_only = json.at("or_read_only").get<bool>();
    store.missing_is_empty = json.at("missing_is_empty").get<bool>();
    return store;
}

Json write_tune_result(const TuneResult& result) {
    Json phases = Json::array();
    for (const auto phase : kPhases) phases.push_back(result.phases.*phase);
    return {{"winner", records::to_json_line(result.winner)},
            {"shipped", result.winner.shipped},
            {"phases", std::move(phases)},
            {"origin", to_string(result.origin)},
            {"tuned", result.tuned},
            {"stale", result.stale},
            {"stale_because", result.stale_because},
            {"interrupted", result.interrupted},
            {"not_stored", result.not_stored}};
}

TuneResult read_tune_result(const Json& json) {
    TuneResult result;
    result.winner = records::from_json_line(json.at("winner").get<std::string>());
    result.winner.shipped = json.at("shipped").get<bool>();
    for (std::size_t i = 0; i < kPhases.size(); ++i) result.phases.*kPhases[i] = json.at("phases").at(i).get<double>();
    result.origin = parse_origin(json.at("origin").get<std::string>()).value_or(Origin::exact);
    result.tuned = json.at("tuned").get<bool>();
    result.stale = json.at("stale").get<bool>();
    result.stale_because = json.at("stale_because").get<std::string>();
    result.interrupted = json.at("interrupted").get<bool>();
    result.not_stored = json.at("not_stored").get<std::string>();
    return result;
}

}  // namespace

Json write(const LaneBegin& begin) {
    Json families = Json::array();
    for (const FamilyDefinition& family : begin.families) families.push_back(wire::write(family));
    Json provenance = records::json_of(begin.provenance, kInMessages);
    return {{"do", "begin"},
            {"each", write_options(begin.each)},
            {"device", wire::write(begin.device)},
            {"uuid", begin.uuid},
            {"provenance", std::move(provenance)},
            {"note", begin.note},
            {"device_name", begin.provenance.device_name},
            {"workers", write_workers(begin.workers)},
            {"store", write_store(begin.store)},
            {"families", std::move(families)},
            {"proves_first", begin.proves_first},
            {"needs_quiet", begin.needs_quiet},
            {"compilers", begin.compilers}};
}

LaneBegin read_begin(const Json& json) {
    LaneBegin begin;
    begin.each = read_options(json.at("each"));
    begin.device = wire::read_device(json.at("device"));
    begin.uuid = json.at("uuid").get<std::string>();
    begin.provenance = records::read_record<db::Provenance>(json.at("provenance"), "provenance");
    begin.provenance.device_name = json.at("device_name").get<std::string>();
    begin.note = json.at("note").get<std::string>();
    begin.workers = read_workers(json.at("workers"));
    begin.store = read_store(json.at("store"));
    for (const Json& family : json.at("families")) begin.families.push_back(wire::read_definition(family));
    begin.proves_first = json.at("proves_first").get<bool>();
    begin.needs_quiet = json.at("needs_quiet").get<bool>();
    begin.compilers = json.at("compilers").get<std::size_t>();
    return begin;
}

Json write_result(const SweepItem& item) {
    return {{"state", static_cast<int>(item.state)},
            {"detail", item.detail},
            {"seconds", item.seconds},
            {"result", item.result ? write_tune_result(*item.result) : Json(nullptr)}};
}

SweepItem read_result(const Json& json, const Problem& problem) {
    SweepItem item;
    item.problem = problem;
    const int state = json.at("state").get<int>();
    check(state >= 0 && state <= static_cast<int>(SweepItem::State::in_work), "an unknown state of an item in a message");
    item.state = static_cast<SweepItem::State>(state);
    item.detail = json.at("detail").get<std::string>();
    item.seconds = json.at("seconds").get<double>();
    if (!json.at("result").is_null()) item.result = read_tune_result(json.at("result"));
    return item;
}

}  // namespace autotune::tuner
